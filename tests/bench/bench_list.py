"""The list page, the API's list with every filter, an order and the sweep: with a million exports, against a thousand.

Two desks over two stores that differ in nothing but how many exports they hold, asked in turn in this process; medians.
A tenth of the exports are the asking person's. Values that are looked for are either common (about every third export)
or rare (twenty exports have them, in both stores), so that the answers are as long. Each ratio must be at most 1.5. On
SQLite another process begins write transactions all the time while the sweep runs and has much to do: its longest wait
is how long the sweep locks the file, against its longest wait for nobody just before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import select
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
from far_end import broker
from sqlalchemy import Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex

sys.path.insert(0, str(Path(__file__).parents[1]))

from factories import CONTENT, ASGITransport, history, new_export
from fresh_stores import drop_database, make_database

from webapp.actions import lost_files, people
from webapp.actions.sweep import BOOKS, STEPS, sweep
from webapp.app import build_app, serving
from webapp.domain.access import Role
from webapp.domain.exports import Export, Status
from webapp.resources import Resources, open_resources
from webapp.settings import read_settings
from webapp.store import app_settings, tallies
from webapp.store.exports import to_row
from webapp.store.schema import migrate
from webapp.store.tables import events, exports
from webapp.store.types import to_milliseconds
from webapp.web.security import SESSION_COOKIE

WRITE = "--write"
MOST = 1.5
LONGEST_LOCK = 0.1
QUIET_SECONDS = 5
SWEEPS = 5
OLD_EVENTS, OLD_FILES = 900, 500
SMALL = 1000
RARE = 20
PASSWORD = "bench has a password"
DATA = json.dumps({"dataset": "orders"})
PEOPLE = [f"person{number}" for number in range(10)]
STATUSES = {Status.SUCCESS: 40, Status.FAILED: 35, Status.EXPIRED: 25}
FILTERS: Mapping[str, str] = {
    "no filter": "",
    "status, common": "status=success",
    "status, rare": "status=cancelled",
    "two statuses": "status=failed&status=cancelled",
    "dataset, common": "dataset=orders",
    "dataset, rare": "dataset=rare",
    "dataset, none": "dataset=customers",
    "format, common": "format=xlsx",
    "format, rare": "format=parquet",
    "since yesterday": "since=yesterday",
    "status, dataset, format": "status=cancelled&dataset=rare&format=parquet",
    "text, common": "q=thing",
    "text, rare": "q=needle",
    "text, none": "q=nowhere",
    "text, an id": "q=id",
    "text, status": "q=nowhere&status=failed",
    "second page": "cursor=next",
}
CONFIG = """
[sources.none]
url = "sqlite:///{folder}/none.db"

[datasets.orders]
title = "Orders"
description = "Nothing of it is read here."
source = "none"
sql = "SELECT :days AS days"

