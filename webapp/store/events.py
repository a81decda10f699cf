"""Rows of `events`: written in the transaction of the change they report, read by every channel.

Those of alerts have no export, owner and version; only callbacks carry them, so they are not among what is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, delete, func, insert, select

from webapp.domain.events import AlertEvent, Event, event_type, snapshot
from webapp.domain.exports import Export
from webapp.domain.ids import new_id
from webapp.store.database import Store
from webapp.store.tables import deliveries, events

AnySelect = TypeVar("AnySelect", bound=Select[*tuple[Any, ...]])


def from_row(row: Mapping[str, Any]) -> Event:
    return Event(
        id=row["id"],
        seq=row["seq"],
        type=row["type"],
        export_id=row["export_id"],
        owner=row["owner"],
        version=row["version"],
        timestamp=row["timestamp"],
        data=row["data"],
    )


async def record(store: Store, export: Export, *, at: datetime, base_url: str) -> Event:
    """The event of the export's latest change. One per version: a unique constraint holds it."""
    event = Event(
        id=new_id("evt"),
        seq=0,
        type=event_type(export),
        export_id=export.id,
        owner=export.owner,
        version=export.version,
        timestamp=at,
        data=snapshot(export, base_url=base_url),
    )
    values = {field: getattr(event, field) for field in ("id", "type", "export_id", "owner", "version", "timestamp")}
    seq = await store.fetch_val(insert(events).values(**values, data=dict(event.data)).returning(events.c.seq))
    return replace(event, seq=seq)


async def record_alert(store: Store, event_type: str, data: Mapping[str, Any], *, at: datetime) -> AlertEvent:
    event = AlertEvent(new_id("evt"), event_type, at, data)
    await store.execute(insert(events).values(id=event.id, type=event.type, timestamp=at, data=dict(data)))
    return event


async def get(store: Store, event_id: str) -> Event | None:
    row = await store.fetch_one(_of_exports().where(events.c.id == event_id))
    return from_row(row) if row else None


async def get_many(store: Store, ids: Sequence[str]) -> Sequence[Event]:
    return [from_row(row) for row in await store.fetch_all(_of_exports().where(events.c.id.in_(ids)))]


async def at(store: Store, seq: int) -> Event | None:
    row = await store.fetch_one(_of_exports().where(events.c.seq == seq))
    return from_row(row) if row else None


async def latest_seq(store: Store, owner: str | None = None) -> int:
    """The newest event's number, 0 when there is none: the cursor of a page that was rendered now."""
    query = select(func.max(events.c.seq))
    if owner is not None:
        query = query.where(events.c.owner == owner)
    return int(await store.fetch_val(query) or 0)


async def numbers(
    store: Store, *, owner: str | None = None, export_id: str | None = None, after: int, limit: int
) -> Sequence[tuple[int, datetime]]:
    """As `page`, but only their numbers and times: that is read from an index, and much faster. Those of events of
    alerts may be among them."""
    query = _after(select(events.c.seq, events.c.timestamp), owner, export_id, after, limit)
    return [(row["seq"], row["timestamp"]) for row in await store.fetch_all(query)]


async def numbered(store: Store, wanted: Iterable[int]) -> Sequence[Event]:
    """Oldest first; those that are no longer kept are left out."""
    query = _of_exports().where(events.c.seq.in_(list(wanted))).order_by(events.c.seq)
    return [from_row(row) for row in await store.fetch_all(query)]


async def page(
    store: Store, *, owner: str | None = None, export_id: str | None = None, after: int = 0, limit: int = 100
) -> Sequence[Event]:
    """Oldest first, with a number greater than `after`."""
    query = _after(_of_exports(), owner, export_id, after, limit)
    return [from_row(row) for row in await store.fetch_all(query)]


def _after(query: AnySelect, owner: str | None, export_id: str | None, after: int, limit: int) -> AnySelect:
    query = query.where(events.c.seq > after).order_by(events.c.seq).limit(limit)
    if owner is not None:
        query = query.where(events.c.owner == owner)
    if export_id is not None:
        query = query.where(events.c.export_id == export_id)
    return query


def _of_exports() -> Select[*tuple[Any, ...]]:
    return select(events).where(events.c.export_id.is_not(None))


async def purge(store: Store, *, before: datetime, limit: int, up_to: int | None = None) -> int:
    """Deletes the oldest events with their deliveries, a batch at a time; gives back how many.

    An event that is still owed to somebody stays, and one with a number beyond `up_to`. Found by their time and, of
    its deliveries, by the event: SQLite takes no index for an expression.
    """
    owed = select(deliveries.c.id).where(deliveries.c.event_id == events.c.id, deliveries.c.state + "" == "pending")
    oldest = select(events.c.seq).where(events.c.timestamp < before, ~owed.exists())
    if up_to is not None:
        oldest = oldest.where(events.c.seq <= up_to)
    oldest = oldest.order_by(events.c.timestamp).limit(limit)
    rows = await store.fetch_all(
        delete(events).where(events.c.seq.in_(oldest.scalar_subquery())).returning(events.c.seq)
    )
    return len(rows)
