"""Addresses of people, their endpoints, and which orders ask for a mail: columns of `users` and `exports`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, and_, exists, func, or_, select, update

from webapp.domain.emails import EMAIL
from webapp.domain.exports import ACTIVE
from webapp.store.database import Store
from webapp.store.people import hash_token
from webapp.store.plain import PlainSQL, json_rows
from webapp.store.tables import api_tokens, exports, users

KIND = "e-mail"
"""Of a one-time link; its name is the address that it was sent to."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """`address` was confirmed; None: there is none. `endpoint` is the one by which it is written to, `language` the one
    in which it was confirmed: that of its mails while the person has chosen none."""

    address: str | None = None
    always: bool = False
    endpoint: str | None = None
    language: str | None = None


async def get(store: Store, user_id: str) -> Mailbox:
    row = await store.fetch_one(
        select(users.c.email, users.c.email_always, users.c.email_endpoint, users.c.email_language).where(
            users.c.id == user_id
        )
    )
    if row is None:
        return Mailbox()
    return Mailbox(row["email"], bool(row["email_always"]), row["email_endpoint"], row["email_language"])


async def put(store: Store, user_id: str, mailbox: Mailbox) -> None:
    values = {
        "email": mailbox.address,
        "email_always": int(mailbox.always),
        "email_endpoint": mailbox.endpoint,
        "email_language": mailbox.language,
    }
    await store.execute(update(users).where(users.c.id == user_id).values(**values))


async def mark(store: Store, export_id: str, notify: str | None) -> bool:
    """Whether this order asks for a mail. False: it has ended, or is not there."""
    query = update(exports).where(exports.c.id == export_id, exports.c.status.in_([status.value for status in ACTIVE]))
    return await store.fetch_one(query.values(notify=notify).returning(exports.c.id)) is not None


async def asks(store: Store, export_id: str) -> bool:
    """Whether this order asked for a mail, apart from what its owner wants of all of them."""
    return await store.fetch_val(select(exports.c.notify).where(exports.c.id == export_id)) == EMAIL


async def endpoint_for(store: Store, export_id: str, owner: str) -> str | None:
    """Where the end of this export is told by mail; None when its owner does not want that, or has no address."""
    asked = exists().where(exports.c.id == export_id, exports.c.notify == EMAIL)
    query = select(users.c.email_endpoint).where(
        users.c.id == owner,
        users.c.email.is_not(None),
        users.c.disabled_at.is_(None),
        or_(users.c.email_always == 1, asked),
    )
    row = await store.fetch_one(query)
    return row["email_endpoint"] if row else None


async def count_links(store: Store, user_id: str, *, since: datetime) -> int:
    query = select(func.count()).where(
        api_tokens.c.user_id == user_id, api_tokens.c.kind == KIND, api_tokens.c.created_at > since
    )
    return int(await store.fetch_val(query))


async def awaited(store: Store, user_id: str, *, now: datetime) -> str | None:
    """The address that a link was sent to which is still good, the newest if there are several."""
    query = select(api_tokens.c.name).where(_are_good(user_id, now)).order_by(api_tokens.c.created_at.desc()).limit(1)
    return await store.fetch_val(query)


async def asked_by(store: Store, token: str, user_id: str, *, now: datetime) -> str | None:
    """The address that this link confirms; None when it is not theirs, was used or ran out."""
    query = select(api_tokens.c.name).where(_are_good(user_id, now), api_tokens.c.token_hash == hash_token(token))
    return await store.fetch_val(query)


async def end_links(store: Store, user_id: str, *, now: datetime, but: str = "") -> None:
    """Links to other addresses than this one are no good any more, and do not say where they were sent; they still
    count among those of the hour."""
    query = update(api_tokens).where(_are_good(user_id, now), api_tokens.c.name != but)
    await store.execute(query.values(revoked_at=now, name=""))


def _are_good(user_id: str, now: datetime) -> ColumnElement[bool]:
    return and_(
        api_tokens.c.user_id == user_id,
        api_tokens.c.kind == KIND,
        api_tokens.c.revoked_at.is_(None),
        api_tokens.c.expires_at > now,
    )


async def readers(store: PlainSQL, ids: Sequence[str]) -> Mapping[str, tuple[str, str | None]]:
    """Address and language by the person's id, of those who have an address and may sign in."""
    query = (
        "SELECT u.id, u.email, coalesce(u.language, u.email_language) FROM users u "
        "WHERE u.email IS NOT NULL AND u.disabled_at IS NULL "
        f"AND u.id IN (SELECT r.id FROM {json_rows(store, id='text')})"
    )
    found: Sequence[Any] = await store.plain(query, rows=msgspec.json.encode([{"id": id} for id in ids]).decode())
    return {id: (address, language) for id, address, language in found}
