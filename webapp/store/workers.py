"""Rows of `workers`: every process that works, its signs of life, and until when it is to be drained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, or_, select, update

from webapp.domain.workers import Load, Queue, Worker
from webapp.store.database import Store
from webapp.store.tables import workers


async def beat(store: Store, worker: Worker, load: Load, *, at: datetime) -> datetime | None:
    """Inside a transaction: a sign of life. Until when the worker is to be drained; None when it is not.

    Its first one makes the row; so does any, when the row is gone.
    """
    changes = {"heartbeat_at": at, "slots_taken": load.slots_taken, "sending": load.sending, "memory": load.memory}
    beating = update(workers).where(workers.c.id == worker.id).values(ended_at=None, **changes)
    row = await store.fetch_one(beating.returning(workers.c.drain_until))
    if row is not None:
        return row["drain_until"]
    await store.execute(
        store.insert_new(workers).values(
            id=worker.id,
            queues=list(worker.queues),
            host=worker.host,
            pid=worker.pid,
            version=worker.version,
            slots=worker.slots,
            started_at=worker.started_at,
            **changes,
        )
    )
    return None


async def end(store: Store, worker_id: str, *, at: datetime) -> None:
    await store.execute(
        update(workers).where(workers.c.id == worker_id).values(ended_at=at, slots_taken=0, sending=0, memory=0)
    )


async def get(store: Store, worker_id: str) -> Worker | None:
    row = await store.fetch_one(select(workers).where(workers.c.id == worker_id))
    return _worker(row) if row else None


async def newest_first(store: Store, *, limit: int) -> Sequence[Worker]:
    """Those that have not ended before all others."""
    order = (workers.c.ended_at.is_not(None), workers.c.started_at.desc(), workers.c.id)
    return [_worker(row) for row in await store.fetch_all(select(workers).order_by(*order).limit(limit))]


async def slots(store: Store, *, since: datetime) -> tuple[int, int]:
    """How many slots for exports there are at workers that were heard of since, and how many of them are taken.

    A worker that is drained has none but those it has taken.
    """
    lives = (workers.c.ended_at.is_(None), workers.c.heartbeat_at >= since)
    counts = select(workers.c.drain_until, workers.c.slots, workers.c.slots_taken).where(*lives)
    found = await store.fetch_all(counts)
    taken = sum(row["slots_taken"] for row in found)
    return sum(row["slots_taken"] if row["drain_until"] else row["slots"] for row in found), taken


async def alive(store: Store, *, since: datetime) -> Counter[Queue]:
    """How many of those that were heard of since work for each queue."""
    query = select(workers.c.queues).where(workers.c.ended_at.is_(None), workers.c.heartbeat_at >= since)
    rows = await store.fetch_all(query)
    return Counter(Queue(name) for row in rows for name in row["queues"])


async def set_drain(store: Store, worker_id: str, until: datetime | None, *, alive_since: datetime) -> Worker | None:
    """None when the worker has ended, or was not heard of since."""
    query = update(workers).where(
        workers.c.id == worker_id, workers.c.ended_at.is_(None), workers.c.heartbeat_at >= alive_since
    )
    row = await store.fetch_one(query.values(drain_until=until).returning(*workers.c))
    return _worker(row) if row else None


async def purge(store: Store, *, before: datetime) -> int:
    """Those that ended, or were last heard of, before then."""
    gone = or_(workers.c.ended_at < before, workers.c.heartbeat_at < before)
    count = await store.fetch_val(select(func.count()).select_from(workers).where(gone))
    if count:
        await store.execute(delete(workers).where(gone))
    return int(count)


def _worker(row: Mapping[str, Any]) -> Worker:
    return Worker(
        id=row["id"],
        queues=tuple(map(Queue, row["queues"])),
        host=row["host"],
        pid=row["pid"],
        version=row["version"],
        slots=row["slots"],
        started_at=row["started_at"],
        heartbeat_at=row["heartbeat_at"],
        load=Load(row["slots_taken"], row["sending"], row["memory"]),
        drain_until=row["drain_until"],
        ended_at=row["ended_at"],
    )
