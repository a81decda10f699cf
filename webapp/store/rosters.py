"""Pages of people and of API tokens, by key: a page costs the same however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Text, func, literal, or_, select, tuple_

from webapp.domain.access import Role
from webapp.store.database import Store
from webapp.store.people import ApiToken, User, token_of, user_of
from webapp.store.search import says
from webapp.store.tables import api_tokens, group_members, groups, users
from webapp.store.types import Milliseconds


@dataclass(frozen=True, slots=True)
class UserFilter:
    """`text` is looked for in the name, whatever its case."""

    text: str | None = None
    role: Role | None = None
    group_id: str | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """A group as one of its members sees it."""

    id: str
    name: str


async def users_by_name(
    store: Store, chosen: UserFilter, *, limit: int | None = None, after: str | None = None
) -> Sequence[User]:
    """`after` is a name, which nobody need have any more."""
    key = func.lower(users.c.name)
    query = select(users).order_by(key)
    if limit is not None:
        query = query.limit(limit)
    if after is not None:
        query = query.where(key > after.lower())
    if chosen.text:
        query = query.where(says(store, users.c.name, chosen.text))
    if chosen.role is not None:
        query = query.where(users.c.role == chosen.role.value)
    if chosen.group_id is not None:
        members = select(group_members.c.user_id).where(group_members.c.group_id == chosen.group_id)
        query = query.where(users.c.id.in_(members))
    return [user_of(row) for row in await store.fetch_all(query)]


async def memberships(store: Store, user_ids: Sequence[str]) -> dict[str, list[Membership]]:
    """Of these people, by the groups' names; who is in no group is left out."""
    query = (
        select(group_members.c.user_id, groups.c.id, groups.c.name)
        .join(groups, groups.c.id == group_members.c.group_id)
        .where(group_members.c.user_id.in_(list(user_ids)))
        .order_by(groups.c.name)
    )
    found: dict[str, list[Membership]] = {}
    for row in await store.fetch_all(query):
        found.setdefault(row["user_id"], []).append(Membership(row["id"], row["name"]))
    return found


async def tokens_in_force(
    store: Store, *, now: datetime, limit: int, after: tuple[datetime, str] | None, text: str | None = None
) -> Sequence[tuple[ApiToken, str]]:
    """API tokens with their person's name, newest first. `text` is looked for in both names."""
    key = api_tokens.c.created_at, api_tokens.c.id
    query = (
        select(api_tokens, users.c.name.label("owner"))
        .join(users, users.c.id == api_tokens.c.user_id)
        .where(
            api_tokens.c.kind == "api",
            api_tokens.c.revoked_at.is_(None),
            (api_tokens.c.expires_at.is_(None)) | (api_tokens.c.expires_at > now),
        )
        .order_by(key[0].desc(), key[1].desc())
        .limit(limit)
    )
    if after is not None:
        query = query.where(tuple_(*key) < tuple_(literal(after[0], Milliseconds), literal(after[1], Text)))
    if text:
        query = query.where(or_(says(store, api_tokens.c.name, text), says(store, users.c.name, text)))
    return [(token_of(row), row["owner"]) for row in await store.fetch_all(query)]
