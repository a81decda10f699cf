"""Groups of people, who is in them, and to whom datasets are granted. A change counts at once, on every channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from webapp.actions.changes import Contended
from webapp.actions.people import hint_identity
from webapp.datasets.declaration import Dataset
from webapp.domain.access import NotFound
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.ids import is_id
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.store import grants as rows
from webapp.store import rosters
from webapp.store.database import TAKEN
from webapp.store.grants import Grant, GrantFilter, Group
from webapp.store.people import User, audit, lock_user
from webapp.store.rosters import UserFilter

NAME_LENGTH = 100
MOST_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use one dataset. While it is not granted to anybody, all whom its roles name may."""

    dataset: Dataset
    is_granted: bool
    grants: Sequence[Grant]


async def list_groups(resources: Resources) -> Sequence[Group]:
    async with resources.store.connection():
        return await rows.list_groups(resources.store)


async def find(resources: Resources, name: str) -> Group:
    """By id or name: what one group is called may be the id of another. Raises NotFound."""
    there = await list_groups(resources)
    found = next((group for group in there if group.id == name), None)
    found = found or next((group for group in there if group.name == name), None)
    if found is None:
        raise NotFound
    return found


async def create(resources: Resources, name: str, *, actor: str) -> Group:
    """Raises Invalid."""
    name = _checked(name)
    async with resources.store.transaction():
        now = await resources.store.now()
        if len(await rows.list_groups(resources.store)) >= MOST_GROUPS:
            raise Invalid([FieldError("name", say("There are {most} groups already.", most=MOST_GROUPS))])
        group_id = await rows.insert_group(resources.store, name, at=now)
        if group_id is None:
            raise _taken(name)
        await audit(resources.store, actor=actor, action="group.added", subject=name, at=now)
    return Group(group_id, name, now, 0)


async def rename(resources: Resources, group: Group, name: str, *, actor: str) -> None:
    """Raises Invalid and NotFound."""
    name = _checked(name)
    try:
        async with resources.store.transaction():
            now = await resources.store.now()
            before = await _lock(resources, group.id)
            await rows.rename_group(resources.store, group.id, name)
            await audit(
                resources.store, actor=actor, action="group.renamed", subject=name, at=now, details={"before": before}
            )
    except TAKEN:
        raise _taken(name) from None


async def _lock(resources: Resources, group_id: str) -> str:
    """The name of a group that stays there until the transaction ends. Raises NotFound."""
    name = await rows.lock_group(resources.store, group_id)
    if name is None:
        raise NotFound
    return name


async def delete(resources: Resources, group: Group, *, actor: str) -> None:
    """What was granted to it is granted to it no more; its members stay. Raises NotFound."""
    async with resources.store.transaction():
        now = await resources.store.now()
        name = await _lock(resources, group.id)
        await rows.delete_group(resources.store, group.id)
        await audit(resources.store, actor=actor, action="group.deleted", subject=name, at=now)
    await hint_identity(resources)


async def members(resources: Resources, group: Group) -> Sequence[User]:
    """By name."""
    async with resources.store.connection():
        return await rosters.users_by_name(resources.store, UserFilter(group_id=group.id))


async def set_of_user(resources: Resources, user: User, ids: Iterable[str], *, actor: str) -> None:
    """Puts somebody into exactly these groups. Raises NotFound for one that is not there."""
    chosen = frozenset(ids)
    await _change_groups(resources, user, lambda _: chosen, actor=actor)


async def _change_groups(
    resources: Resources, user: User, decide: Callable[[frozenset[str]], frozenset[str]], *, actor: str
) -> None:
    """`decide` makes the ids of groups to be in out of those of now, which nobody else changes meanwhile. Raises
    NotFound."""
    async with resources.store.transaction():
        if not await lock_user(resources.store, user.id):
            raise NotFound
        now = await resources.store.now()
        names = {group.id: group.name for group in await rows.list_groups(resources.store)}
        before = await rows.groups_of(resources.store, user.id)
        chosen = decide(before)
        if chosen == before:
            return
        joined, left = sorted(chosen - before), sorted(before - chosen)
        details = {"joined": sorted([await _lock(resources, each) for each in joined]), "left": _names(names, left)}
        await rows.leave_groups(resources.store, user.id, left)
        await rows.join_groups(resources.store, user.id, joined)
        await audit(resources.store, actor=actor, action="user.groups", subject=user.name, at=now, details=details)
    await hint_identity(resources)


