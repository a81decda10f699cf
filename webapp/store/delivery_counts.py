"""How endpoints fare, counted: attempts by the hour, and deliveries that are owed or given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, func, literal, select, type_coerce

from webapp.domain.callbacks import DeliveryState
from webapp.store.database import Store
from webapp.store.tables import deliveries, delivery_attempts, is_unsuccessful
from webapp.store.types import Milliseconds, to_milliseconds

HOUR_MS = 3_600_000
HOURS = 24


@dataclass(frozen=True, slots=True)
class Load:
    """What an endpoint is owed, and what it will not get."""

    pending: int = 0
    dead: int = 0
    next_attempt_at: datetime | None = None


async def hours_of(store: Store, ids: Sequence[str], *, now: datetime) -> dict[str, tuple[tuple[int, int], ...]]:
    """Attempts of the last 24 hours for each endpoint: (succeeded, failed) an hour, oldest first."""
    since = now - timedelta(hours=HOURS)
    started = type_coerce(delivery_attempts.c.started_at, BigInteger)
    hour = ((started - literal(to_milliseconds(since), BigInteger)) // literal(HOUR_MS, BigInteger)).label("hour")
    failed = func.count(delivery_attempts.c.error).label("failed")
    query = (
        select(delivery_attempts.c.endpoint_id, hour, func.count().label("all"), failed)
        .where(
            delivery_attempts.c.endpoint_id.in_(list(ids)),
            delivery_attempts.c.started_at >= since,
            delivery_attempts.c.started_at < now,
            delivery_attempts.c.finished_at.is_not(None),
        )
        .group_by(delivery_attempts.c.endpoint_id, hour)
    )
    found = {endpoint_id: [(0, 0)] * HOURS for endpoint_id in ids}
    for row in await store.fetch_all(query):
        found[row["endpoint_id"]][int(row["hour"])] = (row["all"] - row["failed"], row["failed"])
    return {endpoint_id: tuple(hours) for endpoint_id, hours in found.items()}


async def loads_of(store: Store, ids: Sequence[str]) -> dict[str, Load]:
    states = (DeliveryState.PENDING.value, DeliveryState.DEAD.value)
    soonest = func.min(deliveries.c.next_attempt_at, type_=Milliseconds()).label("soonest")
    query = (
        select(deliveries.c.endpoint_id, deliveries.c.state, func.count().label("number"), soonest)
        .where(deliveries.c.endpoint_id.in_(list(ids)), deliveries.c.state.in_(states), is_unsuccessful)
        .group_by(deliveries.c.endpoint_id, deliveries.c.state)
    )
    rows = {(row["endpoint_id"], row["state"]): row for row in await store.fetch_all(query)}

    def load(endpoint_id: str) -> Load:
        pending, dead = (rows.get((endpoint_id, state)) for state in states)
        return Load(
            pending["number"] if pending else 0,
            dead["number"] if dead else 0,
            pending["soonest"] if pending else None,
        )

    return {endpoint_id: load(endpoint_id) for endpoint_id in ids}
