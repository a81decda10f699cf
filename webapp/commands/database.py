"""`exportdesk migrate`: brings the database to the version this release needs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg
from sqlalchemy import text

from webapp.settings import Settings
from webapp.store.database import Store
from webapp.store.schema import head_version, migrate


def run_migrate(settings: Settings) -> int:
    before, after = asyncio.run(_migrate(settings.database_url))
    if before == after:
        print(f"The database is at version {after} already.")
    else:
        print(f"The database went from {before or 'no tables'} to version {after}.")
    return 0


async def _migrate(url: str) -> tuple[str | None, str]:
    before = await current_version(url)
    await migrate(url)
    return before, head_version()


async def current_version(url: str) -> str | None:
    """None for a database that has no tables yet."""
    try:
        async with opened_store(url) as store, store.connection():
            row = await store.fetch_one(text("SELECT version_num FROM alembic_version"))
            return row["version_num"] if row else None
    except (sqlite3.OperationalError, asyncpg.UndefinedTableError):
        return None


@asynccontextmanager
async def opened_store(url: str) -> AsyncGenerator[Store]:
    """A store for the length of a block, without the rest of the resources."""
    store = Store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
