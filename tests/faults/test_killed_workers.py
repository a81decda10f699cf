"""`kill -9` of the worker in mid-export: the export ends SUCCESS by itself, once, within a minute."""

from __future__ import annotations

import signal

from worker_processes import WorkerStarter, order_slow, until

from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.store import events


async def test_an_export_whose_worker_is_killed_ends_success_once(
    resources: Resources, user: Viewer, start_worker: WorkerStarter
) -> None:
    victim = start_worker("exports")
    start_worker("callbacks")
    export = await order_slow(resources, user, 2_000_000)
    await until(resources, export, having=lambda e: e.status is Status.PROCESSING and e.rows_done > 0)
    victim.kill()
    victim.wait()
    start_worker("exports")
    ended = await until(resources, export, having=lambda e: e.status is Status.SUCCESS)

    assert (ended.attempt, ended.rows_done) == (2, 2_000_000)
    assert ended.file is not None
    content = resources.storage.path(ended.file.key).read_bytes()
    assert content.count(b"\r\n") == 2_000_001
    history = await events.page(resources.store, export_id=export.id)
    assert [event.version for event in history] == list(range(1, ended.version + 1))
    assert [event.type for event in history].count("export.succeeded") == 1
    finished = [path.name for path in resources.storage.folder.glob("*/exp_*") if path.parent.name != ".part"]
    assert finished == [f"{export.id}.2.csv"]


async def test_a_worker_that_is_told_to_stop_hands_back_and_the_next_one_goes_on(
    resources: Resources, user: Viewer, start_worker: WorkerStarter
) -> None:
    first = start_worker("exports")
    export = await order_slow(resources, user, 2_000_000)
    await until(resources, export, having=lambda e: e.status is Status.PROCESSING and e.rows_done > 0)
    first.send_signal(signal.SIGTERM)
    assert first.wait(10) == 0
    given_back = await until(resources, export, seconds=1, having=lambda e: e.status is Status.QUEUED)
    assert (given_back.failures, given_back.retry_at) == (0, None)
    start_worker("exports")
    ended = await until(resources, export, having=lambda e: e.status is Status.SUCCESS)
    assert ended.attempt == 2


async def test_a_wiped_broker_loses_no_order(resources: Resources, user: Viewer, start_worker: WorkerStarter) -> None:
    """Orders that are queued when Redis is flushed are found by the sweep; no worker was there to take them before."""
    ordered = [await order_slow(resources, user, 1000 + number) for number in range(5)]
    await resources.redis.flushall()
    start_worker("exports")
    start_worker("callbacks")
    for export in ordered:
        ended = await until(resources, export, having=lambda e: e.status is Status.SUCCESS)
        assert ended.attempt == 1