[datasets.orders.parameters.days]
type = "integer"
label = "Days"
"""


@dataclass(slots=True)
class Desk:
    resources: Resources
    count: int
    client: httpx.AsyncClient
    times: dict[str, list[float]] = field(default_factory=dict)


def main() -> None:
    if sys.argv[1:2] == [WRITE]:
        _write(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exports", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="where the large store is, or will be, kept")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made; else SQLite")
    parser.add_argument("--only", default="", help="lines whose names hold this")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)):
        asyncio.run(_compare(Path(folder), f"unix://{folder}/redis.sock", chosen))


async def _compare(folder: Path, redis: str, chosen: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        desks: list[Desk] = []
        for number, count in enumerate((SMALL, chosen.exports)):
            place = (chosen.kept if number and chosen.kept else folder) / str(count)
            desk = _desk(place, count, f"{redis}?db={number}", chosen.postgres)
            desks.append(await stack.enter_async_context(desk))
        todo = {name: do for name, do in _todo().items() if chosen.only in name}
        for desk in desks:
            desk.times = {name: [] for name in todo}
        for turn in range(chosen.rounds + 2):
            for name, do in todo.items():
                for desk in desks if turn % 2 else reversed(desks):
                    began = time.perf_counter()
                    await do(desk)
                    if turn > 1:
                        desk.times[name].append(time.perf_counter() - began)
        _print(desks)
        if not chosen.postgres and not chosen.only:
            for desk in desks:
                await _measure_locks(desk)


def _print(desks: list[Desk]) -> None:
    """Medians, and for a machine that does other things beside, the ratio of the fastest."""
    print(f"{'':<40}{desks[0].count:>12,}{desks[1].count:>12,}     ratio   fastest")
    worst = 0.0
    for name in desks[0].times:
        small, big = (statistics.median(desk.times[name]) for desk in desks)
        fastest = min(desks[1].times[name]) / min(desks[0].times[name])
        worst = max(worst, big / small)
        mark = "" if big / small <= MOST else "  over"
        print(f"{name:<40}{small * 1000:>9.2f} ms{big * 1000:>9.2f} ms{big / small:>10.2f}{fastest:>10.2f}{mark}")
    print(f"largest ratio {worst:.2f} (budget {MOST})", flush=True)


def _todo() -> dict[str, Callable[[Desk], Awaitable[Any]]]:
    found: dict[str, Callable[[Desk], Awaitable[Any]]] = {}
    for who, more in (("own", ""), ("all", "all=1")):
        for name, query in FILTERS.items():
            for kind, path in (("API", "/api/v1/exports"), ("page", "/exports")):
                found[f"{kind}, {who}: {name}"] = _asking(path, query, more)
    return found | {"order": _order, "sweep": _sweep}


def _asking(path: str, query: str, more: str) -> Callable[[Desk], Awaitable[Any]]:
    cursors: dict[int, str] = {}

    async def ask(desk: Desk) -> None:
        wanted = query.replace("yesterday", _yesterday()).replace("q=id", f"q={_export_id(0)}")
        if query == "cursor=next":
            if desk.count not in cursors:
                first = await desk.client.get(f"/api/v1/exports?{more}")
                cursors[desk.count] = first.json()["next_cursor"]
            wanted = f"cursor={cursors[desk.count]}"
        limit = "limit=25" if path.startswith("/api") else ""
        response = await desk.client.get(f"{path}?{'&'.join(filter(None, (wanted, more, limit)))}")
        assert response.status_code == 200, response.text

    return ask


def _yesterday() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400))


async def _order(desk: Desk) -> None:
    wanted = {"dataset": "orders", "format": "csv", "params": {"days": random.randint(1, 10**6)}}
    response = await desk.client.post("/api/v1/exports", json=wanted)
    assert response.status_code == 202, response.text


async def _sweep(desk: Desk) -> None:
    """One that begins to look for lost files: a walk that is over would have less to do."""
    store = desk.resources.store
    async with store.transaction():
        await app_settings.put(store, lost_files.WALK, (0, None), at=await store.now())
    await sweep(desk.resources)


async def _measure_locks(desk: Desk) -> None:
    """Beside sweeps of this desk; then one step after the other is timed."""
    path = desk.resources.store.database.url.database
    alone = await _waits(path, lambda: asyncio.sleep(QUIET_SECONDS))
    await _age(desk)

    async def sweeps() -> None:
        for _ in range(SWEEPS):
            await sweep(desk.resources)

    beside = await _waits(path, sweeps)
    await _age(desk)
    slowest: dict[str, float] = {}
    for name, step in {**STEPS, **BOOKS}.items():
        began = time.perf_counter()
        await step(desk.resources, await desk.resources.store.now())
        slowest[name] = time.perf_counter() - began
    told = ", ".join(
        f"{name} {seconds * 1000:.0f}" for name, seconds in sorted(slowest.items(), key=lambda x: -x[1])[:4]
    )
    print(
        f"sweeps of {desk.count:,}: another writer waited at most {max(beside) * 1000:.1f} ms of {len(beside):,} times "
        f"(budget {LONGEST_LOCK * 1000:.0f}), for nobody {max(alone) * 1000:.1f} ms; slowest steps in ms: {told}"
    )


async def _waits(path: str, meanwhile: Callable[[], Awaitable[None]]) -> list[float]:
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, WRITE, path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"ready\n"
    await meanwhile()
    return json.loads((await writer.communicate(b"over"))[0])


def _write(path: str) -> None:
    """Begins one write transaction after the other until it is told something; prints how long it waited for each. No
    busy timeout: SQLite's own sleeps up to 100 ms between two looks."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    waits: list[float] = []
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        began = time.perf_counter()
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError:
                time.sleep(0.001)
        waits.append(time.perf_counter() - began)
        connection.execute("ROLLBACK")
    connection.close()
    print(json.dumps(waits))


