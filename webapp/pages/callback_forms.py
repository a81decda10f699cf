"""Making and editing an endpoint, and trying its URL out before anything is saved."""

from __future__ import annotations

from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import endpoint_settings, endpoints, inspectors
from webapp.actions.endpoint_settings import Checked
from webapp.domain import signing
from webapp.domain.callbacks import IN_FLIGHT_RANGE, RATE_RANGE, SCHEDULES, TIME_LIMITS, Endpoint
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.pages.callback_console import Console, console_of, try_out
from webapp.pages.callback_fields import EndpointForm, event_choices, form_of_settings, given, sent_form
from webapp.pages.callback_secrets import reveal
from webapp.pages.callback_wording import SCHEDULE_LABELS, short_url, told_waits
from webapp.web.context import admin, endpoint_id, resources
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, query_form, read_form
from webapp.web.render import fragment, is_fragment, page


@dataclass(frozen=True, slots=True)
class Draft:
    """A form that is being filled in; `endpoint` is None for a new one."""

    form: Form
    endpoint: Endpoint | None = None

    @property
    def path(self) -> str:
        return f"/callbacks/{self.endpoint.id}/edit" if self.endpoint else "/callbacks/new"

    def as_sent(self, invalid: Invalid | None = None) -> EndpointForm:
        errors = messages_by_field(_by_row(invalid)) if invalid else {}
        return sent_form(self.form, self.endpoint.settings if self.endpoint else None, errors)


async def new(request: Request) -> Response:
    """`url` fills the URL in."""
    admin(request)
    form = query_form(request.query_params)
    return await _page(request, Draft(form), EndpointForm(url=form.text("url")[:4096]))


async def edit(request: Request) -> Response:
    admin(request)
    endpoint = await endpoints.get(resources(request), endpoint_id(request))
    return await _page(request, Draft(Form(), endpoint), form_of_settings(endpoint.settings))


async def create(request: Request) -> Response:
    who, draft = admin(request), Draft(await read_form(request))
    try:
        made = await endpoints.create(resources(request), who, await _given(request, draft))
    except Invalid as invalid:
        return await _page(request, draft, draft.as_sent(invalid), status=422)
    has_key = made.endpoint.settings.encryption_key is not None
    return await reveal(request, made.endpoint, is_new=True, with_key=has_key, notes=made.notes)


async def update(request: Request) -> Response:
    who, draft = admin(request), await _draft(request)
    assert draft.endpoint is not None
    here = f"/callbacks/{draft.endpoint.id}"
    try:
        changed = await endpoints.edit(resources(request), who, draft.endpoint.id, await _given(request, draft))
    except Invalid as invalid:
        return await _page(request, draft, draft.as_sent(invalid), status=422)
    if draft.form.text("encryption") == "new":
        return await reveal(request, changed.endpoint, is_new=False, with_key=True, notes=changed.notes)
    noted = [flash("endpoint-unresolved")] if changed.notes else []
    return redirect(request, here, flash("endpoint-saved"), *noted)


async def use_inspector(request: Request) -> Response:
    """The form as it is, with the URL of an inspector: the one that was chosen, or a new one."""
    who, draft = admin(request), await _draft(request)
    try:
        token = draft.form.text("inspector")
        desk = resources(request)
        inspector = await (inspectors.find(desk, token) if token else inspectors.create(desk, who))
    except Invalid as invalid:
        return await _page(request, draft, draft.as_sent(invalid), status=422)
    shown = EndpointForm() if "url" not in draft.form else draft.as_sent()
    return await _page(request, draft, replace(shown, url=inspector.url))


async def trial(request: Request) -> Response:
    """Sends a sample to what the form says, saved or not. Another event's sample is fetched here without JavaScript."""
    admin(request)
    draft = await _draft(request)
    console = await console_of(request, draft.form)
    if "fresh" in draft.form:
        return await _page(request, draft, draft.as_sent(), console)
    try:
        checked = await _check(request, draft)
    except Invalid as invalid:
        shown = draft.as_sent(invalid)
        return await _tried(request, draft, replace(console, errors=shown.mistakes), shown)
    done = await try_out(request, console, checked.settings, await _secrets(request, draft))
    return await _tried(request, draft, done, draft.as_sent())


async def _tried(request: Request, draft: Draft, console: Console, shown: EndpointForm) -> Response:
    status = 422 if console.error or console.errors else 200
    if is_fragment(request):
        return fragment("callbacks/_trial.html", status, console=console, labels=dict(event_choices()))
    return await _page(request, draft, shown, console, status=status)


async def _secrets(request: Request, draft: Draft) -> list[str]:
    """Of an endpoint that is not there yet, one that signs this try alone."""
    if draft.endpoint is None:
        return [signing.new_secret()]
    now = await resources(request).store.now()
    return [secret.value for secret in draft.endpoint.valid_secrets(now)]


async def _draft(request: Request) -> Draft:
    """Raises NotFound for an endpoint that is not there."""
    form = await read_form(request)
    if "endpoint_id" not in request.path_params:
        return Draft(form)
    return Draft(form, await endpoints.get(resources(request), endpoint_id(request)))


async def _check(request: Request, draft: Draft) -> Checked:
    before = draft.endpoint.settings if draft.endpoint else None
    return await endpoint_settings.check(resources(request), await _given(request, draft), before=before)


async def _given(request: Request, draft: Draft) -> dict[str, object]:
    """Raises Invalid for what only a form can get wrong, together with whatever else is wrong."""
    before = draft.endpoint.settings if draft.endpoint else None
    fields, errors = given(draft.form, before)
    if not errors:
        return fields
    try:
        await endpoint_settings.check(resources(request), fields, before=before)
    except Invalid as invalid:
        errors += invalid.errors
    raise Invalid(errors)


def _by_row(invalid: Invalid) -> list[FieldError]:
    """Mistakes in one header or one wait belong to the whole field."""
    return [FieldError(error.field.split(".")[0].split("[")[0], error.message) for error in invalid.errors]


async def _page(
    request: Request, draft: Draft, shown: EndpointForm, console: Console | None = None, *, status: int = 200
) -> Response:
    desk = resources(request)
    endpoint = draft.endpoint
    return page(
        request,
        "callbacks/form.html",
        status,
        endpoint=endpoint,
        heading=short_url(endpoint.settings.url) if endpoint else say("New endpoint"),
        form=shown,
        form_path=draft.path,
        event_choices=event_choices(),
        labels=dict(event_choices()),
        datasets=sorted(desk.catalog.datasets.values(), key=lambda dataset: dataset.title),
        schedule_labels=SCHEDULE_LABELS,
        schedules={name: told_waits(waits) for name, waits in SCHEDULES.items()},
        time_limits=TIME_LIMITS,
        rates=RATE_RANGE,
        in_flight=IN_FLIGHT_RANGE,
        inspectors=(await inspectors.list_all(desk))[:5],
        console=console or await console_of(request, draft.form),
    )
