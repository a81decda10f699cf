"""The connections beneath the store: warm, with our pragmas, none lost, and types that read the same everywhere."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from fresh_stores import opened_store
from patience import PATIENCE
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select, text, update

from webapp.resources import Resources
from webapp.store import database as database_module
from webapp.store import sqlite as sqlite_module
from webapp.store.database import Store
from webapp.store.sqlite import WARM_CONNECTIONS, WarmSQLite
from webapp.store.types import Json, Milliseconds, from_milliseconds, to_milliseconds

samples = Table(
    "samples",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("name", Text, unique=True),
    Column("at", Milliseconds),
    Column("value", Json),
    Column("count", Integer),
)

CREATE = "CREATE TABLE samples (id integer PRIMARY KEY, name text UNIQUE, at bigint, value text, count integer)"


class Boom(Exception):
    pass


@pytest.fixture
def lite_path(tmp_path: Path) -> Path:
    return tmp_path / "lite.db"


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> list[WarmSQLite]:
    """Every SQLite connection that the store has opened."""
    opened: list[WarmSQLite] = []

    class Counted(WarmSQLite):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            opened.append(self)

    monkeypatch.setattr(sqlite_module, "WarmSQLite", Counted)
    return opened


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is waited for 50 ms, not 5 s."""
    pragmas = ("PRAGMA busy_timeout = 50", *sqlite_module.PRAGMAS[1:])
    monkeypatch.setattr(sqlite_module, "PRAGMAS", pragmas)


@pytest.fixture
async def lite(lite_path: Path, opens: list[WarmSQLite]) -> AsyncIterator[Store]:
    """A SQLite store with one sample, whose threads must be gone when it is closed."""
    before = set(threading.enumerate())
    async with opened_store(f"sqlite:///{lite_path}") as store:
        await store.execute(text(CREATE))
        await store.execute(insert(samples).values(id=1, name="one", count=0))
        yield store
    left = [thread for thread in set(threading.enumerate()) - before if "asyncio" not in thread.name]
    for thread in left:
        thread.join(2)
    assert not [thread for thread in left if thread.is_alive()]


@pytest.fixture
async def each_store(each_resources: Resources) -> Store:
    """The real store on each database, with one sample in a table of its own."""
    store = each_resources.store
    await store.execute(text(CREATE))
    await store.execute(insert(samples).values(id=1, name="one", count=0))
    return store


async def count(store: Store) -> int:
    return int(await store.fetch_val(select(samples.c.count).where(samples.c.id == 1)))


async def break_off(store: Store, statement: str | None = None) -> None:
    """Writes, and then fails before the commit."""
    async with store.transaction():
        await store.execute(update(samples).values(count=9))
        if statement:
            await store.execute(text(statement))
        raise Boom


async def add_one(store: Store) -> None:
    """Reads, thinks, writes what it read plus one."""
    async with store.transaction():
        found = int(await store.fetch_val(select(samples.c.count).where(samples.c.id == 1).with_for_update()))
        await asyncio.sleep(0)
        await store.execute(update(samples).where(samples.c.id == 1).values(count=found + 1))


async def pragma(store: Store, name: str) -> Any:
    return await store.fetch_val(text(f"PRAGMA {name}"))


# Connections


async def test_the_pragmas_are_in_force_on_every_connection(lite: Store, opens: list[WarmSQLite]):
    async def look() -> tuple[Any, ...]:
        async with lite.connection():
            await asyncio.sleep(0.05)
            names = ("foreign_keys", "busy_timeout", "synchronous", "journal_mode", "temp_store")
            return tuple([await pragma(lite, name) for name in names])

    found = await asyncio.gather(*(look() for _ in range(WARM_CONNECTIONS)))
    assert set(found) == {(1, 5000, 1, "wal", 2)}
    assert len(opens) == WARM_CONNECTIONS


async def test_foreign_keys_hold(each_resources: Resources):
    broken = "INSERT INTO sessions (id, token_hash, user_id, created_at, expires_at) VALUES ('s', 't', 'nobody', 0, 0)"
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await each_resources.store.execute(text(broken))


async def test_connections_are_kept_warm(lite: Store, opens: list[WarmSQLite]):
    threads = threading.active_count()
    for _ in range(50):
        await count(lite)
        await add_one(lite)
    assert len(opens) == 1
    assert threading.active_count() == threads


async def test_never_more_connections_than_places_and_all_are_reused(lite: Store, opens: list[WarmSQLite]):
    async def read() -> int:
        async with lite.connection():
            await asyncio.sleep(0.002)
            return await count(lite)

    for _ in range(3):
        assert await asyncio.gather(*(read() for _ in range(50))) == [0] * 50
    assert len(opens) == WARM_CONNECTIONS


async def test_read_then_write_by_twenty_tasks_at_once(lite: Store):
    await asyncio.gather(*(add_one(lite) for _ in range(20)))
    assert await count(lite) == 20


