"""Migrations lead to the tables that the code knows, and an old schema is refused by name of its mend."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from webapp.resources import open_resources
from webapp.settings import Settings
from webapp.store.schema import OutdatedSchema, head_version, migrate, require_current_schema
from webapp.store.tables import metadata


@pytest.fixture
def empty_database(database_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a database without tables."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path}/schema.db"
    return str(request.getfixturevalue("empty_postgres"))


async def on(url: str, work: Any) -> Any:
    if url.startswith("sqlite"):
        engine = create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            return work(connection)
    asynchronous = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    async with asynchronous.begin() as connection:
        return await connection.run_sync(work)


def differences(connection: Connection) -> list[Any]:
    options = {"compare_type": True, "compare_server_default": True}
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


def definitions(connection: Connection) -> dict[str, str]:
    """SQLite's own words for each table and index, without their spacing and quotes."""
    rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    return {
        name: " ".join(sql.replace('"', "").split()) for name, sql in rows if name not in {"alembic_version"}
    }  # fmt: skip


async def test_the_migrated_schema_is_the_one_the_code_knows(empty_database: str):
    await migrate(empty_database)
    assert await on(empty_database, differences) == []
    await require_current_schema(empty_database)


async def test_the_migrated_and_a_fresh_sqlite_are_alike_to_the_letter(tmp_path: Path):
    migrated, fresh = f"sqlite:///{tmp_path}/migrated.db", f"sqlite:///{tmp_path}/fresh.db"
    await migrate(migrated)
    await on(fresh, metadata.create_all)
    ours, theirs = await on(migrated, definitions), await on(fresh, definitions)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert sorted(ours[name].replace(",", "").split()) == sorted(theirs[name].replace(",", "").split()), name


async def test_an_empty_database_is_refused_with_the_command_that_mends_it(empty_database: str):
    with pytest.raises(OutdatedSchema, match=r"has no tables yet.*Run: exportdesk migrate$"):
        await require_current_schema(empty_database)


async def test_another_version_is_refused_and_named(empty_database: str):
    await migrate(empty_database)
    await on(empty_database, lambda c: c.execute(text("UPDATE alembic_version SET version_num = '0000'")) and None)
    with pytest.raises(OutdatedSchema, match=rf"is at version 0000.*needs {head_version()}.*exportdesk migrate"):
        await require_current_schema(empty_database)


async def test_migrating_again_changes_nothing_and_keeps_the_rows(empty_database: str):
    await migrate(empty_database)
    insert = "INSERT INTO users (id, name, role, created_at) VALUES ('usr_1', 'ann', 'user', 0)"
    await on(empty_database, lambda c: c.execute(text(insert)) and None)
    await migrate(empty_database)
    await require_current_schema(empty_database)
    assert await on(empty_database, lambda c: c.scalar(text("SELECT count(*) FROM users"))) == 1
    assert await on(empty_database, differences) == []


MIGRATE = "import asyncio, sys; from webapp.store.schema import migrate; asyncio.run(migrate(sys.argv[1]))"


async def test_two_migrations_at_once_leave_one_schema(empty_database: str):
    processes = [await asyncio.create_subprocess_exec(sys.executable, "-c", MIGRATE, empty_database) for _ in range(3)]
    assert [await process.wait() for process in processes] == [0, 0, 0]
    assert await on(empty_database, differences) == []


async def test_a_migration_that_fails_half_way_leaves_nothing_behind(empty_database: str):
    await on(empty_database, lambda c: c.execute(text("CREATE TABLE settings (name text)")) and None)
    with pytest.raises(DBAPIError, match="already exists"):
        await migrate(empty_database)
    assert await on(empty_database, lambda c: inspect(c).get_table_names()) == ["settings"]


async def test_nothing_is_opened_on_an_old_schema(settings: Settings):
    with pytest.raises(OutdatedSchema):
        async with open_resources(settings):
            pytest.fail("opened")
