"""Signing in by way of an OpenID provider: there, and back again."""

from __future__ import annotations

import logging
import time

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from webapp.actions import identities
from webapp.domain.access import NotFound
from webapp.domain.errors import Invalid
from webapp.domain.sentences import say
from webapp.openid import OpenIDAway, OpenIDFailed, OpenIDRefused, Provider, Trip
from webapp.pages.session import browser_of, enter, form_page
from webapp.sealing import Unsealable
from webapp.web.context import resources
from webapp.web.render import local_path

COOKIE = "exportdesk_openid"
PATH = "/sign-in/openid"
TRIP_SECONDS = 600
KEPT_OUT = say("You are not let in here. Ask the person who runs this export desk.")
REFUSED = say("The provider did not let you in. Ask the person who runs this export desk.")
AWAY = say(
    "The provider cannot be reached. Try again in a few minutes; "
    "if that does not help, tell the person who runs this export desk."
)

log = logging.getLogger(__name__)
_trips = msgspec.json.Decoder(Trip)


async def depart(request: Request) -> Response:
    """To the provider."""
    provider, desk = _provider(request), resources(request)
    following = local_path(request.query_params.get("next"))
    try:
        url, trip = await provider.departure(following)
    except OpenIDFailed as failure:
        return _failed(request, failure, following)
    response = RedirectResponse(url, status_code=303)
    response.set_cookie(
        COOKIE,
        desk.sealer.seal(msgspec.json.encode(trip).decode()),
        max_age=TRIP_SECONDS,
        path=PATH,
        httponly=True,
        samesite="lax",
        secure=desk.settings.base_url.startswith("https://"),
    )
    return response


async def arrive(request: Request) -> Response:
    """Back from the provider. The cookie is spent, whatever comes of it."""
    response = await _arrived(request)
    response.delete_cookie(COOKIE, path=PATH, httponly=True, samesite="lax")
    return response


async def _arrived(request: Request) -> Response:
    provider, desk, following = _provider(request), resources(request), ""
    try:
        trip = _trip(request)
        following = trip.following
        claims = await provider.arrival(trip, dict(request.query_params))
        session = await identities.enter(desk, provider.settings, claims, browser_of(request))
    except OpenIDFailed as failure:
        return _failed(request, failure, following)
    except Invalid as invalid:
        return form_page(request, 403, following=following, trouble=invalid.errors[0].message)
    if session is None:
        return form_page(request, 403, following=following, trouble=KEPT_OUT)
    return await enter(request, session, following)


def _provider(request: Request) -> Provider:
    """Raises NotFound without one."""
    provider = resources(request).openid
    if provider is None:
        raise NotFound
    return provider


def _trip(request: Request) -> Trip:
    """Raises OpenIDFailed for who did not set out from here, or long ago."""
    try:
        trip = _trips.decode(resources(request).sealer.open(request.cookies.get(COOKIE, "")))
    except (Unsealable, msgspec.MsgspecError, ValueError) as error:
        raise OpenIDFailed("nobody set out from this browser") from error
    if not 0 <= time.time() - trip.began_at < TRIP_SECONDS:
        raise OpenIDFailed("that was too long ago")
    return trip


def _failed(request: Request, failure: OpenIDFailed, following: str) -> Response:
    log.warning("OpenID: %s", failure)
    match failure:
        case OpenIDAway():
            status, trouble = 502, AWAY
        case OpenIDRefused():
            status, trouble = 403, REFUSED
        case _:
            status, trouble = 502, say("Signing in at the provider did not work. Try again.")
    return form_page(request, status, following=following, trouble=trouble)
