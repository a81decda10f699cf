"""Telling the newest event of an export once more: somebody says that it did not arrive."""

from __future__ import annotations

from dataclasses import dataclass

from webapp import bus
from webapp.actions import deliveries, exports
from webapp.actions.changes import hint
from webapp.domain.access import NotFound, Viewer
from webapp.domain.ids import is_id
from webapp.resources import Resources
from webapp.store import acks, people
from webapp.store.deliveries import DeliveryFilter

MOST_DELIVERIES = 1000
ALL, READERS = "all", "readers"
"""To whom an event is told again, when it is not one endpoint, which is given by its id."""


@dataclass(frozen=True, slots=True)
class Reminder:
    """The event that was told again, and how many deliveries of it are owed again."""

    event_type: str
    deliveries: int


async def remind(resources: Resources, viewer: Viewer, export_id: str, *, to: str = ALL) -> Reminder | None:
    """To open pages and connected programs (`READERS`) under the same id, and to the endpoints that have a delivery of
    it: an admin to all of them, its owner to those it was ordered with. None when its events are no longer kept.

    Raises NotFound, also for an endpoint that has no delivery of this export which the viewer may send again.
    """
    store, export = resources.store, await exports.get(resources, viewer, export_id)
    async with store.connection():
        event = await acks.newest(store, export.id)
        if event is None:
            return None
    endpoint_id = None if to in {ALL, READERS} else to
    if endpoint_id is not None and not is_id(endpoint_id, "end"):
        raise NotFound
    chosen = DeliveryFilter(
        endpoint_id=endpoint_id,
        export_id=export.id,
        event_types=(event.type,),
        of_its_own=not viewer.is_admin,
    )
    ids: list[str] = []
    if to != READERS:
        found, _ = await deliveries.list_page(resources, chosen, limit=MOST_DELIVERIES)
        ids = [delivery.id for delivery in found if delivery.event_id == event.id]
    if endpoint_id is not None and not ids:
        raise NotFound
    async with store.transaction():
        at = await store.now()
        await people.audit(
            store, actor=viewer.name, action="export.reminded", subject=export.id, at=at, details={"to": to}
        )
    count = await deliveries.redeliver_matching(resources, viewer, chosen, ids=ids) if ids else 0
    if endpoint_id is None:
        await hint(resources, bus.Hint(export.id, export.owner, export.version, again=True))
    return Reminder(event.type, count)
