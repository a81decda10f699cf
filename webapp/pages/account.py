"""`/account`: one's own password, sessions, language, time zone and API tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import accounts, emails, passwords, people
from webapp.domain.access import TooManyTries
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say, sentence_of
from webapp.language import LANGUAGES
from webapp.pages.browsers import browser_name
from webapp.pages.order_options import time_zones
from webapp.pages.session import browser_of, enter
from webapp.pages.token_fields import LIFETIMES, SCOPES, TokenForm, lifetime_of, sent_token, token_row
from webapp.web.context import resources, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import messages_by_field, read_form
from webapp.web.languages import forget, remember
from webapp.web.render import page

HERE = "/account"


async def show(request: Request) -> Response:
    return await account_page(request)


async def account_page(
    request: Request,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
    form: TokenForm | None = None,
    email: str = "",
) -> Response:
    who, desk = viewer(request), resources(request)
    user, now = await accounts.own(desk, who), await desk.store.now()
    tokens = [token_row(token, now) for token in await people.list_tokens(desk, who.id)]
    context: dict[str, Any] = {
        "user": user,
        "may_set_password": await accounts.may_set_password(desk, who, user),
        "first_by_link": accounts.FIRST_BY_LINK,
        "now": now,
        "sessions": await accounts.sessions(desk, who),
        "browser_name": browser_name,
        "tokens": [row for row in reversed(tokens) if row.is_in_force],
        "ended": sum(not row.is_in_force for row in tokens),
        "zones": time_zones(),
        "least": passwords.LENGTH[0],
        "errors": errors or {},
        "mailbox": await emails.of(desk, who),
        "awaited": await emails.awaited(desk, who),
        "can_mail": desk.settings.mail is not None,
        "email": email,
        "form": form or TokenForm(),
        "scopes": SCOPES,
        "lifetimes": LIFETIMES,
    }
    return page(request, "account/show.html", status, **context)


async def set_password(request: Request) -> Response:
    """Signs this browser in anew and all others out; tells how many API tokens still work."""
    who, form = viewer(request), await read_form(request)
    new, browser = form.text("password"), browser_of(request)
    try:
        if new != form.text("again"):
            raise Invalid([FieldError("again", say("This is not the same as above."))])
        session = await accounts.change_password(
            resources(request),
            who,
            current=form.text("current"),
            new=new,
            browser=browser,
            ends_tokens=bool(form.text("tokens")),
        )
        left = await people.count_tokens(resources(request), who.id)
    except Invalid as invalid:
        return await account_page(request, 422, messages_by_field(invalid.errors))
    except TooManyTries as error:
        return await account_page(request, 429, {"current": sentence_of(error)})
    told = [flash("password-changed"), *([flash("tokens-go-on", n=left)] if left else [])]
    return await enter(request, session, HERE, *told)


async def set_preferences(request: Request) -> Response:
    who, form = viewer(request), await read_form(request)
    try:
        await accounts.set_preferences(
            resources(request), who, language=form.text("language"), timezone=form.text("timezone")
        )
    except Invalid as invalid:
        return await account_page(request, 422, messages_by_field(invalid.errors))
    response = redirect(request, HERE, flash("preferences-saved"))
    if chosen := LANGUAGES.get(form.text("language")):
        remember(response, request, chosen)
    else:
        forget(response)
    return response


async def end_session(request: Request) -> Response:
    """One, or without a name all others."""
    who, form = viewer(request), await read_form(request)
    if chosen := form.text("session"):
        await accounts.end_session(resources(request), who, chosen[:100])
        return redirect(request, HERE, flash("sessions-ended", n=1))
    count = await accounts.end_other_sessions(resources(request), who)
    return redirect(request, HERE, flash("sessions-ended", n=count) if count else flash("no-other-sessions"))


async def create_token(request: Request) -> Response:
    """The page after it shows the token, this once."""
    who, desk = viewer(request), resources(request)
    form = sent_token(await read_form(request))
    try:
        user = await accounts.own(desk, who)
        lifetime = lifetime_of(form)
        _, token = await people.create_token(
            desk, user, form.name, actor=who.name, scopes=form.scopes, lifetime=lifetime
        )
    except Invalid as invalid:
        return await account_page(request, 422, form=replace(form, errors=messages_by_field(invalid.errors)))
    return page(request, "account/token.html", 201, token=token, name=form.name.strip())


async def revoke_token(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, desk, token_id = viewer(request), resources(request), request.path_params["token_id"]
    if "confirmed" not in await read_form(request):
        return page(request, "account/confirm_revocation.html", action=request.url.path, back=HERE)
    await people.revoke_token(desk, token_id, actor=who.name, user_id=who.id)
    return redirect(request, HERE, flash("token-revoked"))