async def _age(desk: Desk) -> None:
    """Gives the sweep much to do: events and files past their time, but not the file that all have."""
    store = desk.resources.store
    old = to_milliseconds(await store.now() - timedelta(days=4000))
    async with store.transaction():
        await store.plain(
            "UPDATE events SET timestamp = :old WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT :n)",
            old=old,
            n=OLD_EVENTS,
        )
        await store.plain(
            "UPDATE exports SET file_expires_at = :old, file = json_set(file, '$.key', '00/' || id) WHERE id IN "
            "(SELECT id FROM exports WHERE status = 'SUCCESS' ORDER BY created_at LIMIT :n)",
            old=old,
            n=OLD_FILES,
        )


@asynccontextmanager
async def _desk(folder: Path, count: int, redis: str, server: str | None) -> AsyncIterator[Desk]:
    is_filled = folder.exists() and not server
    folder.mkdir(parents=True, exist_ok=True)
    sqlite3.connect(folder / "none.db").close()
    config = folder / "exportdesk.toml"
    config.write_text(CONFIG.format(folder=folder))
    environ = {
        "DATA_DIR": str(folder), "REDIS_URL": redis, "CONFIG": str(config), "MAX_ACTIVE_PER_USER": "10000",
        "EVENT_RETENTION": "3000d",
    }  # fmt: skip
    url = await asyncio.to_thread(make_database, server) if server else f"sqlite:///{folder}/exportdesk.db"
    settings = read_settings({f"EXPORTDESK_{k}": v for k, v in {**environ, "DATABASE_URL": url}.items()})
    await migrate(url)
    async with open_resources(settings) as resources:
        if is_filled:
            await _forget_orders(resources)
        else:
            await _fill(resources, count)
        application = build_app()
        async with serving(application, resources):
            session = await people.sign_in(resources, PEOPLE[0], PASSWORD)
            assert session is not None
            async with httpx.AsyncClient(
                transport=ASGITransport(application), base_url="http://testserver",
                headers={"Sec-Fetch-Site": "same-origin"}, cookies={SESSION_COOKIE: session.token},
            ) as client:  # fmt: skip
                yield Desk(resources, count, client)
    if server:
        await asyncio.to_thread(drop_database, server, url)


async def _forget_orders(resources: Resources) -> None:
    """Of the last time: the sweep would wake a worker for each."""
    async with resources.store.transaction():
        await resources.store.plain("DELETE FROM exports WHERE status IN ('PENDING', 'QUEUED')")


