"""The Python client against the real application: what scripts get from it, also when the network breaks."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from desks import CONTENT, Desk, finish, with_content
from desks import desk as desk

from webapp import client
from webapp.client import Client, Damaged, Download, NotADesk, Problem, Unreachable
from webapp.domain.exports import Export, Status

ExportMaker = Callable[..., Awaitable[Export]]
away = asyncio.to_thread


@pytest.fixture
async def done(desk: Desk, make_export: ExportMaker) -> client.Export:
    """A finished export whose file is 3 MB, as the client sees it."""
    export = await with_content(desk.resources, await make_export(Status.SUCCESS))
    return (await away(desk.client.get, export.id)).export


async def test_datasets_say_what_can_be_ordered(desk: Desk) -> None:
    found = await away(desk.client.datasets)
    assert [dataset.name for dataset in found] == ["things", "slow", "broken"]
    things = await away(desk.client.dataset, "things")
    assert things == found[0]
    assert things.formats == ("csv", "xlsx", "jsonl", "parquet")
    assert things.parameters["properties"]["most"]["type"] == "integer"


async def test_an_order_repeated_under_its_key_is_one_export(desk: Desk) -> None:
    def order() -> client.Answer:
        return desk.client.order("things", format="jsonl", params={"most": 5}, idempotency_key="k1")

    first, second = await away(order), await away(order)
    assert (first.is_news, second.is_news) == (True, False)
    assert first.export.id == second.export.id
    assert first.export.is_active
    assert (first.export.format, first.export.params) == ("jsonl", {"search": None, "most": 5})
    assert first.retry_after == 1


async def test_a_problem_names_the_fields(desk: Desk) -> None:
    with pytest.raises(Problem) as caught:
        await away(lambda: desk.client.order("things", params={"most": 0}, options={"bom": "perhaps"}))
    problem = caught.value
    assert (problem.status, problem.code) == (422, "INVALID")
    assert [wrong.field for wrong in problem.errors] == ["params.most", "options.bom"]
    assert "params.most: At most must be 1 or more." in str(problem)


async def test_columns_are_chosen_in_orders_and_previews(desk: Desk) -> None:
    order = desk.client.order
    answer = await away(lambda: order("things", options={"bom": True}, columns=("price", "id")))
    assert (answer.export.columns, answer.export.options["bom"]) == (("price", "id"), True)
    assert (await away(lambda: order("things"))).export.columns == ()
    shown = await away(lambda: desk.client.preview("things", params={"most": 1}, columns=["name"]))
    assert ([column.name for column in shown.columns], shown.rows) == (["name"], [["thing 1 – 東京"]])
    with pytest.raises(Problem, match=r"options\.columns: choose at least one column"):
        await away(lambda: order("things", columns=[]))


async def test_a_wrong_token(desk: Desk) -> None:
    with pytest.raises(Problem) as caught:
        await away(Client(desk.url, "exd_wrong").datasets)
    assert (caught.value.status, caught.value.code) == (401, "SIGN_IN_NEEDED")


async def test_what_is_known_is_not_sent_again(desk: Desk, done: client.Export) -> None:
    first = await away(desk.client.get, done.id)
    again = await away(lambda: desk.client.get(done.id, known=first))
    assert (first.is_news, again.is_news) == (True, False)
    assert again.export is first.export
    assert desk.seen[-1].headers["if-none-match"] == first.etag


async def test_waiting_ends_with_the_change(desk: Desk) -> None:
    answer = await away(desk.client.order, "things")
    began = time.monotonic()
    waiting = asyncio.create_task(away(lambda: desk.client.get(answer.export.id, wait=20, known=answer)))
    await desk.until("GET", answer.export.id)
    await finish(desk.resources, answer.export.id)
    seen = await waiting
    assert time.monotonic() - began < 20
    assert seen.is_news
    assert seen.export.status in {"PROCESSING", "SUCCESS"}


async def test_cancelling_and_cancelling_again(desk: Desk) -> None:
    answer = await away(desk.client.order, "things")
    cancelled = await away(desk.client.cancel, answer.export.id)
    assert cancelled.export.status == "CANCELLED"
    with pytest.raises(Problem) as caught:
        await away(desk.client.cancel, answer.export.id)
    assert (caught.value.status, caught.value.code) == (409, "ILLEGAL_TRANSITION")


async def test_a_download_is_the_file(desk: Desk, done: client.Export, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        await away(desk.client.download, done, file)
    assert (tmp_path / "file").read_bytes() == CONTENT


async def test_a_download_that_breaks_goes_on_where_it_was(desk: Desk, done: client.Export, tmp_path: Path) -> None:
    desk.cuts = [1_000_000, 700_000]
    with (tmp_path / "file").open("w+b") as file:
        download = Download(desk.client, done, file)
        reached = []
        for _ in range(2):
            with pytest.raises(Unreachable, match="broke off"):
                await away(download.run)
            reached.append(download.position)
        await away(download.run)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert reached == [1_000_000, 1_700_000 - client.OVERLAP]
    ranges = [seen.headers.get("range") for seen in desk.seen if seen.path.endswith("/file")]
    assert ranges == [None, *(f"bytes={at - client.OVERLAP}-" for at in reached)]
    assert desk.seen[-1].headers["if-range"] == f'"{done.file.sha256}"'


@pytest.mark.parametrize(
    ("there", "requests"),
    [
        pytest.param(CONTENT[:2_000_000], 1, id="its first part"),
        pytest.param(CONTENT, 1, id="all of it"),
        pytest.param(CONTENT[:5], 1, id="a few bytes"),
        pytest.param(b"x" * 2_000_000, 2, id="something else"),
        pytest.param(b"x" * 1_000_000 + CONTENT[1_000_000:2_000_000], 2, id="something else with the same end"),
        pytest.param(CONTENT + b"more", 1, id="too much"),
    ],
)
async def test_whatever_was_there_the_file_is_right(
    desk: Desk, done: client.Export, tmp_path: Path, there: bytes, requests: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(there)
    with path.open("r+b") as file:
        await away(desk.client.download, done, file)
    assert path.read_bytes() == CONTENT
    assert sum(seen.path.endswith("/file") for seen in desk.seen) == requests


async def test_an_empty_file(desk: Desk, make_export: ExportMaker, tmp_path: Path) -> None:
    export = await with_content(desk.resources, await make_export(Status.SUCCESS), b"")
    answer = await away(desk.client.get, export.id)
    with (tmp_path / "file").open("w+b") as file:
        await away(desk.client.download, answer.export, file)
    assert (tmp_path / "file").read_bytes() == b""


async def test_a_file_that_was_damaged_on_the_desk_is_found_out(
    desk: Desk, done: client.Export, tmp_path: Path
) -> None:
    [path] = [path for path in desk.resources.storage.path("x").parent.rglob("*.csv") if path.stat().st_size > 100]
    path.write_bytes(CONTENT[:-1] + b"!")
    with (tmp_path / "file").open("w+b") as file, pytest.raises(Damaged, match="SHA-256"):
        await away(desk.client.download, done, file)


async def test_a_stream_goes_on_without_a_byte_twice(desk: Desk, done: client.Export) -> None:
    desk.cuts = [1_000_000]
    target = io.BytesIO()
    download = Download(desk.client, done, target, can_rewind=False)
    with pytest.raises(Unreachable):
        await away(download.run)
    await away(download.run)
    assert target.getvalue() == CONTENT


async def test_a_stream_cannot_take_back_what_a_desk_without_ranges_sends_again(
    desk: Desk, done: client.Export
) -> None:
    desk.cuts = [1_000_000]
    download = Download(desk.client, done, io.BytesIO(), can_rewind=False)
    with pytest.raises(Unreachable):
        await away(download.run)
    desk.refusals = [(200, {}, CONTENT)]
    with pytest.raises(Damaged, match="cannot be taken back"):
        await away(download.run)


async def test_a_busy_desk_says_when_to_ask_again(desk: Desk) -> None:
    document = {"code": "QUOTA_EXCEEDED", "detail": "Too many.", "status": 429}
    desk.refusals = [
        (429, {"Retry-After": "7"}, json.dumps(document).encode()),
        (503, {"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"}, b"<h1>nginx</h1>"),
        (502, {}, b""),
    ]
    found = []
    for _ in range(3):
        with pytest.raises(Problem) as caught:
            await away(desk.client.datasets)
        found.append(caught.value)
    assert all(problem.may_pass for problem in found)
    assert [(problem.status, problem.code) for problem in found] == [
        (429, "QUOTA_EXCEEDED"),
        (503, "HTTP"),
        (502, "HTTP"),
    ]
    assert found[0].retry_after == 7
    assert found[1].retry_after is not None
    assert found[1].retry_after > 1e6
    assert found[2].retry_after is None


async def test_an_order_that_is_led_elsewhere_is_not_sent_on(desk: Desk) -> None:
    desk.refusals = [(301, {"Location": "https://desk.example/api/v1/exports"}, b"")]
    with pytest.raises(NotADesk, match=r"sends on to https://desk\.example\. "):
        await away(desk.client.order, "things")


async def test_a_file_kept_elsewhere_is_fetched_without_the_token(
    desk: Desk, done: client.Export, tmp_path: Path
) -> None:
    """As storage with signed links does it."""
    storage = Desk(desk.app, desk.resources, "")
    storage.refusals = [(200, {"ETag": '"of-the-storage"'}, CONTENT)]
    await storage.start()
    desk.refusals = [(302, {"Location": f"{storage.url}/bucket/file?signature=1"}, b"")]
    with (tmp_path / "file").open("w+b") as file:
        await away(desk.client.download, done, file)
    await storage.stop()
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert "authorization" not in storage.seen[0].headers


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"items": [1]}', b""])
async def test_an_answer_of_something_else(desk: Desk, body: bytes) -> None:
    desk.refusals = [(200, {}, body)]
    with pytest.raises(NotADesk, match="does not answer as an export desk does"):
        await away(desk.client.datasets)


async def test_nobody_is_there(desk: Desk) -> None:
    await desk.stop()
    with pytest.raises(Unreachable) as caught:
        await away(desk.client.datasets)
    assert (str(caught.value), caught.value.was_refused) == ("connection refused", True)


async def test_a_desk_without_tls(desk: Desk) -> None:
    with pytest.raises(Unreachable, match="does not speak TLS") as caught:
        await away(Client(desk.url.replace("http:", "https:"), "t").datasets)
    assert not caught.value.may_pass


@pytest.mark.parametrize(
    "url", ["desk.example", "ftp://desk.example", "http://", "https://me:hush@desk.example", "http://h/?q"]
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="looks like"):
        Client(url, "token")


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "東京"])
def test_a_token_that_is_none(token: str) -> None:
    with pytest.raises(ValueError, match="one word"):
        Client("http://localhost", token)


def test_the_address_may_be_that_of_the_api() -> None:
    assert Client("http://localhost:8000/desk/api/v1/", "token").url == "http://localhost:8000/desk"


def test_the_client_needs_nothing_else_of_the_package() -> None:
    code = "import sys, webapp.client; print(sorted(n for n in sys.modules if n.split('.')[0] in ('webapp', 'worker')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert shown == "['webapp', 'webapp.client']\n"


async def test_lists_go_on_by_themselves(desk: Desk, make_export: ExportMaker) -> None:
    made = [(await make_export(Status.SUCCESS)).id for _ in range(27)]
    found = await away(lambda: list(desk.client.exports(status=["SUCCESS"], dataset="things")))
    assert [export.id for export in found] == made[::-1]
    assert sum(seen.path.endswith("/exports") for seen in desk.seen) == 2
    assert await away(lambda: list(desk.client.exports(status=["FAILED"]))) == []


async def test_events_and_attempts_of_an_export(desk: Desk, done: client.Export) -> None:
    events = await away(lambda: list(desk.client.events(done.id)))
    assert [event.type for event in events][-1] == "export.succeeded"
    after = await away(lambda: list(desk.client.events(done.id, after=events[-2].id)))
    assert events[-1].id in {event.id for event in after}
    assert all(attempt.number >= 1 for attempt in await away(desk.client.attempts, done.id))


async def test_a_preview_says_what_is_to_be_expected(desk: Desk) -> None:
    preview = await away(lambda: desk.client.preview("things", params={"most": 5}))
    assert [column.name for column in preview.columns] == ["id", "name", "price", "made"]
    assert (len(preview.rows), preview.rows_estimate, preview.truncated) == (5, 5, False)


async def test_what_stands_in_the_way_is_named(desk: Desk, done: client.Export) -> None:
    with pytest.raises(Problem) as caught:
        await away(desk.client.retry, done.id)
    assert (caught.value.code, caught.value.status_of_export) == ("ILLEGAL_TRANSITION", "SUCCESS")
    await away(desk.client.delete, done.id)
    with pytest.raises(Problem) as caught:
        await away(desk.client.get, done.id)
    assert caught.value.code == "NOT_FOUND"


async def test_an_order_has_a_name_and_a_note_that_can_be_changed(desk: Desk) -> None:
    ordered = (await away(lambda: desk.client.order("things", name="For June", note="As agreed."))).export
    assert (ordered.name, ordered.note) == ("For June", "As agreed.")
    changed = (await away(lambda: desk.client.annotate(ordered.id, name="For July"))).export
    assert (changed.id, changed.name, changed.note) == (ordered.id, "For July", "As agreed.")


async def test_a_saved_order_is_ordered_under_its_key_and_deleted(desk: Desk) -> None:
    saved = await away(
        lambda: desk.client.save_order("Weekly", "things", format="jsonl", params={"most": 3}, zone="Europe/Berlin")
    )
    assert (saved.params, saved.zone, saved.export_id) == ({"most": 3}, "Europe/Berlin", None)
    answers = [await away(lambda: desk.client.order_saved(saved.id, idempotency_key="k")) for _ in range(2)]
    assert [answer.is_news for answer in answers] == [True, False]
    assert {(answer.export.name, answer.export.format) for answer in answers} == {("Weekly", "jsonl")}
    [told] = await away(desk.client.saved_orders)
    assert (told.id, told.export_id) == (saved.id, answers[0].export.id)
    await away(desk.client.delete_saved_order, saved.id)
    assert await away(desk.client.saved_orders) == []


async def test_a_schedule_is_set_paused_resumed_and_removed(desk: Desk) -> None:
    saved = await away(desk.client.save_order, "Weekly", "things")
    with pytest.raises(Problem) as caught:
        await away(desk.client.schedule, saved.id)
    assert caught.value.code == "NOT_FOUND"
    made = await away(lambda: desk.client.set_schedule(saved.id, "30 8 * * 1", zone="Europe/Berlin"))
    assert (made.cron, made.zone, made.paused_at, made.failures) == ("30 8 * * 1", "Europe/Berlin", None, 0)
    assert {moment.astimezone(ZoneInfo("Europe/Berlin")).strftime("%a %H:%M") for moment in made.next} == {"Mon 08:30"}
    paused = await away(desk.client.pause_schedule, saved.id)
    assert (paused.next, paused.paused_at is None) == ((), False)
    assert (await away(desk.client.resume_schedule, saved.id)).next == made.next
    assert (await away(desk.client.schedule, saved.id)).cron == made.cron
    await away(desk.client.delete_schedule, saved.id)
    with pytest.raises(Problem):
        await away(desk.client.schedule, saved.id)
