"""What the list and the detail page show: asked once per answer, for a whole page, a poll and a stream alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request

from webapp.actions import emails, shares, turns
from webapp.actions import exports as actions
from webapp.domain import limits
from webapp.domain.access import Viewer, may_hear, may_see
from webapp.domain.exports import Export, Status, eta_seconds, progress, rate
from webapp.domain.formats import FORMATS
from webapp.domain.shares import Received
from webapp.domain.turns import Place
from webapp.domain.workers import Queue
from webapp.pages import wording
from webapp.pages.export_deliveries import export_deliveries
from webapp.pages.wording import Badge
from webapp.resources import Resources
from webapp.store import attempts, events, pauses, people
from webapp.store import exports as rows
from webapp.store import shares as share_rows
from webapp.store.exports import ListFilter
from webapp.web import cursors
from webapp.web.context import resources, viewer
from webapp.web.zones import own_zone, parse_day, start_of

TEXT_LENGTH = 200
TIMELINE_EVENTS = 200


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The list's address: what is filtered, and after which export the page begins."""

    statuses: tuple[Status, ...] = ()
    dataset: str | None = None
    format: str | None = None
    since: date | None = None
    text: str | None = None
    everybody: bool = False
    shared: bool = False
    """What others have shared with the person, instead of what is theirs."""
    cursor: str | None = None
    zone: str = "UTC"
    """Whose day `since` is; no part of the address."""

    @property
    def is_filtered(self) -> bool:
        return any((self.statuses, self.dataset, self.format, self.since, self.text))

    def query_string(self, **changes: Any) -> str:
        """For the same list, or with changes the list next to it. A change of filter begins at the first page."""
        changed = replace(self, **({"cursor": None} | changes) if changes else {})
        values = {
            "status": [status.value.lower() for status in changed.statuses],
            "dataset": changed.dataset,
            "format": changed.format,
            "since": changed.since.isoformat() if changed.since else None,
            "q": changed.text,
            "all": "1" if changed.everybody else None,
            "shared": "1" if changed.shared else None,
            "cursor": changed.cursor,
        }
        return urlencode({name: value for name, value in values.items() if value}, doseq=True)

    def url(self, **changes: Any) -> str:
        query = self.query_string(**changes)
        return f"/exports?{query}" if query else "/exports"

    def toggled(self, status: Status) -> str:
        """The list with this status added to the filter, or taken out of it."""
        others = tuple(chosen for chosen in self.statuses if chosen is not status)
        return self.url(statuses=others if status in self.statuses else (*others, status))

    def filter(self, desk: Resources, who: Viewer) -> ListFilter:
        """Somebody else's exports that are not shared are for admins alone, whatever the address says."""
        own = ListFilter(owner=None if self.everybody and who.is_admin else who.id, without=who.denied)
        return replace(
            shares.list_filter(desk, who) if self.shared else own,
            statuses=self.statuses,
            dataset=self.dataset,
            format=self.format,
            since=start_of(self.since, self.zone) if self.since else None,
            text=self.text,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list."""

    export: Export
    title: str
    params: str
    format: str
    badge: Badge
    percent: int | None
    owner: str
    received: Received | None


def list_query(request: Request) -> ListQuery:
    return parse_list_query(request.query_params, viewer(request), own_zone(request))


def parse_list_query(params: ImmutableMultiDict[str, str], who: Viewer, zone: str) -> ListQuery:
    """Values that mean nothing are left out: an old bookmark still shows a list."""
    wanted = {text.upper() for value in params.getlist("status") for text in value.split(",")}
    cursor = params.get("cursor", "")
    return ListQuery(
        statuses=tuple(status for status in Status if status.value in wanted),
        dataset=params.get("dataset", "")[:TEXT_LENGTH] or None,
        format=params["format"] if params.get("format") in FORMATS else None,
        since=parse_day(params.get("since", "")),
        text=params.get("q", "").strip().replace("\0", "")[:TEXT_LENGTH] or None,
        everybody=who.is_admin and params.get("all") == "1" and params.get("shared") != "1",
        shared=params.get("shared") == "1",
        cursor=cursor if cursors.decode(cursor, "exp") else None,
        zone=zone,
    )


async def list_context(request: Request, query: ListQuery) -> dict[str, Any]:
    """`exports` as they are stored, `rows` as they are told, where the next page begins, and how far back a search
    looked that did not fill the page."""
    who, desk = viewer(request), resources(request)
    found, following = await actions.list_page(
        desk, query.filter(desk, who), limit=limits.PAGE_SIZE, after=cursors.decode(query.cursor, "exp")
    )
    async with desk.store.connection():
        now = await desk.store.now()
        has_any = bool(found) or await rows.exists_any(desk.store, who.id)
        owners = await people.user_names(desk.store, [export.owner for export in found]) if query.everybody else {}
        paused = await pauses.get(desk.store, Queue.EXPORTS)
        received = await share_rows.received(desk.store, who.id, [e.id for e in found] if query.shared else ())
        has_shared = bool(received) or await share_rows.exists_any(desk.store, who.id)
    return {
        "viewer": who,
        "query": query,
        "exports": found,
        "rows": [_row(request, export, owners, received) for export in found],
        "unseen": [(each, received_title(desk, each)) for each in await shares.unseen(desk, who)] if has_shared else [],
        "has_any": has_any,
        "has_shared": has_shared,
        "paused": paused,
        "older": query.url(cursor=cursors.encode(*following)) if following else None,
        "searched_to": following[0] if following and len(found) < limits.PAGE_SIZE else None,
        "now": now,
    }


def received_title(desk: Resources, received: Received) -> str:
    """What its export is called."""
    dataset = desk.catalog.datasets.get(received.dataset)
    return received.name or (dataset.title if dataset else received.dataset)


def _row(request: Request, export: Export, owners: Mapping[str, str], received: Mapping[str, Received]) -> Row:
    dataset = resources(request).catalog.datasets.get(export.dataset)
    return Row(
        export=export,
        title=dataset.title if dataset else export.dataset,
        params=wording.short_params(export, dataset),
        format=wording.format_title(export.format),
        badge=wording.badge(export),
        percent=progress(export),
        owner=owners.get(export.owner, ""),
        received=received.get(export.id),
    )


async def detail_context(request: Request, export: Export) -> dict[str, Any]:
    """`export` as it is stored, and everything that the page says about it. Who may not change it, since it is shared
    with them, is told nothing of attempts, what failed, callbacks and others."""
    who, desk = viewer(request), resources(request)
    may_change = may_see(who, export)
    async with desk.store.connection():
        now = await desk.store.now()
        [place] = await turns.places(desk, [export], now=now)
        found = await events.page(desk.store, export_id=export.id, limit=TIMELINE_EVENTS)
        happened = [event for event in found if may_hear(who, event.data)]
        steps = wording.timeline(happened)
        if not found or found[0].version > 1:
            steps = wording.stages(export, before=found[0].timestamp if found else None) + steps
        tries = await attempts.of_export(desk.store, export.id, limit=limits.ATTEMPTS_SHOWN) if may_change else ()
        owners = await people.user_names(desk.store, [export.owner]) if export.owner != who.id else {}
    return {
        "viewer": who,
        "export": export,
        "now": now,
        "owner": owners.get(export.owner, ""),
        "may_change": may_change,
        "mail": await emails.told(desk, who, export),
        "received": await shares.received(desk, who, export),
        "shares": await shares.of_export(desk, who, export.id) if may_change and export.can_download else (),
        "share_form": {"person": "", "note": "", "errors": {}},
        "limits": limits,
        "callbacks": await export_deliveries(request, export) if may_change else None,
        "attempts": wording.told_attempts(tries),
        "has_events": bool(happened),
        **told(request, export, now, place, steps),
    }


def told(
    request: Request, export: Export, now: datetime, place: Place | None, steps: Sequence[wording.Step]
) -> dict[str, Any]:
    catalog = resources(request).catalog
    dataset = catalog.datasets.get(export.dataset)
    return {
        "title": dataset.title if dataset else export.dataset,
        "can_order_again": catalog.dataset_for(export.dataset, viewer(request)) is not None,
        "format": wording.format_title(export.format),
        "badge": wording.badge(export),
        "headline": wording.headline(export, place.position if place else None),
        "starts_at": place.starts_at if place else None,
        "is_paused": place is not None and place.is_paused,
        "percent": progress(export),
        "rate": rate(export, now),
        "eta": eta_seconds(export, now),
        "params": wording.told_params(export, dataset),
        "options": wording.told_options(export),
        "warnings": [wording.told_warning(warning) for warning in export.warnings],
        "steps": steps,
    }
