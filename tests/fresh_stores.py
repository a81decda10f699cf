"""Databases made for one test: a SQLite file or a PostgreSQL database, and the resources over them."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from webapp.domain.access import Role, Viewer
from webapp.domain.ids import new_id
from webapp.resources import Resources, open_resources
from webapp.settings import Settings
from webapp.store import people
from webapp.store.database import Store
from webapp.store.people import User
from webapp.store.schema import migrate
from webapp.store.tables import metadata

KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]

EMPTY = "DROP TABLE IF EXISTS samples; " + "".join(
    f"DELETE FROM {table};" for table in reversed(metadata.sorted_tables)
)
"""Leaves a database as its migrations made it; `samples` is a table that tests of the store itself make."""

__all__ = ["database_kind", "each_resources", "each_settings", "empty_postgres", "migrated_postgres", "writer"]


def apart(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs it on a loop of its own in a thread of its own, so that no test's loop is disturbed."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def _on_server(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def make_database(server: str) -> str:
    """The URL of a new, empty database."""
    name = f"exportdesk_test_{secrets.token_hex(6)}"
    apart(_on_server(server, f"CREATE DATABASE {name} TEMPLATE template0"))
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def drop_database(server: str, url: str) -> None:
    apart(_on_server(server, f"DROP DATABASE IF EXISTS {urlsplit(url).path[1:]} WITH (FORCE)"))


@pytest.fixture
def empty_postgres(postgres: str) -> Iterator[str]:
    """The URL of a PostgreSQL database without tables."""
    url = make_database(postgres)
    yield url
    drop_database(postgres, url)


@pytest.fixture(scope="session")
def migrated_postgres(postgres: str) -> Iterator[str]:
    """The URL of a database with our tables. Making one takes a fifth of a second, emptying it a hundredth."""
    url = make_database(postgres)
    apart(migrate(url))
    apart(_on_server(url, f"ALTER DATABASE {urlsplit(url).path[1:]} SET synchronous_commit = off"))
    yield url
    drop_database(postgres, url)


@pytest.fixture(params=KINDS)
def database_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def each_settings(database_kind: str, settings: Settings, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """Settings whose database has our tables and no rows: SQLite, then PostgreSQL."""
    if database_kind == "sqlite":
        migrated = request.getfixturevalue("migrated")
        shutil.copy(migrated, settings.data_dir / migrated.name)
        yield settings
        return
    url = request.getfixturevalue("migrated_postgres")
    apart(_on_server(url, EMPTY))
    yield replace(settings, database_url=url)


@pytest.fixture
async def each_resources(each_settings: Settings) -> AsyncIterator[Resources]:
    async with open_resources(each_settings) as opened:
        await opened.redis.flushdb()
        yield opened


@pytest.fixture
async def writer(each_resources: Resources) -> Viewer:
    """A person without a password, which would take time to hash."""
    return await person(each_resources, "writer")


async def person(resources: Resources, name: str, role: Role = Role.USER) -> Viewer:
    user = User(new_id("usr"), name, role, None, await resources.store.now(), None)
    async with resources.store.transaction():
        assert await people.insert_user(resources.store, user)
    return Viewer(user.id, name, role)


@asynccontextmanager
async def opened_store(url: str) -> AsyncIterator[Store]:
    store = Store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Clock:
    """Stands in for a store's clock: it stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        self.at = start

    async def now(self) -> datetime:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    @classmethod
    async def of(cls, store: Store) -> Clock:
        """Takes the place of this store's clock."""
        clock = cls(await store.now())
        store.now = clock.now  # type: ignore[method-assign]
        return clock