async def _fill(resources: Resources, count: int) -> None:
    """As sweeps of long ago have counted it."""
    began = time.perf_counter()
    ids: list[str] = []
    for name in PEOPLE:
        role = Role.ADMIN if name == PEOPLE[0] else Role.USER
        ids.append((await people.add_user(resources, name, role, actor="bench", password=PASSWORD)).id)
    now = await resources.store.now()
    latest = {status: history(new_export("owner", now), status, now)[-1] for status in (*STATUSES, Status.CANCELLED)}
    await _keep_file(resources, latest[Status.SUCCESS])
    _write_rows(resources, exports, _export_rows(latest, now, count, ids))
    _write_rows(resources, events, _event_rows(now, count, ids))
    if not resources.store.is_sqlite:
        with psycopg.connect(resources.settings.database_url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
    async with resources.store.transaction():
        await app_settings.put(resources.store, tallies.POSITION, count, at=now)
    print(f"{count:,} exports written in {time.perf_counter() - began:.0f} s", file=sys.stderr)


async def _keep_file(resources: Resources, export: Export) -> None:
    """The one that all of them have."""
    assert export.file is not None
    temporary = resources.storage.temporary(export.id, export.attempt)
    temporary.write_bytes(CONTENT)
    await resources.storage.keep(temporary, export.file)


def _write_rows(resources: Resources, table: Table, found: Iterator[Mapping[str, Any]]) -> None:
    names = [column.name for column in table.columns if column.name != "seq"]
    rows = (tuple(row.get(name) for name in names) for row in found)
    if not resources.store.is_sqlite:
        copying = f"COPY {table.name} ({', '.join(names)}) FROM STDIN".encode()
        with psycopg.connect(resources.settings.database_url) as server, server.cursor().copy(copying) as copy:
            for row in rows:
                copy.write_row(row)
        return
    connection = sqlite3.connect(resources.store.database.url.database)
    connection.execute("PRAGMA synchronous = off")
    for index in table.indexes:
        connection.execute(f"DROP INDEX {index.name}")
    marks = ", ".join("?" * len(names))
    connection.executemany(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})", rows)
    for index in table.indexes:
        connection.execute(str(CreateIndex(index).compile(dialect=sqlite.dialect())))
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _export_rows(latest: Mapping[Status, Export], now: datetime, count: int, owners: list[str]) -> Iterator[Any]:
    """The same exports each time, a minute apart."""
    chance = random.Random(1)
    templates = {
        status: {name: _kept(value) for name, value in to_row(export).items()} for status, export in latest.items()
    }
    drawn = chance.choices(list(STATUSES), list(STATUSES.values()), k=count)
    for number, usual in enumerate(drawn):
        is_rare, at = not number % (count // RARE), _ordered_at(now, number, count)
        status = Status.CANCELLED if is_rare else usual
        row = templates[status]
        times = {name: at for name in ("created_at", "queued_at", "started_at", "completed_at") if row[name]}
        text = "needle" if is_rare else f"thing {chance.randrange(10**6)}"
        yield {
            **row, **times, "id": _export_id(number), "order_key": _export_id(number),
            "owner": owners[number % len(owners)],
            "dataset": "rare" if is_rare else ("orders" if chance.random() < 0.35 else f"dataset_{number % 9}"),
            "format": "parquet" if is_rare else chance.choice(("csv", "xlsx", "jsonl")),
            "params": json.dumps({"search": text, "most": chance.randrange(1000)}),
            "file_expires_at": to_milliseconds(now + timedelta(days=7)) if status is Status.SUCCESS else None,
        }  # fmt: skip


def _event_rows(now: datetime, count: int, owners: list[str]) -> Iterator[Any]:
    """The last one of each export."""
    for number in range(count):
        yield {
            "id": f"evt_{number:026d}", "type": "export.succeeded", "export_id": _export_id(number), "version": 4,
            "owner": owners[number % len(owners)], "timestamp": _ordered_at(now, number, count), "data": DATA,
        }  # fmt: skip


def _export_id(number: int) -> str:
    return f"exp_{number:026d}"


def _ordered_at(now: datetime, number: int, count: int) -> int:
    return to_milliseconds(now) - (count - number) * 60_000


def _kept(value: Any) -> Any:
    """As the table keeps it."""
    if isinstance(value, datetime):
        return to_milliseconds(value)
    return json.dumps(value) if isinstance(value, dict | list) else value


if __name__ == "__main__":
    main()
