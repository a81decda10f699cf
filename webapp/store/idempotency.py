"""Rows of `idempotency_keys`: which order a client's `Idempotency-Key` stood for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select

from webapp.store.database import Store
from webapp.store.tables import idempotency_keys


@dataclass(frozen=True, slots=True)
class KeyUse:
    """`order_key` is that of the order as it was sent, before defaults."""

    order_key: str
    export_id: str


async def find(store: Store, owner: str, key: str, *, since: datetime) -> KeyUse | None:
    query = select(idempotency_keys).where(
        idempotency_keys.c.owner == owner,
        idempotency_keys.c.key == key,
        idempotency_keys.c.created_at >= since,
    )
    row = await store.fetch_one(query)
    return KeyUse(row["order_key"], row["export_id"]) if row else None


async def remember(store: Store, owner: str, key: str, use: KeyUse, *, at: datetime) -> None:
    """Replaces an older use of the same key. The caller holds the person's lock, so nobody else writes it meanwhile."""
    await store.execute(
        delete(idempotency_keys).where(idempotency_keys.c.owner == owner, idempotency_keys.c.key == key)
    )
    values = {"owner": owner, "key": key, "order_key": use.order_key, "export_id": use.export_id, "created_at": at}
    await store.execute(insert(idempotency_keys).values(**values))


async def purge(store: Store, *, before: datetime) -> None:
    await store.execute(delete(idempotency_keys).where(idempotency_keys.c.created_at < before))
