"""The JSON API of grants: to whom datasets are granted, granting and withdrawing. For admins."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import groups, users
from webapp.actions.groups import Access
from webapp.api.answers import id_pattern
from webapp.api.exports import json_response
from webapp.api.requests import DatasetName, query_cursor, query_limit, query_name, read_body
from webapp.domain.access import NotFound
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import rfc3339
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.store.grants import Grant, GrantFilter, Group
from webapp.store.people import User
from webapp.web import cursors
from webapp.web.context import admin, grant_id, resources


class GrantBody(msgspec.Struct, forbid_unknown_fields=True):
    """To one person or to one group."""

    dataset: DatasetName
    user_id: Annotated[str, Meta(extra_json_schema={"pattern": id_pattern("usr")})] | None = None
    group_id: Annotated[str, Meta(extra_json_schema={"pattern": id_pattern("grp")})] | None = None


async def index(request: Request) -> Response:
    """One page, newest first."""
    admin(request)
    chosen = GrantFilter(query_name(request, "dataset"), query_name(request, "user"), query_name(request, "group"))
    found, more = await groups.grants_page(
        resources(request), chosen, limit=query_limit(request), after=query_cursor(request, "grt")
    )
    next_cursor = cursors.encode(found[-1].created_at, found[-1].id) if more else None
    return json_response({"items": [described(grant) for grant in found], "next_cursor": next_cursor})


async def create(request: Request) -> Response:
    """201, or 200 with the one that there is already."""
    who, body, desk = admin(request), await read_body(request, GrantBody), resources(request)
    if body.dataset not in desk.catalog.datasets:
        raise Invalid([FieldError("dataset", say("There is no dataset named {name}.", name=body.dataset))])
    grant, is_new = await groups.grant(desk, body.dataset, await _holder(desk, body), actor=who.name)
    location = f"{desk.settings.base_url}/api/v1/grants/{grant.id}"
    return json_response(described(grant), 201 if is_new else 200, {"Location": location})


async def show(request: Request) -> Response:
    admin(request)
    return json_response(described(await groups.grant_of(resources(request), grant_id(request))))


async def withdraw(request: Request) -> Response:
    """204. The dataset stays withheld from everybody who holds no other grant of it."""
    who = admin(request)
    await groups.withdraw(resources(request), grant_id(request), actor=who.name)
    return Response(status_code=204)


async def datasets(request: Request) -> Response:
    """All of the catalog, in its order, and whether each is for holders of a grant alone."""
    admin(request)
    found = await groups.access(resources(request))
    return json_response({"items": [access_described(access) for access in found], "next_cursor": None})


async def dataset(request: Request) -> Response:
    admin(request)
    return await _access(request)


async def open_to_all(request: Request) -> Response:
    """All its grants go, and its roles alone decide again."""
    who, name = admin(request), request.path_params["name"]
    await groups.access_to(resources(request), name)
    await groups.open_to_all(resources(request), name, actor=who.name)
    return await _access(request)


def described(grant: Grant) -> dict[str, Any]:
    return {
        "id": grant.id,
        "dataset": grant.dataset,
        "user_id": grant.user_id,
        "group_id": grant.group_id,
        "name": grant.name,
        "created_at": rfc3339(grant.created_at),
    }


def access_described(access: Access) -> dict[str, Any]:
    return {
        "dataset": access.dataset.name,
        "title": access.dataset.title,
        "roles": sorted(access.dataset.roles),
        "restricted": access.is_granted,
        "grants": len(access.grants),
    }


async def _access(request: Request) -> Response:
    return json_response(access_described(await groups.access_to(resources(request), request.path_params["name"])))


async def _holder(desk: Resources, body: GrantBody) -> User | Group:
    """Raises Invalid."""
    if (body.user_id is None) == (body.group_id is None):
        raise Invalid([FieldError("user_id", say("Give either user_id or group_id."))])
    try:
        if body.user_id is not None:
            return await users.find(desk, body.user_id)
        return await groups.find(desk, body.group_id or "")
    except NotFound:
        is_user = body.user_id is not None
        told = say("There is no such user.") if is_user else say("There is no such group.")
        raise Invalid([FieldError("user_id" if is_user else "group_id", told)]) from None
