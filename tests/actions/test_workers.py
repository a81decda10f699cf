"""Workers as the store knows them: signs of life, slots, and who may be drained."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from webapp.actions import workers
from webapp.domain import limits
from webapp.domain.access import Role, Viewer
from webapp.domain.workers import Load, Queue, WorkerGone, WorkerState
from webapp.resources import Resources
from webapp.store import workers as rows

QUEUES = [(Queue.EXPORTS,), (Queue.CALLBACKS,), (Queue.EXPORTS, Queue.CALLBACKS)]
BOSS = Viewer("usr_boss", "boss", Role.ADMIN)


@pytest.mark.parametrize("queues", QUEUES)
async def test_a_worker_is_alive_from_its_first_sign_to_its_last(
    each_resources: Resources, queues: tuple[Queue, ...]
) -> None:
    worker = await workers.begin(each_resources, queues)
    assert await workers.beat(each_resources, worker, Load(1, 3, 1000)) is None
    now, [found] = await workers.listed(each_resources)
    assert (found.state(now), found.queues, found.pid) == (WorkerState.ALIVE, queues, os.getpid())
    assert found.load == Load(1, 3, 1000)
    assert found.slots == (each_resources.settings.worker_slots if Queue.EXPORTS in queues else 0)
    assert found.heartbeat_at >= found.started_at
    assert found.state(now + timedelta(seconds=limits.HEARTBEAT_LOST_AFTER + 1)) is WorkerState.LOST
    await workers.end(each_resources, worker)
    now, [found] = await workers.listed(each_resources)
    assert (found.state(now), found.load) == (WorkerState.ENDED, Load())


async def test_a_row_that_is_gone_comes_back_with_the_next_sign_of_life(each_resources: Resources) -> None:
    worker = await workers.begin(each_resources, [Queue.EXPORTS])
    store = each_resources.store
    async with store.transaction():
        assert await rows.purge(store, before=await store.now() + timedelta(seconds=1)) == 1
    assert (await workers.listed(each_resources))[1] == []
    await workers.beat(each_resources, worker, Load())
    assert [found.id for found in (await workers.listed(each_resources))[1]] == [worker.id]


async def test_slots_are_those_that_may_be_filled(each_resources: Resources) -> None:
    store, count = each_resources.store, each_resources.settings.worker_slots
    busy, idle = [await workers.begin(each_resources, [Queue.EXPORTS]) for _ in range(2)]
    await workers.begin(each_resources, [Queue.CALLBACKS])
    await workers.beat(each_resources, busy, Load(slots_taken=1))
    now = await store.now()
    since = now - timedelta(seconds=limits.HEARTBEAT_LOST_AFTER)
    assert await rows.slots(store, since=since) == (2 * count, 1)
    await workers.drain(each_resources, BOSS, busy.id, within=timedelta(minutes=1))
    assert await rows.slots(store, since=since) == (count + 1, 1)
    await workers.end(each_resources, idle)
    assert await rows.slots(store, since=since) == (1, 1)
    assert await rows.slots(store, since=now + timedelta(hours=1)) == (0, 0)


async def test_who_has_ended_cannot_be_drained(each_resources: Resources) -> None:
    worker = await workers.begin(each_resources, [Queue.EXPORTS])
    await workers.end(each_resources, worker)
    with pytest.raises(WorkerGone):
        await workers.drain(each_resources, BOSS, worker.id, within=timedelta())
    with pytest.raises(WorkerGone):
        await workers.keep(each_resources, BOSS, worker.id)
