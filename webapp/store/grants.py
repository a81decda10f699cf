"""Rows of `groups`, `group_members`, `granted_datasets` and `grants`: to whom a dataset was granted.

A dataset that has a row in `granted_datasets` is for those alone who hold a grant. The row stays when the last grant
goes, so that deleting a person or a group never opens a dataset to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from webapp.domain.access import Role
from webapp.domain.ids import new_id
from webapp.store.database import Store
from webapp.store.tables import granted_datasets, grants, group_members, groups, users
from webapp.store.types import Milliseconds


@dataclass(frozen=True, slots=True)
class Group:
    id: str
    name: str
    created_at: datetime
    members: int


@dataclass(frozen=True, slots=True)
class Grant:
    """To a person or to a group: one of the two ids is None. `name` is theirs."""

    id: str
    dataset: str
    user_id: str | None
    group_id: str | None
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class GrantFilter:
    dataset: str | None = None
    user_id: str | None = None
    group_id: str | None = None


async def denied_to(store: Store, user_id: str) -> frozenset[str]:
    """Datasets that were granted, but neither to this person nor to a group of theirs."""
    found = await store.plain(
        "SELECT dataset FROM granted_datasets WHERE dataset NOT IN (SELECT dataset FROM grants "
        "WHERE user_id = :user_id OR group_id IN (SELECT group_id FROM group_members WHERE user_id = :user_id))",
        user_id=user_id,
    )
    return frozenset(dataset for (dataset,) in found)


def may_order(dataset: str, roles: frozenset[Role]) -> ColumnElement[bool]:
    """Of a row of `users`: may sign in, has one of the dataset's roles, and holds a grant if there has to be one."""
    theirs = select(group_members.c.group_id).where(group_members.c.user_id == users.c.id)
    to_them = or_(grants.c.user_id == users.c.id, grants.c.group_id.in_(theirs.correlate(users)))
    return and_(
        users.c.disabled_at.is_(None),
        users.c.role.in_([role.value for role in roles]),
        or_(
            users.c.role == Role.ADMIN.value,
            ~exists().where(granted_datasets.c.dataset == dataset),
            exists().where(grants.c.dataset == dataset, to_them).correlate(users),
        ),
    )


async def granted(store: Store) -> frozenset[str]:
    """Datasets that are for holders of a grant alone."""
    return frozenset(row["dataset"] for row in await store.fetch_all(select(granted_datasets.c.dataset)))


async def list_grants(store: Store, dataset: str | None = None) -> Sequence[Grant]:
    """Of one dataset or of all, by the names of who holds them."""
    query = _grants().order_by(grants.c.dataset, groups.c.name, users.c.name)
    if dataset is not None:
        query = query.where(grants.c.dataset == dataset)
    return [_grant(row) for row in await store.fetch_all(query)]


async def grants_page(
    store: Store, chosen: GrantFilter, *, limit: int, after: tuple[datetime, str] | None
) -> Sequence[Grant]:
    """Newest first."""
    key = grants.c.created_at, grants.c.id
    query = _grants().order_by(key[0].desc(), key[1].desc()).limit(limit)
    if after is not None:
        query = query.where(tuple_(*key) < tuple_(literal(after[0], Milliseconds), literal(after[1], Text)))
    wanted = (
        (grants.c.dataset, chosen.dataset),
        (grants.c.user_id, chosen.user_id),
        (grants.c.group_id, chosen.group_id),
    )
    query = query.where(*(column == value for column, value in wanted if value is not None))
    return [_grant(row) for row in await store.fetch_all(query)]


async def grant_by_id(store: Store, grant_id: str) -> Grant | None:
    row = await store.fetch_one(_grants().where(grants.c.id == grant_id))
    return _grant(row) if row else None


def _grants() -> Select[Any]:
    held = grants.outerjoin(users, users.c.id == grants.c.user_id).outerjoin(groups, groups.c.id == grants.c.group_id)
    return select(grants, users.c.name.label("user_name"), groups.c.name.label("group_name")).select_from(held)


def _grant(row: Mapping[str, Any]) -> Grant:
    name = row["user_name"] or row["group_name"]
    return Grant(row["id"], row["dataset"], row["user_id"], row["group_id"], name, row["created_at"])


async def add_grant(
    store: Store, dataset: str, *, at: datetime, user_id: str | None = None, group_id: str | None = None
) -> bool:
    """False when it is there already."""
    kept = select(granted_datasets.c.dataset).where(granted_datasets.c.dataset == dataset)
    while await store.fetch_one(kept.with_for_update(read=True, key_share=True)) is None:
        await store.execute(store.insert_new(granted_datasets).values(dataset=dataset, since=at))
    values = {"id": new_id("grt"), "dataset": dataset, "user_id": user_id, "group_id": group_id, "created_at": at}
    return await store.fetch_one(store.insert_new(grants).values(**values).returning(grants.c.id)) is not None


async def remove_grant(store: Store, grant_id: str) -> Grant | None:
    """What it was; None when it is gone already."""
    found = await grant_by_id(store, grant_id)
    removed = await store.fetch_one(delete(grants).where(grants.c.id == grant_id).returning(grants.c.id))
    return found if removed else None


async def remove_all_grants(store: Store, dataset: str) -> bool:
    """Whether there were any: the dataset is for all whom its roles name again."""
    await store.execute(delete(grants).where(grants.c.dataset == dataset))
    query = delete(granted_datasets).where(granted_datasets.c.dataset == dataset).returning(granted_datasets.c.dataset)
    return await store.fetch_one(query) is not None


async def list_groups(store: Store) -> Sequence[Group]:
    query = (
        select(groups, func.count(group_members.c.user_id).label("members"))
        .select_from(groups.outerjoin(group_members, group_members.c.group_id == groups.c.id))
        .group_by(*groups.c)
        .order_by(groups.c.name)
    )
    return [Group(r["id"], r["name"], r["created_at"], r["members"]) for r in await store.fetch_all(query)]


async def insert_group(store: Store, name: str, *, at: datetime) -> str | None:
    """Its id; None when the name is taken."""
    values = {"id": new_id("grp"), "name": name, "created_at": at}
    row = await store.fetch_one(store.insert_new(groups).values(**values).returning(groups.c.id))
    return row["id"] if row else None


async def lock_group(store: Store, group_id: str) -> str | None:
    """Its name, which like the group itself stays until the transaction ends; None when it is gone."""
    return cast(
        "str | None", await store.fetch_val(select(groups.c.name).where(groups.c.id == group_id).with_for_update())
    )


async def rename_group(store: Store, group_id: str, name: str) -> None:
    """Raises one of TAKEN when another one has that name: the transaction is lost."""
    await store.execute(update(groups).where(groups.c.id == group_id).values(name=name))


async def delete_group(store: Store, group_id: str) -> None:
    """With its memberships and grants."""
    await store.execute(delete(groups).where(groups.c.id == group_id))


async def groups_of(store: Store, user_id: str) -> frozenset[str]:
    rows = await store.fetch_all(select(group_members.c.group_id).where(group_members.c.user_id == user_id))
    return frozenset(row["group_id"] for row in rows)


async def join_groups(store: Store, user_id: str, joined: Sequence[str]) -> None:
    """These are there, and the person is in none of them."""
    for group_id in joined:
        await store.execute(insert(group_members).values(group_id=group_id, user_id=user_id))


async def leave_groups(store: Store, user_id: str, left: Sequence[str]) -> None:
    theirs = group_members.c.user_id == user_id
    await store.execute(delete(group_members).where(theirs, group_members.c.group_id.in_(left)))
