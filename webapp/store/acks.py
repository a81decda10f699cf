"""Rows of `client_acks`: which events a person's client has confirmed, and how long after the commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select

from webapp.domain.events import TERMINAL_TYPES, Event
from webapp.store.database import Store
from webapp.store.events import from_row
from webapp.store.tables import client_acks, events

MOST_AGAIN = 200
NO_TIME = timedelta()
MILLISECOND = timedelta(milliseconds=1)
RECENT_EVENTS = 1000
MOST_SHOWN = 20
"""A page confirms that many of the newest events of its exports, looking back over so many of all events."""


async def add(
    store: Store,
    acked: Sequence[Event],
    *,
    user_id: str,
    client: str,
    channel: str,
    at: datetime,
    held: Mapping[str, timedelta],
) -> Sequence[timedelta]:
    """The latencies of those that were not confirmed before: a second time changes nothing. `held` is taken off."""
    if not acked:
        return ()
    rows = [
        {
            "event_id": event.id,
            "user_id": user_id,
            "client": client,
            "channel": channel,
            "acked_at": at,
            "latency_ms": max(0, round((at - held.get(event.id, NO_TIME) - event.timestamp) / MILLISECOND)),
        }
        for event in acked
    ]
    new = store.insert_new(client_acks).values(rows).returning(client_acks.c.latency_ms)
    return [row["latency_ms"] * MILLISECOND for row in await store.fetch_all(new)]


async def unconfirmed(
    store: Store, *, user_id: str, client: str, owner: str | None, since: datetime, up_to: int
) -> Sequence[Event]:
    """Ends of exports, oldest first, that this client has not confirmed although it confirms what it takes in: it has
    confirmed something that happened before them."""
    mine = (client_acks.c.user_id == user_id, client_acks.c.client == client)
    first = (
        select(func.min(events.c.seq))
        .join(client_acks, client_acks.c.event_id == events.c.id)
        .where(*mine)
        .scalar_subquery()
    )
    confirmed = select(client_acks.c.event_id).where(client_acks.c.event_id == events.c.id, *mine)
    query = (
        select(events)
        .where(
            events.c.type.in_(TERMINAL_TYPES),
            events.c.timestamp >= since,
            events.c.seq > first,
            events.c.seq <= up_to,
            ~confirmed.exists(),
        )
        .order_by(events.c.seq)
        .limit(MOST_AGAIN)
    )
    if owner is not None:
        query = query.where(events.c.owner == owner)
    return [from_row(row) for row in await store.fetch_all(query)]


async def shown(store: Store, versions: Mapping[str, int], *, cursor: int) -> Sequence[str]:
    """Ids of the newest events that a page has to confirm when it shows these exports in these versions."""
    if not versions:
        return ()
    query = (
        select(events.c.id, events.c.export_id, events.c.version)
        .where(events.c.export_id.in_(list(versions)), events.c.seq > cursor - RECENT_EVENTS)
        .order_by(events.c.seq.desc())
        .limit(MOST_SHOWN)
    )
    rows = await store.fetch_all(query)
    return [row["id"] for row in rows if row["version"] <= versions[row["export_id"]]]


async def newest(store: Store, export_id: str) -> Event | None:
    """The newest event of an export that is still kept."""
    query = select(events).where(events.c.export_id == export_id).order_by(events.c.seq.desc()).limit(1)
    row = await store.fetch_one(query)
    return from_row(row) if row else None
