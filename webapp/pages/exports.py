"""The list of exports, one export, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports, getting_started, shares
from webapp.actions.exports import AlreadyActive
from webapp.domain.access import QuotaExceeded
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Export, IllegalTransition
from webapp.domain.formats import FORMATS
from webapp.domain.shares import Received
from webapp.pages.context import list_query
from webapp.pages.live import detail_live, list_live
from webapp.pages.wording import BADGES, FILTER_LABELS
from webapp.web.context import export_id, resources, viewer
from webapp.web.flash import Flash, flash, redirect
from webapp.web.forms import messages_by_field, read_form
from webapp.web.render import page


async def index(request: Request) -> Response:
    query = list_query(request)
    context = await list_live(request, query)
    return page(
        request,
        "exports/index.html",
        **context,
        statuses=FILTER_LABELS,
        datasets=resources(request).catalog.datasets_for(viewer(request)),
        formats=FORMATS,
        steps=await getting_started.steps(resources(request), viewer(request)),
    )


async def show(request: Request) -> Response:
    viewer(request)
    return await show_export(request)


async def show_export(
    request: Request,
    status: int = 200,
    *,
    called: Mapping[str, str] | None = None,
    errors: Sequence[FieldError] = (),
    **others: Any,
) -> Response:
    """`called` is what a form sent instead of the stored name and note; `others` take the place of what is shown."""
    context = await detail_live(request, export_id(request)) | others
    export: Export = context["export"]
    received: Received | None = context["received"]
    if received and not received.is_seen:
        await shares.mark_seen(resources(request), viewer(request), export)
    return page(
        request,
        "exports/show.html",
        status,
        **context,
        called={"name": export.name, "note": export.note, **(called or {})},
        messages_by_field=messages_by_field(errors),
    )


async def annotate(request: Request) -> Response:
    """Saves name and note; with a mistake in them the page comes again, with what was sent."""
    who, form = viewer(request), await read_form(request)
    sent = {name: form.text(name) for name in ("name", "note") if name in form}
    try:
        export = await exports.annotate(resources(request), who, export_id(request), sent)
    except Invalid as invalid:
        return await show_export(request, 422, called=sent, errors=invalid.errors)
    return redirect(request, f"/exports/{export.id}", flash("annotated"))


async def cancel(request: Request) -> Response:
    return await _change(request, exports.cancel, flash("cancelled", n=1))


async def notify(request: Request) -> Response:
    who, form, here = viewer(request), await read_form(request), f"/exports/{export_id(request)}"
    try:
        await exports.notify(resources(request), who, export_id(request), form.text("notify") or None)
    except Invalid:
        return redirect(request, here, flash("no-mail"))
    except IllegalTransition as error:
        return redirect(request, here, flash("illegal", status=BADGES[error.current].label))
    return redirect(request, here)


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
        return redirect(request, here, flash("illegal", status=BADGES[error.current].label))
    except QuotaExceeded:
        return redirect(request, here, flash("left-quota", n=1))
    return redirect(request, to or here, done)
