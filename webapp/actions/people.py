"""Users, sessions, sign-in links and API tokens."""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from webapp import bus
from webapp.actions.changes import hint
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.store import people
from webapp.store.people import ApiToken, User

SESSION_LIFETIME = timedelta(days=14)
SIGN_IN_LINK_LIFETIME = timedelta(hours=1)
PASSWORD_LENGTH = (10, 200)
USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}")

_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_NOBODY = _hasher.hash(secrets.token_hex())
"""Checked when there is no such user, so that the answer takes as long as for one there is."""


@dataclass(frozen=True, slots=True)
class NewSession:
    token: str
    max_age: int


async def add_user(resources: Resources, name: str, role: Role, *, actor: str, password: str | None = None) -> User:
    """Raises Invalid for a name that is taken or cannot be one, and for a weak password."""
    if not USER_NAME.fullmatch(name):
        sentence = "A name has 1 to 63 letters, digits or . _ @ + - and starts with a letter or a digit."
        raise Invalid([FieldError("name", sentence)])
    async with resources.store.transaction():
        now = await resources.store.now()
        password_hash = await hash_password(password) if password is not None else None
        user = User(new_id("usr"), name, role, password_hash, now, None)
        if not await people.insert_user(resources.store, user):
            raise Invalid([FieldError("name", f"There is a user named {name} already.")])
        await people.audit(resources.store, actor=actor, action="user.added", subject=name, at=now)
    return user


async def user_named(resources: Resources, name: str) -> User:
    async with resources.store.connection():
        user = await people.user_by_name(resources.store, name)
    if user is None:
        raise NotFound
    return user


async def list_users(resources: Resources) -> list[User]:
    async with resources.store.connection():
        return list(await people.list_users(resources.store))


async def set_role(resources: Resources, name: str, role: Role, *, actor: str) -> None:
    user = await user_named(resources, name)
    async with resources.store.transaction():
        now = await resources.store.now()
        await people.set_role(resources.store, user.id, role)
        await people.audit(
            resources.store, actor=actor, action="user.role", subject=name, at=now, details={"role": role.value}
        )
    await _hint_identity(resources, user.id)


async def set_password(resources: Resources, name: str, password: str, *, actor: str) -> None:
    """Signs the person out everywhere. Raises NotFound and Invalid."""
    user = await user_named(resources, name)
    password_hash = await hash_password(password)
    async with resources.store.transaction():
        now = await resources.store.now()
        await people.set_password_hash(resources.store, user.id, password_hash)
        await people.delete_sessions_of(resources.store, user.id)
        await people.audit(resources.store, actor=actor, action="user.password", subject=name, at=now)
    await _hint_identity(resources, user.id)


async def hash_password(password: str) -> str:
    low, high = PASSWORD_LENGTH
    if not low <= len(password) <= high:
        raise Invalid([FieldError("password", f"A password has {low} to {high} characters.")])
    return await asyncio.to_thread(_hasher.hash, password)


async def sign_in(resources: Resources, name: str, password: str) -> NewSession | None:
    """None when name or password is wrong; which of the two is not told, and takes the same time."""
    async with resources.store.connection():
        user = await people.user_by_name(resources.store, name) if USER_NAME.fullmatch(name) else None
    known = user.password_hash if user and not user.disabled_at else None
    if not await asyncio.to_thread(_verify, known or _NOBODY, password[: PASSWORD_LENGTH[1]]) or not (user and known):
        return None
    return await _open_session(resources, user.id)


