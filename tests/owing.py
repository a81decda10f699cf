"""Puts endpoints and what they are owed into the store, quickly and in any number."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import insert, select

from webapp.domain.callbacks import Delivery, DeliveryAttempt, Endpoint, EndpointSettings, Secret
from webapp.domain.ids import new_id
from webapp.domain.signing import new_secret
from webapp.resources import Resources
from webapp.store import deliveries, endpoints
from webapp.store.tables import delivery_attempts, events
from webapp.store.tables import deliveries as delivery_table


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
    at = at or await resources.store.now()
    made = [(new_id("evt"), new_id("dlv"), new_id("exp")) for _ in range(count)]
    async with resources.store.transaction():
        for event_id, delivery_id, export_id in made:
            data = {"id": export_id, "dataset": "things", "status": "SUCCESS", "owner": "usr_tests"}
            event = {"id": event_id, "type": "export.succeeded", "export_id": export_id, "owner": "usr_tests"}
            await resources.store.execute(insert(events).values(**event, version=1, timestamp=at, data=data))
            delivery = {"id": delivery_id, "event_id": event_id, "event_type": "export.succeeded"}
            await resources.store.execute(
                insert(delivery_table).values(
                    **delivery,
                    export_id=export_id,
                    endpoint_id=endpoint.id,
                    state="pending",
                    created_at=at,
                    attempts=0,
                    failures=0,
                    next_attempt_at=at,
                )
            )
    return [delivery_id for _, delivery_id, _ in made]


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
