"""Ordering an export: pick a dataset, fill in its parameters, look at the first rows, choose a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import datasets, emails, exports, saved_orders
from webapp.actions.estimates import estimate
from webapp.actions.exports import Order
from webapp.datasets.declaration import Dataset
from webapp.datasets.relative import moment_in
from webapp.domain import limits
from webapp.domain.access import QuotaExceeded
from webapp.domain.errors import AttemptFailed, FieldError, Invalid, export_error
from webapp.domain.formats import APPLIES, FORMATS, NO_COLUMN, PERSON_DEFAULTS, Options, options_json
from webapp.language import gettext
from webapp.pages.order_columns import ALL, Columns, ordered_columns, sent_columns
from webapp.pages.order_fields import as_raw, order_fields, sent_params
from webapp.pages.order_options import option_choices, option_texts, sent_options
from webapp.pages.preview import PreviewTable, table
from webapp.web.context import resources, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, query_form, read_form, sentence
from webapp.web.render import fragment, is_fragment, page
from webapp.web.words import told_error
from webapp.web.zones import own_zone

SEARCH_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Draft:
    """An order that is being filled in; `sent` once its form came back, before that a link may have filled it in.

    `saved` is the id of the saved order that it is to change.
    """

    dataset: Dataset
    raw: Mapping[str, Sequence[str]]
    format: str
    options: Mapping[str, str]
    zone: str
    sent: bool = False
    columns: Columns = ALL
    searches: Mapping[str, str] = field(default_factory=dict[str, str])
    saved: str = ""
    notify: str = ""
    errors: tuple[FieldError, ...] = ()
    notice: str = ""


async def new(request: Request) -> Response:
    """Without `dataset` a choice of datasets, else the form, filled in from `from`, `saved` or `dataset` and `p.…`."""
    form = query_form(request.query_params)
    if not any(form.text(name) for name in ("dataset", "from", "saved")):
        return _pick(request, form.text("q"))
    return await order_form(request, await asked_draft(request, form))


async def asked_draft(request: Request, form: Form) -> Draft:
    """What a link or form asks for: an earlier export, a saved order, or what it says itself. Raises NotFound."""
    if source := form.text("from"):
        return await _again(request, source)
    if "dataset" not in form:
        return await _of_saved(request, form.text("saved"))
    return draft_of(request, form)


async def create(request: Request) -> Response:
    form = await read_form(request)
    draft = draft_of(request, form)
    order, defaults = order_of(draft, form)
    try:
        export, is_new = await exports.order(resources(request), viewer(request), order, defaults=defaults)
    except Invalid as invalid:
        return await order_form(request, replace(draft, errors=tuple(invalid.errors)), 422)
    except QuotaExceeded as error:
        headers = {"Retry-After": str(error.retry_after)}
        return await order_form(request, replace(draft, notice=str(error)), 429, headers)
    return redirect(request, f"/exports/{export.id}", flash("order-taken" if is_new else "order-active"))


def order_of(draft: Draft, form: Form) -> tuple[Order, Options]:
    """What the form orders, and the options of a person who chose none."""
    params = sent_params(draft.dataset, draft.raw)
    order = Order(
        draft.dataset.name,
        params,
        draft.format,
        sent_options(form, draft.format),
        draft.zone,
        notify=draft.notify or None,
    )
    return order, replace(PERSON_DEFAULTS, timezone=draft.zone)


async def preview(request: Request) -> Response:
    """The first rows: alone for htmx, and within the whole form for a browser without JavaScript."""
    draft = draft_of(request, await _sent_form(request))
    errors: tuple[FieldError, ...] = ()
    status, context = 200, dict[str, Any](preview=None, trouble="")
    try:
        context["preview"] = await _preview(request, draft)
    except Invalid as invalid:
        status, errors = 422, tuple(invalid.errors)
        context["trouble"] = " ".join(sentence(gettext(error.message)) for error in errors)
    except AttemptFailed as failure:
        context["trouble"] = told_error(export_error(failure.code, **failure.details))
    if is_fragment(request):
        return fragment("exports/_preview.html", status, dataset=draft.dataset, **context)
    return await order_form(request, replace(draft, errors=errors), status, **context)


async def choices(request: Request) -> Response:
    """What a search in a long list of choices finds: alone for htmx, else within the whole form."""
    form = await _sent_form(request)
    draft = draft_of(request, form)
    if not is_fragment(request):
        return await order_form(request, replace(draft, sent=True))
    name = form.text("parameter")
    text = form.text("q", draft.searches.get(name, ""))[:SEARCH_LENGTH]
    several = {parameter.name for parameter in draft.dataset.parameters if parameter.type.is_multiple}
    context = dict[str, Any](name=name, is_multiple=name in several, values=(), found=None, trouble="")
    try:
        context["found"] = await datasets.find_choices(
            resources(request), draft.dataset, name, text, limit=limits.CHOICES_FOUND
        )
    except AttemptFailed as failure:
        context["trouble"] = told_error(export_error(failure.code, **failure.details))
    return fragment("exports/_choices.html", **context)


async def columns(request: Request) -> Response:
    """Which columns there are to choose from, and what a button made of the choice: alone for htmx, else within the
    whole form."""
    form = await _sent_form(request)
    draft, trouble = await _with_columns(request, draft_of(request, form))
    draft = replace(draft, columns=draft.columns.pressed(form.text("columns")))
    if is_fragment(request):
        return fragment("exports/_columns.html", columns=draft.columns, column_trouble=trouble, is_part=True)
    return await order_form(request, draft, column_trouble=trouble)


async def _with_columns(request: Request, draft: Draft) -> tuple[Draft, str]:
    """With those of the dataset, unless it has them already; or why there are none."""
    if draft.columns.known:
        return draft, ""
    desk, params = resources(request), sent_params(draft.dataset, draft.raw)
    moment = moment_in(draft.zone, await desk.store.now())
    try:
        found = await datasets.columns_of(desk, draft.dataset, params, moment)
    except AttemptFailed as failure:
        return draft, told_error(export_error(failure.code, **failure.details))
    if len(found) > limits.COLUMNS_MOST:
        return draft, gettext(
            "The dataset has {n} columns, too many to list. Programs can name those they want.", n=len(found)
        )
    return replace(draft, columns=draft.columns.looked_up([column.name for column in found])), ""


async def _preview(request: Request, draft: Draft) -> PreviewTable:
    """With what is expected of each format: which one is chosen may change after the rows were read."""
    desk, dataset = resources(request), draft.dataset
    chosen_columns = draft.columns.chosen
    if chosen_columns == ():
        raise Invalid([FieldError("options.columns", NO_COLUMN)])
    columns = chosen_columns or ()
    found = await datasets.preview(desk, dataset, sent_params(dataset, draft.raw), zone=draft.zone, columns=columns)
    chosen = draft.options.get("compression", PERSON_DEFAULTS.compression)
    packed = {format: chosen if "compression" in APPLIES.get(format, ()) else "none" for format in dataset.formats}
    expected = {
        format: await estimate(desk, dataset, found.estimate, format=format, compression=compression, columns=columns)
        for format, compression in packed.items()
    }
    return table(found, expected)


async def _sent_form(request: Request) -> Form:
    return await read_form(request) if request.method == "POST" else query_form(request.query_params)


def _pick(request: Request, text: str) -> Response:
    words = text.casefold().split()
    offered = resources(request).catalog.datasets_for(viewer(request))
    found = [dataset for dataset in offered if all(word in _searched(dataset) for word in words)]
    return page(request, "exports/pick.html", datasets=found, text=text[:200], has_any=bool(offered))


def _searched(dataset: Dataset) -> str:
    return f"{dataset.name} {dataset.title} {dataset.description}".casefold()


def draft_of(request: Request, form: Form) -> Draft:
    """Raises NotFound for a dataset that is not this person's to export."""
    dataset = datasets.get(resources(request), viewer(request), form.text("dataset"))
    format = form.text("format") or dataset.formats[0]
    return Draft(
        dataset,
        form.group("p."),
        format,
        option_texts(form),
        own_zone(request, form.text("zone")),
        sent=request.method == "POST",
        columns=sent_columns(form),
        searches={name: values[-1][:SEARCH_LENGTH] for name, values in form.group("q.").items()},
        saved=form.text("saved"),
        notify=form.text("notify"),
    )


