"""Rows of `deliveries` and `delivery_attempts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    update,
)

from webapp.domain.callbacks import Answer, Delivery, DeliveryAttempt, DeliveryState, ErrorClass
from webapp.domain.events import AlertEvent, Event
from webapp.domain.ids import new_id
from webapp.store.database import Store
from webapp.store.tables import deliveries, delivery_attempts, endpoints, exports, is_unsuccessful, users
from webapp.store.types import Milliseconds

ATTEMPTS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are meant; what is not given does not matter. `since` is when they came to be owed.

    With `of_its_own`, only those to the endpoints of their export alone, and the mails to its owner.
    """

    endpoint_id: str | None = None
    states: tuple[DeliveryState, ...] = ()
    export_id: str | None = None
    event_types: tuple[str, ...] = ()
    since: datetime | None = None
    error: ErrorClass | None = None
    of_its_own: bool = False


def from_row(row: Mapping[str, Any]) -> Delivery:
    return Delivery(
        id=row["id"],
        event_id=row["event_id"],
        event_type=row["event_type"],
        export_id=row["export_id"],
        endpoint_id=row["endpoint_id"],
        state=DeliveryState(row["state"]),
        created_at=row["created_at"],
        attempts=row["attempts"],
        failures=row["failures"],
        next_attempt_at=row["next_attempt_at"],
        lease_until=row["lease_until"],
        completed_at=row["completed_at"],
        last_attempt_at=row["last_attempt_at"],
        last_status=row["last_status"],
        last_error=ErrorClass(row["last_error"]) if row["last_error"] else None,
    )


