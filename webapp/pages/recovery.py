"""Recovery after an outage: everything that an endpoint missed since a time is owed again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import deliveries, endpoints
from webapp.domain.callbacks import Endpoint
from webapp.pages.callback_wording import short_url
from webapp.pages.delivery_query import parse_minute, written_minute
from webapp.web.context import admin, endpoint_id, resources
from webapp.web.flash import flash, redirect
from webapp.web.forms import read_form
from webapp.web.render import fragment, is_fragment, page

USUAL = timedelta(hours=24)


async def recovery_context(request: Request, endpoint: Endpoint, since: datetime | None = None) -> dict[str, Any]:
    """Since when, and how many deliveries that is. By default since it began to fail."""
    desk = resources(request)
    now = await desk.store.now()
    start = since or endpoint.failing_since or now - USUAL
    start = start.replace(second=0, microsecond=0)
    count = await deliveries.count_recoverable(desk, endpoint.id, since=start)
    return {"endpoint": endpoint, "since": start, "since_text": written_minute(start), "recoverable": count, "now": now}


async def show(request: Request) -> Response:
    """The count for another time: the panel alone for htmx, else on a page of its own."""
    admin(request)
    endpoint = await endpoints.get(resources(request), endpoint_id(request))
    context = await recovery_context(request, endpoint, parse_minute(request.query_params.get("since", "")))
    if is_fragment(request):
        return fragment("callbacks/_recovery.html", **context)
    dead = await deliveries.count_dead(resources(request), endpoint.id)
    return page(request, "callbacks/recovery.html", heading=short_url(endpoint.settings.url), dead=dead, **context)


async def recover(request: Request) -> Response:
    who, form = admin(request), await read_form(request)
    here = f"/callbacks/{endpoint_id(request)}"
    since = parse_minute(form.text("since"))
    if since is None:
        return redirect(request, f"{here}/recovery", flash("no-time"))
    count = await deliveries.recover(resources(request), who, endpoint_id(request), since=since)
    return redirect(request, here, flash("recovered" if count else "nothing-to-recover", n=count))
