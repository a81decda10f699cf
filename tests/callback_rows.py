"""Puts endpoints' deliveries and their attempts into the store, as the outbox and the dispatcher would."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert, select, update

from webapp.domain.callbacks import Delivery
from webapp.domain.exports import Export
from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.store import deliveries, tables


async def owe(resources: Resources, endpoint_id: str, export: Export, **values: Any) -> list[Delivery]:
    """One delivery to this endpoint for each event of the export, oldest first. `values` are columns of all."""
    store = resources.store
    async with store.transaction():
        query = select(tables.events).where(tables.events.c.export_id == export.id).order_by(tables.events.c.seq)
        rows = [
            {
                "id": new_id("dlv"),
                "event_id": event["id"],
                "event_type": event["type"],
                "export_id": export.id,
                "endpoint_id": endpoint_id,
                "state": "pending",
                "created_at": event["timestamp"],
                "attempts": 0,
                "failures": 0,
                "next_attempt_at": event["timestamp"],
                **values,
            }
            for event in await store.fetch_all(query)
        ]
        await store.execute(insert(tables.deliveries).values(rows))
    return [await stored(resources, row["id"]) for row in rows]


async def stored(resources: Resources, delivery_id: str) -> Delivery:
    async with resources.store.connection():
        found = await deliveries.get(resources.store, delivery_id)
    assert found is not None
    return found


async def put(resources: Resources, delivery: Delivery, **values: Any) -> Delivery:
    """Rewrites columns of a stored delivery."""
    async with resources.store.transaction():
        query = update(tables.deliveries).where(tables.deliveries.c.id == delivery.id).values(**values)
        await resources.store.execute(query)
    return await stored(resources, delivery.id)


async def put_endpoint(resources: Resources, endpoint_id: str, **values: Any) -> None:
    async with resources.store.transaction():
        query = update(tables.endpoints).where(tables.endpoints.c.id == endpoint_id).values(**values)
        await resources.store.execute(query)


async def attempt(
    resources: Resources, delivery: Delivery, at: datetime, *, error: str | None = None, number: int = 1, **values: Any
) -> None:
    """A finished request, 20 ms long. With an error it failed."""
    async with resources.store.transaction():
        row = {
            "id": new_id("att"),
            "delivery_id": delivery.id,
            "endpoint_id": delivery.endpoint_id,
            "number": number,
            "started_at": at,
            "finished_at": at + timedelta(milliseconds=20),
            "url": "https://93.184.216.34/hook",
            "request_headers": [["Authorization", "Bearer hidden"], ["webhook-id", delivery.event_id]],
            "request_body": "{}",
            "status": 500 if error else 200,
            "error": error,
            "response_headers": [["Content-Type", "text/plain"]],
            "response_body": "ok",
            "is_cut": 0,
            "duration_ms": 20,
        }
        await resources.store.execute(insert(tables.delivery_attempts).values(**(row | values)))


async def audited(resources: Resources, prefix: str = "") -> Sequence[tuple[str, str, dict[str, Any]]]:
    """(action, subject, details) of the audit log, oldest first."""
    log = tables.audit_log
    async with resources.store.connection():
        rows = await resources.store.fetch_all(select(log).order_by(log.c.timestamp, log.c.id))
    return [(row["action"], row["subject"], row["details"]) for row in rows if row["action"].startswith(prefix)]
