"""Puts endpoints and what they are owed into the store, quickly and in any number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select

from webapp.domain.callbacks import Delivery, DeliveryAttempt, Endpoint, EndpointSettings, Secret
from webapp.domain.ids import new_id
from webapp.domain.signing import new_secret
from webapp.resources import Resources
from webapp.store import deliveries, endpoints
from webapp.store.tables import deliveries as delivery_table
from webapp.store.tables import delivery_attempts, events


async def register(resources: Resources, url: str, **choices: Any) -> Endpoint:
    """An endpoint as a person may set it; fields of Endpoint itself are told apart by their names."""
    fields = {name: choices.pop(name) for name in list(choices) if name not in EndpointSettings.__slots__}
    at = await resources.store.now()
    made = {"id": new_id("end"), "secrets": (Secret(new_secret(), at),), "created_by": "tests"}
    settings = EndpointSettings(url, **choices)
    endpoint = Endpoint(**{**made, "settings": settings, "created_at": at, "updated_at": at, **fields})
    async with resources.store.transaction():
        await endpoints.add(resources.store, endpoint, resources.sealer)
    return endpoint


async def owe(resources: Resources, endpoint: Endpoint, count: int = 1, *, at: datetime | None = None) -> list[str]:
    """So many events of exports, each owed to this endpoint since `at`. The ids of the deliveries."""
    return await _add(resources, [endpoint], count, at or await resources.store.now())


async def owe_each(resources: Resources, to: Sequence[Endpoint]) -> list[str]:
    """One event, owed to each of these."""
    return await _add(resources, to, 1, await resources.store.now())


async def _add(resources: Resources, to: Sequence[Endpoint], count: int, at: datetime) -> list[str]:
    """As the outbox does: events, and of each one delivery for every endpoint; many rows in one statement."""
    made = [_event(at) for _ in range(count)]
    owed = [_owed(event, endpoint) for event in made for endpoint in to]
    async with resources.store.transaction():
        for table, rows in ((events, made), (delivery_table, owed)):
            for start in range(0, len(rows), 500):
                await resources.store.execute(insert(table).values(rows[start : start + 500]))
    return [row["id"] for row in owed]


def _event(at: datetime) -> dict[str, Any]:
    export_id = new_id("exp")
    data = {"id": export_id, "dataset": "things", "status": "SUCCESS", "owner": "usr_tests"}
    row = {"id": new_id("evt"), "type": "export.succeeded", "export_id": export_id, "owner": "usr_tests"}
    return {**row, "version": 1, "timestamp": at, "data": data}


def _owed(event: dict[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    row = {"id": new_id("dlv"), "event_id": event["id"], "event_type": event["type"], "export_id": event["export_id"]}
    at = event["timestamp"]
    counts = {"attempts": 0, "failures": 0}
    return {**row, **counts, "endpoint_id": endpoint.id, "state": "pending", "created_at": at, "next_attempt_at": at}


async def all_deliveries(resources: Resources, endpoint: Endpoint | None = None) -> list[Delivery]:
    """Oldest first."""
    query = select(delivery_table).order_by(delivery_table.c.id)
    if endpoint is not None:
        query = query.where(delivery_table.c.endpoint_id == endpoint.id)
    return [deliveries.from_row(row) for row in await resources.store.fetch_all(query)]


async def all_attempts(resources: Resources, delivery_id: str | None = None) -> list[DeliveryAttempt]:
    """In the order in which they were begun."""
    query = select(delivery_attempts).order_by(delivery_attempts.c.started_at, delivery_attempts.c.number)
    if delivery_id is not None:
        query = query.where(delivery_attempts.c.delivery_id == delivery_id)
    return [deliveries.attempt_from_row(row) for row in await resources.store.fetch_all(query)]


async def endpoint_now(resources: Resources, endpoint: Endpoint) -> Endpoint:
    found = await endpoints.get(resources.store, endpoint.id, resources.sealer)
    assert found is not None
    return found
