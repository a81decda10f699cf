"""`exportdesk export` as people and scripts run it: a process, against the real application on a port."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import os
import re
import signal
import subprocess
import termios
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from command_line import COMMAND, environment
from desks import CONTENT, Desk, finish, with_content
from desks import desk as desk
from factories import changed
from sqlalchemy import update

from webapp import client
from webapp.client import Problem, Unreachable
from webapp.commands import patience
from webapp.commands.export import column_names
from webapp.commands.failures import Failure
from webapp.commands.patience import Patience
from webapp.commands.progress import standing
from webapp.commands.saving import safe_name
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, FormatWarning, Status, cancel
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import exports
from webapp.store.exports import ListFilter
from webapp.store.tables import saved_orders

RUNNING: list[subprocess.Popen[bytes] | asyncio.subprocess.Process] = []
ExportMaker = Callable[..., Awaitable[Export]]

NOTHING_NAMED = "Name a dataset to export, a saved order with --saved, or an export with --again."
LISTS = """
[datasets.picked]
title = "Picked"
source = "shop"
sql = "SELECT id FROM things WHERE id IN (SELECT value FROM json_each(:ids))"

[datasets.picked.parameters.ids]
type = "choices"
label = "Ids"
choices = ["1", "2", "3"]
"""


@dataclass
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def settings(settings: Settings) -> Settings:
    assert settings.config is not None
    with settings.config.open("a") as file:
        file.write(LISTS)
    return settings


@pytest.fixture
async def worker(settings: Settings, resources: Resources) -> AsyncIterator[None]:
    environ = environment(settings.data_dir, REDIS_URL=settings.redis_url or "", CONFIG=str(settings.config))
    command = [COMMAND[0], "-P", "-m", "worker", "exports"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield
    process.terminate()
    assert await asyncio.to_thread(process.wait, 30) == 0


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Whatever a test that fails leaves running is ended."""
    yield
    while RUNNING:
        process = RUNNING.pop()
        if process.returncode is None:
            process.kill()
        if isinstance(process, subprocess.Popen):
            process.wait()
        else:
            await process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the command runs."""
    path = tmp_path / "here"
    path.mkdir()
    return path


async def begin(desk: Desk, folder: Path, *arguments: str | bytes, **settings: str) -> asyncio.subprocess.Process:
    environ = environment(folder / "no-data", **{"URL": desk.url, "TOKEN": desk.token, **settings})
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "export", *arguments, env=environ, cwd=folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    RUNNING.append(process)
    return process


async def end(process: asyncio.subprocess.Process) -> Ended:
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert b"Traceback" not in err, err.decode()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(errors="replace"), err.decode())


async def run(desk: Desk, folder: Path, *arguments: str | bytes, **settings: str) -> Ended:
    return await end(await begin(desk, folder, *arguments, **settings))


async def stored(resources: Resources) -> list[Export]:
    return await exports.list_page(resources.store, ListFilter(), limit=50, after=None)


@pytest.fixture
async def done(desk: Desk, make_export: ExportMaker) -> Export:
    """A finished export of 3 MB."""
    return await with_content(desk.resources, await make_export(Status.SUCCESS))


async def test_an_order_is_its_id(desk, folder, resources):
    ended = await run(desk, folder, "things", "--param", "most=3", "--format", "jsonl")
    [export] = await stored(resources)
    assert (ended.code, ended.out) == (0, f"{export.id}\n")
    assert ended.err == (
        f"Ordered: {desk.url}/exports/{export.id}\n"
        f"To go on with it: exportdesk export --again {export.id} -o FILE\n"
    )  # fmt: skip
    assert (export.format, export.params) == ("jsonl", {"search": None, "most": 3})
    assert list(folder.iterdir()) == []


async def test_a_name_and_a_note(desk, folder, resources):
    ended = await run(desk, folder, "things", "--name", "For June – 東京", "--note", "First line\nsecond")
    [export] = await stored(resources)
    assert (ended.code, ended.out) == (0, f"{export.id}\n")
    assert (export.name, export.note) == ("For June – 東京", "First line\nsecond")


@pytest.mark.parametrize("by", ["name", "id"])
async def test_a_saved_order(desk, folder, resources, by):
    saved = await asyncio.to_thread(desk.client.save_order, "For – 東京", "things", format="jsonl", params={"most": 3})
    ended = await run(desk, folder, "--saved", getattr(saved, by))
    [export] = await stored(resources)
    assert (ended.code, ended.out) == (0, f"{export.id}\n")
    assert (export.name, export.format, export.params["most"]) == ("For – 東京", "jsonl", 3)


async def test_a_saved_order_that_no_longer_fits(desk, folder, resources):
    saved = await asyncio.to_thread(desk.client.save_order, "Weekly", "things")
    async with resources.store.transaction():
        gone = update(saved_orders).where(saved_orders.c.id == saved.id).values(dataset="sold")
        await resources.store.execute(gone)
    ended = await run(desk, folder, "--saved", "Weekly")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f" Change it at {desk.url}/saved-orders.\n")


WAITING = client.Export(
    id="exp_1", dataset="things", params={}, format="csv", options={}, status="QUEUED", version=2, attempt=0,
    progress=None, rows_done=0, rows_total=None, bytes=0, eta_seconds=None, queue_position=3,
    created_at=datetime(2026, 1, 31, tzinfo=UTC), file=None, error=None, owner="usr_1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"queue_position": None}, "Waiting in the queue"),
        ({}, "Waiting in the queue, 3rd in line"),
        (
            {"expected_start_at": datetime(2026, 1, 31, 14, 5, 59, tzinfo=UTC)},
            "Waiting in the queue, 3rd in line, starts at about 14:05Z",
        ),
        ({"queue_paused": True}, "Waiting in the queue, 3rd in line; an admin has paused the queue"),
        (
            {"retry_at": datetime(2026, 1, 31, 14, 5, 59, tzinfo=UTC)},
            "It failed and is tried again at 14:05:59Z",
        ),
        ({"status": "PENDING"}, "Ordered"),
    ],
)
def test_what_is_said_while_it_waits(changes, said):
    assert standing(msgspec.structs.replace(WAITING, **changes)) == said


async def test_from_the_order_to_the_file(desk, folder, worker):
    ended = await run(desk, folder, "things", "--param", "most=3", "-o", "things.csv")
    assert (ended.code, ended.out) == (0, "things.csv\n")
    assert ended.err.splitlines()[0].startswith(f"Ordered: {desk.url}/exports/exp_")
    assert ended.err.splitlines()[-1] == "3 rows, 133 bytes; size and SHA-256 are as promised."
    lines = (folder / "things.csv").read_text().splitlines()
    assert lines == ["id,name,price,made", *(f"{n},thing {n} – 東京,{n / 4:g},2026-01-31" for n in (1, 2, 3))]
    assert [path.name for path in folder.iterdir()] == ["things.csv"]


async def test_lists_options_and_the_format_by_the_name_of_the_file(desk, folder, worker):
    ended = await run(
        desk, folder, "picked", "--param", "ids=3", "--param", "ids=1",
        "-o", "some.jsonl.gz", "--quiet",
    )  # fmt: skip
    assert (ended.code, ended.out, ended.err) == (0, "some.jsonl.gz\n", "")
    assert gzip.decompress((folder / "some.jsonl.gz").read_bytes()).splitlines() == [b'{"id":1}', b'{"id":3}']
    ended = await run(desk, folder, "picked", "--param", "ids=2", "-o", "-")
    assert (ended.code, ended.out) == (0, "id\r\n2\r\n")


async def test_columns_are_chosen_and_ordered(desk, folder, worker):
    ended = await run(desk, folder, "things", "--param", "most=2", "--columns", "price, id", "-o", "-")
    assert (ended.code, ended.out) == (0, "price,id\r\n0.25,1\r\n0.5,2\r\n")
    ended = await run(desk, folder, "things", "--columns", "id,weight")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "--columns: There is no column weight; there are: id, name, price, made\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [("a", ["a"]), ('a, "b,c"', ["a", "b,c"]), ('"say ""so""",東京', ['say "so"', "東京"]), (" ", [])],
)
def test_columns_are_written_as_in_csv(text, names):
    assert column_names(text) == names


