"""One's own account: password, sessions, language and time zone."""

from __future__ import annotations

from collections.abc import Sequence

from webapp.actions import passwords, people, tries
from webapp.actions.people import Browser, NewSession, hint_identity
from webapp.datasets.relative import known_zone
from webapp.domain.access import Entrance, NotFound, Viewer
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.ids import is_id
from webapp.domain.sentences import TAGS, say
from webapp.resources import Resources
from webapp.store import people as rows
from webapp.store.people import Session, User

FIRST_BY_LINK = say("You sign in without one. To choose a password all the same, ask an admin for a one-time link.")


async def own(resources: Resources, viewer: Viewer) -> User:
    """Raises NotFound when it was deleted a moment ago."""
    async with resources.store.connection():
        user = await rows.user_by_id(resources.store, viewer.id)
    if user is None:
        raise NotFound
    return user


async def may_set_password(resources: Resources, viewer: Viewer, user: User) -> bool:
    """Who has none yet sets the first one where a one-time link let them in: that is the proof that somebody here wants
    it. Who comes by way of a provider or a proxy alone has none."""
    if user.password_hash is not None:
        return True
    return any(
        each.id == viewer.session and each.entrance is Entrance.LINK for each in await sessions(resources, viewer)
    )


async def change_password(
    resources: Resources, viewer: Viewer, *, current: str, new: str, browser: Browser, ends_tokens: bool = False
) -> NewSession:
    """Ends all sessions and one-time links, and gives back a fresh session. Who has no password yet need not know one.

    Raises Invalid and TooManyTries.
    """
    user = await own(resources, viewer)
    if not await may_set_password(resources, viewer, user):
        raise Invalid([FieldError("password", FIRST_BY_LINK)])
    if user.password_hash is not None:
        await tries.count(resources, user.name, browser.address)
        if not await passwords.verified(user.password_hash, current):
            raise Invalid([FieldError("current", say("This is not your password."))])
        await tries.forgive(resources, user.name, browser.address)
    await people.set_password(resources, user.name, new, actor=user.name, ends_tokens=ends_tokens)
    return await people.open_session(resources, user, browser, Entrance.PASSWORD, is_sign_in=False)


async def set_preferences(resources: Resources, viewer: Viewer, *, language: str, timezone: str) -> None:
    """Empty is whatever the browser says. Raises Invalid."""
    errors: list[FieldError] = []
    if language and language not in TAGS:
        errors.append(FieldError("language", say("Choose one of these: {choices}.", choices=", ".join(TAGS))))
    if timezone and known_zone(timezone) != timezone:
        errors.append(FieldError("timezone", say("Choose a time zone by its name, such as Europe/Berlin.")))
    if errors:
        raise Invalid(errors)
    async with resources.store.transaction():
        await rows.set_preferences(resources.store, viewer.id, language=language or None, timezone=timezone or None)
    await hint_identity(resources, viewer.id)


async def sessions(resources: Resources, viewer: Viewer) -> Sequence[Session]:
    async with resources.store.connection():
        return await rows.sessions_of(resources.store, viewer.id, now=await resources.store.now())


async def end_session(resources: Resources, viewer: Viewer, session_id: str) -> None:
    """Raises NotFound for one that ended already, and for somebody else's."""
    if not is_id(session_id, "ses"):
        raise NotFound
    async with resources.store.transaction():
        if not await rows.delete_session(resources.store, session_id, user_id=viewer.id):
            raise NotFound
        await _audit(resources, viewer, {"ended": 1})
    await hint_identity(resources, viewer.id)


async def end_other_sessions(resources: Resources, viewer: Viewer) -> int:
    """All but the one that asks; how many they were."""
    async with resources.store.transaction():
        count = await rows.delete_sessions_of(resources.store, viewer.id, but=viewer.session)
        if count:
            await _audit(resources, viewer, {"ended": count})
    await hint_identity(resources, viewer.id)
    return count


async def _audit(resources: Resources, viewer: Viewer, details: dict[str, int]) -> None:
    now = await resources.store.now()
    await rows.audit(
        resources.store, actor=viewer.name, action="user.signed_out", subject=viewer.name, at=now, details=details
    )
