"""The list of exports, one export, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports
from webapp.actions.exports import AlreadyActive
from webapp.domain.access import QuotaExceeded
from webapp.domain.exports import Export, IllegalTransition
from webapp.domain.formats import FORMATS
from webapp.pages.context import list_query
from webapp.pages.live import detail_live, list_live
from webapp.pages.wording import BADGES, FILTER_LABELS
from webapp.web.context import export_id, resources, viewer
from webapp.web.flash import Flash, flash, redirect
from webapp.web.render import page


async def index(request: Request) -> Response:
    query = list_query(request)
    context = await list_live(request, query)
    return page(
        request,
        "exports/index.html",
        **context,
        statuses=FILTER_LABELS,
        datasets=resources(request).catalog.datasets_for(viewer(request).role),
        formats=FORMATS,
    )


async def show(request: Request) -> Response:
    viewer(request)
    return page(request, "exports/show.html", **await detail_live(request, export_id(request)))


async def cancel(request: Request) -> Response:
    return await _change(request, exports.cancel, flash("cancelled", n=1))


async def retry(request: Request) -> Response:
    """Leads to the export that is in the way, if there is one: it answers the same order."""
    try:
        return await _change(request, exports.retry, flash("retried", n=1))
    except AlreadyActive as error:
        return redirect(request, f"/exports/{error.export.id}", flash("order-active"))


async def delete(request: Request) -> Response:
    return await _change(request, exports.delete, flash("deleted", n=1), to="/exports")


Action = Callable[..., Awaitable[Export | None]]


async def _change(request: Request, action: Action, done: Flash, *, to: str | None = None) -> Response:
    here = f"/exports/{export_id(request)}"
    try:
        await action(resources(request), viewer(request), export_id(request))
    except IllegalTransition as error:
        return redirect(request, here, flash("illegal", status=BADGES[error.current].label.lower()))
    except QuotaExceeded:
        return redirect(request, here, flash("left-quota", n=1))
    return redirect(request, to or here, done)