def test_columns_that_cannot_be_read():
    with pytest.raises(Failure, match="in quotes, as in CSV"):
        column_names('a,"b')


async def test_an_export_that_fails(desk, folder, worker):
    ended = await run(desk, folder, "broken", "--wait")
    assert (ended.code, ended.out) == (1, "")
    assert re.search(r"The export exp_\w+ failed\. The data source refused .*\(QUERY_ERROR\)$", ended.err.strip())


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (Status.FAILED, 1, "failed. The data source refused the query"),
        (Status.CANCELLED, 3, "was cancelled."),
        (Status.EXPIRED, 3, "ran longer than its time limit"),
    ],
)
async def test_what_has_ended_otherwise(desk, folder, make_export, status, code, said):
    export = await make_export(status)
    ended = await run(desk, folder, "--again", export.id, "-o", "x.csv")
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert list(folder.iterdir()) == []


async def test_without_a_file_to_write_the_page_is_the_result(desk, folder, done):
    ended = await run(desk, folder, "--again", done.id)
    assert (ended.code, ended.out) == (0, f"{desk.url}/exports/{done.id}\n")
    assert ended.err.startswith("Ready: Things.csv, 1 row, 3.0 MB, until ")


async def test_notes_on_the_file_are_told_even_when_quiet(desk, folder, done):
    await changed(desk.resources, done, warnings=(FormatWarning("ROUNDED", "Numbers were rounded.", 1200),))
    ended = await run(desk, folder, "--again", done.id, "--quiet", "-o", "x")
    assert (ended.code, ended.err) == (0, "Note: Numbers were rounded. (1,200 times)\n")


