"""Rows of `schedules`: at most one for a saved order. A change is written over what it was made of, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, update

from webapp.domain.schedules import RunOutcome, Schedule, StopReason
from webapp.store.database import Store
from webapp.store.tables import saved_orders, schedules

NAMES = tuple(field.name for field in fields(Schedule))


def _to_row(schedule: Schedule) -> dict[str, Any]:
    return {name: getattr(schedule, name) for name in NAMES} | {
        "stop": schedule.stop.value if schedule.stop else None,
        "outcome": schedule.outcome.value if schedule.outcome else None,
    }


def _from_row(row: Mapping[str, Any]) -> Schedule:
    values = {name: row[name] for name in NAMES}
    values["stop"] = StopReason(values["stop"]) if values["stop"] else None
    values["outcome"] = RunOutcome(values["outcome"]) if values["outcome"] else None
    return Schedule(**values)


async def get(store: Store, saved_order_id: str) -> Schedule | None:
    row = await store.fetch_one(select(schedules).where(schedules.c.saved_order_id == saved_order_id))
    return _from_row(row) if row else None


async def of_owner(store: Store, owner: str) -> Mapping[str, Schedule]:
    """By the id of the saved order."""
    query = select(schedules).join(saved_orders, saved_orders.c.id == schedules.c.saved_order_id)
    rows = await store.fetch_all(query.where(saved_orders.c.owner == owner, saved_orders.c.deleted_at.is_(None)))
    return {row["saved_order_id"]: _from_row(row) for row in rows}


async def insert(store: Store, schedule: Schedule) -> bool:
    """False when its saved order has one already."""
    query = store.insert_new(schedules).values(**_to_row(schedule)).returning(schedules.c.saved_order_id)
    return await store.fetch_one(query) is not None


async def remove(store: Store, saved_order_id: str) -> None:
    await store.execute(delete(schedules).where(schedules.c.saved_order_id == saved_order_id))


async def replace_if(store: Store, before: Schedule, after: Schedule) -> bool:
    """False when somebody else has changed it meanwhile."""
    table = schedules
    query = (
        update(table)
        .where(
            table.c.saved_order_id == before.saved_order_id,
            table.c.updated_at == before.updated_at,
            table.c.next_at.is_not_distinct_from(before.next_at),
            table.c.due_at.is_not_distinct_from(before.due_at),
            table.c.outcome.is_not_distinct_from(before.outcome.value if before.outcome else None),
        )
        .values(**_to_row(after))
        .returning(table.c.saved_order_id)
    )
    return await store.fetch_one(query) is not None


async def due(store: Store, *, now: datetime, limit: int) -> Sequence[Schedule]:
    """Those whose time has come and whose order is not deleted, the longest overdue first."""
    table = schedules
    at = func.coalesce(table.c.retry_at, table.c.next_at)
    query = (
        select(table)
        .join(saved_orders, saved_orders.c.id == table.c.saved_order_id)
        .where(table.c.next_at <= now, at <= now, saved_orders.c.deleted_at.is_(None))
        .order_by(at)
        .limit(limit)
    )
    return [_from_row(row) for row in await store.fetch_all(query)]


async def unsettled(store: Store, *, limit: int) -> Sequence[Schedule]:
    """Those whose newest run has an export of which nobody has written down yet how it ended."""
    query = select(schedules).where(schedules.c.outcome == RunOutcome.ORDERED.value)
    rows = await store.fetch_all(query.order_by(schedules.c.due_at).limit(limit))
    return [_from_row(row) for row in rows]
