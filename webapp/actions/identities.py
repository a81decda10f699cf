"""Signing in by way of an OpenID provider: who comes first is added; groups and role follow what the provider says."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from webapp.actions import groups, people
from webapp.actions.people import Browser, NewSession, may_be_named
from webapp.domain.access import Entrance, LastAdmin, Role
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.settings import OpenIDSettings
from webapp.store import identities
from webapp.store import people as rows
from webapp.store.people import User

ACTOR = "openid"
NAME_CLAIMS = ("email", "sub")
"""Tried when the claim of the settings cannot be a name."""


async def enter(
    resources: Resources, ours: OpenIDSettings, claims: Mapping[str, Any], browser: Browser
) -> NewSession | None:
    """None for who is disabled here. Raises Invalid when the name is somebody's already: a provider's word does not
    make anybody the owner of an account that was there before."""
    user = await _known(resources, ours, str(claims["sub"])) or await _added(resources, ours, claims)
    if user.disabled_at is not None:
        return None
    if ours.groups_claim:
        await _follow(resources, ours, user, _groups(claims.get(ours.groups_claim)))
    return await people.open_session(resources, user, browser, Entrance.OPENID)


async def _known(resources: Resources, ours: OpenIDSettings, subject: str) -> User | None:
    async with resources.store.connection():
        user_id = await identities.find(resources.store, ours.issuer, subject)
        return await rows.user_by_id(resources.store, user_id) if user_id else None


async def _added(resources: Resources, ours: OpenIDSettings, claims: Mapping[str, Any]) -> User:
    names = (str(claims.get(claim, "")) for claim in (ours.name_claim, *NAME_CLAIMS))
    name = next((name for name in names if may_be_named(name)), None)
    if name is None:
        sentence = say("The provider tells no name that can be used here. Ask the person who runs this export desk.")
        raise Invalid([FieldError("name", sentence)])
    subject = str(claims["sub"])
    try:
        async with resources.store.transaction():
            user = await people.insert_user(resources, name, Role.USER, actor=ACTOR)
            await identities.insert(resources.store, ours.issuer, subject, user_id=user.id, at=user.created_at)
    except Invalid:
        if user := await _known(resources, ours, subject):  # another sign-in of theirs was quicker
            return user
        sentence = say(
            "There is a user named {name} already, who signs in another way. Ask the person who runs this export desk.",
            name=name,
        )
        raise Invalid([FieldError("name", sentence)]) from None
    return user


async def _follow(resources: Resources, ours: OpenIDSettings, user: User, named: frozenset[str]) -> None:
    """Into exactly those groups of the desk that have such names; an admin exactly while in a group of admins."""
    chosen = [group.id for group in await groups.list_groups(resources) if group.name in named]
    await groups.set_of_user(resources, user, chosen, actor=ACTOR)
    if ours.admin_groups:
        role = Role.ADMIN if named & set(ours.admin_groups) else Role.USER
        if role is not user.role:
            with suppress(LastAdmin):
                await people.set_role(resources, user.name, role, actor=ACTOR)


def _groups(value: Any) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(map(str, cast("list[Any]", value))) if isinstance(value, list) else frozenset()
