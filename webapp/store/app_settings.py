"""Rows of `settings`: what admins set while the application runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, update

from webapp.store.database import Store
from webapp.store.plain import PlainSQL
from webapp.store.tables import settings
from webapp.store.types import to_milliseconds

CALLBACK_HOSTS = "callback_hosts"


async def get(store: Store, name: str) -> Any:
    """Any JSON value; None when it was never set."""
    row = await store.fetch_one(select(settings.c.value).where(settings.c.name == name))
    return row["value"] if row else None


async def get_text(rows: PlainSQL, name: str) -> str | None:
    """As it is kept: what `move_on` compares."""
    found = await rows.plain("SELECT value FROM settings WHERE name = :name", name=name)
    return str(found[0][0]) if found else None


async def put(store: Store, name: str, value: Any, *, at: datetime) -> None:
    """Inside a transaction."""
    await store.execute(store.insert_new(settings).values(name=name, value=value, updated_at=at))
    await store.execute(update(settings).where(settings.c.name == name).values(value=value, updated_at=at))


async def move_on(rows: PlainSQL, name: str, before: str, after: str, *, at: datetime) -> bool:
    """Inside a transaction: a position, as JSON text, that several processes share. False when it was not `before`."""
    moved = await rows.plain(
        "INSERT INTO settings (name, value, updated_at) VALUES (:name, :after, :at) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at "
        "WHERE settings.value = :before RETURNING name",
        name=name,
        before=before,
        after=after,
        at=to_milliseconds(at),
    )
    return bool(moved)
