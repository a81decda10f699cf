"""Rows of `users`, `sessions` and `api_tokens`, and the audit log of what was done to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update

from webapp.domain.access import Role
from webapp.domain.ids import new_id
from webapp.store.database import PlainSQL, Store
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


def hash_token(token: str) -> str:
    """Tokens are 256 random bits, so a plain hash keeps them: nothing can be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def _user(row: Mapping[str, Any]) -> User:
    return User(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        password_hash=row["password_hash"],
        created_at=row["created_at"],
        disabled_at=row["disabled_at"],
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
    row = await store.fetch_one(select(users).where(users.c.name == name))
    return _user(row) if row else None


async def list_users(store: Store) -> Sequence[User]:
    rows = await store.fetch_all(select(users).order_by(users.c.name))
    return [_user(row) for row in rows]


async def user_names(store: Store, ids: Sequence[str]) -> dict[str, str]:
    rows = await store.fetch_all(select(users.c.id, users.c.name).where(users.c.id.in_(list(set(ids)))))
    return {row["id"]: row["name"] for row in rows}


async def lock_user(store: Store, user_id: str) -> None:
    """Keeps orders and claims of one person apart until the transaction ends. SQLite has one writer anyway."""
    await store.fetch_one(select(users.c.id).where(users.c.id == user_id).with_for_update())


async def set_role(store: Store, user_id: str, role: Role) -> None:
    await store.execute(update(users).where(users.c.id == user_id).values(role=role.value))


async def set_password_hash(store: Store, user_id: str, password_hash: str) -> None:
    await store.execute(update(users).where(users.c.id == user_id).values(password_hash=password_hash))


async def insert_session(
    store: Store, *, session_id: str, token: str, user_id: str, created_at: datetime, expires_at: datetime
) -> None:
    values = {"id": session_id, "token_hash": hash_token(token), "user_id": user_id}
    await store.execute(insert(sessions).values(**values, created_at=created_at, expires_at=expires_at))


async def user_by_session(store: Store, token: str, *, now: datetime) -> tuple[User, str] | None:
    """The person and the session's id."""
    query = (
        select(users, sessions.c.id.label("session_id"))
        .join(sessions, sessions.c.user_id == users.c.id)
        .where(
            sessions.c.token_hash == hash_token(token),
            sessions.c.expires_at > now,
            users.c.disabled_at.is_(None),
        )
    )
    row = await store.fetch_one(query)
    return (_user(row), row["session_id"]) if row else None


async def delete_session(store: Store, session_id: str) -> None:
    await store.execute(delete(sessions).where(sessions.c.id == session_id))


async def delete_sessions_of(store: Store, user_id: str) -> None:
    await store.execute(delete(sessions).where(sessions.c.user_id == user_id))


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
) -> str:
    token_id = new_id("tok")
    values = {"id": token_id, "kind": kind, "name": name, "token_hash": hash_token(token), "user_id": user_id}
    await store.execute(insert(api_tokens).values(**values, created_at=created_at, expires_at=expires_at))
    return token_id


async def user_by_token(store: Store, token: str, *, now: datetime) -> User | None:
    query = (
        select(users)
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
    return _user(row) if row else None


async def use_sign_in_link(store: Store, token: str, *, now: datetime) -> str | None:
    """The user's id, once: the link is spent by the same statement that checks it. None for a disabled user."""
    enabled = select(users.c.id).where(users.c.disabled_at.is_(None))
    query = (
        update(api_tokens)
        .where(
            api_tokens.c.token_hash == hash_token(token),
            api_tokens.c.kind == "sign-in",
            api_tokens.c.user_id.in_(enabled),
            api_tokens.c.revoked_at.is_(None),
            api_tokens.c.expires_at > now,
        )
        .values(revoked_at=now, last_used_at=now)
        .returning(api_tokens.c.user_id)
    )
    row = await store.fetch_one(query)
    return row["user_id"] if row else None


async def delete_spent_links(store: Store, *, now: datetime) -> int:
    """One-time sign-in links that were used or ran out."""
    query = (
        delete(api_tokens)
        .where(api_tokens.c.kind == "sign-in", api_tokens.c.expires_at <= now)
        .returning(api_tokens.c.id)
    )
    return len(await store.fetch_all(query))


async def list_tokens(store: Store, user_id: str | None = None) -> Sequence[ApiToken]:
    query = select(api_tokens).where(api_tokens.c.kind == "api").order_by(api_tokens.c.created_at)
    if user_id is not None:
        query = query.where(api_tokens.c.user_id == user_id)
    rows = await store.fetch_all(query)
    return [ApiToken(**{name: row[name] for name in ApiToken.__slots__}) for row in rows]


async def revoke_token(store: Store, token_id: str, *, now: datetime) -> str | None:
    """Whose it was; None when there is no such token or it is revoked already."""
    query = (
        update(api_tokens)
        .where(api_tokens.c.id == token_id, api_tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(api_tokens.c.user_id)
    )
    row = await store.fetch_one(query)
    return row["user_id"] if row else None


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
