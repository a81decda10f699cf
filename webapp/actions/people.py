"""Users, sessions, sign-in links and API tokens, and who it is that comes along."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from webapp import bus
from webapp.actions import passwords, tries
from webapp.actions.changes import hint
from webapp.domain.access import ALL_SCOPES, Entrance, LastAdmin, NotFound, Role, Scope, Viewer
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.ids import is_id, new_id
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.store import grants, people, rosters
from webapp.store.database import DATABASE_ERRORS
from webapp.store.people import ApiToken, Session, User

SESSION_LIFETIME = timedelta(days=14)
SIGN_IN_LINK_LIFETIME = timedelta(hours=1)
USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}")
RESERVED_NAMES = frozenset({"exportdesk", "openid", "proxy", "system"})
"""What the audit log calls those who are no people."""

TOKEN_LIFETIME = timedelta(days=3650)
"""The longest there is for one that ends at all."""
MOST_TOKENS = 100
"""In force, of one person."""
AGENT_LENGTH = 300
SEEN_EVERY = timedelta(minutes=1)
"""How exact it is when a session or a token was last used: recording it is a write."""


@dataclass(frozen=True, slots=True)
class Browser:
    """Where somebody signs in from."""

    address: str = ""
    agent: str = ""


UNKNOWN = Browser()


@dataclass(frozen=True, slots=True)
class NewSession:
    token: str
    max_age: int


async def add_user(resources: Resources, name: str, role: Role, *, actor: str, password: str | None = None) -> User:
    """Raises Invalid for a name that is taken or cannot be one, and for a weak password."""
    password_hash = await passwords.hashed(password, name=name) if password is not None else None
    async with resources.store.transaction():
        return await insert_user(resources, name, role, actor=actor, password_hash=password_hash)


def may_be_named(name: str) -> bool:
    return USER_NAME.fullmatch(name) is not None and name.lower() not in RESERVED_NAMES


async def insert_user(
    resources: Resources, name: str, role: Role, *, actor: str, password_hash: str | None = None
) -> User:
    """Inside a transaction. Raises Invalid for a name that is taken or cannot be one."""
    if not USER_NAME.fullmatch(name):
        sentence = say("A name has 1 to 63 letters, digits or . _ @ + - and starts with a letter or a digit.")
        raise Invalid([FieldError("name", sentence)])
    if name.lower() in RESERVED_NAMES:
        raise Invalid([FieldError("name", say("The audit log calls the desk itself so. Choose another name."))])
    now = await resources.store.now()
    user = User(new_id("usr"), name, role, password_hash, now, None)
    if not await people.insert_user(resources.store, user):
        raise Invalid([FieldError("name", say("There is a user named {name} already.", name=name))])
    await people.audit(resources.store, actor=actor, action="user.added", subject=name, at=now)
    return user


async def user_named(resources: Resources, name: str) -> User:
    """Whatever the case of its letters. Raises NotFound."""
    async with resources.store.connection():
        user = await people.user_by_name(resources.store, name) if USER_NAME.fullmatch(name) else None
    if user is None:
        raise NotFound
    return user


async def list_users(resources: Resources) -> list[User]:
    async with resources.store.connection():
        return list(await people.list_users(resources.store))


async def set_role(resources: Resources, name: str, role: Role, *, actor: str) -> None:
    """Raises NotFound and LastAdmin."""
    user = await user_named(resources, name)
    async with resources.store.transaction():
        now = await resources.store.now()
        if role is not Role.ADMIN:
            await keep_an_admin(resources, user)
        await people.set_role(resources.store, user.id, role)
        await people.audit(
            resources.store, actor=actor, action="user.role", subject=user.name, at=now, details={"role": role.value}
        )
    await hint_identity(resources, user.id)


async def keep_an_admin(resources: Resources, user: User) -> None:
    """Raises LastAdmin if nobody else is one. Until the transaction ends no other admin can stop being one."""
    if await people.lock_admins(resources.store) == frozenset({user.id}):
        raise LastAdmin(user.name)


async def set_password(
    resources: Resources, name: str, password: str, *, actor: str, ends_tokens: bool = False
) -> None:
    """Signs the person out everywhere, and ends their one-time links; API tokens go on unless asked otherwise. Raises
    NotFound and Invalid."""
    user = await user_named(resources, name)
    password_hash = await passwords.hashed(password, name=user.name)
    async with resources.store.transaction():
        now = await resources.store.now()
        await people.set_password_hash(resources.store, user.id, password_hash)
        await people.delete_sessions_of(resources.store, user.id)
        await people.delete_links_of(resources.store, user.id)
        ended = await people.revoke_tokens_of(resources.store, user.id, now=now) if ends_tokens else 0
        details = {"tokens_revoked": ended} if ended else {}
        await people.audit(
            resources.store, actor=actor, action="user.password", subject=user.name, at=now, details=details
        )
    await hint_identity(resources, user.id)


async def sign_in(resources: Resources, name: str, password: str, browser: Browser = UNKNOWN) -> NewSession | None:
    """None when name or password is wrong; which of the two is not told, and takes the same time. Raises
    TooManyTries."""
    await tries.count(resources, name, browser.address)
    async with resources.store.connection():
        user = await people.user_by_name(resources.store, name) if USER_NAME.fullmatch(name) else None
    known = user.password_hash if user and not user.disabled_at else None
    if not await passwords.verified(known, password) or user is None:
        return None
    await tries.forgive(resources, name, browser.address)
    return await open_session(resources, user, browser, Entrance.PASSWORD)


async def sign_in_once(resources: Resources, token: str, browser: Browser = UNKNOWN) -> NewSession | None:
    """Spends a one-time link. None when it was used, ran out, or never was."""
    async with resources.store.transaction():
        now = await resources.store.now()
        spent = await people.use_link(resources.store, token[:200], now=now)
        user = await people.user_by_id(resources.store, spent[0]) if spent else None
    return await open_session(resources, user, browser, Entrance.LINK) if user else None


async def open_session(
    resources: Resources, user: User, browser: Browser, entrance: Entrance, *, is_sign_in: bool = True
) -> NewSession:
    """`is_sign_in`: it does not only take the place of a session that they had."""
    token, agent = secrets.token_urlsafe(32), browser.agent[:AGENT_LENGTH].replace("\0", "")
    async with resources.store.transaction():
        now = await resources.store.now()
        session = Session(new_id("ses"), now, now, agent, browser.address, entrance)
        await people.insert_session(
            resources.store, session, token=token, user_id=user.id, expires_at=now + SESSION_LIFETIME
        )
        if is_sign_in:
            details = {"by": entrance.value, "address": browser.address}
            await people.audit(
                resources.store, actor=user.name, action="user.signed_in", subject=user.name, at=now, details=details
            )
    return NewSession(token, round(SESSION_LIFETIME.total_seconds()))


async def sign_out(resources: Resources, viewer: Viewer) -> None:
    """This session only; its open streams end at once."""
    if viewer.session is None:
        return
    async with resources.store.transaction():
        if await people.delete_session(resources.store, viewer.session, user_id=viewer.id):
            now, details = await resources.store.now(), {"ended": 1}
            await people.audit(
                resources.store,
                actor=viewer.name,
                action="user.signed_out",
                subject=viewer.name,
                at=now,
                details=details,
            )
    await hint_identity(resources, viewer.id)


async def hint_identity(resources: Resources, user_id: str = "") -> None:
    """A hint without an export makes open streams of this person, or of all, check who they are and what they may see,
    and everybody forget tokens."""
    resources.statuses.hear("", 0)
    await hint(resources, bus.Hint("", user_id, 0))


async def viewer_of_session(resources: Resources, token: str) -> Viewer | None:
    async with resources.store.connection():
        now = await resources.store.now()
        found = await people.user_by_session(resources.store, token, now=now)
        if found is None:
            return None
        user, session_id, seen_at = found
        if _is_due(seen_at, now):
            with suppress(*DATABASE_ERRORS):
                await people.touch_session(resources.store, session_id, now=now)
        return await _viewer(resources, user, session=session_id)


async def viewer_by_proxy(resources: Resources, name: str) -> Viewer | None:
    """Who a trusted proxy says it is: who comes for the first time is added as a user. None for who is disabled here,
    and for what cannot be a name."""
    if not may_be_named(name):
        return None
    async with resources.store.connection():
        user = await people.user_by_name(resources.store, name)
    if user is None:
        with suppress(Invalid):  # another request of theirs was quicker
            await add_user(resources, name, Role.USER, actor="proxy")
        user = await user_named(resources, name)
    return await viewer_of_user(resources, user.id)


async def viewer_of_user(resources: Resources, user_id: str) -> Viewer | None:
    """For what is done on somebody's behalf. None for who was deleted or disabled."""
    async with resources.store.connection():
        user = await people.user_by_id(resources.store, user_id)
        return await _viewer(resources, user) if user and user.disabled_at is None else None


