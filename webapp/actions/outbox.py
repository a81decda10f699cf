"""The outbox: an event and the deliveries it owes are written in the transaction of the change itself."""

from __future__ import annotations

from datetime import datetime

from webapp.domain.callbacks import EndpointSettings, wants
from webapp.domain.exports import Export
from webapp.resources import Resources
from webapp.store import deliveries, endpoints, events


async def record(resources: Resources, export: Export, *, at: datetime) -> int:
    """The event of the export's latest change, and one delivery for each endpoint that asked for it: so many.

    Inside the caller's transaction. Paused and disabled endpoints are owed theirs too: they wait until it is back.
    """
    store = resources.store
    event = await events.record(store, export, at=at, base_url=resources.settings.base_url)
    interested = [
        row["id"]
        for row in await endpoints.interested(store, export.id)
        if wants(
            EndpointSettings("", event_types=tuple(row["event_types"]), datasets=tuple(row["datasets"])),
            event_type=event.type,
            dataset=export.dataset,
        )
    ]
    await deliveries.add(store, interested, event, at=at)
    return len(interested)
