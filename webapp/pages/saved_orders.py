"""Orders kept under a name: the list, saving one, ordering it again, and taking a deletion back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports, saved_orders, schedules
from webapp.actions.datasets import checked_params
from webapp.actions.exports import Order
from webapp.datasets.columns import told_names
from webapp.datasets.declaration import Dataset
from webapp.datasets.parameters import is_moving
from webapp.datasets.relative import Moment, is_relative, moment_in
from webapp.domain import limits
from webapp.domain.access import NotFound, QuotaExceeded
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.saved_orders import SavedOrder
from webapp.language import gettext as _
from webapp.pages import wording
from webapp.pages.moving_days import SHOWN_AS, moving_fields, told_day
from webapp.pages.order_fields import sent_params
from webapp.pages.order_options import option_choices
from webapp.pages.orders import Draft, asked_draft, order_form, order_of
from webapp.pages.schedule_wording import told_outcome, told_stop
from webapp.store import exports as rows
from webapp.web.context import resources, saved_order_id, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, query_form, read_form
from webapp.web.render import page

LIST = "/saved-orders"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list. `can_order` while there is its dataset for this person."""

    saved: SavedOrder
    title: str
    format: str
    params: tuple[tuple[str, str], ...]
    can_order: bool


async def index(request: Request) -> Response:
    """`deleted` names the one that was deleted just now, and can be brought back."""
    return await _index(request)


async def new(request: Request) -> Response:
    """Asks for the name, and which dates move with the day. A form with mistakes comes back as it was."""
    form = await read_form(request) if request.method == "POST" else query_form(request.query_params)
    draft = await asked_draft(request, form)
    moment = moment_in(draft.zone, await resources(request).store.now())
    try:
        await checked_params(resources(request), draft.dataset, sent_params(draft.dataset, draft.raw), moment)
    except Invalid as invalid:
        return await order_form(request, _with_errors(draft, invalid), 422)
    return await _naming(request, draft, form, moment)


async def create(request: Request) -> Response:
    return await _save(request, None)


async def edit(request: Request) -> Response:
    return await _save(request, saved_order_id(request))


async def rename(request: Request) -> Response:
    who, form = viewer(request), await read_form(request)
    try:
        await saved_orders.rename(resources(request), who, saved_order_id(request), form.text("name"))
    except Invalid as invalid:
        wrong = {saved_order_id(request): (form.text("name"), messages_by_field(invalid.errors)["name"])}
        return await _index(request, 422, wrong=wrong)
    return redirect(request, LIST, flash("saved-order-renamed"))


async def order(request: Request) -> Response:
    """Leads to the export, or to the form when the order no longer fits."""
    who, saved_id = viewer(request), saved_order_id(request)
    try:
        export, is_new = await saved_orders.order(resources(request), who, saved_id)
    except Invalid:
        return redirect(request, f"/exports/new?saved={saved_id}", flash("saved-order-unfit"))
    except QuotaExceeded:
        return redirect(request, LIST, flash("left-quota-saved"))
    return redirect(request, f"/exports/{export.id}", flash("order-taken" if is_new else "order-active"))


async def delete(request: Request) -> Response:
    deleted = await saved_orders.delete(resources(request), viewer(request), saved_order_id(request))
    return redirect(request, f"{LIST}?deleted={deleted.id}")


async def restore(request: Request) -> Response:
    try:
        await saved_orders.restore(resources(request), viewer(request), saved_order_id(request))
    except Invalid as invalid:
        is_full = any(error.field == "saved_orders" for error in invalid.errors)
        return redirect(request, LIST, flash("saved-orders-full" if is_full else "saved-order-taken"))
    return redirect(request, LIST, flash("saved-order-restored"))


async def _save(request: Request, saved_id: str | None) -> Response:
    who, form = viewer(request), await read_form(request)
    draft = await asked_draft(request, form)
    order, defaults = order_of(draft, form)
    moving = {name: values[-1] for name, values in form.group("m.").items() if values[-1]}
    try:
        wanted = _with_moving(order, moving)
        if saved_id is None:
            await saved_orders.save(resources(request), who, form.text("name"), wanted, defaults=defaults)
        else:
            await saved_orders.edit(resources(request), who, saved_id, form.text("name"), wanted, defaults=defaults)
    except Invalid as invalid:
        if any(error.field != "name" for error in invalid.errors):
            return await order_form(request, _with_errors(draft, invalid), 422)
        moment = moment_in(draft.zone, await resources(request).store.now())
        return await _naming(request, draft, form, moment, errors=invalid.errors)
    return redirect(request, LIST, flash("order-saved"))


