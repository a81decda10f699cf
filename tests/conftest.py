"""Fixtures: a real Redis, a real SQLite store, the application over them, and people who use it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from factories import ASGITransport, stored_export
from needed import missing

from webapp.actions import passwords, people
from webapp.app import build_app, serving
from webapp.commands.broker import find_server
from webapp.commands.failures import Failure
from webapp.domain.access import Role, Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources, open_resources
from webapp.settings import Settings, read_settings
from webapp.store.schema import migrate
from webapp.web.security import SESSION_COOKIE

WAITING = ("faults", "browser", "cli", "readme", "worker")
"""Folders whose tests start processes and browsers, and wait for them: few tests, minutes together. On a CI machine
that others slow down, one that fails is tried once more; the summary names it then as RERUN, for somebody to mend.
Not one that hangs: it would do so again."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spreads the files that wait among the first of the others, which compute meanwhile, so that none comes last.
    `exportdesk check` gives them to its processes in this order. Gives those that wait a second try in CI."""
    files = {path: list(tests) for path, tests in groupby(items, lambda item: item.path)}
    waiting = [path for path in files if path.parent.name in WAITING]
    others = [path for path in files if path.parent.name not in WAITING]
    places = {path: number / len(others) for number, path in enumerate(others)}
    places |= {path: 0.7 * number / len(waiting) for number, path in enumerate(waiting)}
    items[:] = [item for path in sorted(places, key=places.__getitem__) for item in files[path]]
    if os.environ.get("CI") == "true":
        for item in items:
            if item.path.parent.name in WAITING:
                item.add_marker(pytest.mark.flaky(reruns=1, rerun_except="from pytest-timeout"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of our own on a socket; its URL."""
    try:
        server = find_server()
    except Failure:
        missing("redis-server")
        raise
    folder = tmp_path_factory.mktemp("redis")
    path = folder / "redis.sock"
    command = [server, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        if path.exists():
            break
        time.sleep(0.05)
    yield f"unix://{path}"
    process.terminate()
    process.wait()


@pytest.fixture(scope="session")
def postgres() -> str:
    """The URL of a PostgreSQL server where databases may be made and dropped."""
    url = os.environ.get("EXPORTDESK_TEST_POSTGRES_URL")
    if not url:
        missing("A PostgreSQL server (EXPORTDESK_TEST_POSTGRES_URL)")
    return str(url)


@pytest.fixture(scope="session")
def filled_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small source: 1,000 rows of things, one text column with awkward values."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, price DECIMAL, made DATE)")
        rows = [(n, f"thing {n} – 東京", n / 4, "2026-01-31") for n in range(1, 1001)]
        connection.executemany("INSERT INTO things VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return path


@pytest.fixture
def shop(tmp_path: Path, filled_shop: Path) -> Path:
    """A copy of its own for each test: to fill it anew would wait for the disk."""
    return shutil.copy(filled_shop, tmp_path / filled_shop.name)


CONFIG = """
[sources.shop]
url = "sqlite:///{shop}"

[datasets.things]
title = "Things"
description = "Everything in the shop."
source = "shop"
sql = "SELECT * FROM things WHERE (:search IS NULL OR name LIKE '%' || :search || '%') AND id <= coalesce(:most, id)"

[datasets.things.parameters.search]
type = "string"
label = "Name contains"
required = false

[datasets.things.parameters.most]
type = "integer"
label = "At most"
required = false
minimum = 1
maximum = 1000

[datasets.slow]
title = "Slow things"
description = "Takes as long as it is told to."
source = "shop"
sql = '''
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)
SELECT i, 'row ' || i AS label FROM n
'''
execution_limit = "20s"

[datasets.slow.parameters.rows]
type = "integer"
label = "Rows"
default = 100000
minimum = 1

[datasets.secret]
title = "For admins"
description = "Only for admins."
source = "shop"
sql = "SELECT 1 AS one"
roles = ["admin"]

[datasets.broken]
title = "Broken"
description = "Its table is gone."
source = "shop"
sql = "SELECT * FROM vanished"
"""


@pytest.fixture
def settings(tmp_path: Path, broker: str, shop: Path) -> Settings:
    config = tmp_path / "exportdesk.toml"
    config.write_text(CONFIG.format(shop=shop), encoding="utf-8")
    return read_settings(
        {
            "EXPORTDESK_DATA_DIR": str(tmp_path / "data"),
            "EXPORTDESK_REDIS_URL": broker,
            "EXPORTDESK_CONFIG": str(config),
            "EXPORTDESK_BASE_URL": "http://testserver",
            "EXPORTDESK_STREAM_HEARTBEAT": "1s",
        }
    )


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new, migrated SQLite database, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "exportdesk.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


@pytest.fixture(autouse=True, scope="session")
def cheap_passwords() -> None:
    """Hashing that takes no time: how long it takes is argon2's business, not these tests'."""
    passwords._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture
async def resources(settings: Settings, migrated: Path) -> AsyncIterator[Resources]:
    shutil.copy(migrated, settings.data_dir / migrated.name)
    async with open_resources(settings) as opened:
        await opened.redis.flushdb()
        yield opened


async def add_viewer(resources: Resources, name: str, role: Role) -> Viewer:
    user = await people.add_user(resources, name, role, actor="tests", password=f"{name} has a password")
    return Viewer(user.id, user.name, user.role)


@pytest.fixture
async def user(resources: Resources) -> Viewer:
    return await add_viewer(resources, "user", Role.USER)


@pytest.fixture
async def other(resources: Resources) -> Viewer:
    return await add_viewer(resources, "other", Role.USER)


@pytest.fixture
async def admin(resources: Resources) -> Viewer:
    return await add_viewer(resources, "admin", Role.ADMIN)


@pytest.fixture
async def app(resources: Resources) -> AsyncIterator[Any]:
    application = build_app()
    async with serving(application, resources):
        yield application


ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def make_client(app: Any, resources: Resources) -> AsyncIterator[ClientMaker]:
    """Makes clients signed in by cookie, as browsers are; None is nobody."""
    opened: list[httpx.AsyncClient] = []

    async def make(viewer: Viewer | None) -> httpx.AsyncClient:
        client = httpx.AsyncClient(transport=ASGITransport(app), base_url="http://testserver")
        opened.append(client)
        if viewer is not None:
            session = await people.sign_in(resources, viewer.name, f"{viewer.name} has a password")
            assert session is not None
            client.cookies.set(SESSION_COOKIE, session.token)
        return client

    yield make
    for client in opened:
        await client.aclose()


@pytest.fixture
async def client(make_client: ClientMaker, user: Viewer) -> httpx.AsyncClient:
    return await make_client(user)


@pytest.fixture
async def admin_client(make_client: ClientMaker, admin: Viewer) -> httpx.AsyncClient:
    return await make_client(admin)


@pytest.fixture
async def other_client(make_client: ClientMaker, other: Viewer) -> httpx.AsyncClient:
    return await make_client(other)


@pytest.fixture
async def anonymous(make_client: ClientMaker) -> httpx.AsyncClient:
    return await make_client(None)


ExportMaker = Callable[..., Awaitable[Export]]


@pytest.fixture
async def make_export(resources: Resources, user: Viewer) -> ExportMaker:
    """Puts an export of `user` into the store, in any status, with its events."""

    async def make(status: Status = Status.PENDING, *, owner: Viewer | None = None, **changes: Any) -> Export:
        return await stored_export(resources, owner or user, status, **changes)

    return make
