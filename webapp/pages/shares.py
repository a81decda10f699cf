"""Sharing on an export's page: with whom, withdraw it, and the search for people."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import shares
from webapp.domain.access import NotFound, TooManyTries
from webapp.domain.errors import Invalid
from webapp.domain.sentences import sentence_of
from webapp.domain.shares import NothingToShare
from webapp.pages.exports import show_export
from webapp.web.context import export_id, resources, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import messages_by_field, read_form
from webapp.web.render import fragment

SHARES = "#shares"


async def share(request: Request) -> Response:
    """With a mistake in it the page comes again, with what was sent."""
    who, form = viewer(request), await read_form(request)
    sent = {"person": form.text("person"), "note": form.text("note")}
    try:
        shared, _ = await shares.put(resources(request), who, export_id(request), sent["person"], sent["note"])
    except Invalid as invalid:
        return await show_export(request, 422, share_form={**sent, "errors": messages_by_field(invalid.errors)})
    except TooManyTries as error:
        return await show_export(request, 429, share_form={**sent, "errors": {"person": sentence_of(error)}})
    except NothingToShare:
        return redirect(request, _here(request), flash("nothing-to-share"))
    return redirect(request, _here(request) + SHARES, flash("shared", name=shared.user))


async def withdraw(request: Request) -> Response:
    """What was withdrawn already is so all the same."""
    who, name = viewer(request), (await read_form(request)).text("person")
    try:
        await shares.withdraw(resources(request), who, export_id(request), name)
    except NotFound:
        await shares.of_export(resources(request), who, export_id(request))
    return redirect(request, _here(request) + SHARES, flash("unshared"))


async def people(request: Request) -> Response:
    """Those it could be shared with, as a field's suggestions."""
    text = request.query_params.get("person", "")
    found = await shares.candidates(resources(request), viewer(request), export_id(request), text)
    return fragment("exports/_people.html", names=found)


def _here(request: Request) -> str:
    return f"/exports/{export_id(request)}"
