"""Rows of `saved_orders`. A deleted one stays for a while, to be restored; nobody else sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, update

from webapp.domain.saved_orders import SavedOrder
from webapp.store.database import Store
from webapp.store.tables import saved_orders, schedules

NAMES = tuple(field.name for field in fields(SavedOrder))


def _to_row(saved: SavedOrder) -> dict[str, Any]:
    return {name: getattr(saved, name) for name in NAMES}


def _from_row(row: Mapping[str, Any]) -> SavedOrder:
    return SavedOrder(**{name: row[name] for name in NAMES})


async def insert(store: Store, saved: SavedOrder) -> bool:
    """False when its owner has one of this name."""
    query = store.insert_new(saved_orders).values(**_to_row(saved)).returning(saved_orders.c.id)
    return await store.fetch_one(query) is not None


async def get(store: Store, saved_id: str) -> SavedOrder | None:
    """Deleted ones too."""
    row = await store.fetch_one(select(saved_orders).where(saved_orders.c.id == saved_id))
    return _from_row(row) if row else None


async def named(store: Store, owner: str, name: str) -> SavedOrder | None:
    table = saved_orders
    query = select(table).where(table.c.owner == owner, table.c.name == name, table.c.deleted_at.is_(None))
    row = await store.fetch_one(query)
    return _from_row(row) if row else None


async def list_of(store: Store, owner: str) -> Sequence[SavedOrder]:
    """By name."""
    query = select(saved_orders).where(saved_orders.c.owner == owner, saved_orders.c.deleted_at.is_(None))
    rows = await store.fetch_all(query.order_by(func.lower(saved_orders.c.name), saved_orders.c.id))
    return [_from_row(row) for row in rows]


async def count(store: Store, owner: str) -> int:
    query = select(func.count()).where(saved_orders.c.owner == owner, saved_orders.c.deleted_at.is_(None))
    return int(await store.fetch_val(query))


async def count_of(store: Store, dataset: str) -> tuple[int, int]:
    """Everybody's saved orders of this dataset, and how many of them are ordered by themselves."""
    is_of = (saved_orders.c.dataset == dataset, saved_orders.c.deleted_at.is_(None))
    going = select(func.count()).where(
        *is_of, schedules.c.saved_order_id == saved_orders.c.id, schedules.c.next_at.is_not(None)
    )
    async with store.connection():
        saved = await store.fetch_val(select(func.count()).where(*is_of))
        return int(saved), int(await store.fetch_val(going))


async def write(store: Store, saved: SavedOrder) -> None:
    """Every field but the id, and but what was last ordered: that is `note_ordered`'s."""
    values = {name: value for name, value in _to_row(saved).items() if name not in {"id", "ordered_at", "export_id"}}
    await store.execute(update(saved_orders).where(saved_orders.c.id == saved.id).values(**values))


async def note_ordered(store: Store, saved_id: str, export_id: str, *, at: datetime) -> None:
    query = update(saved_orders).where(saved_orders.c.id == saved_id)
    await store.execute(query.values(ordered_at=at, export_id=export_id))


async def purge(store: Store, *, deleted_before: datetime) -> int:
    query = delete(saved_orders).where(saved_orders.c.deleted_at < deleted_before).returning(saved_orders.c.id)
    return len(await store.fetch_all(query))