async def test_a_download_that_breaks_twice(desk, folder, done):
    desk.cuts = [1_000_000, 500_000]
    ended = await run(desk, folder, "--again", done.id, "-o", "x.csv")
    assert (ended.code, ended.out) == (0, "x.csv\n")
    assert (folder / "x.csv").read_bytes() == CONTENT
    assert "The connection broke off. Trying again.\n" in ended.err
    assert [path.name for path in folder.iterdir()] == ["x.csv"]


async def test_a_stream_that_breaks(desk, folder, done):
    desk.cuts = [1_000_000]
    process = await begin(desk, folder, "--again", done.id, "-o", "-")
    out, _ = await process.communicate()
    assert (process.returncode, out) == (0, CONTENT)


async def test_what_an_earlier_run_left_is_gone_on_with(desk, folder, done):
    (folder / "x.csv.part").write_bytes(CONTENT[:2_500_000])
    ended = await run(desk, folder, "--again", done.id, "-o", "x.csv")
    assert ended.code == 0
    assert "Downloading 3.0 MB, of which 2.5 MB are here.\n" in ended.err
    assert (folder / "x.csv").read_bytes() == CONTENT
    assert desk.seen[-1].headers["range"] == f"bytes={2_500_000 - 65_536}-"
    assert [path.name for path in folder.iterdir()] == ["x.csv"]


async def test_what_another_export_left_is_not(desk, folder, done):
    (folder / "x.csv.part").write_bytes(b"of another export" * 1000)
    ended = await run(desk, folder, "--again", done.id, "-o", "x.csv")
    assert ended.code == 0
    assert (folder / "x.csv").read_bytes() == CONTENT


async def test_a_file_that_is_not_right_is_not_kept(desk, folder, done):
    desk.resources.storage.path(done.file.key).write_bytes(CONTENT[:-1] + b"!")
    ended = await run(desk, folder, "--again", done.id, "-o", "x.csv")
    assert (ended.code, ended.out) == (5, "")
    assert "The SHA-256 of what came is not the one that the desk promised. The file is not right" in ended.err
    assert list(folder.iterdir()) == []


async def test_a_file_that_is_gone(desk, folder, done):
    desk.resources.storage.path(done.file.key).unlink()
    ended = await run(desk, folder, "--again", done.id, "-o", "x.csv")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.endswith("The file is no longer in the storage. Order the export again.\n")


async def test_a_folder_takes_the_name_that_the_desk_gives(desk, folder, done):
    await changed(desk.resources, done, file=replace(done.file, name="../Größen 東京.csv"))
    ended = await run(desk, folder, "--again", done.id, "-o", ".")
    assert (ended.code, ended.out) == (0, "_Größen 東京.csv\n")
    assert (folder / "_Größen 東京.csv").read_bytes() == CONTENT


async def test_a_name_that_is_no_text_can_be_written_and_told(desk, folder, done):
    ended = await run(desk, folder, "--again", done.id, "-o", b"\xff.csv")
    assert (ended.code, ended.out) == (0, "\ufffd.csv\n")
    assert os.listdir(os.fsencode(folder)) == [b"\xff.csv"]


