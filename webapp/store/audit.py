"""Rows of `audit_log`, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, func, literal, select, tuple_

from webapp.store.database import Store
from webapp.store.tables import audit_log
from webapp.store.types import Milliseconds


@dataclass(frozen=True, slots=True)
class Entry:
    """`actor` is a name, or the command line; `details` say what else is worth knowing."""

    id: str
    actor: str
    action: str
    subject: str
    details: Mapping[str, Any]
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """`kind` is the first part of an action: `user`, `token`, `grant`. Names count whatever their case."""

    actor: str | None = None
    kind: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def page(store: Store, chosen: AuditFilter, *, limit: int, after: tuple[datetime, str] | None) -> Sequence[Entry]:
    key = audit_log.c.timestamp, audit_log.c.id
    query = select(audit_log).order_by(key[0].desc(), key[1].desc()).limit(limit)
    if after is not None:
        query = query.where(tuple_(*key) < tuple_(literal(after[0], Milliseconds), literal(after[1], Text)))
    if chosen.actor:
        query = query.where(func.lower(audit_log.c.actor) == func.lower(chosen.actor))
    if chosen.kind:
        start = f"{chosen.kind}."
        query = query.where(func.substr(audit_log.c.action, 1, len(start)) == start)
    if chosen.subject:
        query = query.where(func.lower(audit_log.c.subject) == func.lower(chosen.subject))
    if chosen.since:
        query = query.where(audit_log.c.timestamp >= chosen.since)
    if chosen.until:
        query = query.where(audit_log.c.timestamp < chosen.until)
    return [
        Entry(row["id"], row["actor"], row["action"], row["subject"], row["details"], row["timestamp"])
        for row in await store.fetch_all(query)
    ]


async def count(store: Store, actor: str, action: str, *, since: datetime) -> int:
    query = select(func.count()).where(
        audit_log.c.timestamp >= since, audit_log.c.actor == actor, audit_log.c.action == action
    )
    return int(await store.fetch_val(query))