async def test_read_then_write_by_two_stores_on_one_file(lite: Store, lite_path: Path):
    """Web and worker are two processes: there the file's lock is all that keeps them apart."""
    async with opened_store(f"sqlite:///{lite_path}") as other:
        await asyncio.gather(*(add_one(store) for _ in range(10) for store in (lite, other)))
    assert await count(lite) == 20


async def test_a_transaction_is_not_seen_before_its_commit(each_store: Store):
    seen: list[int] = []
    async with each_store.transaction():
        await each_store.execute(update(samples).values(count=5))
        seen.append(await asyncio.create_task(count(each_store)))
    seen.append(await count(each_store))
    assert seen == [0, 5]


# Failures


async def test_a_failing_transaction_rolls_back_and_loses_no_connection(each_store: Store):
    for _ in range(3 * WARM_CONNECTIONS):
        with pytest.raises(Boom):
            await break_off(each_store)
    assert await count(each_store) == 0
    await add_one(each_store)
    assert await count(each_store) == 1


async def test_a_broken_statement_rolls_back_what_came_before_it(each_store: Store):
    for _ in range(2 * WARM_CONNECTIONS):
        with pytest.raises(Exception, match="vanished"):
            await break_off(each_store, "DELETE FROM vanished")
    assert await count(each_store) == 0


