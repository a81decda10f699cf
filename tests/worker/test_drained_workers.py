"""Real workers that are drained: what they have is finished or handed back, nothing new is taken, and they end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta

from patience import PATIENCE
from worker_processes import WorkerStarter, order_slow, start_worker, until

from webapp.actions import workers
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.domain.workers import Worker, WorkerState
from webapp.resources import Resources

__all__ = ["start_worker"]

LARGE = 8_000_000


async def until_worker(resources: Resources, pid: int, having: Callable[[Worker], bool] = lambda _: True) -> Worker:
    ends = time.monotonic() + PATIENCE
    while True:
        _, found = await workers.listed(resources)
        ours = [worker for worker in found if worker.pid == pid and having(worker)]
        if ours:
            return ours[0]
        assert time.monotonic() < ends, found
        await asyncio.sleep(0.1)


async def until_it_ends(process: subprocess.Popen[bytes]) -> int:
    return await asyncio.wait_for(asyncio.to_thread(process.wait), PATIENCE)


async def test_a_drained_worker_finishes_what_it_has_and_takes_nothing_new(
    resources: Resources, user: Viewer, start_worker: WorkerStarter
) -> None:
    process = start_worker("exports")
    running = await order_slow(resources, user, LARGE)
    await until(resources, running, having=lambda e: e.rows_done > 0)
    busy = await until_worker(resources, process.pid, lambda w: w.load.slots_taken == 1)
    assert busy.load.memory > 20_000_000
    await workers.drain(resources, user, busy.id, within=timedelta(minutes=5))
    await asyncio.sleep(limits.WORKER_BEATS_EVERY + 0.5)
    waiting = await order_slow(resources, user, 10)
    assert await until_it_ends(process) == 0
    done = await until(resources, running, seconds=1, having=lambda e: e.status is Status.SUCCESS)
    assert done.attempt == 1
    left = await until(resources, waiting, seconds=1, having=lambda e: e.status is Status.QUEUED)
    assert left.attempt == 0
    now, [found] = await workers.listed(resources)
    assert found.state(now) is WorkerState.ENDED


async def test_what_is_not_finished_in_time_is_handed_back(
    resources: Resources, user: Viewer, start_worker: WorkerStarter
) -> None:
    process = start_worker("exports")
    export = await order_slow(resources, user, 50 * LARGE)
    await until(resources, export, having=lambda e: e.rows_done > 0)
    worker = await until_worker(resources, process.pid)
    await workers.drain(resources, user, worker.id, within=timedelta())
    assert await until_it_ends(process) == 0
    back = await until(resources, export, seconds=1, having=lambda e: e.status is Status.QUEUED)
    assert (back.failures, back.retry_at) == (0, None)


async def test_a_drain_is_taken_back(resources: Resources, user: Viewer, start_worker: WorkerStarter) -> None:
    process = start_worker("all")
    running = await order_slow(resources, user, 50 * LARGE)
    await until(resources, running, having=lambda e: e.rows_done > 0)
    worker = await until_worker(resources, process.pid)
    await workers.drain(resources, user, worker.id, within=timedelta(minutes=5))
    await asyncio.sleep(limits.WORKER_BEATS_EVERY + 0.5)
    kept = await workers.keep(resources, user, worker.id)
    assert kept.drain_until is None
    small = await order_slow(resources, user, 10)
    await until(resources, small, having=lambda e: e.status is Status.SUCCESS)
    process.send_signal(signal.SIGTERM)
    assert await until_it_ends(process) == 0
    now, [found] = await workers.listed(resources)
    assert found.state(now) is WorkerState.ENDED