async def _viewer(
    resources: Resources, user: User, *, session: str | None = None, scopes: frozenset[Scope] = ALL_SCOPES
) -> Viewer:
    denied = frozenset[str]() if user.role is Role.ADMIN else await grants.denied_to(resources.store, user.id)
    return Viewer(user.id, user.name, user.role, session, scopes, denied, user.language, user.timezone)


def _is_due(seen_at: datetime | None, now: datetime) -> bool:
    return seen_at is None or now - seen_at >= SEEN_EVERY


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
        found = await people.user_by_token(resources.store, token, now=now)
        if found is None:
            return None
        user, api_token = found
        if _is_due(api_token.last_used_at, now):
            with suppress(*DATABASE_ERRORS):
                await people.touch_token(resources.store, api_token.id, now=now)
        return await _viewer(resources, user, scopes=api_token.scopes)


async def make_sign_in_link(
    resources: Resources, user: User, *, lifetime: timedelta = SIGN_IN_LINK_LIFETIME, following: str = ""
) -> str:
    """A URL that signs this person in once, and leads to the path `following`."""
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
            expires_at=now + lifetime,
        )
    query = f"?next={quote(following, safe='')}" if following else ""
    return f"{resources.settings.base_url}/sign-in/once/{token}{query}"


async def create_token(
    resources: Resources,
    user: User,
    name: str,
    *,
    actor: str,
    scopes: Set[Scope] = ALL_SCOPES,
    lifetime: timedelta | None = None,
) -> tuple[str, str]:
    """The token's id, and the token itself, which is shown this once and kept only as a hash. Raises Invalid."""
    _check_token(name, scopes, lifetime)
    token = "exd_" + secrets.token_urlsafe(32)
    async with resources.store.transaction():
        now = await resources.store.now()
        if not await people.lock_user(resources.store, user.id):
            raise NotFound
        if await people.count_tokens(resources.store, user.id, now=now) >= MOST_TOKENS:
            raise Invalid(
                [
                    FieldError(
                        "name", say("There are {most} tokens in force already. Revoke one first.", most=MOST_TOKENS)
                    )
                ]
            )
        token_id = await people.insert_token(
            resources.store,
            kind="api",
            name=name.strip(),
            token=token,
            user_id=user.id,
            created_at=now,
            expires_at=now + lifetime if lifetime else None,
            scopes=scopes,
        )
        details = {"user": user.name, "name": name.strip(), "scopes": sorted(scopes)}
        await people.audit(
            resources.store, actor=actor, action="token.created", subject=token_id, at=now, details=details
        )
    return token_id, token


