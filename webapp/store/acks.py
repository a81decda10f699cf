"""Rows of `client_acks`: which events a person's client has confirmed, and how long after the commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, select

from webapp.domain.events import TERMINAL_TYPES, Event
from webapp.store.database import Store
from webapp.store.events import from_row
from webapp.store.tables import client_acks, events

MOST_AGAIN = 200


async def add(store: Store, acked: Sequence[Event], *, user_id: str, client: str, channel: str, at: datetime) -> None:
    """A second confirmation changes nothing."""
    if not acked:
        return
    rows = [
        {
            "event_id": event.id,
            "user_id": user_id,
            "client": client,
            "channel": channel,
            "acked_at": at,
            "latency_ms": max(0, round((at - event.timestamp).total_seconds() * 1000)),
        }
        for event in acked
    ]
    await store.execute(store.insert_new(client_acks).values(rows))


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
