"""The JSON API of people: who there is, inviting, roles, switching off and on, links, deleting. For admins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import people, users
from webapp.actions.people import USER_NAME
from webapp.actions.users import Person
from webapp.api.exports import json_response
from webapp.api.requests import query_limit, query_name, query_name_cursor, query_one_of, read_body
from webapp.domain.access import Role
from webapp.domain.events import rfc3339
from webapp.resources import Resources
from webapp.store.people import User
from webapp.store.rosters import UserFilter
from webapp.web.context import admin, resources, user_id

Action = Callable[[Resources, User], Awaitable[None]]
UserName = Annotated[str, Meta(extra_json_schema={"pattern": f"^{USER_NAME.pattern}$"})]


class InvitationBody(msgspec.Struct, forbid_unknown_fields=True):
    """Who is to come."""

    name: UserName
    role: Role = Role.USER


class UserChange(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody is from now on."""

    role: Role


async def index(request: Request) -> Response:
    """One page, by name."""
    admin(request)
    role = query_one_of(request, "role", list(Role))
    chosen = UserFilter(query_name(request, "q"), Role(role) if role else None, query_name(request, "group"))
    return await listed(request, chosen)


async def listed(request: Request, chosen: UserFilter) -> Response:
    found, more = await users.listed(
        resources(request), chosen, limit=query_limit(request), after=query_name_cursor(request)
    )
    next_cursor = found[-1].user.name if more else None
    return json_response({"items": [described(person) for person in found], "next_cursor": next_cursor})


async def show(request: Request) -> Response:
    admin(request)
    return await _answer(request, user_id(request))


async def invite(request: Request) -> Response:
    """201. The link is in this answer and in no other."""
    who, body, desk = admin(request), await read_body(request, InvitationBody), resources(request)
    user, link = await users.invite(desk, body.name, body.role, actor=who.name)
    location = f"{desk.settings.base_url}/api/v1/users/{user.id}"
    return json_response(await _invitation(desk, user, link), 201, {"Location": location})


async def reset(request: Request) -> Response:
    """The link is in this answer and in no other."""
    who, desk = admin(request), resources(request)
    user = await users.find(desk, user_id(request))
    link = await users.reset(desk, user, actor=who.name)
    return json_response(await _invitation(desk, user, link))


async def change(request: Request) -> Response:
    who, body = admin(request), await read_body(request, UserChange)

    async def set_role(desk: Resources, user: User) -> None:
        await people.set_role(desk, user.name, body.role, actor=who.name)

    return await _act(request, set_role)


async def disable(request: Request) -> Response:
    who = admin(request)

    async def act(desk: Resources, user: User) -> None:
        await users.disable(desk, user, actor=who.name)

    return await _act(request, act)


async def enable(request: Request) -> Response:
    who = admin(request)

    async def act(desk: Resources, user: User) -> None:
        await users.enable(desk, user, actor=who.name)

    return await _act(request, act)


async def delete(request: Request) -> Response:
    """204: with exports, files, sessions and tokens."""
    who, desk = admin(request), resources(request)
    await users.delete(desk, await users.find(desk, user_id(request)), actor=who.name)
    return Response(status_code=204)


def described(person: Person) -> dict[str, Any]:
    user = person.user
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role.value,
        "has_password": user.password_hash is not None,
        "link_expires_at": rfc3339(person.link_until),
        "groups": [{"id": group.id, "name": group.name} for group in person.groups],
        "created_at": rfc3339(user.created_at),
        "disabled_at": rfc3339(user.disabled_at),
    }


async def _act(request: Request, action: Action) -> Response:
    desk = resources(request)
    user = await users.find(desk, user_id(request))
    await action(desk, user)
    return await _answer(request, user.id)


async def _answer(request: Request, found: str) -> Response:
    return json_response(described(await users.look(resources(request), found)))


async def _invitation(desk: Resources, user: User, link: str) -> dict[str, Any]:
    return {"user": described(await users.look(desk, user.id)), "link": link}
