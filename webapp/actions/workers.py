"""Worker processes: their signs of life, and draining one of them. All times are the database's."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from webapp.actions.endpoint_changes import audit
from webapp.domain import limits
from webapp.domain.access import NotFound, Viewer
from webapp.domain.ids import is_id, new_id
from webapp.domain.workers import Load, Queue, Worker, WorkerGone, process_name
from webapp.release import version
from webapp.resources import Resources
from webapp.store import workers as rows

SHOWN = 200


def this_process() -> str:
    """As people find it: host and process id."""
    return process_name(socket.gethostname(), os.getpid())


async def begin(resources: Resources, queues: Sequence[Queue]) -> Worker:
    """This process, from now on among the workers."""
    async with resources.store.transaction():
        at = await resources.store.now()
        worker = Worker(
            id=new_id("wrk"),
            queues=tuple(queues),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version(),
            slots=resources.settings.worker_slots if Queue.EXPORTS in queues else 0,
            started_at=at,
            heartbeat_at=at,
        )
        await rows.beat(resources.store, worker, worker.load, at=at)
    return worker


async def beat(resources: Resources, worker: Worker, load: Load) -> float | None:
    """A sign of life. None: go on. Otherwise take nothing new, and what runs has so many seconds left."""
    async with resources.store.transaction():
        at = await resources.store.now()
        until = await rows.beat(resources.store, worker, load, at=at)
    return None if until is None else (until - at).total_seconds()


async def end(resources: Resources, worker: Worker) -> None:
    async with resources.store.transaction():
        await rows.end(resources.store, worker.id, at=await resources.store.now())


async def listed(resources: Resources) -> tuple[datetime, Sequence[Worker]]:
    """Now, and the workers there are or were in the last hour, newest first, those that ended last."""
    async with resources.store.connection():
        return await resources.store.now(), await rows.newest_first(resources.store, limit=SHOWN)


async def slots(resources: Resources, now: datetime) -> dict[str, int]:
    """Slots for exports of workers that are alive, `taken` and `free`. Inside a connection."""
    total, taken = await rows.slots(resources.store, since=_alive_since(now))
    return {"taken": taken, "free": max(total - taken, 0)}


async def alive(resources: Resources, now: datetime) -> Counter[Queue]:
    """How many work for each queue. Inside a connection."""
    return await rows.alive(resources.store, since=_alive_since(now))


def _alive_since(now: datetime) -> datetime:
    return now - timedelta(seconds=limits.HEARTBEAT_LOST_AFTER)


async def get(resources: Resources, worker_id: str) -> Worker:
    """Raises NotFound."""
    worker = await rows.get(resources.store, worker_id) if is_id(worker_id, "wrk") else None
    if worker is None:
        raise NotFound
    return worker


async def drain(resources: Resources, actor: Viewer, worker_id: str, *, within: timedelta) -> Worker:
    """The worker takes nothing new, finishes what it has within this time, hands back what it has not, and ends.

    Raises NotFound and WorkerGone.
    """
    return await _change(resources, actor, worker_id, "worker.drained", within)


async def keep(resources: Resources, actor: Viewer, worker_id: str) -> Worker:
    """Takes back a drain, as long as the worker is there. Raises NotFound and WorkerGone."""
    return await _change(resources, actor, worker_id, "worker.kept", None)


async def _change(resources: Resources, actor: Viewer, worker_id: str, action: str, within: timedelta | None) -> Worker:
    async with resources.store.transaction():
        before, now = await get(resources, worker_id), await resources.store.now()
        until = None if within is None else now + within
        after = await rows.set_drain(resources.store, worker_id, until, alive_since=_alive_since(now))
        if after is None:
            raise WorkerGone
        if after.drain_until != before.drain_until:
            details = {"process": after.process, "within_seconds": within.total_seconds() if within else None}
            await audit(resources, actor, action, worker_id, now, details)
    return after
