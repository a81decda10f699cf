"""Which queues are paused: rows of `settings`. Every claim asks for itself, so a pause holds at once everywhere."""

from __future__ import annotations

from sqlalchemy import delete, select

from webapp.domain.workers import Pause, Queue
from webapp.store.database import Store
from webapp.store.tables import settings


def name_of(queue: Queue) -> str:
    return f"{queue.value}_paused"


def goes_on(queue: Queue) -> str:
    """SQL that is true while the queue is not paused."""
    return f"NOT EXISTS (SELECT 1 FROM settings WHERE name = '{name_of(queue)}')"


async def get(store: Store, queue: Queue) -> Pause | None:
    """None when it is not paused."""
    query = select(settings.c.value, settings.c.updated_at).where(settings.c.name == name_of(queue))
    row = await store.fetch_one(query)
    return Pause(row["updated_at"], row["value"]) if row else None


async def put(store: Store, queue: Queue, pause: Pause) -> bool:
    """False when it was paused already; then nothing changes."""
    new = store.insert_new(settings).values(name=name_of(queue), value=pause.by, updated_at=pause.since)
    return await store.fetch_one(new.returning(settings.c.name)) is not None


async def remove(store: Store, queue: Queue) -> bool:
    """False when it was not paused."""
    query = delete(settings).where(settings.c.name == name_of(queue)).returning(settings.c.name)
    return await store.fetch_one(query) is not None
