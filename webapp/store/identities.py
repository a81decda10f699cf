"""Rows of `identities`: who somebody is at a provider of sign-ins."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from webapp.store.database import Store
from webapp.store.tables import identities


async def find(store: Store, issuer: str, subject: str) -> str | None:
    """The user's id."""
    query = select(identities.c.user_id).where(identities.c.issuer == issuer, identities.c.subject == subject)
    return await store.fetch_val(query)


async def insert(store: Store, issuer: str, subject: str, *, user_id: str, at: datetime) -> None:
    """Nothing changes when it is there already."""
    values = {"issuer": issuer, "subject": subject, "user_id": user_id, "created_at": at}
    await store.execute(store.insert_new(identities).values(**values))
