"""Rows of `users`, `sessions` and `api_tokens`, and the audit log of what was done to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, and_, delete, func, insert, select, update

from webapp.domain.access import ALL_SCOPES, Entrance, Role, Scope
from webapp.domain.ids import new_id
from webapp.store.database import Store
from webapp.store.plain import PlainSQL
from webapp.store.tables import api_tokens, sessions, users
from webapp.store.types import to_milliseconds


@dataclass(frozen=True, slots=True)
class User:
    id: str
    name: str
    role: Role
    password_hash: str | None
    created_at: datetime
    disabled_at: datetime | None
    language: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """Where somebody is signed in. `agent` is what the browser calls itself; `entrance` None is not known any more."""

    id: str
    created_at: datetime
    last_seen_at: datetime | None
    agent: str
    address: str
    entrance: Entrance | None


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token as lists show it; the token itself is kept only as a hash."""

    id: str
    kind: str
    name: str
    user_id: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    scopes: frozenset[Scope] = ALL_SCOPES

    def is_in_force(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


def hash_token(token: str) -> str:
    """Tokens are 256 random bits, so a plain hash keeps them: nothing can be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def user_of(row: Mapping[str, Any]) -> User:
    return User(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        password_hash=row["password_hash"],
        created_at=row["created_at"],
        disabled_at=row["disabled_at"],
        language=row["language"],
        timezone=row["timezone"],
    )


def token_of(row: Mapping[str, Any]) -> ApiToken:
    return ApiToken(
        id=row["id"],
        kind=row["kind"],
        name=row["name"],
        user_id=row["user_id"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        scopes=frozenset(map(Scope, row["scopes"] or ())),
    )


async def insert_user(store: Store, user: User) -> bool:
    """False when the name is taken."""
    query = (
        store.insert_new(users)
        .values(
            id=user.id,
            name=user.name,
            role=user.role.value,
            password_hash=user.password_hash,
            created_at=user.created_at,
        )
        .returning(users.c.id)
    )
    return await store.fetch_one(query) is not None


async def user_by_name(store: Store, name: str) -> User | None:
    """Whatever the case of its letters."""
    row = await store.fetch_one(select(users).where(func.lower(users.c.name) == name.lower()))
    return user_of(row) if row else None


async def user_by_id(store: Store, user_id: str) -> User | None:
    row = await store.fetch_one(select(users).where(users.c.id == user_id))
    return user_of(row) if row else None


async def list_users(store: Store) -> Sequence[User]:
    rows = await store.fetch_all(select(users).order_by(func.lower(users.c.name)))
    return [user_of(row) for row in rows]


async def user_names(store: Store, ids: Sequence[str]) -> dict[str, str]:
    rows = await store.fetch_all(select(users.c.id, users.c.name).where(users.c.id.in_(list(set(ids)))))
    return {row["id"]: row["name"] for row in rows}


async def lock_user(store: Store, user_id: str) -> bool:
    """Keeps orders and claims of one person apart until the transaction ends, and the person there: whether they are.
    Rows that name the person may be written meanwhile. SQLite has one writer anyway."""
    query = select(users.c.id).where(users.c.id == user_id).with_for_update(key_share=True)
    return await store.fetch_one(query) is not None


async def lock_admins(store: Store) -> frozenset[str]:
    """Ids of the admins who can sign in; none of them changes until the transaction ends."""
    query = select(users.c.id).where(users.c.role == Role.ADMIN.value, users.c.disabled_at.is_(None))
    return frozenset(row["id"] for row in await store.fetch_all(query.with_for_update()))


async def set_disabled(store: Store, user_id: str, at: datetime | None) -> None:
    await store.execute(update(users).where(users.c.id == user_id).values(disabled_at=at))


async def delete_user(store: Store, user_id: str) -> None:
    """With all that is theirs, but for their exports: those must be gone."""
    await store.execute(delete(users).where(users.c.id == user_id))


async def delete_links_of(store: Store, user_id: str) -> None:
    """One-time links that let in."""
    await store.execute(delete(api_tokens).where(api_tokens.c.user_id == user_id, api_tokens.c.kind == "sign-in"))


async def links_until(store: Store, user_ids: Sequence[str], *, now: datetime) -> dict[str, datetime]:
    """Who of these has a one-time link that is still good, and until when."""
    query = select(api_tokens.c.user_id, func.max(api_tokens.c.expires_at).label("until")).where(
        api_tokens.c.user_id.in_(list(user_ids)),
        api_tokens.c.kind == "sign-in",
        api_tokens.c.revoked_at.is_(None),
        api_tokens.c.expires_at > now,
    )
    return {row["user_id"]: row["until"] for row in await store.fetch_all(query.group_by(api_tokens.c.user_id))}


async def forget_password(store: Store, user_id: str) -> None:
    await store.execute(update(users).where(users.c.id == user_id).values(password_hash=None))


async def set_role(store: Store, user_id: str, role: Role) -> None:
    await store.execute(update(users).where(users.c.id == user_id).values(role=role.value))


async def set_password_hash(store: Store, user_id: str, password_hash: str) -> None:
    await store.execute(update(users).where(users.c.id == user_id).values(password_hash=password_hash))


async def set_preferences(store: Store, user_id: str, *, language: str | None, timezone: str | None) -> None:
    await store.execute(update(users).where(users.c.id == user_id).values(language=language, timezone=timezone))


async def insert_session(store: Store, session: Session, *, token: str, user_id: str, expires_at: datetime) -> None:
    values = {"id": session.id, "token_hash": hash_token(token), "user_id": user_id, "expires_at": expires_at}
    values |= {"agent": session.agent, "address": session.address}
    values |= {"created_at": session.created_at, "last_seen_at": session.last_seen_at, "entrance": session.entrance}
    await store.execute(insert(sessions).values(**values))


async def sessions_of(store: Store, user_id: str, *, now: datetime) -> Sequence[Session]:
    """Those in force, the one that was used last first."""
    query = (
        select(sessions)
        .where(sessions.c.user_id == user_id, sessions.c.expires_at > now)
        .order_by(sessions.c.last_seen_at.desc(), sessions.c.id.desc())
    )
    return [_session(row) for row in await store.fetch_all(query)]


def _session(row: Mapping[str, Any]) -> Session:
    entrance = Entrance(row["entrance"]) if row["entrance"] else None
    return Session(
        row["id"], row["created_at"], row["last_seen_at"], row["agent"] or "", row["address"] or "", entrance
    )


async def touch_session(store: Store, session_id: str, *, now: datetime) -> None:
    await store.execute(update(sessions).where(sessions.c.id == session_id).values(last_seen_at=now))


async def user_by_session(store: Store, token: str, *, now: datetime) -> tuple[User, str, datetime | None] | None:
    """The person, the session's id, and when it was last seen, as far as that is recorded."""
    query = (
        select(users, sessions.c.id.label("session_id"), sessions.c.last_seen_at)
        .join(sessions, sessions.c.user_id == users.c.id)
        .where(
            sessions.c.token_hash == hash_token(token),
            sessions.c.expires_at > now,
            users.c.disabled_at.is_(None),
        )
    )
    row = await store.fetch_one(query)
    return (user_of(row), row["session_id"], row["last_seen_at"]) if row else None


async def delete_session(store: Store, session_id: str, *, user_id: str) -> bool:
    """Whether this person had such a session."""
    query = delete(sessions).where(sessions.c.id == session_id, sessions.c.user_id == user_id).returning(sessions.c.id)
    return await store.fetch_one(query) is not None


async def delete_sessions_of(store: Store, user_id: str, *, but: str | None = None) -> int:
    """All of one person, but for this one; how many they were."""
    query = delete(sessions).where(sessions.c.user_id == user_id)
    if but is not None:
        query = query.where(sessions.c.id != but)
    return len(await store.fetch_all(query.returning(sessions.c.id)))


async def delete_expired_sessions(store: Store, *, now: datetime) -> int:
    query = delete(sessions).where(sessions.c.expires_at <= now).returning(sessions.c.id)
    return len(await store.fetch_all(query))


async def insert_token(
    store: Store,
    *,
    kind: str,
    name: str,
    token: str,
    user_id: str,
    created_at: datetime,
    expires_at: datetime | None,
    scopes: Set[Scope] = frozenset(),
) -> str:
    token_id = new_id("tok")
    values: dict[str, Any] = {
        "id": token_id,
        "kind": kind,
        "name": name,
        "token_hash": hash_token(token),
        "user_id": user_id,
    }
    values["scopes"] = [scope.value for scope in Scope if scope in scopes]
    await store.execute(insert(api_tokens).values(**values, created_at=created_at, expires_at=expires_at))
    return token_id


async def user_by_token(store: Store, token: str, *, now: datetime) -> tuple[User, ApiToken] | None:
    query = (
        select(users, *(column.label(f"token_{column.name}") for column in api_tokens.c))
        .join(api_tokens, api_tokens.c.user_id == users.c.id)
        .where(
            api_tokens.c.token_hash == hash_token(token),
            api_tokens.c.kind == "api",
            api_tokens.c.revoked_at.is_(None),
            (api_tokens.c.expires_at.is_(None)) | (api_tokens.c.expires_at > now),
            users.c.disabled_at.is_(None),
        )
    )
    row = await store.fetch_one(query)
    if row is None:
        return None
    return user_of(row), token_of({column.name: row[f"token_{column.name}"] for column in api_tokens.c})


async def touch_token(store: Store, token_id: str, *, now: datetime) -> None:
    await store.execute(update(api_tokens).where(api_tokens.c.id == token_id).values(last_used_at=now))


async def count_tokens(store: Store, user_id: str, *, now: datetime) -> int:
    """API tokens of this person that are in force."""
    query = select(func.count()).where(_are_in_force(user_id, now))
    return int(await store.fetch_val(query))


async def use_link(
    store: Store, token: str, *, now: datetime, kind: str = "sign-in", user_id: str | None = None
) -> tuple[str, str] | None:
    """The user's id and the link's name, once: it is spent by the statement that checks it. None for a disabled user,
    and for one who is not the one given."""
    enabled = select(users.c.id).where(users.c.disabled_at.is_(None))
    query = (
        update(api_tokens)
        .where(
            api_tokens.c.token_hash == hash_token(token),
            api_tokens.c.kind == kind,
            api_tokens.c.user_id.in_(enabled),
            api_tokens.c.revoked_at.is_(None),
            api_tokens.c.expires_at > now,
        )
        .values(revoked_at=now, last_used_at=now)
    )
    if user_id is not None:
        query = query.where(api_tokens.c.user_id == user_id)
    row = await store.fetch_one(query.returning(api_tokens.c.user_id, api_tokens.c.name))
    return (row["user_id"], row["name"]) if row else None


async def delete_spent_links(store: Store, *, now: datetime) -> int:
    """One-time links that ran out."""
    query = (
        delete(api_tokens).where(api_tokens.c.kind != "api", api_tokens.c.expires_at <= now).returning(api_tokens.c.id)
    )
    return len(await store.fetch_all(query))


async def list_tokens(store: Store, user_id: str | None = None) -> Sequence[ApiToken]:
    query = select(api_tokens).where(api_tokens.c.kind == "api").order_by(api_tokens.c.created_at)
    if user_id is not None:
        query = query.where(api_tokens.c.user_id == user_id)
    rows = await store.fetch_all(query)
    return [token_of(row) for row in rows]


async def revoke_tokens_of(store: Store, user_id: str, *, now: datetime) -> int:
    """All API tokens of one person that are in force; how many they were."""
    query = update(api_tokens).where(_are_in_force(user_id, now)).values(revoked_at=now).returning(api_tokens.c.id)
    return len(await store.fetch_all(query))


def _are_in_force(user_id: str, now: datetime) -> ColumnElement[bool]:
    return and_(
        api_tokens.c.user_id == user_id,
        api_tokens.c.kind == "api",
        api_tokens.c.revoked_at.is_(None),
        (api_tokens.c.expires_at.is_(None)) | (api_tokens.c.expires_at > now),
    )


async def revoke_token(
    store: Store, token_id: str, *, now: datetime, user_id: str | None = None
) -> tuple[str, str] | None:
    """The user's id and the token's name; None when there is no such token (of this person), or it is revoked."""
    query = update(api_tokens).where(api_tokens.c.id == token_id, api_tokens.c.revoked_at.is_(None))
    if user_id is not None:
        query = query.where(api_tokens.c.user_id == user_id)
    query = query.values(revoked_at=now).returning(api_tokens.c.user_id, api_tokens.c.name)
    row = await store.fetch_one(query)
    return (row["user_id"], row["name"]) if row else None


async def audit(
    store: PlainSQL,
    *,
    actor: str,
    action: str,
    subject: str,
    at: datetime,
    details: Mapping[str, Any] | None = None,
) -> None:
    await store.plain(
        "INSERT INTO audit_log (id, actor, action, subject, details, timestamp) "
        "VALUES (:id, :actor, :action, :subject, :details, :timestamp)",
        id=new_id("aud"),
        actor=actor,
        action=action,
        subject=subject,
        details=msgspec.json.encode(dict(details or {})).decode(),
        timestamp=to_milliseconds(at),
    )