def _check_token(name: str, scopes: Set[Scope], lifetime: timedelta | None) -> None:
    errors: list[FieldError] = []
    if not 1 <= len(name.strip()) <= 100 or "\0" in name:
        errors.append(FieldError("name", say("A token's name has 1 to 100 characters.")))
    if not scopes:
        errors.append(FieldError("scopes", say("Choose what it is good for: {scopes}.", scopes=", ".join(Scope))))
    if lifetime is not None and not timedelta(0) < lifetime <= TOKEN_LIFETIME:
        errors.append(FieldError("expires", say("A token lasts {most} days at most.", most=TOKEN_LIFETIME.days)))
    if errors:
        raise Invalid(errors)


async def list_tokens(resources: Resources, user_id: str | None = None) -> list[ApiToken]:
    """Of one person, or of everybody; also those that were revoked or ran out."""
    async with resources.store.connection():
        return list(await people.list_tokens(resources.store, user_id))


async def count_tokens(resources: Resources, user_id: str) -> int:
    """API tokens of this person that are in force."""
    async with resources.store.connection():
        return await people.count_tokens(resources.store, user_id, now=await resources.store.now())


async def tokens_in_force(
    resources: Resources, *, text: str | None, limit: int, after: tuple[datetime, str] | None
) -> tuple[Sequence[tuple[ApiToken, str]], bool]:
    """Everybody's, newest first, each with its person's name, and whether there are more after them."""
    async with resources.store.connection():
        now = await resources.store.now()
        found = await rosters.tokens_in_force(resources.store, now=now, text=text, limit=limit + 1, after=after)
    return found[:limit], len(found) > limit


async def revoke_token(resources: Resources, token_id: str, *, actor: str, user_id: str | None = None) -> None:
    """Raises NotFound when there is no such token (of this person) or it is revoked already."""
    if not is_id(token_id, "tok"):
        raise NotFound
    async with resources.store.transaction():
        now = await resources.store.now()
        revoked = await people.revoke_token(resources.store, token_id, now=now, user_id=user_id)
        if revoked is None:
            raise NotFound
        whose, name = revoked
        details = {"user": (await people.user_names(resources.store, [whose]))[whose], "name": name}
        await people.audit(
            resources.store, actor=actor, action="token.revoked", subject=token_id, at=now, details=details
        )
    await hint_identity(resources, whose)
