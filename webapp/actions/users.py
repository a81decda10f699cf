"""What admins do with people: invite, disable, let in again, reset, delete. It counts at once, on every channel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from webapp.actions import emails, exports, people
from webapp.actions.changes import Contended
from webapp.actions.people import hint_identity, keep_an_admin
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.exports import IllegalTransition
from webapp.domain.ids import is_id
from webapp.resources import Resources
from webapp.store import exports as export_rows
from webapp.store import people as rows
from webapp.store import rosters
from webapp.store.exports import ListFilter
from webapp.store.people import User
from webapp.store.rosters import Membership, UserFilter

INVITATION_LIFETIME = timedelta(days=7)
RESET_LIFETIME = timedelta(days=1)
ACCOUNT = "/account#password"
DELETED_AT_A_TIME = 200


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody as admins see them. `link_until` is when their one-time link runs out."""

    user: User
    link_until: datetime | None
    groups: Sequence[Membership]


async def listed(
    resources: Resources, chosen: UserFilter, *, limit: int, after: str | None = None
) -> tuple[Sequence[Person], bool]:
    """By name, those behind the name `after`, and whether there are more."""
    async with resources.store.connection():
        found = await rosters.users_by_name(resources.store, chosen, limit=limit + 1, after=after)
        return await _seen(resources, found[:limit]), len(found) > limit


async def look(resources: Resources, user_id: str) -> Person:
    """Raises NotFound."""
    user = await find(resources, user_id)
    async with resources.store.connection():
        [person] = await _seen(resources, [user])
    return person


async def _seen(resources: Resources, found: Sequence[User]) -> Sequence[Person]:
    ids = [user.id for user in found]
    links = await rows.links_until(resources.store, ids, now=await resources.store.now())
    groups = await rosters.memberships(resources.store, ids)
    return [Person(user, links.get(user.id), groups.get(user.id, [])) for user in found]


async def find(resources: Resources, user_id: str) -> User:
    """Raises NotFound."""
    async with resources.store.connection():
        user = await rows.user_by_id(resources.store, user_id) if is_id(user_id, "usr") else None
    if user is None:
        raise NotFound
    return user


async def invite(resources: Resources, name: str, role: Role, *, actor: str) -> tuple[User, str]:
    """A new person without a password, and the link that lets them in once, to choose one. Raises Invalid."""
    user = await people.add_user(resources, name, role, actor=actor)
    return user, await _link(resources, user, INVITATION_LIFETIME)


async def reset(resources: Resources, user: User, *, actor: str) -> str:
    """Ends password and sessions, and gives back the link that lets this person in once, to choose a new one."""
    async with resources.store.transaction():
        now = await resources.store.now()
        await rows.forget_password(resources.store, user.id)
        await rows.delete_sessions_of(resources.store, user.id)
        await rows.audit(resources.store, actor=actor, action="user.reset", subject=user.name, at=now)
    await hint_identity(resources, user.id)
    never_signed_in = user.password_hash is None
    return await _link(resources, user, INVITATION_LIFETIME if never_signed_in else RESET_LIFETIME)


async def _link(resources: Resources, user: User, lifetime: timedelta) -> str:
    """Links that were made before are no good any more."""
    async with resources.store.transaction():
        await rows.delete_links_of(resources.store, user.id)
    return await people.make_sign_in_link(resources, user, lifetime=lifetime, following=ACCOUNT)


async def disable(resources: Resources, user: User, *, actor: str) -> None:
    """Ends sessions; tokens are refused until the person is let in again. Raises LastAdmin."""
    async with resources.store.transaction():
        now = await resources.store.now()
        await keep_an_admin(resources, user)
        await rows.set_disabled(resources.store, user.id, now)
        await rows.delete_sessions_of(resources.store, user.id)
        await rows.audit(resources.store, actor=actor, action="user.disabled", subject=user.name, at=now)
    await hint_identity(resources, user.id)


async def enable(resources: Resources, user: User, *, actor: str) -> None:
    async with resources.store.transaction():
        now = await resources.store.now()
        await rows.set_disabled(resources.store, user.id, None)
        await rows.audit(resources.store, actor=actor, action="user.enabled", subject=user.name, at=now)
    await hint_identity(resources, user.id)


async def delete(resources: Resources, user: User, *, actor: str) -> None:
    """With exports, files, sessions and tokens; events and the audit log stay. Raises LastAdmin, NotFound, and
    Contended when the person still ordered something a moment ago."""
    await disable(resources, user, actor=actor)
    for_all = Viewer(user.id, actor, Role.ADMIN)
    while await _delete_some_exports(resources, for_all, user.id):
        pass
    async with resources.store.transaction():
        now = await resources.store.now()
        if not await rows.lock_user(resources.store, user.id):
            raise NotFound
        if await export_rows.exists_any(resources.store, user.id):
            raise Contended
        await emails.forget(resources, user.id)
        await rows.delete_user(resources.store, user.id)
        await rows.audit(resources.store, actor=actor, action="user.deleted", subject=user.name, at=now)
    await hint_identity(resources, user.id)


async def _delete_some_exports(resources: Resources, viewer: Viewer, owner: str) -> bool:
    """Whether there were any."""
    found, _ = await exports.list_page(resources, ListFilter(owner=owner), limit=DELETED_AT_A_TIME)
    for export in found:
        with suppress(NotFound):
            if export.is_active:
                with suppress(IllegalTransition):
                    await exports.cancel(resources, viewer, export.id)
            await exports.delete(resources, viewer, export.id)
    return bool(found)
