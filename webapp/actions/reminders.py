"""Telling the newest event of an export once more: somebody says that it did not arrive."""

from __future__ import annotations

from dataclasses import dataclass

from webapp import bus
from webapp.actions import deliveries, exports
from webapp.actions.changes import hint
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.store import acks, people
from webapp.store.deliveries import DeliveryFilter

MOST_DELIVERIES = 1000


@dataclass(frozen=True, slots=True)
class Reminder:
    """The event that was told again, and how many deliveries of it are owed again."""

    event_type: str
    deliveries: int


async def remind(resources: Resources, viewer: Viewer, export_id: str) -> Reminder | None:
    """To open pages and connected programs under the same id, and to the endpoints that have a delivery of it: an
    admin to all of them, its owner to those it was ordered with. None when its events are no longer kept.

    Raises NotFound.
    """
    store, export = resources.store, await exports.get(resources, viewer, export_id)
    async with store.transaction():
        event = await acks.newest(store, export.id)
        if event is None:
            return None
        at = await store.now()
        await people.audit(store, actor=viewer.name, action="export.reminded", subject=export.id, at=at)
    chosen = DeliveryFilter(export_id=export.id, event_types=(event.type,), of_its_own=not viewer.is_admin)
    found, _ = await deliveries.list_page(resources, chosen, limit=MOST_DELIVERIES)
    ids = [delivery.id for delivery in found if delivery.event_id == event.id]
    count = await deliveries.redeliver_matching(resources, viewer, chosen, ids=ids) if ids else 0
    await hint(resources, bus.Hint(export.id, export.owner, export.version, again=True))
    return Reminder(event.type, count)
