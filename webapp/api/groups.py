"""The JSON API of groups and of who is in them. For admins."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import groups, users
from webapp.api.exports import json_response
from webapp.api.requests import IN_ONE_LINE, read_body
from webapp.api.users import listed
from webapp.domain.events import rfc3339
from webapp.store.grants import Group
from webapp.store.rosters import UserFilter
from webapp.web.context import admin, group_id, resources, user_id


class GroupBody(msgspec.Struct, forbid_unknown_fields=True):
    """What it is called."""

    name: Annotated[
        str,
        Meta(
            extra_json_schema={"minLength": 1, "maxLength": groups.NAME_LENGTH, "pattern": f"^{IN_ONE_LINE}*$"},
        ),
    ]


async def index(request: Request) -> Response:
    """All of them, by name."""
    admin(request)
    found = await groups.list_groups(resources(request))
    return json_response({"items": [described(group) for group in found], "next_cursor": None})


async def create(request: Request) -> Response:
    who, body, desk = admin(request), await read_body(request, GroupBody), resources(request)
    group = await groups.create(desk, body.name, actor=who.name)
    location = f"{desk.settings.base_url}/api/v1/groups/{group.id}"
    return json_response(described(group), 201, {"Location": location})


async def show(request: Request) -> Response:
    admin(request)
    return json_response(described(await _group(request)))


async def rename(request: Request) -> Response:
    who, body, group = admin(request), await read_body(request, GroupBody), await _group(request)
    await groups.rename(resources(request), group, body.name, actor=who.name)
    return json_response(described(await _group(request)))


async def delete(request: Request) -> Response:
    """204. What was granted to it is granted to it no more; its members stay."""
    who, group = admin(request), await _group(request)
    await groups.delete(resources(request), group, actor=who.name)
    return Response(status_code=204)


async def members(request: Request) -> Response:
    """One page, by name."""
    admin(request)
    return await listed(request, UserFilter(group_id=(await _group(request)).id))


async def add_member(request: Request) -> Response:
    """204, also for who is in it already."""
    who, desk, group = admin(request), resources(request), await _group(request)
    await groups.add_member(desk, group, await users.find(desk, user_id(request)), actor=who.name)
    return Response(status_code=204)


async def remove_member(request: Request) -> Response:
    """204, also for who is not in it."""
    who, desk, group = admin(request), resources(request), await _group(request)
    await groups.remove_member(desk, group, await users.find(desk, user_id(request)), actor=who.name)
    return Response(status_code=204)


def described(group: Group) -> dict[str, Any]:
    return {"id": group.id, "name": group.name, "members": group.members, "created_at": rfc3339(group.created_at)}


async def _group(request: Request) -> Group:
    """Raises NotFound."""
    return await groups.find(resources(request), group_id(request))
