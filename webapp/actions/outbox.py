"""The outbox: an event and the deliveries it owes are written in the transaction of the change itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from webapp.domain import emails
from webapp.domain.callbacks import EndpointSettings, wants, wants_alerts
from webapp.domain.exports import Export
from webapp.resources import Resources
from webapp.store import deliveries, endpoints, events
from webapp.store import emails as mailboxes


async def record(resources: Resources, export: Export, *, at: datetime, is_last: bool = True) -> int:
    """The event of the export's latest change, and one delivery for each endpoint that asked for it: so many.

    Inside the caller's transaction. Paused and disabled endpoints are owed theirs too: they wait until it is back.
    `is_last`: nothing follows it at once, as a retry follows a failure; only then its owner may be mailed.
    """
    store = resources.store
    event = await events.record(store, export, at=at, base_url=resources.settings.base_url)
    interested = [
        endpoint_id
        for endpoint_id, settings in await _endpoints(resources, export.id)
        if wants(settings, event_type=event.type, dataset=export.dataset)
    ]
    if is_last and event.type in emails.MAILED and resources.settings.mail:
        mailbox = await mailboxes.endpoint_for(store, export.id, export.owner)
        interested += [mailbox] if mailbox else []
    await deliveries.add(store, interested, event, at=at)
    return len(interested)


async def record_alert(resources: Resources, event_type: str, data: Mapping[str, Any], *, at: datetime) -> int:
    """The event of an alert, as `record` writes that of an export."""
    event = await events.record_alert(resources.store, event_type, data, at=at)
    interested = [id for id, settings in await _endpoints(resources, None) if wants_alerts(settings, event_type)]
    await deliveries.add(resources.store, interested, event, at=at)
    return len(interested)


async def _endpoints(resources: Resources, export_id: str | None) -> Sequence[tuple[str, EndpointSettings]]:
    """Ids, and what of the settings says which events are wanted."""
    return [
        (row["id"], EndpointSettings("", event_types=tuple(row["event_types"]), datasets=tuple(row["datasets"])))
        for row in await endpoints.interested(resources.store, export_id)
    ]