async def _again(request: Request, export_id: str) -> Draft:
    """The form as it was for an earlier export, to order it again or a little differently."""
    export = await exports.read(resources(request), viewer(request), export_id)
    dataset = datasets.get(resources(request), viewer(request), export.dataset)
    format = export.format if export.format in dataset.formats else dataset.formats[0]
    texts, columns = _option_texts(export.options), ordered_columns(export.options)
    return Draft(dataset, as_raw(dataset, export.params), format, texts, own_zone(request), columns=columns)


async def _of_saved(request: Request, saved_id: str) -> Draft:
    """The form as it was saved, with the dates of today. Raises NotFound when its dataset is gone."""
    saved = await saved_orders.get(resources(request), viewer(request), saved_id)
    dataset = datasets.get(resources(request), viewer(request), saved.dataset)
    format = saved.format if saved.format in dataset.formats else dataset.formats[0]
    texts, columns = _option_texts(saved.options), ordered_columns(saved.options)
    given = {name: values for name, values in as_raw(dataset, saved.params).items() if name in saved.params}
    return Draft(dataset, given, format, texts, saved.zone, columns=columns, saved=saved.id)


def _option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in options.items() if name != "columns"}  # fmt: skip


async def order_form(
    request: Request, draft: Draft, status: int = 200, headers: Mapping[str, str] | None = None, **preview: Any
) -> Response:
    moment = moment_in(draft.zone, await resources(request).store.now())
    listed = await datasets.with_lists(resources(request), draft.dataset)
    troubles = {f"params.{name}": trouble for name, trouble in listed.troubles.items()}
    messages = messages_by_field(draft.errors)
    mailbox = await emails.of(resources(request), viewer(request))
    column_trouble = preview.pop("column_trouble", "")
    if draft.columns.chosen is not None:
        draft, column_trouble = await _with_columns(request, draft)
    fields = order_fields(
        listed.dataset, draft.raw, troubles | messages, moment, sent=draft.sent, searches=draft.searches
    )
    return page(
        request,
        "exports/new.html",
        status,
        headers,
        dataset=draft.dataset,
        fields=fields,
        can_preview=not any(field.required and not field.value for field in fields),
        formats=[FORMATS[name] for name in draft.dataset.formats if name in FORMATS],
        chosen=draft.format,
        applies=APPLIES,
        options=option_choices(draft.options, draft.zone),
        columns=draft.columns,
        column_trouble=column_trouble,
        is_part=False,
        zone=draft.zone,
        saved=draft.saved,
        messages_by_field=messages,
        stray=[text for name, text in messages.items() if name not in _shown_fields(draft)],
        notice=draft.notice,
        can_mail=resources(request).settings.mail is not None,
        mailbox=mailbox if resources(request).settings.mail and mailbox.address else None,
        notify=draft.notify,
        **{"preview": None, "trouble": "", **preview},
    )


def _shown_fields(draft: Draft) -> set[str]:
    params = {f"params.{parameter.name}" for parameter in draft.dataset.parameters}
    options = {f"options.{name}" for name in (*options_json(PERSON_DEFAULTS, "csv"), "timezone", "columns")}
    return params | options | {"format"}
