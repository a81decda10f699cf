"""Leases on deliveries: which of them are owed now, who is sending them, and what came of it.

Plain SQL, because it runs for every request that is sent. Times in it are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import select

from webapp.domain.callbacks import ErrorClass
from webapp.domain.workers import Queue
from webapp.store.database import Store
from webapp.store.pauses import goes_on
from webapp.store.plain import ROWS, PlainSQL, json_rows
from webapp.store.tables import endpoints
from webapp.store.types import from_milliseconds, to_milliseconds

SECOND = 1000
DUE = 4
"""Where `rooms` tells since when something is owed."""
IS_THERE = f"e.deleted_at IS NULL AND e.disabled_at IS NULL AND e.paused_at IS NULL AND {goes_on(Queue.CALLBACKS)}"
IS_FREE = "(d.lease_until IS NULL OR d.lease_until <= :now)"
IS_OWED = f"d.state = 'pending' AND d.next_attempt_at IS NOT NULL AND {IS_FREE}"
STILL_PENDING = "deliveries.state || '' = 'pending'"
"""As an expression, so that SQLite finds the rows by their id and not by this, which is true of very many."""

TAKEN = (
    *("id", "event_id", "event_type", "export_id", "endpoint_id"),
    *("created_at", "attempts", "failures", "next_attempt_at"),
)
MOMENTS = ("disabled_at", "failing_since", "last_success_at", "last_failure_at")
HEALTH = ("disabled_at", "disabled_reason", "failures_in_row", "failing_since", "last_success_at", "last_failure_at")


@dataclass(frozen=True, slots=True)
class Room:
    """An endpoint to which something is owed: since when (or from when on), and how much it may be sent now.

    `is_at_rate`: there would be room but for its rate, so there is again within a second.
    """

    endpoint_id: str
    version: int
    due_at: datetime
    live: int
    room: int
    is_at_rate: bool


async def lock_owed(store: PlainSQL, at: datetime) -> Sequence[str] | None:
    """Endpoints that nobody else is claiming from just now; None means all, for SQLite has one writer anyway.

    The lock does not stop those who write deliveries for the endpoint.
    """
    if store.is_sqlite:
        return None
    query = (
        f"SELECT e.id FROM endpoints e WHERE {IS_THERE} AND EXISTS (SELECT 1 FROM deliveries d WHERE d.endpoint_id = "
        f"e.id AND {IS_OWED} AND d.next_attempt_at <= :now) ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED"
    )
    return [id for (id,) in await store.plain(query, now=to_milliseconds(at))]


async def count_owed(store: PlainSQL, at: datetime, *, due_before: datetime) -> int:
    """Those that nobody is sending, of endpoints that are neither paused nor disabled. None while all are paused."""
    [[count]] = await store.plain(
        f"SELECT count(*) FROM deliveries d JOIN endpoints e ON e.id = d.endpoint_id "
        f"WHERE {IS_THERE} AND {IS_OWED} AND d.next_attempt_at < :before",
        now=to_milliseconds(at),
        before=to_milliseconds(due_before),
    )
    return int(count)


async def rooms(store: PlainSQL, at: datetime, *, among: Sequence[str] | None = None) -> Sequence[Room]:
    """One for each active endpoint that is owed something, now or later. Three index look-ups an endpoint."""
    now = to_milliseconds(at)
    query = f"""
        SELECT e.id, e.version, e.max_in_flight, e.rate,
          (SELECT d.next_attempt_at FROM deliveries d WHERE d.endpoint_id = e.id AND {IS_OWED}
            ORDER BY d.next_attempt_at LIMIT 1) AS due,
          (SELECT count(*) FROM deliveries d WHERE d.endpoint_id = e.id AND d.lease_until > :now) AS live,
          (SELECT count(*) FROM delivery_attempts a WHERE a.endpoint_id = e.id AND a.started_at > :second_ago) AS begun
        FROM endpoints e WHERE {IS_THERE}"""
    found = await store.plain(query, now=now, second_ago=now - SECOND)
    return [_room(*row) for row in found if row[DUE] is not None and (among is None or row[0] in among)]


def _room(endpoint_id: str, version: int, most: int, rate: int, due: int, live: int, begun: int) -> Room:
    places, starts = most - live, rate - begun
    return Room(
        endpoint_id=endpoint_id,
        version=version,
        due_at=from_milliseconds(due),
        live=live,
        room=max(min(places, starts), 0),
        is_at_rate=starts < places,
    )


async def owed(store: PlainSQL, shares: Mapping[str, int], at: datetime) -> Mapping[str, bool]:
    """The ids of those that are owed longest, so many for each endpoint, and whether a lease on it ran out: then an
    attempt was begun that has no end. At most 500 endpoints."""
    one = (
        "SELECT * FROM (SELECT d.id, d.lease_until IS NOT NULL AS is_lost FROM deliveries d "
        "WHERE d.endpoint_id = :e{0} AND "
        + IS_OWED
        + " AND d.next_attempt_at <= :now ORDER BY d.next_attempt_at LIMIT {1}) AS o{0}"
    )
    parts = [one.format(number, int(share)) for number, share in enumerate(shares.values())]
    names = {f"e{number}": endpoint_id for number, endpoint_id in enumerate(shares)}
    found = await store.plain(" UNION ALL ".join(parts), now=to_milliseconds(at), **names)
    return {id: bool(is_lost) for id, is_lost in found}


async def take(
    store: PlainSQL, ids: Sequence[str], token: str, *, at: datetime, until: datetime
) -> Sequence[Mapping[str, Any]]:
    """Leases those that are still free and counts their next attempt. The plain rows of the ones that were got."""
    query = (
        "UPDATE deliveries SET lease_token = :token, lease_until = :until, attempts = deliveries.attempts + 1, "
        f"last_attempt_at = :now FROM {json_rows(store, id='text')} WHERE deliveries.id = r.id AND {STILL_PENDING} "
        f"AND {IS_FREE.replace('d.', 'deliveries.')} RETURNING {', '.join(f'deliveries.{name}' for name in TAKEN)}"
    )
    found = await store.plain(query, rows=_ids(ids), token=token, now=to_milliseconds(at), until=to_milliseconds(until))
    return [dict(zip(TAKEN, row, strict=True)) for row in found]


async def interrupt(store: PlainSQL, ids: Sequence[str], *, at: datetime) -> None:
    """Ends the attempts of these deliveries that have no end: their worker is gone."""
    query = (
        f"UPDATE delivery_attempts AS a SET finished_at = :now, error = :error FROM {json_rows(store, id='text')} "
        "WHERE a.delivery_id = r.id AND a.finished_at IS NULL"
    )
    await store.plain(query, rows=_ids(ids), now=to_milliseconds(at), error=ErrorClass.INTERRUPTED.value)


async def events_of(store: PlainSQL, ids: Sequence[str]) -> Mapping[str, tuple[int, str]]:
    """When it was, in milliseconds, and its data as JSON text, by the event's id."""
    query = (
        f"SELECT e.id, e.timestamp, e.data FROM events e WHERE e.id IN (SELECT r.id FROM {json_rows(store, id='text')})"
    )
    return {id: (timestamp, data) for id, timestamp, data in await store.plain(query, rows=_ids(ids))}