@pytest.mark.usefixtures("short_wait")
async def test_a_locked_file_fails_each_time_and_then_works_again(
    lite: Store, lite_path: Path, opens: list[WarmSQLite]
):
    await asyncio.gather(*(count(lite) for _ in range(WARM_CONNECTIONS)))
    opened = len(opens)
    holder = sqlite3.connect(lite_path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    for _ in range(2 * WARM_CONNECTIONS):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            async with lite.transaction():
                pytest.fail("began")
        assert await count(lite) == 0
    holder.rollback()
    holder.close()
    await asyncio.gather(*(add_one(lite) for _ in range(WARM_CONNECTIONS)))
    assert await count(lite) == WARM_CONNECTIONS
    assert len(opens) == opened


HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE samples SET count = 100")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("COMMIT")
"""


async def test_a_lock_that_another_process_holds_for_a_moment_is_waited_for(lite: Store, lite_path: Path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lite_path), "0.3"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "held\n"
    assert await count(lite) == 0  # readers do not wait
    await add_one(lite)
    assert await count(lite) == 101
    process.communicate()


# Cancellation


async def test_a_writer_whose_turn_does_not_come_is_told_so(lite: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database_module, "TURN_SECONDS", 0.05)

    async def waits() -> None:
        with pytest.raises(TimeoutError):
            async with lite.transaction():
                pass
        with pytest.raises(TimeoutError):
            await lite.at_once(lambda rows: rows.plain("SELECT 1"))

    async with lite.transaction():
        await asyncio.create_task(waits())
    async with lite.transaction():
        pass


async def test_cancelled_in_mid_transaction_nothing_is_written_or_lost(each_store: Store):
    async def write_slowly(begun: asyncio.Event) -> None:
        async with each_store.transaction():
            await each_store.execute(update(samples).values(count=9))
            begun.set()
            await asyncio.sleep(60)

    for _ in range(2 * WARM_CONNECTIONS):
        begun = asyncio.Event()
        task = asyncio.create_task(write_slowly(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await count(each_store) == 0
    await asyncio.gather(*(add_one(each_store) for _ in range(2 * WARM_CONNECTIONS)))
    assert await count(each_store) == 2 * WARM_CONNECTIONS


@pytest.mark.parametrize("turns", range(0, 40, 3))
async def test_cancelled_at_any_point_the_store_still_works(each_store: Store, turns: int):
    """Cancels after so many turns of the loop: while connecting, beginning, reading, writing, committing."""
    tasks = [asyncio.create_task(add_one(each_store)) for _ in range(WARM_CONNECTIONS)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    before = await count(each_store)
    await asyncio.wait_for(asyncio.gather(*(add_one(each_store) for _ in range(2 * WARM_CONNECTIONS))), PATIENCE)
    assert await count(each_store) == before + 2 * WARM_CONNECTIONS


async def test_the_same_task_goes_on_after_a_time_limit_cut_it_short(each_store: Store):
    async def some_work() -> None:
        async with each_store.transaction():
            await count(each_store)
            await each_store.execute(update(samples).values(count=9))
            await asyncio.sleep(60)

    for milliseconds in (0, 1, 2, 3, 5, 8, 13, 21):
        with suppress(TimeoutError):
            async with asyncio.timeout(milliseconds / 1000):
                await some_work()
        assert await count(each_store) == 0
    await add_one(each_store)
    assert await count(each_store) == 1


async def test_cancelled_while_waiting_for_the_lock_no_idle_connection_holds_it(lite: Store, lite_path: Path):
    """The driver's thread gets the lock after the task is gone: it must be given back."""
    holder = sqlite3.connect(lite_path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(add_one(lite))
    await asyncio.sleep(0.1)
    task.cancel()
    asyncio.get_running_loop().call_later(0.1, holder.rollback)
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.3)
    holder.execute("PRAGMA busy_timeout = 0")
    holder.execute("BEGIN IMMEDIATE")
    holder.rollback()
    holder.close()
    await add_one(lite)
    assert await count(lite) == 1


async def test_a_connection_that_is_out_when_the_store_closes_is_closed_when_it_comes_back(
    lite_path: Path, opens: list[WarmSQLite]
):
    before = set(threading.enumerate())
    store = Store(f"sqlite:///{lite_path}")
    await store.open()
    out, back = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with store.connection():
            out.set()
            await back.wait()

    task = asyncio.create_task(hold())
    await out.wait()
    await store.close()
    back.set()
    await task
    for thread in set(threading.enumerate()) - before:
        thread.join(2)
        assert not thread.is_alive()


# Types and inserts


MOMENTS = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    datetime(2026, 2, 28, 23, 59, 59, 123000, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
]


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
async def test_moments_read_back_as_they_were(each_store: Store, moment: datetime):
    query = update(samples).values(at=moment).returning(samples.c.at)
    row = await each_store.fetch_one(query)
    assert row is not None
    assert row["at"] == moment
    assert row["at"].tzinfo is UTC
    assert await each_store.fetch_val(select(samples.c.id).where(samples.c.at == moment)) == 1
    assert await each_store.fetch_val(select(samples.c.id).where(samples.c.at < moment)) is None


async def test_a_moment_in_another_zone_is_kept_in_utc_and_cut_to_milliseconds(each_store: Store):
    moment = datetime(2026, 1, 1, 1, 30, 0, 123999, tzinfo=timezone(timedelta(hours=1)))
    await each_store.execute(update(samples).values(at=moment))
    assert await each_store.fetch_val(select(samples.c.at)) == datetime(2026, 1, 1, 0, 30, 0, 123000, tzinfo=UTC)


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(TypeError):
        to_milliseconds(datetime(2026, 1, 1))
    assert from_milliseconds(to_milliseconds(MOMENTS[2])) == MOMENTS[2]


VALUES = [
    {},
    [],
    "text",
    0,
    False,
    2**63 - 1,
    1.5,
    {"ключ": ["東京", "a\u0000b", 'quote " and \\ backslash', "100%", "😀"], "deep": {"null": None, "list": [[], {}]}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_json_reads_back_as_it_was(each_store: Store, value: Any):
    row = await each_store.fetch_one(update(samples).values(value=value).returning(samples.c.value))
    assert row is not None
    assert row["value"] == value
    assert type(row["value"]) is type(value)


async def test_nothing_reads_back_as_none(each_store: Store):
    row = await each_store.fetch_one(select(samples))
    assert row is not None
    assert (row["at"], row["value"]) == (None, None)


async def test_inserting_what_is_there_already_does_nothing(each_store: Store):
    def query(**values: Any) -> Any:
        return each_store.insert_new(samples).values(**values).returning(samples.c.id)

    assert await each_store.fetch_one(query(id=2, name="one", count=5)) is None
    assert await each_store.fetch_one(query(id=1, name="two", count=5)) is None
    row = await each_store.fetch_one(query(id=2, name="two", count=5))
    assert row is not None
    assert row["id"] == 2
    assert [r["count"] for r in await each_store.fetch_all(select(samples).order_by(samples.c.id))] == [0, 5]


async def test_of_twenty_equal_inserts_at_once_one_wins(each_store: Store):
    async def put(number: int) -> bool:
        async with each_store.transaction():
            query = each_store.insert_new(samples).values(id=number, name="same", count=0).returning(samples.c.id)
            return await each_store.fetch_one(query) is not None

    assert sum(await asyncio.gather(*(put(number) for number in range(10, 30)))) == 1


async def test_an_update_tells_by_its_returned_row_whether_it_changed_one(each_store: Store):
    def query(expected: int) -> Any:
        return update(samples).where(samples.c.count == expected).values(count=7).returning(samples.c.id)

    assert await each_store.fetch_one(query(1)) is None
    assert await each_store.fetch_one(query(0)) is not None


async def test_the_clock_has_milliseconds_and_goes_on_inside_a_transaction(each_store: Store):
    async with each_store.transaction():
        first = await each_store.now()
        await asyncio.sleep(0.02)
        second = await each_store.now()
    assert first.microsecond % 1000 == second.microsecond % 1000 == 0
    assert timedelta() < second - first < timedelta(seconds=PATIENCE)
    assert abs(first - datetime.now(UTC)) < timedelta(seconds=PATIENCE)


async def test_a_file_that_cannot_be_opened_fails_each_time_without_using_up_places(tmp_path: Path):
    store = Store(f"sqlite:///{tmp_path}/missing/file.db")
    for _ in range(2 * WARM_CONNECTIONS):
        with pytest.raises(sqlite3.OperationalError):
            await asyncio.wait_for(store.fetch_val(text("SELECT 1")), PATIENCE)
    await store.close()
    while any("_connection_worker_thread" in thread.name for thread in threading.enumerate()):
        await asyncio.sleep(0.01)  # a thread whose connection failed says good-bye to this loop