def test_names_that_a_file_system_refuses():
    assert safe_name("..") == "export"
    assert safe_name("/etc/passwd") == "_etc_passwd"
    assert safe_name("a\nb.csv") == "a_b.csv"
    long = safe_name("東" * 100 + ".csv.gz")
    assert long.endswith("東.csv.gz")
    assert len(long.encode()) <= 240


async def test_nothing_is_overwritten_unless_it_is_wanted(desk, folder, done):
    (folder / "x.csv").write_text("mine")
    ended = await run(desk, folder, "things", "-o", "x.csv")
    assert (ended.code, ended.err) == (
        5,
        "x.csv exists already. Choose another name, or overwrite it with --force.\n",
    )
    assert (folder / "x.csv").read_text() == "mine"
    assert desk.seen == []
    ended = await run(desk, folder, "--again", done.id, "-o", "x.csv", "--force")
    assert ended.code == 0
    assert (folder / "x.csv").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("output", "said"),
    [("gone/x.csv", "There is no folder gone."), ("gone/", "There is no folder gone."), ("/proc/x", "/proc")],
)
async def test_a_place_that_cannot_be_written_to(desk, folder, done, output, said):
    ended = await run(desk, folder, "--again", done.id, "-o", output)
    assert ended.code == 5
    assert said in ended.err


async def test_a_full_disk(desk, folder, done):
    ended = await run(desk, folder, "--again", done.id, "-o", "/dev/full")
    assert ended.code == 5
    assert ended.err.splitlines()[-2] == "/dev/full cannot be written: No space left on device."
    assert f"exportdesk export --again {done.id}" in ended.err.splitlines()[-1]


async def test_two_runs_do_not_write_one_file(desk, folder, done):
    with (folder / "x.csv.part").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        ended = await run(desk, folder, "--again", done.id, "-o", "x.csv")
    assert ended.code == 5
    assert "Another exportdesk is writing x.csv.part." in ended.err


async def test_a_reader_that_has_seen_enough(desk, folder, done):
    environ = environment(folder, URL=desk.url, TOKEN=desk.token)
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "export", "--again", done.id, "-o", "-", "--quiet", env=environ, stdout=-1, stderr=-1
    )
    assert process.stdout is not None
    assert process.stderr is not None
    await process.stdout.readexactly(10)
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
    assert await process.stderr.read() == b""
    assert await process.wait() == 141


async def test_a_busy_desk_is_asked_again_when_it_says(desk, folder, resources):
    desk.refusals = [
        (429, {"Retry-After": "1"}, b'{"code": "QUOTA_EXCEEDED", "detail": "You have 20 exports."}'),
        (503, {"Retry-After": "1"}, b"<h1>nginx</h1>"),
        (502, {}, b""),
    ]
    began = time.monotonic()
    ended = await run(desk, folder, "things")
    assert time.monotonic() - began > 2.5
    assert ended.code == 0
    assert len(await stored(resources)) == 1
    assert ended.err.startswith("You have 20 exports. Asking again in 1 s.\n")
    assert f"{desk.url} answers 503 (Service Unavailable). Asking again in 1 s.\n" in ended.err


