"""The endpoints: how they are, one of them, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import callback_hosts, deliveries, endpoints, inspectors, queues
from webapp.actions.endpoints import Health
from webapp.domain.access import NotFound, Viewer
from webapp.domain.callbacks import Endpoint, EndpointState
from webapp.domain.errors import Invalid
from webapp.domain.workers import Queue
from webapp.pages import callback_wording as wording
from webapp.pages.callback_console import Console, console_of, send
from webapp.pages.callback_fields import event_choices
from webapp.pages.callback_live import Context, callback_element, callback_stream
from webapp.pages.callback_secrets import OVERLAPS
from webapp.pages.delivery_rows import delivery_rows
from webapp.pages.live import Place
from webapp.pages.recovery import recovery_context
from webapp.pages.wording import Badge
from webapp.resources import Resources
from webapp.store.deliveries import DeliveryFilter
from webapp.web.context import admin, endpoint_id, resources
from webapp.web.flash import Flash, flash, redirect
from webapp.web.forms import Form, messages_by_field, query_form, read_form
from webapp.web.render import fragment, is_fragment, page

LATEST = 8


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """One endpoint and how it is, as told to people."""

    endpoint: Endpoint
    health: Health
    title: str
    badge: Badge
    code: str
    share: str
    bars: Sequence[wording.Bar]
    told_bars: str
    reason: str
    disables_at: datetime | None
    next_try: datetime | None
    is_due: bool


def endpoint_row(health: Health, now: datetime) -> EndpointRow:
    endpoint = health.endpoint
    owed_at = health.next_attempt_at if endpoint.state is EndpointState.ACTIVE else None
    is_due = owed_at is not None and owed_at <= now
    return EndpointRow(
        endpoint=endpoint,
        health=health,
        title=endpoint.settings.description or wording.short_url(endpoint.settings.url),
        badge=wording.endpoint_badge(endpoint),
        code=wording.endpoint_code(endpoint),
        share=wording.share(health.succeeded, health.failed),
        bars=wording.sparkline(health.hours),
        told_bars=wording.told_sparkline(health.hours),
        reason=wording.disabled_reason(endpoint) if endpoint.disabled_at else "",
        disables_at=wording.disables_soon(endpoint, now),
        next_try=None if is_due else owed_at,
        is_due=is_due,
    )


async def index(request: Request) -> Response:
    admin(request)
    return await _index(request)


async def _index(request: Request, *, status: int = 200, hosts: str | None = None, error: str = "") -> Response:
    desk = resources(request)
    return page(
        request,
        "callbacks/index.html",
        status,
        **await _list(request),
        hosts="\n".join(await callback_hosts.listed(desk)) if hosts is None else hosts,
        hosts_error=error,
        inspectors=await inspectors.list_all(desk),
    )


async def index_poll(request: Request) -> Response:
    admin(request)
    return fragment("exports/_live.html", **await _list(request, Place.of(request)))


async def index_stream(request: Request) -> Response:
    admin(request)
    return await callback_stream(request, lambda: _list(request))


async def _list(request: Request, place: Place | None = None) -> Context:
    desk = resources(request)
    now = await desk.store.now()
    rows = [endpoint_row(health, now) for health in await endpoints.health(desk, None)]
    live = callback_element(
        request, partial="callbacks/_list.html", path="/callbacks", now=now, active=bool(rows), place=place
    )
    return {
        "viewer": admin(request),
        "now": now,
        "rows": rows,
        "all_paused": (await queues.paused(desk)).get(Queue.CALLBACKS),
        "disabled": [row for row in rows if row.endpoint.disabled_at],
        "threatened": [row for row in rows if row.disables_at],
        "live": live,
    }


async def set_hosts(request: Request) -> Response:
    """The hosts that an order's `callback_url` may name, one a line."""
    who, text = admin(request), (await read_form(request)).text("hosts")
    hosts = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        await callback_hosts.change(resources(request), who, hosts)
    except Invalid as invalid:
        error = " ".join(messages_by_field(invalid.errors).values())
        return await _index(request, status=422, hosts=text, error=error)
    return redirect(request, "/callbacks#hosts", flash("hosts-saved"))


async def show(request: Request) -> Response:
    admin(request)
    return await _show(request, query_form(request.query_params))


async def _show(request: Request, form: Form, console: Console | None = None, *, status: int = 200) -> Response:
    desk = resources(request)
    overview = await _overview(request)
    endpoint: Endpoint = overview["endpoint"]
    titles = {name: dataset.title for name, dataset in desk.catalog.datasets.items()}
    return page(
        request,
        "callbacks/show.html",
        status,
        **{**overview, **await recovery_context(request, endpoint)},
        facts=wording.told_settings(endpoint.settings, titles),
        overlaps=OVERLAPS,
        secrets=endpoint.valid_secrets(overview["now"]),
        event_choices=event_choices(),
        labels=dict(event_choices()),
        inspector=await inspectors.find_by_url(desk, endpoint.settings.url),
        console=console or await console_of(request, form),
    )


async def poll(request: Request) -> Response:
    admin(request)
    return fragment("exports/_live.html", **await _overview(request, Place.of(request)))


async def stream(request: Request) -> Response:
    admin(request)
    await endpoints.get(resources(request), endpoint_id(request))
    return await callback_stream(request, lambda: _overview(request), ids=frozenset({endpoint_id(request)}))


async def _overview(request: Request, place: Place | None = None) -> Context:
    """Raises NotFound."""
    desk, wanted = resources(request), endpoint_id(request)
    now = await desk.store.now()
    found = await endpoints.health(desk, [wanted])
    if not found:
        raise NotFound
    latest, more = await deliveries.list_page(desk, DeliveryFilter(endpoint_id=wanted), limit=LATEST, after=None)
    row = endpoint_row(found[0], now)
    live = callback_element(
        request, partial="callbacks/_endpoint.html", path=f"/callbacks/{wanted}", now=now, active=True, place=place
    )
    return {
        "viewer": admin(request),
        "now": now,
        "endpoint": row.endpoint,
        "row": row,
        "heading": wording.short_url(row.endpoint.settings.url),
        "all_paused": (await queues.paused(desk)).get(Queue.CALLBACKS),
        "latest": delivery_rows(latest, now),
        "has_more": more,
        "live": live,
    }


async def trial(request: Request) -> Response:
    """Sends a sample with the endpoint's own settings and secrets."""
    admin(request)
    form = await read_form(request)
    if "fresh" in form:
        return await _show(request, form)
    console = await send(request, form, endpoint_id(request))
    status = 422 if console.error else 200
    if is_fragment(request):
        return fragment("callbacks/_trial.html", status, console=console, labels=dict(event_choices()))
    return await _show(request, form, console=console, status=status)


async def pause(request: Request) -> Response:
    return await _change(request, endpoints.pause, flash("endpoint-paused"))


async def resume(request: Request) -> Response:
    return await _change(request, endpoints.resume, flash("endpoint-resumed"))


async def delete(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, form = admin(request), await read_form(request)
    if "confirmed" not in form:
        endpoint = await endpoints.get(resources(request), endpoint_id(request))
        return page(request, "callbacks/confirm_delete.html", endpoint=endpoint)
    await endpoints.delete(resources(request), who, endpoint_id(request))
    return redirect(request, "/callbacks", flash("endpoint-deleted"))


Action = Callable[[Resources, Viewer, str], Awaitable[Any]]


async def _change(request: Request, action: Action, done: Flash) -> Response:
    await action(resources(request), admin(request), endpoint_id(request))
    return redirect(request, f"/callbacks/{endpoint_id(request)}", done)
