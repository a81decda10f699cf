"""Rows of `deliveries` and `delivery_attempts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from webapp.domain.callbacks import Answer, Delivery, DeliveryAttempt, DeliveryState, ErrorClass
from webapp.domain.events import Event
from webapp.domain.ids import new_id
from webapp.store.database import Store
from webapp.store.tables import deliveries


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


async def add(store: Store, endpoint_ids: Sequence[str], event: Event, *, at: datetime) -> None:
    """Owed at once. One per event and endpoint: a unique constraint holds it."""
    if not endpoint_ids:
        return
    query = store.insert_new(deliveries).values(
        [
            {
                "id": new_id("dlv"),
                "event_id": event.id,
                "event_type": event.type,
                "export_id": event.export_id,
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