async def test_an_answer_that_is_lost_does_not_make_two_exports(desk, folder, resources):
    desk.lost = ["POST"]
    ended = await run(desk, folder, "things")
    [export] = await stored(resources)
    assert (ended.code, ended.out) == (0, f"{export.id}\n")
    keys = [seen.headers["idempotency-key"] for seen in desk.seen if seen.method == "POST"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_desk_that_restarts_while_somebody_waits(desk, folder, resources):
    process = await begin(desk, folder, "things", "-o", "x.csv")
    await desk.until("GET", "/exports/exp_")
    await desk.stop()
    [export] = await stored(resources)
    await finish(resources, export.id)
    await asyncio.sleep(1.5)
    await desk.start()
    ended = await end(process)
    assert (ended.code, ended.out) == (0, "x.csv\n")
    assert (folder / "x.csv").read_bytes() == CONTENT
    refused = "The desk cannot be reached (connection refused). Trying again.\n" in ended.err
    assert refused or "Asking again in" in ended.err, "a desk that stops may say so first"
    assert ("The desk is back.\n" in ended.err) == refused


async def test_waiting_is_a_long_poll(desk, folder, resources):
    process = await begin(desk, folder, "things", "--wait")
    await desk.until("GET", "/exports/exp_")
    [export] = await stored(resources)
    await asyncio.sleep(1.5)
    await finish(resources, export.id)
    assert (await end(process)).code == 0
    polls = [seen for seen in desk.seen if "/exports/exp_" in seen.path]
    assert len(polls) <= 3
    assert {seen.query for seen in polls} == {"wait=20"}
    assert all("if-none-match" in seen.headers for seen in polls)


async def test_a_desk_that_does_not_hold_polls_is_not_hammered(desk, folder, resources):
    process = await begin(desk, folder, "things", "--wait")
    await desk.until("GET", "/exports/exp_")
    [export] = await stored(resources)
    desk.seen.clear()
    desk.refusals = [(304, {"ETag": '"2"', "Retry-After": "1"}, b"")] * 3
    await desk.stop()
    await desk.start()
    await asyncio.sleep(2.5)
    assert len(desk.seen) <= 4
    desk.refusals = []
    await finish(resources, export.id)
    assert (await end(process)).code == 0


async def test_an_export_that_is_cancelled_elsewhere(desk, folder, resources):
    from webapp.actions.changes import change

    process = await begin(desk, folder, "things", "--wait")
    await desk.until("GET", "/exports/exp_")
    [export] = await stored(resources)
    await change(resources, export.id, lambda now, at: [cancel(now, at=at)])
    ended = await end(process)
    assert (ended.code, ended.err.splitlines()[-1]) == (3, f"The export {export.id} was cancelled.")


async def test_the_same_order_again_joins_the_first(desk, folder, resources):
    first = await run(desk, folder, "things")
    process = await begin(desk, folder, "things", "-o", "x.csv")
    await desk.until("GET", "/exports/exp_")
    await finish(resources, first.out.strip())
    ended = await end(process)
    assert ended.err.startswith(f"It was ordered already: {desk.url}/exports/{first.out}")
    assert (folder / "x.csv").read_bytes() == CONTENT


async def test_interrupting_without_a_terminal_leaves_the_export(desk, folder, resources):
    process = await begin(desk, folder, "things", "-o", "my file.csv")
    await desk.until("GET", "/exports/exp_")
    process.send_signal(signal.SIGINT)
    ended = await end(process)
    [export] = await stored(resources)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith(
        "The export goes on without you. "
        f"To go on with it: exportdesk export --again {export.id} -o 'my file.csv'\n"
    )  # fmt: skip
    assert export.is_active


class Terminal:
    """The command on a terminal of its own, with a person at the keys."""

    def __init__(self, desk: Desk, folder: Path, *arguments: str) -> None:
        self.shown = ""
        self.main, side = os.openpty()
        environ = environment(folder / "no-data", URL=desk.url, TOKEN=desk.token) | {"TERM": "xterm"}
        self.process = subprocess.Popen(
            [*COMMAND, "export", *arguments], env=environ, cwd=folder, stdin=side, stdout=side, stderr=side,
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),  # noqa: PLW1509
        )  # fmt: skip
        RUNNING.append(self.process)
        os.close(side)
        os.set_blocking(self.main, False)

    def look(self) -> str:
        try:
            while data := os.read(self.main, 65536):
                self.shown += data.decode(errors="replace")
        except (BlockingIOError, OSError):
            pass
        return self.shown

    async def until(self, text: str) -> None:
        async with asyncio.timeout(20):
            while text not in self.look():
                await asyncio.sleep(0.02)

    def type(self, keys: bytes) -> None:
        os.write(self.main, keys)

    async def end(self) -> int:
        async with asyncio.timeout(30):
            while (code := self.process.poll()) is None:
                self.look()
                await asyncio.sleep(0.02)
        self.look()
        os.close(self.main)
        assert "Traceback" not in self.shown
        return code


CTRL_C = b"\x03"


