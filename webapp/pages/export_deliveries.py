"""What an export's page says of its callbacks: all deliveries to admins, to its owner those it asked for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import deliveries, exports
from webapp.domain.callbacks import Delivery, DeliveryState
from webapp.domain.exports import Export
from webapp.domain.sentences import say
from webapp.pages import callback_wording as wording
from webapp.pages.delivery_rows import DeliveryRow, delivery_row, owners_row
from webapp.resources import Resources
from webapp.store import emails as mailboxes
from webapp.store import endpoints as endpoint_rows
from webapp.store.deliveries import DeliveryFilter
from webapp.web.context import export_id, resources, viewer
from webapp.web.render import fragment

SHOWN = 20
POLLS, LONGEST_WAIT = 60, 30
"""The section looks again that often, more and more slowly, while something is owed; seconds."""


@dataclass(frozen=True, slots=True)
class ExportDeliveries:
    """`is_admins`: with endpoints, links and causes. `poll` is where the section asks again, if it does."""

    export_id: str
    rows: tuple[DeliveryRow, ...]
    is_admins: bool
    has_more: bool
    poll: str | None = None
    delay: int = 0

    @property
    def endpoints(self) -> Mapping[str, str]:
        """What the endpoints of these deliveries are called, by id."""
        return {row.delivery.endpoint_id: row.endpoint or say("The address of this order") for row in self.rows}


async def export_deliveries(request: Request, export: Export, poll: int = 0) -> ExportDeliveries:
    """For the viewer of this request, who may see the export."""
    desk, is_admin = resources(request), viewer(request).is_admin
    now = await desk.store.now()
    rows = await (_all_rows(desk, export, now) if is_admin else _owners_rows(desk, export, now))
    is_owed = any(row.delivery.state is DeliveryState.PENDING for row in rows)
    goes_on = is_owed and poll < POLLS
    return ExportDeliveries(
        export.id,
        tuple(rows[:SHOWN]),
        is_admin,
        has_more=len(rows) > SHOWN,
        poll=f"/exports/{export.id}/deliveries?poll={poll + 1}" if goes_on else None,
        delay=min(2 ** (poll // 3), LONGEST_WAIT),
    )


async def titles(desk: Resources, found: Sequence[Delivery]) -> Mapping[str, str]:
    """What the endpoints of these deliveries are called; one that was deleted has no title."""
    async with desk.store.connection():
        names = await endpoint_rows.names_of(desk.store, list({delivery.endpoint_id for delivery in found}))
    return {endpoint_id: description or wording.short_url(url) for endpoint_id, (description, url) in names.items()}


async def resting(desk: Resources, found: Sequence[Delivery]) -> frozenset[str]:
    """Those of their endpoints that are paused or disabled."""
    owed = {delivery.endpoint_id for delivery in found if delivery.state is DeliveryState.PENDING}
    if not owed:
        return frozenset()
    async with desk.store.connection():
        return await endpoint_rows.resting(desk.store, list(owed))


async def _all_rows(desk: Resources, export: Export, now: datetime) -> list[DeliveryRow]:
    found = await _newest(desk, DeliveryFilter(export_id=export.id))
    named: Mapping[str, str] = await titles(desk, found) if found else {}
    at_rest = await resting(desk, found)
    return [delivery_row(delivery, now, named, at_rest) for delivery in found]


async def _owners_rows(desk: Resources, export: Export, now: datetime) -> list[DeliveryRow]:
    """Only to the endpoints of its own `callback_url`s, and by mail."""
    found = await _newest(desk, DeliveryFilter(export_id=export.id, of_its_own=True))
    at_rest = await resting(desk, found)
    async with desk.store.connection():
        mailbox = await mailboxes.get(desk.store, export.owner)
    return [owners_row(delivery, now, at_rest, is_mail=delivery.endpoint_id == mailbox.endpoint) for delivery in found]


async def _newest(desk: Resources, chosen: DeliveryFilter) -> Sequence[Delivery]:
    """One more than is shown, so that it is known whether there are more."""
    found, _ = await deliveries.list_page(desk, chosen, limit=SHOWN + 1, after=None)
    return found


async def section(request: Request) -> Response:
    """The section alone, for its own polls."""
    export = await exports.get(resources(request), viewer(request), export_id(request))
    text = request.query_params.get("poll", "0")
    poll = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
    found = await export_deliveries(request, export, poll)
    return fragment("callbacks/_deliveries.html", callbacks=found, now=await resources(request).store.now())
