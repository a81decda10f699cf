"""A worker that stands still past its heartbeat (SIGSTOP, as a frozen machine does), is given up, and then goes on: its
successor's export stays as it is. The limits that the sweep of this process goes by are shortened."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from patience import PATIENCE
from worker_processes import WorkerStarter, order_slow, until

from webapp import bus
from webapp.actions.sweep import sweep
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.store import events

ROWS = 1_500_000


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEARTBEAT_LOST_AFTER", 2.5)
    monkeypatch.setattr(limits, "RETRY_WAITS", (0.1,))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in found]


def working_child(resources: Resources, export: Export, pid: int) -> int:
    """The child of this worker that has the attempt's temporary file open."""
    temporary = str(resources.storage.temporary(export.id, export.attempt))
    for child in children_of(pid):
        links = [os.readlink(link) for link in Path(f"/proc/{child}/fd").iterdir() if link.is_symlink()]
        if temporary in links:
            return child
    raise AssertionError("no child is at work")


async def soon(is_so: Callable[[], bool], what: str) -> None:
    for _ in range(2400):
        if is_so():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(what)


@asynccontextmanager
async def hints_of(resources: Resources, export: Export) -> AsyncIterator[list[bus.Hint]]:
    """What is published about this export meanwhile."""
    heard: list[bus.Hint] = []

    async def hear() -> None:
        async with bus.listen(resources.redis, bus.CHANNEL) as channel:
            while True:
                message = await channel.get_message(timeout=1)
                if message and bus.is_confirmation(message):
                    listening.set()
                elif message and (hint := bus.decode(message)) and hint.export_id == export.id:
                    heard.append(hint)

    listening = asyncio.Event()
    task = asyncio.create_task(hear())
    await asyncio.wait_for(listening.wait(), PATIENCE)
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_worker_that_wakes_up_after_its_export_is_done_changes_nothing(
    resources: Resources, user: Viewer, start_worker: WorkerStarter
) -> None:
    """Its child has gone on meanwhile and offers a whole file."""
    stopped = start_worker("exports")
    export = await order_slow(resources, user, ROWS)
    first = await until(resources, export, having=lambda e: e.rows_done > 0)
    child = working_child(resources, first, stopped.pid)
    stopped.send_signal(signal.SIGSTOP)
    await give_up(resources, export)
    start_worker("exports")
    done = await until(resources, export, having=lambda e: e.status is Status.SUCCESS)
    await soon(lambda: not is_running(child), "the child of the stopped worker still writes")

    async with hints_of(resources, export) as heard:
        stopped.send_signal(signal.SIGCONT)
        await soon(lambda: os.listdir(resources.storage.folder / ".part") == [], "its temporary file is still there")
        await asyncio.sleep(1.5)
    assert [hint for hint in heard if hint.version] == [], "at most that somebody may look again, at what is as it was"
    assert stopped.poll() is None
    await assert_one_history(resources, export, done)


async def test_a_worker_that_wakes_up_beside_its_successor_ends_its_child_and_lets_it_be(
    resources: Resources, user: Viewer, start_worker: WorkerStarter
) -> None:
    """Its child stood still too, and still does: it does not end by itself. The successor pauses meanwhile."""
    stopped = start_worker("exports")
    export = await order_slow(resources, user, ROWS)
    first = await until(resources, export, having=lambda e: e.rows_done > 0)
    child = working_child(resources, first, stopped.pid)
    for pid in (stopped.pid, child):
        os.kill(pid, signal.SIGSTOP)
    await give_up(resources, export)
    successor = start_worker("exports")
    await until(resources, export, having=lambda e: e.attempt == 2 and e.rows_done > 0)
    successor.send_signal(signal.SIGSTOP)
    second = await until(resources, export, seconds=1, having=lambda e: e.status is Status.PROCESSING)
    stopped.send_signal(signal.SIGCONT)
    await soon(lambda: not is_running(child), "its child is still there")
    assert await until(resources, export, seconds=1, having=lambda e: True) == second
    successor.send_signal(signal.SIGCONT)
    await soon(lambda: not resources.storage.temporary(export.id, 1).exists(), "its temporary file is still there")
    done = await until(resources, export, having=lambda e: e.status is Status.SUCCESS)
    assert done.version == second.version + 1
    assert stopped.poll() is None
    await assert_one_history(resources, export, done)


async def give_up(resources: Resources, export: Export) -> None:
    """Sweeps until the attempt of the worker that stands still is over."""
    for _ in range(1200):
        if (await sweep(resources))["given up"]:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the sweep did not give it up")


async def assert_one_history(resources: Resources, export: Export, done: Export) -> None:
    now = await until(resources, export, seconds=1, having=lambda e: True)
    assert now == done
    assert (done.status, done.attempt, done.rows_done) == (Status.SUCCESS, 2, ROWS)
    assert done.file is not None
    content = resources.storage.path(done.file.key).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (done.file.size, done.file.sha256)
    files = [path.name for path in resources.storage.folder.glob("*/exp_*") if path.parent.name != ".part"]
    assert files == [f"{export.id}.2.csv"]
    history = await events.page(resources.store, export_id=export.id)
    assert [event.version for event in history] == list(range(1, done.version + 1))
    told = [(event.type.removeprefix("export."), event.data["attempt"]) for event in history]
    assert told == [
        ("created", 0), ("queued", 0), ("started", 1), ("failed", 1), ("queued", 1), ("started", 2), ("succeeded", 2),
    ]  # fmt: skip