def _verify(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


async def sign_in_once(resources: Resources, token: str) -> NewSession | None:
    """Spends a one-time link. None when it was used, ran out, or never was."""
    async with resources.store.transaction():
        now = await resources.store.now()
        user_id = await people.use_sign_in_link(resources.store, token[:200], now=now)
    return await _open_session(resources, user_id) if user_id else None


async def _open_session(resources: Resources, user_id: str) -> NewSession:
    token = secrets.token_urlsafe(32)
    async with resources.store.transaction():
        now = await resources.store.now()
        await people.insert_session(
            resources.store,
            session_id=new_id("ses"),
            token=token,
            user_id=user_id,
            created_at=now,
            expires_at=now + SESSION_LIFETIME,
        )
    return NewSession(token, round(SESSION_LIFETIME.total_seconds()))


async def sign_out(resources: Resources, viewer: Viewer) -> None:
    """This session only; its open streams end at once."""
    if viewer.session is None:
        return
    async with resources.store.transaction():
        await people.delete_session(resources.store, viewer.session)
    await _hint_identity(resources, viewer.id)


async def _hint_identity(resources: Resources, user_id: str) -> None:
    """A hint without an export makes open streams of this person check who they are, and everybody forget tokens."""
    resources.statuses.hear("", 0)
    await hint(resources, bus.Hint("", user_id, 0))


async def viewer_of_session(resources: Resources, token: str) -> Viewer | None:
    async with resources.store.connection():
        now = await resources.store.now()
        found = await people.user_by_session(resources.store, token, now=now)
    if found is None:
        return None
    user, session_id = found
    return Viewer(user.id, user.name, user.role, session_id)


async def viewer_of_token(resources: Resources, token: str) -> Viewer | None:
    """Known for at most a second without looking (see `webapp.status_cache`): a busy client sends it all the time."""
    if not resources.statuses.is_usable:
        return await _look_up(resources, token)
    if kept := kept_viewer(resources, token):
        return kept
    slot = resources.statuses.viewers.open(people.hash_token(token))
    async with slot.turn_to_read():
        viewer = slot.value or await _look_up(resources, token)
        if viewer is not None:
            slot.fill(viewer)
    return viewer


def kept_viewer(resources: Resources, token: str) -> Viewer | None:
    """The copy, while copies may be used."""
    kept = resources.statuses.viewers.get(people.hash_token(token))
    return kept.value if kept else None


async def _look_up(resources: Resources, token: str) -> Viewer | None:
    async with resources.store.connection():
        now = await resources.store.now()
        user = await people.user_by_token(resources.store, token, now=now)
    return Viewer(user.id, user.name, user.role) if user else None


async def make_sign_in_link(resources: Resources, user: User) -> str:
    """A URL that signs this person in once, within the hour."""
    token = secrets.token_urlsafe(32)
    async with resources.store.transaction():
        now = await resources.store.now()
        await people.insert_token(
            resources.store,
            kind="sign-in",
            name="one-time link",
            token=token,
            user_id=user.id,
            created_at=now,
            expires_at=now + SIGN_IN_LINK_LIFETIME,
        )
    return f"{resources.settings.base_url}/sign-in/once/{token}"


async def create_token(resources: Resources, user: User, name: str, *, actor: str) -> tuple[str, str]:
    """The token's id, and the token itself, which is shown this once and kept only as a hash."""
    if not 1 <= len(name.strip()) <= 100:
        raise Invalid([FieldError("name", "A token's name has 1 to 100 characters.")])
    token = "exd_" + secrets.token_urlsafe(32)
    async with resources.store.transaction():
        now = await resources.store.now()
        token_id = await people.insert_token(
            resources.store,
            kind="api",
            name=name.strip(),
            token=token,
            user_id=user.id,
            created_at=now,
            expires_at=None,
        )
        await people.audit(resources.store, actor=actor, action="token.created", subject=token_id, at=now)
    return token_id, token


async def list_tokens(resources: Resources) -> list[ApiToken]:
    async with resources.store.connection():
        return list(await people.list_tokens(resources.store))


async def revoke_token(resources: Resources, token_id: str, *, actor: str) -> None:
    """Raises NotFound when there is no such token or it is revoked already."""
    async with resources.store.transaction():
        now = await resources.store.now()
        user_id = await people.revoke_token(resources.store, token_id, now=now)
        if user_id is None:
            raise NotFound
        await people.audit(resources.store, actor=actor, action="token.revoked", subject=token_id, at=now)
    await _hint_identity(resources, user_id)
