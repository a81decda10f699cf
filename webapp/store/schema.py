"""The schema's version: migrate it, and refuse to work with an old one."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from databases import DatabaseURL
from sqlalchemy import URL, Connection, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = 7_226_901
"""The PostgreSQL advisory lock that keeps two migrations apart."""


class OutdatedSchema(Exception):
    """The database is not at the version this release needs."""

    def __init__(self, name: str | None, current: str | None, head: str) -> None:
        """`name` is the path of a SQLite file: that tells who runs a command in the wrong folder."""
        found = f"is at version {current}" if current else "has no tables yet"
        super().__init__(f"The database {name} {found}, this release needs {head}. Run: exportdesk migrate")


@cache
def head_version() -> str:
    """Read once: the migrations of a running release do not change."""
    head = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert head is not None
    return head


async def migrate(url: str) -> None:
    """Brings the schema to the newest version; does nothing when it is there already."""
    await _run(url, _upgrade)


async def require_current_schema(url: str) -> None:
    """Raises OutdatedSchema unless the schema is exactly what this release needs."""
    current = await _run(url, _current)
    if current != head_version():
        raise OutdatedSchema(make_url(url).database, current, head_version())


def _upgrade(connection: Connection) -> None:
    """In one transaction, which keeps two migrations apart: on SQLite the driver would not begin one for DDL."""
    is_postgres = connection.dialect.name == "postgresql"
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})" if is_postgres else "BEGIN IMMEDIATE")
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


async def _run(url: str, work: Any) -> Any:
    """Alembic is synchronous: SQLite runs in a thread, PostgreSQL through asyncpg, which spares a second driver."""
    if url.startswith("sqlite"):
        return await asyncio.to_thread(_run_sqlite, url, work)
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def _run_sqlite(url: str, work: Any) -> Any:
    path = URL.create("sqlite", database=DatabaseURL(url).database)  # unquoted as `databases` does it
    engine = create_engine(path, poolclass=NullPool, connect_args={"timeout": 30, "isolation_level": None})
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = wal")
            connection.commit()
            with connection.begin():
                return work(connection)
    finally:
        engine.dispose()