def attempt_from_row(row: Mapping[str, Any]) -> DeliveryAttempt:
    return DeliveryAttempt(
        id=row["id"],
        delivery_id=row["delivery_id"],
        endpoint_id=row["endpoint_id"],
        number=row["number"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        url=row["url"],
        request_headers=_pairs(row["request_headers"]),
        request_body=row["request_body"],
        answer=_answer(row) if row["finished_at"] else None,
    )


def _answer(row: Mapping[str, Any]) -> Answer:
    return Answer(
        error=ErrorClass(row["error"]) if row["error"] else None,
        status=row["status"],
        headers=_pairs(row["response_headers"] or ()),
        body=row["response_body"] or "",
        is_cut=bool(row["is_cut"]),
        seconds=(row["duration_ms"] or 0) / 1000,
    )


def _pairs(found: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in found)


async def add(store: Store, endpoint_ids: Sequence[str], event: Event | AlertEvent, *, at: datetime) -> None:
    """Owed at once. One per event and endpoint: a unique constraint holds it."""
    if not endpoint_ids:
        return
    query = store.insert_new(deliveries).values(
        [
            {
                "id": new_id("dlv"),
                "event_id": event.id,
                "event_type": event.type,
                "export_id": event.export_id if isinstance(event, Event) else None,
                "endpoint_id": endpoint_id,
                "state": DeliveryState.PENDING.value,
                "created_at": at,
                "attempts": 0,
                "failures": 0,
                "next_attempt_at": at,
            }
            for endpoint_id in endpoint_ids
        ]
    )
    await store.execute(query)


async def get(store: Store, delivery_id: str) -> Delivery | None:
    row = await store.fetch_one(select(deliveries).where(deliveries.c.id == delivery_id))
    return from_row(row) if row else None


async def attempts_of(store: Store, delivery_id: str) -> Sequence[DeliveryAttempt]:
    """The latest of them, oldest first."""
    latest = delivery_attempts.c.number.desc()
    query = select(delivery_attempts).where(delivery_attempts.c.delivery_id == delivery_id).order_by(latest)
    rows = await store.fetch_all(query.limit(ATTEMPTS_SHOWN))
    return [attempt_from_row(row) for row in reversed(rows)]


async def list_page(
    store: Store, chosen: DeliveryFilter, *, limit: int, after: tuple[datetime, str] | None
) -> Sequence[Delivery]:
    """Newest first, keyset-paged: `after` is the (created_at, id) of the last one seen."""
    query = select(deliveries).where(_matches(chosen), _before(after)).order_by(*_newest_first()).limit(limit)
    return [from_row(row) for row in await store.fetch_all(query)]


async def next_ones(store: Store, chosen: DeliveryFilter, *, at: datetime, after: tuple[datetime, str] | None,
                   ids: Sequence[str] | None, failing: bool, limit: int) -> Sequence[Mapping[str, Any]]:  # fmt: skip
    """`id` and `created_at` of the next ones that can be owed again."""
    query = select(deliveries.c.id, deliveries.c.created_at).where(
        _matches(chosen), _before(after), _can_be_owed_again(at), _is_failing(failing), _is_among(ids)
    )
    return await store.fetch_all(query.order_by(*_newest_first()).limit(limit))


async def count(
    store: Store, chosen: DeliveryFilter, *, at: datetime, ids: Sequence[str] | None = None, failing: bool = False
) -> int:
    """Of those that can be owed again."""
    query = select(func.count()).where(_matches(chosen), _can_be_owed_again(at), _is_failing(failing), _is_among(ids))
    return int(await store.fetch_val(query.select_from(deliveries)))


async def owe_again(
    store: Store, ids: Sequence[str], *, at: datetime, failing: bool = False
) -> Sequence[Mapping[str, Any]]:
    """A new round, at once. Gives back `id` and `endpoint_id` of those that were free for it."""
    query = (
        update(deliveries)
        .where(deliveries.c.id.in_(list(ids)), _can_be_owed_again(at), _is_failing(failing))
        .values(
            state=DeliveryState.PENDING.value,
            failures=0,
            next_attempt_at=at,
            completed_at=None,
            lease_token=None,
            lease_until=None,
        )
        .returning(deliveries.c.id, deliveries.c.endpoint_id)
    )
    return await store.fetch_all(query)


async def cancel_pending(store: Store, endpoint_id: str, *, at: datetime, export_id: str | None = None) -> None:
    """All of them, or those of one export; also those that are being sent just now: what comes of them is not written
    any more."""
    query = (
        update(deliveries)
        .where(
            deliveries.c.endpoint_id == endpoint_id, deliveries.c.state == DeliveryState.PENDING.value, is_unsuccessful
        )
        .values(
            state=DeliveryState.CANCELLED.value,
            completed_at=at,
            next_attempt_at=None,
            lease_token=None,
            lease_until=None,
        )
    )
    await store.execute(query if export_id is None else query.where(deliveries.c.export_id == export_id))


def _matches(chosen: DeliveryFilter) -> ColumnElement[bool]:
    conditions: list[ColumnElement[bool]] = [true()]
    if chosen.endpoint_id is not None:
        conditions.append(deliveries.c.endpoint_id == chosen.endpoint_id)
    if chosen.states:
        conditions.append(deliveries.c.state.in_([state.value for state in chosen.states]))
        if DeliveryState.SUCCEEDED not in chosen.states:
            conditions.append(is_unsuccessful)
    if chosen.export_id is not None:
        conditions.append(deliveries.c.export_id == chosen.export_id)
    if chosen.event_types:
        conditions.append(deliveries.c.event_type.in_(list(chosen.event_types)))
    if chosen.since is not None:
        conditions.append(deliveries.c.created_at >= chosen.since)
    if chosen.error is not None:
        conditions.append(deliveries.c.last_error == chosen.error.value)
    if chosen.of_its_own:
        own = select(endpoints.c.id).where(endpoints.c.export_id == deliveries.c.export_id).correlate(deliveries)
        mailed = select(users.c.email_endpoint).join(exports, exports.c.owner == users.c.id)
        owners = mailed.where(exports.c.id == deliveries.c.export_id).correlate(deliveries)
        conditions.append(or_(deliveries.c.endpoint_id.in_(own), deliveries.c.endpoint_id.in_(owners)))
    return and_(*conditions)


def _can_be_owed_again(at: datetime) -> ColumnElement[bool]:
    """Not while it is being sent, and not to an endpoint that was deleted."""
    there = select(endpoints.c.id).where(endpoints.c.deleted_at.is_(None))
    return and_(
        deliveries.c.state != DeliveryState.CANCELLED.value,
        or_(deliveries.c.lease_until.is_(None), deliveries.c.lease_until <= at),
        deliveries.c.endpoint_id.in_(there),
    )


def _is_failing(wished: bool) -> ColumnElement[bool]:
    """Dead, or tried in vain and waiting for the next try."""
    if not wished:
        return true()
    waits = and_(deliveries.c.state == DeliveryState.PENDING.value, deliveries.c.failures > 0)
    return and_(is_unsuccessful, or_(deliveries.c.state == DeliveryState.DEAD.value, waits))


def _is_among(ids: Sequence[str] | None) -> ColumnElement[bool]:
    return true() if ids is None else deliveries.c.id.in_(list(ids))


def _before(after: tuple[datetime, str] | None) -> ColumnElement[bool]:
    if after is None:
        return true()
    return tuple_(deliveries.c.created_at, deliveries.c.id) < tuple_(
        literal(after[0], Milliseconds), literal(after[1], Text)
    )


def _newest_first() -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    return deliveries.c.created_at.desc(), deliveries.c.id.desc()