async def test_a_bar_and_the_result_on_a_terminal(desk, folder, resources, make_export):
    export = await make_export(Status.PROCESSING)
    moving = await changed(resources, export, rows_done=500, rows_total=1000)
    terminal = Terminal(desk, folder, "--again", export.id, "-o", "x.csv")
    await terminal.until("█" * 12 + "░" * 12 + " 50 %, 500 of 1,000 rows")
    await changed(resources, moving, rows_done=750)
    await terminal.until(" 75 %, 750 of 1,000 rows")
    await finish(resources, export.id)
    assert await terminal.end() == 0
    assert "█" * 24 + " 100 %, 3.0 MB of 3.0 MB" in terminal.shown
    assert terminal.shown.endswith("\r\n1 row, 3.0 MB; size and SHA-256 are as promised.\r\nx.csv\r\n") or (
        "size and SHA-256 are as promised.\r\nx.csv\r\n" in terminal.shown
    )
    assert (folder / "x.csv").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "code", "said", "status"),
    [
        pytest.param(b"y\n", 3, "Cancelled.", Status.CANCELLED, id="yes"),
        pytest.param(b"\n", 130, "The export goes on without you.", Status.QUEUED, id="no"),
        pytest.param(CTRL_C, 130, "The export goes on without you.", Status.QUEUED, id="Ctrl-C again"),
        pytest.param(b"\x04", 130, "The export goes on without you.", Status.QUEUED, id="Ctrl-D"),
    ],
)
async def test_ctrl_c_asks_on_a_terminal(desk, folder, resources, answer, code, said, status):
    terminal = Terminal(desk, folder, "things", "--wait")
    await terminal.until("Waiting in the queue")
    terminal.type(CTRL_C)
    [export] = await stored(resources)
    await terminal.until(f"Cancel the export {export.id}? [y/N] ")
    terminal.type(answer)
    assert await terminal.end() == code
    assert said in terminal.shown
    [export] = await stored(resources)
    assert export.status is status


async def test_it_is_too_late_to_cancel(desk, folder, resources):
    terminal = Terminal(desk, folder, "things", "--wait")
    await terminal.until("Waiting in the queue")
    terminal.type(CTRL_C)
    await terminal.until("[y/N] ")
    [export] = await stored(resources)
    await finish(resources, export.id)
    terminal.type(b"y\n")
    assert await terminal.end() == 130
    assert "It cannot be cancelled any more. The export is SUCCESS" in terminal.shown
    assert f"exportdesk export --again {export.id}" in terminal.shown


async def test_a_file_that_is_no_text_is_not_shown_on_a_terminal(desk, folder, done):
    await changed(desk.resources, done, file=replace(done.file, content_type="application/zstd"))
    terminal = Terminal(desk, folder, "--again", done.id, "-o", "-")
    assert await terminal.end() == 5
    assert "a terminal cannot show it. Use -o FILE, or a pipe." in terminal.shown


async def test_ctrl_c_in_a_download_keeps_what_came(desk, folder, done):
    desk.cuts = [1_000_000, *[10] * 50]
    terminal = Terminal(desk, folder, "--again", done.id, "-o", "x.csv")
    await terminal.until("Trying again")
    terminal.type(CTRL_C)
    assert await terminal.end() == 130
    assert f"Interrupted. To go on with it: exportdesk export --again {done.id} " in terminal.shown
    assert (folder / "x.csv.part").read_bytes() == CONTENT[:1_000_000]