def _with_moving(order: Order, moving: Mapping[str, str]) -> Order:
    return replace(order, params={**order.params, **moving})


def _with_errors(draft: Draft, invalid: Invalid) -> Draft:
    return replace(draft, sent=True, errors=tuple(invalid.errors))


async def _naming(
    request: Request, draft: Draft, form: Form, moment: Moment, *, errors: Sequence[FieldError] = ()
) -> Response:
    before = await saved_orders.get(resources(request), viewer(request), draft.saved) if draft.saved else None
    params = sent_params(draft.dataset, draft.raw)
    fields = moving_fields(draft.dataset, params, before.params if before else {}, moment)
    sent = {name: values[-1] for name, values in form.group("m.").items()}
    return page(
        request,
        "saved_orders/form.html",
        422 if errors else 200,
        dataset=draft.dataset,
        draft=draft,
        options=option_choices(draft.options, draft.zone),
        format=wording.format_title(draft.format),
        moving=[replace(field, chosen=sent.get(field.name, field.chosen)) for field in fields],
        name=form.text("name") or await _suggested_name(request, form, before) or draft.dataset.title,
        name_length=limits.NAME_LENGTH,
        saved=before,
        error=messages_by_field(errors).get("name", ""),
    )


async def _suggested_name(request: Request, form: Form, before: SavedOrder | None) -> str:
    if before is not None:
        return before.name
    if source := form.text("from"):
        return (await exports.read(resources(request), viewer(request), source)).name
    return ""


async def _index(
    request: Request, status: int = 200, *, wrong: Mapping[str, tuple[str, str]] | None = None
) -> Response:
    """`wrong` has names that were refused, each with the reason."""
    desk, who = resources(request), viewer(request)
    found = await saved_orders.list_own(desk, who)
    async with desk.store.connection():
        now = await desk.store.now()
        there = {export.id for export in await rows.any_of(desk.store, [s.export_id for s in found if s.export_id])}
    return page(
        request,
        "saved_orders/index.html",
        status,
        rows=[_row(request, saved, moment_in(saved.zone, now)) for saved in found],
        there=there,
        schedules=await schedules.of_own(desk, who),
        now=now,
        deleted=await _deleted(request),
        told_stop=told_stop,
        told_outcome=told_outcome,
        wrong=wrong or {},
        name_length=limits.NAME_LENGTH,
    )


async def _deleted(request: Request) -> SavedOrder | None:
    saved_id = request.query_params.get("deleted", "")
    try:
        return await saved_orders.get(resources(request), viewer(request), saved_id, is_deleted=True)
    except NotFound:
        return None


def _row(request: Request, saved: SavedOrder, moment: Moment) -> Row:
    catalog = resources(request).catalog
    dataset = catalog.datasets.get(saved.dataset)
    return Row(
        saved=saved,
        title=dataset.title if dataset else saved.dataset,
        format=wording.format_title(saved.format),
        params=(*_told(saved, dataset, moment), *_told_columns(saved)),
        can_order=catalog.dataset_for(saved.dataset, viewer(request)) is not None,
    )


def _told_columns(saved: SavedOrder) -> Iterator[tuple[str, str]]:
    if columns := saved.options.get("columns"):
        yield _("Columns"), told_names(columns)


def _told(saved: SavedOrder, dataset: Dataset | None, moment: Moment) -> Iterator[tuple[str, str]]:
    """Label and value of each parameter that is not left to chance: given, or a default that moves with the day."""
    for parameter in dataset.parameters if dataset else ():
        value = saved.params.get(parameter.name, parameter.default if is_relative(parameter.default) else None)
        if is_moving(parameter, value):
            yield parameter.label, f"{_(SHOWN_AS.get(value, value))} ({told_day(parameter, value, moment)})"
        elif value is not None:
            yield parameter.label, wording.told_value(value, parameter, saved.labels.get(parameter.name, {}))
