"""Pausing: nothing new is started on any machine, nothing is refused, nothing is lost, and who waits is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from factories import stored_export
from owing import owe, register

from webapp.actions import attempts, exports, queues, sending, turns
from webapp.actions.sweep import sweep
from webapp.domain.access import Role, Viewer
from webapp.domain.exports import Export, Lane, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.workers import Queue
from webapp.resources import Resources
from webapp.store import exports as rows

BOSS = Viewer("usr_boss", "boss", Role.ADMIN)
Waiter = Callable[[], Awaitable[Export]]


@pytest.fixture
def waiting(each_resources: Resources, writer: Viewer) -> Waiter:
    """Puts an export into the queue that has been there for a while."""

    async def wait() -> Export:
        queued_at = await each_resources.store.now() - timedelta(minutes=1)
        return await stored_export(each_resources, writer, Status.QUEUED, queued_at=queued_at, lane=Lane.SMALL)

    return wait


async def audited(resources: Resources) -> list[tuple[str, str, str]]:
    found = await resources.store.plain("SELECT actor, action, subject FROM audit_log ORDER BY timestamp, id")
    return [(actor, action, subject) for actor, action, subject in found]


@pytest.mark.parametrize("lane", [None, Lane.SMALL])
async def test_a_paused_export_is_claimed_by_nobody_until_it_is_resumed(
    each_resources: Resources, waiting: Waiter, lane: Lane | None
) -> None:
    export = await waiting()
    await queues.pause(each_resources, BOSS, Queue.EXPORTS)
    assert await attempts.claim(each_resources, lane=lane) is None
    assert not await turns.size_up_next(each_resources)
    assert (await sweep(each_resources))["woken"] == 0
    await queues.resume(each_resources, BOSS, Queue.EXPORTS)
    claimed = await attempts.claim(each_resources, lane=lane)
    assert claimed is not None
    assert claimed.id == export.id


async def test_what_waits_is_told_so(each_resources: Resources, waiting: Waiter) -> None:
    export = await waiting()
    [before] = await exports.describe(each_resources, export)
    await queues.pause(each_resources, BOSS, Queue.EXPORTS)
    [after] = await exports.describe(each_resources, export)
    told = ("queue_position", "expected_start_at", "queue_paused")
    assert [before[name] for name in told] == [1, None, False]
    assert [after[name] for name in told] == [1, None, True]


async def test_orders_are_taken_while_it_is_paused(resources: Resources, user: Viewer) -> None:
    await queues.pause(resources, BOSS, Queue.EXPORTS)
    wanted = exports.Order("things", {"most": 5}, "csv", {})
    export, is_new = await exports.order(resources, user, wanted, defaults=API_DEFAULTS)
    assert (export.status, is_new) == (Status.QUEUED, True)


async def test_a_pause_survives_the_loss_of_everything_in_the_broker(
    each_resources: Resources, waiting: Waiter
) -> None:
    await waiting()
    await queues.pause(each_resources, BOSS, Queue.EXPORTS)
    await each_resources.redis.flushall()
    assert await attempts.claim(each_resources) is None
    assert list(await queues.paused(each_resources)) == [Queue.EXPORTS]


async def test_what_runs_goes_on_to_its_end(each_resources: Resources, waiting: Waiter) -> None:
    await waiting()
    running = await attempts.claim(each_resources)
    assert running is not None
    await queues.pause(each_resources, BOSS, Queue.EXPORTS)
    assert await attempts.hand_back(each_resources, running) is not None
    back = await rows.get(each_resources.store, running.id)
    assert back is not None
    assert back.status is Status.QUEUED
    assert await attempts.claim(each_resources) is None


async def test_paused_callbacks_are_owed_and_sent_later(each_resources: Resources) -> None:
    endpoint = await register(each_resources, "https://receiver.example/hook")
    [delivery_id] = await owe(each_resources, endpoint)
    await queues.pause(each_resources, BOSS, Queue.CALLBACKS)
    assert await sending.seconds_until_owed(each_resources) is None
    assert await sending.claim(each_resources, "dsp", limit=10) == []
    await queues.resume(each_resources, BOSS, Queue.CALLBACKS)
    assert await sending.seconds_until_owed(each_resources) == 0
    [work] = await sending.claim(each_resources, "dsp", limit=10)
    assert work.delivery.id == delivery_id


async def test_one_queue_does_not_pause_the_other(each_resources: Resources, waiting: Waiter) -> None:
    await waiting()
    await queues.pause(each_resources, BOSS, Queue.CALLBACKS)
    assert await attempts.claim(each_resources) is not None


async def test_doing_it_twice_is_written_down_once(each_resources: Resources) -> None:
    first = await queues.pause(each_resources, BOSS, Queue.EXPORTS)
    second = await queues.pause(each_resources, Viewer("usr_2", "second", Role.ADMIN), Queue.EXPORTS)
    assert (second, second.by) == (first, "boss")
    await queues.resume(each_resources, BOSS, Queue.EXPORTS)
    await queues.resume(each_resources, BOSS, Queue.EXPORTS)
    assert await queues.paused(each_resources) == {}
    assert await audited(each_resources) == [("boss", "queue.paused", "exports"), ("boss", "queue.resumed", "exports")]


async def test_a_pause_and_a_resumption_at_once_leave_one_of_them(each_resources: Resources) -> None:
    for _ in range(10):
        await asyncio.gather(
            queues.pause(each_resources, BOSS, Queue.EXPORTS), queues.pause(each_resources, BOSS, Queue.EXPORTS)
        )
        await asyncio.gather(*(queues.resume(each_resources, BOSS, Queue.EXPORTS) for _ in range(2)))
    assert [action for _, action, _ in await audited(each_resources)] == ["queue.paused", "queue.resumed"] * 10
