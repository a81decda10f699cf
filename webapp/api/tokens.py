"""The JSON API of one's own account and API tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import accounts, people
from webapp.api.exports import json_response
from webapp.api.requests import read_body
from webapp.domain.access import NotFound, Scope, Viewer
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import rfc3339
from webapp.domain.sentences import say
from webapp.settings import parse_duration
from webapp.store.people import ApiToken
from webapp.web.context import resources, viewer

DURATION = "^[0-9]{1,12} *(ms|s|m|h|d)$"
ScopeName = Annotated[str, Meta(extra_json_schema={"enum": list(Scope)})]


class TokenBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`lifetime` such as `90d`; without one it lasts until it is revoked."""

    name: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100, "pattern": r"^[^\x00]*$"})]
    scopes: Annotated[tuple[ScopeName, ...], Meta(extra_json_schema={"minItems": 1})] = ("read", "export")
    lifetime: Annotated[str, Meta(extra_json_schema={"pattern": DURATION})] | None = None


async def account(request: Request) -> Response:
    """Who it is that asks, and what this token or session is good for."""
    who = viewer(request)
    return json_response(
        {
            "id": who.id,
            "name": who.name,
            "role": who.role.value,
            "scopes": _listed(who.scopes),
            "language": who.language,
            "timezone": who.timezone,
        }
    )


async def index(request: Request) -> Response:
    """All of one's own, oldest first, also those that were revoked or ran out."""
    found = await people.list_tokens(resources(request), viewer(request).id)
    return json_response({"items": [described(token) for token in found], "next_cursor": None})


async def create(request: Request) -> Response:
    """201. The token is in this answer and in no other. One that makes another can give it no more than it has."""
    who, body, desk = viewer(request), await read_body(request, TokenBody), resources(request)
    scopes = _scopes(body.scopes, who)
    token_id, token = await people.create_token(
        desk,
        await accounts.own(desk, who),
        body.name,
        actor=who.name,
        scopes=scopes,
        lifetime=_lifetime(body.lifetime),
    )
    location = f"{desk.settings.base_url}/api/v1/tokens/{token_id}"
    return json_response(described(await _own(request, token_id)) | {"token": token}, 201, {"Location": location})


async def show(request: Request) -> Response:
    return json_response(described(await _own(request, request.path_params["token_id"])))


async def revoke(request: Request) -> Response:
    """204. At once it is nobody's any more, on every channel."""
    who = viewer(request)
    await people.revoke_token(resources(request), request.path_params["token_id"], actor=who.name, user_id=who.id)
    return Response(status_code=204)


def described(token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": _listed(token.scopes),
        "created_at": rfc3339(token.created_at),
        "expires_at": rfc3339(token.expires_at),
        "revoked_at": rfc3339(token.revoked_at),
        "last_used_at": rfc3339(token.last_used_at),
    }


async def _own(request: Request, token_id: str) -> ApiToken:
    """Raises NotFound, also for one that was revoked: only the list still tells of it."""
    found = await people.list_tokens(resources(request), viewer(request).id)
    token = next((token for token in found if token.id == token_id and token.revoked_at is None), None)
    if token is None:
        raise NotFound
    return token


def _listed(scopes: frozenset[Scope]) -> list[str]:
    return [scope.value for scope in Scope if scope in scopes]


def _scopes(names: Sequence[str], who: Viewer) -> frozenset[Scope]:
    try:
        scopes = frozenset(map(Scope, names))
    except ValueError as error:
        raise Invalid([FieldError("scopes", say("Must be some of {scope}.", scope=", ".join(Scope)))]) from error
    if not scopes <= who.scopes:
        raise Invalid([FieldError("scopes", say("A token can give another no more than it has."))])
    return scopes


def _lifetime(text: str | None) -> Any:
    try:
        return parse_duration(text) if text is not None else None
    except ValueError as error:
        raise Invalid([FieldError("lifetime", f"{str(error)[:1].upper()}{str(error)[1:]}.")]) from error