async def test_mistakes_are_told_as_arguments(desk, folder, resources):
    ended = await run(desk, folder, "things", "--param", "most=0", "--param", "size=1", "--option", "bom=perhaps")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        "--param size: This dataset has no parameter size.",
        "--param most: At most must be 1 or more.",
        "--option bom: must be true or false",
    ]
    assert await stored(resources) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], NOTHING_NAMED),
        (["things", "--again", "exp_1"], NOTHING_NAMED),
        (["things", "--saved", "Weekly"], NOTHING_NAMED),
        (["", "-o", "x"], NOTHING_NAMED),
        (["--again", "../exports"], "--again takes the id of an export, such as exp_"),
        ([b"\xff", "-o", "x"], "The arguments are not valid UTF-8."),
        (["things", "-o", ""], "-o needs the name of a file or folder, or -"),
        (["--again", "exp_1", "--format", "csv"], "--again takes an export as it was ordered: leave out "),
        (["--saved", "Weekly", "--note", "x"], "--saved takes an order as it was saved: leave out "),
        (["--saved", "Weekly"], "There is no saved order named Weekly. There are: none for you."),
        (["things", "--name", "x" * 1000], "--name: "),
        (["thing"], "There is no dataset named thing. There are: things, slow, broken, picked."),
        (["things", "--param", "most"], "--param most: write it as NAME=VALUE."),
        (
            ["things", "--param", "most=1", "--param", "most=2"],
            "--param most: it is given 2 times, and takes one value.",
        ),
        (["things", "--format", "doc"], "--format: Choose one of these formats: csv, xlsx, jsonl, parquet."),
        (["things", "--url", "localhost:8000"], "The address of a desk looks like https://desk.example"),
    ],
)
async def test_what_has_to_be_changed(desk, folder, arguments, said):
    ended = await run(desk, folder, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(said)
    assert len(ended.err.splitlines()) == 1


async def test_a_token_is_needed(desk, folder):
    ended = await run(desk, folder, "things", TOKEN="")
    assert (ended.code, ended.err) == (
        2,
        "A token is needed: set EXPORTDESK_TOKEN or EXPORTDESK_TOKEN_FILE. "
        "Make one where the desk runs: exportdesk token create --user NAME --name TEXT\n",
    )


async def test_a_token_from_a_file_and_an_address_from_the_settings(desk, folder, done):
    (folder / "token").write_text(desk.token + "\n")
    ended = await run(desk, folder, "--again", done.id, TOKEN="", TOKEN_FILE="token", URL="", BASE_URL=desk.url)
    assert (ended.code, ended.out) == (0, f"{desk.url}/exports/{done.id}\n")
    assert not (folder / "no-data").exists()


async def test_a_token_that_is_not_valid(desk, folder):
    ended = await run(desk, folder, "things", "--token", "exd_wrong")
    assert ended.code == 4
    assert ended.err.startswith("The token is not valid here, or was revoked. Make one where the desk runs: ")


async def test_an_export_of_somebody_else(desk, folder, make_export, other: Viewer):
    export = await make_export(Status.SUCCESS, owner=other)
    ended = await run(desk, folder, "--again", export.id)
    assert (ended.code, ended.err) == (4, f"There is no export {export.id} at {desk.url}, or it is not yours.\n")


async def test_nobody_at_the_address(desk, folder):
    await desk.stop()
    began = time.monotonic()
    ended = await run(desk, folder, "things", "--wait")
    assert time.monotonic() - began > 3
    assert ended.code == 4
    assert ended.err.splitlines() == [
        "The desk cannot be reached (connection refused). Trying again.",
        f"{desk.url} cannot be reached: connection refused. Is the desk running, and is --url right?",
    ]


async def test_something_else_at_the_address(desk, folder):
    desk.refusals = [(200, {}, b"<html>Welcome to nginx!</html>")]
    ended = await run(desk, folder, "things")
    assert ended.code == 4
    assert ended.err.startswith(f"{desk.url} does not answer as an export desk does: ")


def test_patience_has_an_end_and_begins_anew_when_something_was_gained(monkeypatch):
    monkeypatch.setattr(patience, "MOST", 1.0)
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.3)
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.3)
    told: list[str] = []
    patient = Patience(told.append, lambda: told.append("back"))
    gained = 0

    def broken() -> None:
        nonlocal gained
        gained = min(gained + 1, 6)
        raise Unreachable("the connection was broken off")

    began = time.monotonic()
    with pytest.raises(Unreachable):
        patient.call(broken, gained=lambda: gained)
    assert time.monotonic() - began > 6 * 0.3
    assert "back" not in told


def test_a_wait_beyond_the_bound_is_not_begun(monkeypatch):
    monkeypatch.setattr(patience.time, "sleep", lambda seconds: pytest.fail(f"waits for {seconds} s"))
    patient = Patience(lambda _: None, lambda: None)

    def busy() -> None:
        raise Problem(503, "UNAVAILABLE", "Back tomorrow.", (), 86_400)

    with pytest.raises(Problem):
        patient.call(busy)


async def test_help_and_readme_document_the_exit_codes(desk, folder):
    ended = await run(desk, folder, "--help")
    codes = re.findall(r"^  (\d+) +\w", ended.out, re.MULTILINE)
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert codes == ["0", "1", "2", "3", "4", "5", "130"]
    assert re.findall(r"^\| (\d+) \| ", readme, re.MULTILINE) == codes
