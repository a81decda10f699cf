"""Rows of `client_acks`: which events a person's client has confirmed, and how long after the commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from webapp.domain.events import TERMINAL_TYPES, Event
from webapp.store.database import Store
from webapp.store.events import from_row
from webapp.store.tables import client_acks, events

MOST_AGAIN = 200
NO_TIME = timedelta()
MILLISECOND = timedelta(milliseconds=1)
MOST_SHOWN = 100
"""So many events one answer to a page brings at most, as many as it confirms in one batch."""


async def add(
    store: Store,
    acked: Sequence[Event],
    *,
    user_id: str,
    client: str,
    channel: str,
    at: datetime,
    held: Mapping[str, timedelta],
    connected: datetime | None,
) -> tuple[int, Sequence[timedelta]]:
    """How many were not confirmed before (a second time changes nothing), and the latencies of those among them that
    are a measure. `held` is taken off."""
    if not acked:
        return 0, ()
    rows: list[dict[str, Any]] = []
    for event in acked:
        latency = max(0, round((at - held.get(event.id, NO_TIME) - event.timestamp) / MILLISECOND))
        is_measured = connected is None or latency * MILLISECOND <= at - connected
        rows.append({"event_id": event.id, "user_id": user_id, "client": client, "channel": channel, "acked_at": at,
                     "latency_ms": latency, "is_measured": int(is_measured)})  # fmt: skip
    new = store.insert_new(client_acks).values(rows).returning(client_acks.c.latency_ms, client_acks.c.is_measured)
    added = await store.fetch_all(new)
    return len(added), [row["latency_ms"] * MILLISECOND for row in added if row["is_measured"]]


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


async def shown(store: Store, versions: Mapping[str, int], *, after: int) -> Sequence[str]:
    """Ids of the events with a greater number than `after`, newest first, that a page takes in when it shows these
    exports in these versions. They are few, and sorted here: a database might walk through everybody's to do so."""
    if not versions:
        return ()
    query = select(events.c.seq, events.c.id, events.c.export_id, events.c.version).where(
        events.c.export_id.in_(list(versions)), events.c.seq > after
    )
    rows = await store.fetch_all(query)
    found = [(row["seq"], row["id"]) for row in rows if row["version"] <= versions[row["export_id"]]]
    return [event_id for _, event_id in sorted(found, reverse=True)[:MOST_SHOWN]]


async def newest(store: Store, export_id: str) -> Event | None:
    """The newest event of an export that is still kept."""
    query = select(events).where(events.c.export_id == export_id).order_by(events.c.seq.desc()).limit(1)
    row = await store.fetch_one(query)
    return from_row(row) if row else None
