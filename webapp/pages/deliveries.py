"""The delivery log, one delivery with all its attempts, and redelivery."""

from __future__ import annotations

from dataclasses import replace

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import deliveries, endpoints
from webapp.actions.deliveries import CannotRedeliver
from webapp.domain.access import NotFound, Viewer
from webapp.domain.callbacks import DeliveryState
from webapp.domain.ids import is_id
from webapp.domain.limits import MAX_PAGE_SIZE, PAGE_SIZE
from webapp.domain.sentences import say
from webapp.pages import callback_wording as wording
from webapp.pages.callback_live import Context, callback_element, callback_stream
from webapp.pages.delivery_query import DeliveryQuery, cursor_after, parse_delivery_query, written_minute
from webapp.pages.delivery_rows import STATE_LABELS, attempt_view, delivery_row, delivery_rows
from webapp.pages.export_deliveries import resting, titles
from webapp.pages.live import Place
from webapp.store import endpoints as endpoint_rows
from webapp.web import cursors
from webapp.web.context import admin, delivery_id, endpoint_id, resources
from webapp.web.flash import Flash, flash, redirect
from webapp.web.forms import Form, read_form
from webapp.web.render import fragment, page


def _query(request: Request) -> DeliveryQuery:
    """Of one endpoint, where the path names it, else of all."""
    wanted = endpoint_id(request) if "endpoint_id" in request.path_params else None
    return parse_delivery_query(request.query_params, wanted)


async def index(request: Request) -> Response:
    admin(request)
    desk, query = resources(request), _query(request)
    return page(
        request,
        "callbacks/deliveries.html",
        **await _log(request, query),
        dead=await deliveries.count_dead(desk, query.endpoint_id) if query.endpoint_id else 0,
        states=STATE_LABELS,
        event_labels=wording.EVENT_LABELS,
        error_labels=wording.ERROR_LABELS,
        since_text=written_minute(query.since) if query.since else "",
    )


async def poll(request: Request) -> Response:
    admin(request)
    return fragment("exports/_live.html", **await _log(request, _query(request), Place.of(request)))


async def stream(request: Request) -> Response:
    admin(request)
    query = _query(request)
    if query.endpoint_id:
        await endpoints.get(resources(request), query.endpoint_id)
    ids = frozenset({query.endpoint_id}) if query.endpoint_id else None
    return await callback_stream(request, lambda: _log(request, query), ids=ids)


async def _log(request: Request, query: DeliveryQuery, place: Place | None = None) -> Context:
    """Raises NotFound for an endpoint that is not there."""
    desk = resources(request)
    now = await desk.store.now()
    endpoint = await endpoints.get(desk, query.endpoint_id) if query.endpoint_id else None
    found, more = await deliveries.list_page(
        desk, query.filter(), limit=PAGE_SIZE, after=cursors.decode(query.cursor, "dlv")
    )
    named = None if endpoint else await titles(desk, found)
    live = callback_element(
        request,
        partial="callbacks/_log.html",
        path=query.path,
        query=query.query_string(),
        now=now,
        active=query.cursor is None,
        place=place,
    )
    return {
        "viewer": admin(request),
        "now": now,
        "query": query,
        "endpoint": endpoint,
        "heading": wording.short_url(endpoint.settings.url) if endpoint else say("All deliveries"),
        "rows": delivery_rows(found, now, named, await resting(desk, found)),
        "older": query.url(cursor=cursor_after(found[-1])) if more else None,
        "live": live,
    }


async def show(request: Request) -> Response:
    admin(request)
    return page(request, "callbacks/delivery.html", **await _delivery(request))


async def show_poll(request: Request) -> Response:
    admin(request)
    return fragment("exports/_live.html", **await _delivery(request, Place.of(request)))


async def show_stream(request: Request) -> Response:
    admin(request)
    delivery, _ = await deliveries.get(resources(request), delivery_id(request))
    return await callback_stream(request, lambda: _delivery(request), ids=frozenset({delivery.endpoint_id}))


async def _delivery(request: Request, place: Place | None = None) -> Context:
    desk = resources(request)
    now = await desk.store.now()
    delivery, attempts = await deliveries.get(desk, delivery_id(request))
    async with desk.store.connection():
        endpoint = await endpoint_rows.get(desk.store, delivery.endpoint_id, desk.sealer)
    live = callback_element(
        request,
        partial="callbacks/_delivery.html",
        path=f"/callbacks/deliveries/{delivery.id}",
        now=now,
        active=delivery.state is DeliveryState.PENDING,
        place=place,
    )
    last = max((attempt.number for attempt in attempts), default=0)
    views = [attempt_view(one, is_last=one.number == last, delivery=delivery, now=now) for one in attempts]
    return {
        "viewer": admin(request),
        "now": now,
        "delivery": delivery,
        "row": delivery_row(delivery, now, resting=await resting(desk, [delivery])),
        "endpoint": endpoint,
        "heading": wording.short_url(endpoint.settings.url) if endpoint else "",
        "attempts": sorted(views, key=lambda view: -view.attempt.number),
        "live": live,
    }


async def redeliver(request: Request) -> Response:
    """One."""
    here = f"/callbacks/deliveries/{delivery_id(request)}"
    try:
        delivery = await deliveries.redeliver(resources(request), admin(request), delivery_id(request))
    except CannotRedeliver:
        return redirect(request, here, flash("not-redelivered", n=1))
    is_owed = delivery.state is DeliveryState.PENDING
    return redirect(request, here, flash("redelivered" if is_owed else "not-redelivered", n=1))


async def redeliver_several(request: Request) -> Response:
    """The selected ones, or all that the filter matches; the latter are counted and confirmed first."""
    who, form = admin(request), await read_form(request)
    wanted = form.text("endpoint") or None
    if wanted and not is_id(wanted, "end"):
        raise NotFound
    query = parse_delivery_query(QueryParams(form.text("back")), wanted)
    if form.text("scope") == "matching":
        return await _matching(request, who, form, query)
    ids = [text for text in dict.fromkeys(form.all("ids")) if is_id(text, "dlv")][:MAX_PAGE_SIZE]
    if not ids:
        return redirect(request, query.url(), flash("no-delivery-selected"))
    chosen = replace(query, states=(), event_type=None, error=None, since=None, export_id=None).filter()
    count = await deliveries.redeliver_matching(resources(request), who, chosen, ids=ids)
    return redirect(request, query.url(), *_outcome(count, len(ids)))


async def _matching(request: Request, who: Viewer, form: Form, query: DeliveryQuery) -> Response:
    desk = resources(request)
    if "confirmed" not in form:
        count = await deliveries.count_matching(desk, query.filter())
        return page(request, "callbacks/confirm_redelivery.html", query=query, count=count)
    count = await deliveries.redeliver_matching(desk, who, query.filter())
    return redirect(request, query.url(cursor=None), *_outcome(count, count))


def _outcome(done: int, wanted: int) -> list[Flash]:
    messages = [flash("redelivered", n=done)] if done else []
    left = wanted - done
    if left or not done:
        messages.append(flash("not-redelivered", n=left))
    return messages
