"""Pausing and resuming the work on exports, or on callbacks. Orders are taken and events are owed all the while."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from webapp import bus
from webapp import queue as broker
from webapp.actions.endpoint_changes import audit
from webapp.domain.access import Viewer
from webapp.domain.exports import Export
from webapp.domain.workers import Pause, Queue
from webapp.resources import Resources
from webapp.store import exports as export_rows
from webapp.store import pauses

log = logging.getLogger(__name__)

TOLD_AT_ONCE = 200
"""Exports whose pages are told, and which wake workers; the sweep does so for all others."""


async def paused(resources: Resources) -> Mapping[Queue, Pause]:
    """Those that are."""
    async with resources.store.connection():
        found = {queue: await pauses.get(resources.store, queue) for queue in Queue}
    return {queue: pause for queue, pause in found.items() if pause is not None}


async def pause(resources: Resources, actor: Viewer, queue: Queue) -> Pause:
    """From its commit on nothing new of the queue is started, on any machine; what runs goes on."""
    async with resources.store.transaction():
        now = await resources.store.now()
        if await pauses.put(resources.store, queue, Pause(now, actor.name)):
            await audit(resources, actor, "queue.paused", queue.value, now)
        found = await pauses.get(resources.store, queue)
        assert found is not None
    log.info("%s are paused by %s", queue.value, found.by)
    await _tell(resources, queue, is_resumed=False)
    return found


async def resume(resources: Resources, actor: Viewer, queue: Queue) -> None:
    async with resources.store.transaction():
        was_paused = await pauses.remove(resources.store, queue)
        if was_paused:
            await audit(resources, actor, "queue.resumed", queue.value, await resources.store.now())
    if was_paused:
        log.info("%s are resumed by %s", queue.value, actor.name)
        await _tell(resources, queue, is_resumed=True)


async def _tell(resources: Resources, queue: Queue, *, is_resumed: bool) -> None:
    """After the commit: open pages, and who works. All of them find out by themselves too, only later."""
    try:
        if queue is Queue.CALLBACKS:
            await broker.wake(resources.redis, broker.QueueName.CALLBACKS)
            return
        waiting = await _waiting(resources)
        for export in waiting if is_resumed else ():
            await broker.enqueue_export(resources.redis, export, salt="resumed")
        await bus.publish(resources.redis, *(bus.Hint(export.id, export.owner, 0) for export in waiting))
    except broker.QUEUE_ERRORS:
        return


async def _waiting(resources: Resources) -> Sequence[Export]:
    async with resources.store.connection():
        now = await resources.store.now()
        return await export_rows.waiting(resources.store, queued_before=now, due=now, limit=TOLD_AT_ONCE)
