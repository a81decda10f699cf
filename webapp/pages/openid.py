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
from webapp.openid import OpenIDFailed, Provider, Trip
from webapp.pages.session import browser_of, enter, form_page
from webapp.sealing import Unsealable
from webapp.web.context import resources
from webapp.web.render import local_path

COOKIE = "exportdesk_openid"
PATH = "/sign-in/openid"
TRIP_SECONDS = 600

log = logging.getLogger(__name__)
_trips = msgspec.json.Decoder(Trip)


async def depart(request: Request) -> Response:
    """To the provider."""
    provider, desk = _provider(request), resources(request)
    try:
        url, trip = await provider.departure(local_path(request.query_params.get("next")))
    except OpenIDFailed as failure:
        return _failed(request, failure)
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
    provider, desk = _provider(request), resources(request)
    try:
        trip = _trip(request)
        claims = await provider.arrival(trip, dict(request.query_params))
        session = await identities.enter(desk, provider.settings, claims, browser_of(request))
    except OpenIDFailed as failure:
        return _failed(request, failure)
    except Invalid as invalid:
        return form_page(request, 403, trouble=invalid.errors[0].message)
    if session is None:
        return form_page(
            request, 403, trouble=say("You are not let in here. Ask the person who runs this export desk.")
        )
    return await enter(request, session, trip.following)


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


def _failed(request: Request, failure: OpenIDFailed) -> Response:
    log.warning("OpenID: %s", failure)
    return form_page(request, 502, trouble=say("Signing in at the provider did not work. Try again."))
