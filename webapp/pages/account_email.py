"""`/account/email`: the address that is mailed when exports end."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import emails
from webapp.domain.access import TooManyTries
from webapp.domain.errors import Invalid
from webapp.domain.sentences import sentence_of
from webapp.pages.account import HERE, account_page
from webapp.web.context import resources, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import messages_by_field, read_form
from webapp.web.render import page


async def ask(request: Request) -> Response:
    address = (await read_form(request)).text("email")[:1000]
    try:
        await emails.ask(resources(request), viewer(request), address)
    except Invalid as invalid:
        return await account_page(request, 422, messages_by_field(invalid.errors), email=address)
    except TooManyTries as error:
        return await account_page(request, 429, {"email": sentence_of(error)}, email=address)
    return redirect(request, HERE, flash("email-asked"))


async def stop_asking(request: Request) -> Response:
    await emails.stop_asking(resources(request), viewer(request))
    return redirect(request, HERE, flash("email-not-asked"))


async def choose(request: Request) -> Response:
    try:
        await emails.choose(resources(request), viewer(request), always="always" in await read_form(request))
    except Invalid as invalid:
        return await account_page(request, 422, messages_by_field(invalid.errors))
    return redirect(request, HERE, flash("preferences-saved"))


async def remove(request: Request) -> Response:
    await emails.remove(resources(request), viewer(request))
    return redirect(request, HERE, flash("email-removed"))


async def show_confirmation(request: Request) -> Response:
    """Only shows a button: mail programs open links to preview them, and must not spend this one."""
    address = await emails.asked_by(resources(request), viewer(request), request.path_params["token"])
    return _confirmation(request, address)


async def confirm(request: Request) -> Response:
    if not await emails.confirm(resources(request), viewer(request), request.path_params["token"]):
        return _confirmation(request, None)
    return redirect(request, HERE, flash("email-confirmed"))


def _confirmation(request: Request, address: str | None) -> Response:
    status = 200 if address else 404
    return page(request, "account/confirm_email.html", status, action=request.url.path, address=address)
