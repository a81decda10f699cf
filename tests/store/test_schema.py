"""Migrations lead to the tables that the code knows, and an old schema is refused by name of its mend."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from webapp.resources import open_resources
from webapp.settings import Settings
from webapp.store.schema import MIGRATIONS, OutdatedSchema, head_version, migrate, require_current_schema
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
    """But for indexes of an expression, which cannot be read back from SQLite: see the next but one test."""
    options = {"compare_type": True, "compare_server_default": True}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?i).*expression-based index")
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
    name = re.escape(make_url(empty_database).database or "")
    with pytest.raises(OutdatedSchema, match=rf"^The database {name} has no tables yet.*Run: exportdesk migrate$"):
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


def upgraded_to(version: str, *statements: str) -> Callable[[Connection], None]:
    """An older schema, and rows in it."""

    def work(connection: Connection) -> None:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, version)
        for statement in statements:
            connection.exec_driver_sql(statement)

    return work


OLD_ROWS = (
    "INSERT INTO events (seq, id, type, export_id, owner, version, timestamp, data) VALUES "
    "(3, 'evt_1', 'export.created', 'exp_1', 'usr_1', 1, 0, '{}'), (9, 'evt_2', 'export.queued', 'exp_1', 'usr_1', 2, "
    "0, '{}')",
    "INSERT INTO endpoints (id, url, description, event_types, datasets, schedule, waits, time_limit_ms, max_in_flight,"
    " rate, sealed_headers, sealed_secrets, created_by, created_at, updated_at, version, failures_in_row) VALUES "
    "('end_1', '', '', '[]', '[]', '', '[]', 1, 1, 1, '', '', '', 0, 0, 1, 0)",
    "INSERT INTO deliveries (id, event_id, event_type, export_id, endpoint_id, state, created_at, attempts, failures) "
    "VALUES ('dlv_1', 'evt_1', 'export.created', 'exp_1', 'end_1', 'dead', 0, 1, 1)",
    "INSERT INTO delivery_attempts (id, delivery_id, endpoint_id, number, started_at, url, request_headers, "
    "request_body) VALUES ('att_1', 'dlv_1', 'end_1', 1, 0, '', '[]', '')",
    "DELETE FROM events WHERE id = 'evt_2'",
)


async def test_tables_that_are_copied_keep_their_rows_and_never_use_a_number_twice(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/old.db"

    await on(url, upgraded_to("0010", *OLD_ROWS))
    await migrate(url)
    alert = "INSERT INTO events (id, type, timestamp, data) VALUES ('evt_3', 'alert.firing', 0, '{}')"
    await on(url, lambda c: c.exec_driver_sql(alert) and None)
    query = "SELECT e.seq, a.id FROM events e LEFT JOIN deliveries d ON d.event_id = e.id LEFT JOIN delivery_attempts a"
    found = await on(url, lambda c: c.execute(text(f"{query} ON a.delivery_id = d.id ORDER BY e.seq")).fetchall())
    assert found == [(3, "att_1"), (10, None)]
    assert await on(url, lambda c: c.exec_driver_sql("PRAGMA foreign_key_check").fetchall()) == []


TWINS = [
    (["ann", "Bo"], ["ann", "Bo"]),
    (["Ann", "ann", "ANN", "ann-2"], ["Ann", "ann-3", "ANN-4", "ann-2"]),
    (["proxy", "System"], ["proxy-2", "System-2"]),
    (["x" * 63, "X" * 63], ["x" * 63, "X" * 61 + "-2"]),
]


@pytest.mark.parametrize(("before", "after"), TWINS)
async def test_people_whose_names_differ_by_case_alone_get_a_number(
    empty_database: str, before: list[str], after: list[str], caplog: pytest.LogCaptureFixture
):
    insert = "INSERT INTO users (id, name, role, created_at) VALUES ('usr_{n}', '{name}', 'user', {n})"
    people = [insert.format(n=number, name=name) for number, name in enumerate(before)]
    await on(empty_database, upgraded_to("0018", *people))
    await migrate(empty_database)
    found = await on(empty_database, lambda c: c.execute(text("SELECT name FROM users ORDER BY created_at")).fetchall())
    assert [name for (name,) in found] == after
    told = "SELECT actor, action, subject, details FROM audit_log ORDER BY id"
    changed = {(new, old) for old, new in zip(before, after, strict=True) if old != new}
    logged = await on(empty_database, lambda c: c.execute(text(told)).fetchall())
    assert {(new, json.loads(details)["before"]) for _, _, new, details in logged} == changed
    assert {(actor, action) for actor, action, _, _ in logged} <= {("exportdesk", "user.renamed")}
    assert len([line for line in caplog.messages if "from now on" in line]) == len(changed)


async def test_a_migration_that_fails_half_way_leaves_nothing_behind(empty_database: str):
    await on(empty_database, lambda c: c.execute(text("CREATE TABLE settings (name text)")) and None)
    with pytest.raises(DBAPIError, match="already exists"):
        await migrate(empty_database)
    assert await on(empty_database, lambda c: inspect(c).get_table_names()) == ["settings"]


async def test_nothing_is_opened_on_an_old_schema(settings: Settings):
    with pytest.raises(OutdatedSchema):
        async with open_resources(settings):
            pytest.fail("opened")
