"""Ordering an export: pick a dataset, fill in its parameters, look at the first rows, choose a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import datasets, exports
from webapp.actions.estimates import estimate
from webapp.actions.exports import Order
from webapp.datasets.declaration import Dataset
from webapp.datasets.relative import known_zone, moment_in
from webapp.domain import limits
from webapp.domain.access import QuotaExceeded
from webapp.domain.errors import AttemptFailed, FieldError, Invalid, export_error
from webapp.domain.formats import APPLIES, FORMATS, PERSON_DEFAULTS, options_json
from webapp.pages.order_fields import as_raw, order_fields, sent_params
from webapp.pages.order_options import option_choices, option_texts, sent_options
from webapp.pages.preview import PreviewTable, table
from webapp.web.context import resources, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, query_form, read_form
from webapp.web.render import fragment, is_fragment, page

ZONE_COOKIE = "exportdesk_zone"
"""Written by app.js, so that a form's first showing has the dates of the person's own day."""

SEARCH_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Draft:
    """An order that is being filled in; `sent` once its form came back, before that a link may have filled it in."""

    dataset: Dataset
    raw: Mapping[str, Sequence[str]]
    format: str
    options: Mapping[str, str]
    zone: str
    sent: bool = False
    searches: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: tuple[FieldError, ...] = ()
    notice: str = ""


async def new(request: Request) -> Response:
    """Without `dataset` a choice of datasets, else the form, filled in from `from` and `p.…`."""
    form = query_form(request.query_params)
    source = form.text("from")
    if not form.text("dataset") and not source:
        return _pick(request, form.text("q"))
    return await _form(request, await _again(request, source) if source else _draft(request, form))


async def create(request: Request) -> Response:
    form = await read_form(request)
    draft = _draft(request, form)
    params = sent_params(draft.dataset, draft.raw)
    order = Order(draft.dataset.name, params, draft.format, sent_options(form, draft.format), draft.zone)
    defaults = replace(PERSON_DEFAULTS, timezone=draft.zone)
    try:
        export, is_new = await exports.order(resources(request), viewer(request), order, defaults=defaults)
    except Invalid as invalid:
        return await _form(request, replace(draft, errors=tuple(invalid.errors)), 422)
    except QuotaExceeded as error:
        headers = {"Retry-After": str(error.retry_after)}
        return await _form(request, replace(draft, notice=str(error)), 429, headers)
    return redirect(request, f"/exports/{export.id}", flash("order-taken" if is_new else "order-active"))


async def preview(request: Request) -> Response:
    """The first rows: alone for htmx, and within the whole form for a browser without JavaScript."""
    draft = _draft(request, await _sent_form(request))
    errors: tuple[FieldError, ...] = ()
    status, context = 200, dict[str, Any](preview=None, trouble="")
    try:
        context["preview"] = await _preview(request, draft)
    except Invalid as invalid:
        status, errors = 422, tuple(invalid.errors)
        context["trouble"] = " ".join(error.message for error in errors)
    except AttemptFailed as failure:
        context["trouble"] = export_error(failure.code, **failure.details).message
    if is_fragment(request):
        return fragment("exports/_preview.html", status, dataset=draft.dataset, **context)
    return await _form(request, replace(draft, errors=errors), status, **context)


async def choices(request: Request) -> Response:
    """What a search in a long list of choices finds: alone for htmx, else within the whole form."""
    form = await _sent_form(request)
    draft = _draft(request, form)
    if not is_fragment(request):
        return await _form(request, replace(draft, sent=True))
    name = form.text("parameter")
    text = form.text("q", draft.searches.get(name, ""))[:SEARCH_LENGTH]
    several = {parameter.name for parameter in draft.dataset.parameters if parameter.type.is_multiple}
    context = dict[str, Any](name=name, is_multiple=name in several, values=(), found=None, trouble="")
    try:
        context["found"] = await datasets.find_choices(
            resources(request), draft.dataset, name, text, limit=limits.CHOICES_FOUND
        )
    except AttemptFailed as failure:
        context["trouble"] = export_error(failure.code, **failure.details).message
    return fragment("exports/_choices.html", **context)


async def _preview(request: Request, draft: Draft) -> PreviewTable:
    """With what is expected of each format: which one is chosen may change after the rows were read."""
    desk, dataset = resources(request), draft.dataset
    found = await datasets.preview(desk, dataset, sent_params(dataset, draft.raw), zone=draft.zone)
    chosen = draft.options.get("compression", PERSON_DEFAULTS.compression)
    packed = {format: chosen if "compression" in APPLIES.get(format, ()) else "none" for format in dataset.formats}
    expected = {
        format: await estimate(desk, dataset, found.estimate, format=format, compression=compression)
        for format, compression in packed.items()
    }
    return table(found, expected)


async def _sent_form(request: Request) -> Form:
    return await read_form(request) if request.method == "POST" else query_form(request.query_params)


def _zone(request: Request, form: Form) -> str:
    """The person's own, as the browser knows it; UTC without JavaScript."""
    return known_zone(form.text("zone") or request.cookies.get(ZONE_COOKIE, ""))


def _pick(request: Request, text: str) -> Response:
    words = text.casefold().split()
    offered = resources(request).catalog.datasets_for(viewer(request).role)
    found = [dataset for dataset in offered if all(word in _searched(dataset) for word in words)]
    return page(request, "exports/pick.html", datasets=found, text=text[:200], has_any=bool(offered))


def _searched(dataset: Dataset) -> str:
    return f"{dataset.name} {dataset.title} {dataset.description}".casefold()


def _draft(request: Request, form: Form) -> Draft:
    """Raises NotFound for a dataset that is not this person's to export."""
    dataset = datasets.get(resources(request), viewer(request), form.text("dataset"))
    format = form.text("format") or dataset.formats[0]
    return Draft(
        dataset,
        form.group("p."),
        format,
        option_texts(form),
        _zone(request, form),
        sent=request.method == "POST",
        searches={name: values[-1][:SEARCH_LENGTH] for name, values in form.group("q.").items()},
    )


async def _again(request: Request, export_id: str) -> Draft:
    """The form as it was for an earlier export, to order it again or a little differently."""
    export = await exports.get(resources(request), viewer(request), export_id)
    dataset = datasets.get(resources(request), viewer(request), export.dataset)
    format = export.format if export.format in dataset.formats else dataset.formats[0]
    texts = {name: _option_text(value) for name, value in export.options.items()}
    return Draft(dataset, as_raw(dataset, export.params), format, texts, _zone(request, Form()))


def _option_text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


async def _form(
    request: Request, draft: Draft, status: int = 200, headers: Mapping[str, str] | None = None, **preview: Any
) -> Response:
    moment = moment_in(draft.zone, await resources(request).store.now())
    listed = await datasets.with_lists(resources(request), draft.dataset)
    troubles = {f"params.{name}": trouble for name, trouble in listed.troubles.items()}
    messages = messages_by_field(draft.errors)
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
        zone=draft.zone,
        messages_by_field=messages,
        stray=[text for name, text in messages.items() if name not in _shown_fields(draft)],
        notice=draft.notice,
        **{"preview": None, "trouble": "", **preview},
    )


def _shown_fields(draft: Draft) -> set[str]:
    params = {f"params.{parameter.name}" for parameter in draft.dataset.parameters}
    return (
        params | {f"options.{name}" for name in options_json(PERSON_DEFAULTS, "csv")} | {"format", "options.timezone"}
    )