async def endpoint_rows(store: Store, ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    return await store.fetch_all(select(endpoints).where(endpoints.c.id.in_(list(ids))))


async def postpone(store: PlainSQL, endpoint_id: str, *, at: datetime, until: datetime) -> None:
    """What is owed to this endpoint now is owed later."""
    query = (
        "UPDATE deliveries AS d SET next_attempt_at = :until WHERE d.endpoint_id = :endpoint_id AND "
        f"{IS_OWED} AND d.next_attempt_at <= :now"
    )
    await store.plain(query, endpoint_id=endpoint_id, now=to_milliseconds(at), until=to_milliseconds(until))


BEGUN = {
    "id": "text",
    "delivery_id": "text",
    "endpoint_id": "text",
    "number": "integer",
    "started_at": "bigint",
    "url": "text",
    "request_headers": "text",
    "request_body": "text",
}


async def begin(store: PlainSQL, attempts: Sequence[Mapping[str, Any]]) -> None:
    """Adds attempts that are about to start; `request_headers` as JSON text."""
    names = ", ".join(BEGUN)
    chosen = ", ".join(f"r.{name}" for name in BEGUN)
    query = f"INSERT INTO delivery_attempts ({names}) SELECT {chosen} FROM {ROWS}"
    await store.plain_rows(query, attempts, BEGUN)


ENDED = {
    "id": "text",
    "finished_at": "bigint",
    "status": "integer",
    "error": "text",
    "response_headers": "text",
    "response_body": "text",
    "is_cut": "integer",
    "duration_ms": "integer",
    "outcome": "text",
    "latency_ms": "bigint",
}


async def end(store: PlainSQL, attempts: Sequence[Mapping[str, Any]]) -> None:
    """Writes what came of attempts that have no end yet; one that was given up keeps what it was given."""
    chosen = ", ".join(f"{name} = r.{name}" for name in ENDED if name != "id")
    query = f"UPDATE delivery_attempts AS a SET {chosen} FROM {ROWS} WHERE a.id = r.id AND a.finished_at IS NULL"
    await store.plain_rows(query, attempts, ENDED)


SETTLED = {
    "id": "text",
    "token": "text",
    "attempts": "integer",
    "state": "text",
    "failures": "integer",
    "next_attempt_at": "bigint",
    "completed_at": "bigint",
    "last_status": "integer",
    "last_error": "text",
}


async def settle(store: PlainSQL, changes: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Writes deliveries whose lease, by token and attempt, is still ours, and gives it back. Their states by id."""
    written = ", ".join(f"{name} = r.{name}" for name in SETTLED if name not in ("id", "token", "attempts"))
    query = (
        f"UPDATE deliveries SET {written}, lease_token = NULL, lease_until = NULL FROM {ROWS} "
        "WHERE deliveries.id = r.id AND deliveries.lease_token = r.token AND deliveries.attempts = r.attempts "
        f"AND {STILL_PENDING}"
    )
    ours = await store.plain_rows(query, changes, SETTLED, changed="deliveries.id")
    return {change["id"]: str(change["state"]) for change in changes if change["id"] in ours}


async def renew(store: PlainSQL, ids: Sequence[str], token: str, *, until: datetime) -> None:
    query = (
        f"UPDATE deliveries AS d SET lease_until = :until FROM {json_rows(store, id='text')} "
        "WHERE d.id = r.id AND d.lease_token = :token"
    )
    await store.plain(query, rows=_ids(ids), token=token, until=to_milliseconds(until))


async def undo(store: PlainSQL, taken: Sequence[Mapping[str, Any]], token: str) -> None:
    """Takes back claims whose requests were never begun: `id` of the delivery, `attempt` the id of its row."""
    rows = json_rows(store, id="text", attempt="text")
    given = _json(taken)
    query = (
        "UPDATE deliveries AS d SET lease_token = NULL, lease_until = NULL, attempts = d.attempts - 1 "
        f"FROM {rows} WHERE d.id = r.id AND d.lease_token = :token"
    )
    await store.plain(query, rows=given, token=token)
    query = f"DELETE FROM delivery_attempts WHERE finished_at IS NULL AND id IN (SELECT r.attempt FROM {rows})"
    await store.plain(query, rows=given)


async def locked_health(store: PlainSQL, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """The health columns by the endpoint's id, which nobody else can change until the transaction ends."""
    query = (
        f"SELECT e.id, {', '.join(f'e.{name}' for name in HEALTH)} FROM endpoints e "
        f"WHERE e.id IN (SELECT r.id FROM {json_rows(store, id='text')}) ORDER BY e.id"
    )
    lock = "" if store.is_sqlite else " FOR NO KEY UPDATE OF e"
    return {
        id: dict(zip(HEALTH, map(_value, HEALTH, row), strict=True))
        for id, *row in await store.plain(query + lock, rows=_ids(ids))
    }


def _value(name: str, found: Any) -> Any:
    return from_milliseconds(found) if name in MOMENTS and found is not None else found


async def write_health(store: PlainSQL, changes: Sequence[Mapping[str, Any]]) -> None:
    """`id` and the columns of HEALTH, times as datetimes."""
    kinds = dict.fromkeys(MOMENTS, "bigint") | {"failures_in_row": "integer", "disabled_reason": "text"}
    written = ", ".join(f"{name} = r.{name}" for name in HEALTH)
    query = f"UPDATE endpoints AS e SET {written} FROM {ROWS} WHERE e.id = r.id"
    await store.plain_rows(query, [_in_milliseconds(change) for change in changes], {"id": "text", **kinds})


def _in_milliseconds(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: to_milliseconds(v) if isinstance(v, datetime) else v for name, v in values.items()}


def _ids(ids: Sequence[str]) -> str:
    return _json([{"id": id} for id in ids])


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.encode(rows).decode()
