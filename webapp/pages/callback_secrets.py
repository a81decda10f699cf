"""Showing a secret, once: after an endpoint was made, and after its secret was rotated."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import endpoint_secrets, endpoints, inspectors
from webapp.domain.callbacks import Endpoint
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.pages.callback_snippets import snippets
from webapp.pages.callback_wording import short_url
from webapp.resources import Resources
from webapp.sealing import Unsealable
from webapp.web.context import admin, endpoint_id, resources
from webapp.web.flash import flash, redirect
from webapp.web.forms import read_form
from webapp.web.render import page

COOKIE = "exportdesk_reveal"
SECONDS = 300
OVERLAPS = {"0": say("At once"), "1": say("1 hour"), "24": say("24 hours"), "72": say("3 days"), "168": say("7 days")}


class Permit(msgspec.Struct, frozen=True):
    """Lets one person see the newest secret of one endpoint, and whether its key is new too. It holds no secret."""

    viewer: str
    endpoint: str
    made_at: float
    issued_at: float
    with_key: bool
    is_new: bool
    notes: tuple[str, ...]


_permits = msgspec.json.Decoder(Permit)


async def reveal(
    request: Request, endpoint: Endpoint, *, is_new: bool, with_key: bool, notes: Sequence[str] = ()
) -> Response:
    """Leads to the page that shows the secret; the cookie is the only way in, and is spent there."""
    issued_at = (await resources(request).store.now()).timestamp()
    permit = Permit(
        admin(request).id, endpoint.id, _made_at(endpoint), issued_at, with_key, is_new, tuple(map(str, notes))[:5]
    )
    response = redirect(request, f"/callbacks/{endpoint.id}/secret")
    response.set_cookie(
        COOKIE,
        resources(request).sealer.seal(msgspec.json.encode(permit).decode()),
        max_age=SECONDS,
        path="/callbacks",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return response


async def show(request: Request) -> Response:
    """Without a permit it says that a secret is not shown again."""
    who = admin(request)
    endpoint = await endpoints.get(resources(request), endpoint_id(request))
    permit = _permit(resources(request), request.cookies.get(COOKIE, ""))
    is_valid = permit is not None and _fits(permit, endpoint, who.id, await resources(request).store.now())
    response = page(
        request,
        "callbacks/secret.html",
        endpoint=endpoint,
        heading=short_url(endpoint.settings.url),
        secret=endpoint.secrets[0].value if is_valid else "",
        key=endpoint.settings.encryption_key if is_valid and permit and permit.with_key else None,
        is_new=bool(permit and permit.is_new),
        inspector=await inspectors.find_by_url(resources(request), endpoint.settings.url),
        notes=permit.notes if is_valid and permit else (),
        snippets=snippets(is_encrypted=endpoint.settings.encryption_key is not None),
    )
    response.delete_cookie(COOKIE, path="/callbacks", httponly=True, samesite="lax")
    return response


async def rotate(request: Request) -> Response:
    who = admin(request)
    overlap = (await read_form(request)).text("overlap", "24")
    if overlap not in OVERLAPS:
        raise Invalid([FieldError("overlap", say("Choose one of: {choices}.", choices=", ".join(OVERLAPS)))])
    hours = timedelta(hours=int(overlap))
    try:
        endpoint = await endpoint_secrets.rotate(resources(request), who, endpoint_id(request), overlap=hours)
    except Invalid:  # the overlap is one of ours, so there are too many
        return redirect(request, f"/callbacks/{endpoint_id(request)}", flash("many-secrets"))
    return await reveal(request, endpoint, is_new=False, with_key=False)


def _made_at(endpoint: Endpoint) -> float:
    return endpoint.secrets[0].created_at.timestamp()


def _permit(desk: Resources, sealed: str) -> Permit | None:
    try:
        return _permits.decode(desk.sealer.open(sealed)) if sealed else None
    except (Unsealable, msgspec.MsgspecError):
        return None


def _fits(permit: Permit, endpoint: Endpoint, viewer_id: str, now: datetime) -> bool:
    is_theirs = permit.viewer == viewer_id and permit.endpoint == endpoint.id
    return is_theirs and permit.made_at == _made_at(endpoint) and 0 <= now.timestamp() - permit.issued_at < SECONDS