async def add_member(resources: Resources, group: Group, user: User, *, actor: str) -> None:
    await _change_groups(resources, user, lambda before: before | {group.id}, actor=actor)


async def remove_member(resources: Resources, group: Group, user: User, *, actor: str) -> None:
    await _change_groups(resources, user, lambda before: before - {group.id}, actor=actor)


async def access(resources: Resources) -> Sequence[Access]:
    """Of every dataset in the catalog, in its order."""
    async with resources.store.connection():
        granted, held = await rows.granted(resources.store), await rows.list_grants(resources.store)
    grants: dict[str, list[Grant]] = {}
    for grant in held:
        grants.setdefault(grant.dataset, []).append(grant)
    return [
        Access(dataset, dataset.name in granted, grants.get(dataset.name, ()))
        for dataset in resources.catalog.datasets.values()
    ]


async def access_to(resources: Resources, name: str) -> Access:
    """Raises NotFound."""
    dataset = resources.catalog.datasets.get(name)
    if dataset is None:
        raise NotFound
    async with resources.store.connection():
        granted, held = await rows.granted(resources.store), await rows.list_grants(resources.store, name)
    return Access(dataset, name in granted, held)


async def grants_page(
    resources: Resources, chosen: GrantFilter, *, limit: int, after: tuple[datetime, str] | None
) -> tuple[Sequence[Grant], bool]:
    """Newest first, and whether there are more after them."""
    async with resources.store.connection():
        found = await rows.grants_page(resources.store, chosen, limit=limit + 1, after=after)
    return found[:limit], len(found) > limit


async def grant_of(resources: Resources, grant_id: str) -> Grant:
    """Raises NotFound."""
    async with resources.store.connection():
        found = await rows.grant_by_id(resources.store, grant_id)
    if found is None:
        raise NotFound
    return found


async def grant(resources: Resources, dataset: str, to: User | Group, *, actor: str) -> tuple[Grant, bool]:
    """And whether it is new. From the first one on, the dataset is for those alone who hold one, and for admins. Raises
    NotFound, and Contended when it was withdrawn in the same moment."""
    if dataset not in resources.catalog.datasets:
        raise NotFound
    whom = {"user_id": to.id} if isinstance(to, User) else {"group_id": to.id}
    async with resources.store.transaction():
        now = await resources.store.now()
        if isinstance(to, Group):
            await _lock(resources, to.id)
        elif not await lock_user(resources.store, to.id):
            raise NotFound
        is_new = await rows.add_grant(resources.store, dataset, at=now, **whom)
        if is_new:
            await audit(resources.store, actor=actor, action="grant.added", subject=dataset, at=now, details=_told(to))
        held = await rows.grants_page(resources.store, GrantFilter(dataset, **whom), limit=1, after=None)
        if not held:
            raise Contended
    await hint_identity(resources)
    return held[0], is_new


async def withdraw(resources: Resources, grant_id: str, *, actor: str) -> None:
    """The dataset stays withheld from everybody else. Raises NotFound."""
    if not is_id(grant_id, "grt"):
        raise NotFound
    async with resources.store.transaction():
        now = await resources.store.now()
        was = await rows.remove_grant(resources.store, grant_id)
        if was is None:
            raise NotFound
        details = {"group" if was.group_id else "user": was.name}
        await audit(
            resources.store, actor=actor, action="grant.withdrawn", subject=was.dataset, at=now, details=details
        )
    await hint_identity(resources)


async def open_to_all(resources: Resources, dataset: str, *, actor: str) -> None:
    """All its grants go, and its roles alone decide again."""
    async with resources.store.transaction():
        now = await resources.store.now()
        if await rows.remove_all_grants(resources.store, dataset):
            await audit(resources.store, actor=actor, action="grant.opened", subject=dataset, at=now)
    await hint_identity(resources)


def _told(to: User | Group) -> dict[str, str]:
    return {"user" if isinstance(to, User) else "group": to.name}


def _names(names: Mapping[str, str], ids: Iterable[str]) -> list[str]:
    """Of those that are still there."""
    return sorted(names[each] for each in ids if each in names)


def _checked(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= NAME_LENGTH or not name.isprintable():
        raise Invalid([FieldError("name", say("A group's name has 1 to {most} characters.", most=NAME_LENGTH))])
    return name


def _taken(name: str) -> Invalid:
    return Invalid([FieldError("name", say("There is a group named {name} already.", name=name))])
