"""Transactions of plain SQL alone: SQLite's run in the loop's thread, PostgreSQL's where all others do."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fresh_stores import opened_store
from patience import PATIENCE

from webapp.resources import Resources
from webapp.store import sqlite as sqlite_module
from webapp.store.database import Store
from webapp.store.plain import ROWS, PlainSQL

CREATE = "CREATE TABLE samples (id integer PRIMARY KEY, word text NOT NULL)"
KINDS = {"id": "integer", "word": "text"}


class Boom(Exception):
    pass


@pytest.fixture
async def each_store(each_resources: Resources) -> Store:
    await each_resources.store.plain(CREATE)
    return each_resources.store


@pytest.fixture
def lite_path(tmp_path: Path) -> Path:
    return tmp_path / "lite.db"


@pytest.fixture
async def lite(lite_path: Path) -> AsyncIterator[Store]:
    async with opened_store(f"sqlite:///{lite_path}") as store:
        await store.plain(CREATE)
        yield store


@pytest.fixture
def other(lite: Store, lite_path: Path) -> Iterator[sqlite3.Connection]:
    """As another process has it; it takes what it is given at once, or not at all."""
    connection = sqlite3.connect(lite_path, isolation_level=None, timeout=0)
    yield connection
    connection.close()


async def write(rows: PlainSQL, *ids: int, word: str = "x") -> None:
    given = [{"id": id, "word": word} for id in ids]
    await rows.plain_rows(f"INSERT INTO samples (id, word) SELECT r.id, r.word FROM {ROWS} WHERE true", given, KINDS)


async def written(store: Store) -> list[int]:
    return [id for (id,) in await store.plain("SELECT id FROM samples ORDER BY id")]


async def test_what_it_writes_is_there_and_what_it_finds_is_given_back(each_store: Store):
    async def work(rows: PlainSQL) -> int:
        await write(rows, 1, 2)
        [[count]] = await rows.plain("SELECT count(*) FROM samples WHERE id > :least", least=1)
        return count

    assert await each_store.at_once(work) == 1
    assert await written(each_store) == [1, 2]


async def test_of_the_rows_given_those_that_were_changed_are_told(each_store: Store):
    async def work(rows: PlainSQL) -> set[int]:
        await write(rows, 1, 2, 3)
        given = [{"id": id, "word": "y"} for id in (2, 3, 4)]
        query = f"UPDATE samples SET word = r.word FROM {ROWS} WHERE samples.id = r.id"
        return set(await rows.plain_rows(query, given, KINDS, changed="samples.id"))

    assert await each_store.at_once(work) == {2, 3}


async def test_all_of_it_or_nothing(each_store: Store):
    async def fails(rows: PlainSQL) -> None:
        await write(rows, 1)
        raise Boom

    async def breaks(rows: PlainSQL) -> None:
        await write(rows, 1)
        await write(rows, 1)

    with pytest.raises(Boom):
        await each_store.at_once(fails)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await each_store.at_once(breaks)
    await each_store.at_once(lambda rows: write(rows, 7))
    assert await written(each_store) == [7]


async def test_work_that_waits_for_anything_else_is_refused_and_undone(lite: Store):
    async def waits(rows: PlainSQL) -> None:
        await write(rows, 1)
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="plain SQL"):
        await lite.at_once(waits)
    await lite.at_once(lambda rows: write(rows, 2))
    assert await written(lite) == [2]


async def test_while_another_process_writes_it_waits_and_the_loop_goes_on(lite: Store, other: sqlite3.Connection):
    await lite.at_once(lambda rows: write(rows, 1))
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(lite.at_once(lambda rows: write(rows, 2)))
    longest, last = 0.0, time.monotonic()
    for _ in range(30):
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert not waiting.done()
    assert longest < sqlite_module.BUSY_SECONDS / 2
    other.rollback()
    await asyncio.wait_for(waiting, PATIENCE)
    assert await written(lite) == [1, 2]


async def test_a_lock_that_is_kept_too_long_is_told_and_the_next_one_works(
    lite: Store, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_module, "BUSY", "PRAGMA busy_timeout = 50")
    await lite.at_once(lambda rows: write(rows, 1))
    other.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await lite.at_once(lambda rows: write(rows, 2))
    other.rollback()
    await lite.at_once(lambda rows: write(rows, 3))
    assert await written(lite) == [1, 3]


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_while_it_waits_it_writes_nothing_and_holds_nothing(
    lite: Store, other: sqlite3.Connection, times: int
):
    await lite.at_once(lambda rows: write(rows, 1))
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(lite.at_once(lambda rows: write(rows, 2)))
    for _ in range(times):
        await asyncio.sleep(0.1)
        waiting.cancel()
    asyncio.get_running_loop().call_later(0.1, other.rollback)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    other.execute("BEGIN IMMEDIATE")
    other.rollback()
    await lite.at_once(lambda rows: write(rows, 3))
    assert await written(lite) == [1, 3]


# The write-ahead log

BATCH, PAGES = 500, 120
"""Rows that are written at once here, and the pages of the log that they take at least."""


async def write_much(store: Store, *, batches: int, start: int = 0) -> None:
    """Without a pause: there is hardly a moment when nobody writes."""
    for batch in range(batches):
        ids = range(start + BATCH * batch, start + BATCH * (batch + 1))
        await store.at_once(lambda rows, ids=ids: write(rows, *ids, word="word " * 200))


def size_of_log(path: Path) -> int:
    """In pages."""
    return path.with_name(f"{path.name}-wal").stat().st_size // 4096


async def test_the_log_is_copied_into_the_database_while_it_is_written(lite: Store, lite_path: Path):
    await write_much(lite, batches=3 * sqlite_module.CHANGES_BETWEEN // BATCH)
    async with asyncio.timeout(PATIENCE):
        while lite_path.stat().st_size < sqlite_module.CHANGES_BETWEEN * 1000:
            await asyncio.sleep(0.01)


async def test_a_log_that_has_become_long_begins_anew_while_it_is_written(
    lite: Store, lite_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_module, "CHANGES_BETWEEN", BATCH)
    monkeypatch.setattr(sqlite_module, "MOST_PAGES", 4 * PAGES)
    await write_much(lite, batches=60)
    assert size_of_log(lite_path) < 30 * PAGES
    assert len(await written(lite)) == 60 * BATCH


async def test_one_who_reads_for_long_keeps_nobody_from_writing(
    lite: Store, lite_path: Path, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_module, "CHANGES_BETWEEN", BATCH)
    monkeypatch.setattr(sqlite_module, "MOST_PAGES", PAGES)
    await lite.at_once(lambda rows: write(rows, -1))
    other.execute("BEGIN")
    [[before]] = other.execute("SELECT count(*) FROM samples")
    await asyncio.wait_for(write_much(lite, batches=20), PATIENCE)
    assert other.execute("SELECT count(*) FROM samples").fetchall() == [(before,)]
    assert size_of_log(lite_path) >= 20 * PAGES
    other.rollback()
    await write_much(lite, batches=20, start=20 * BATCH)
    assert size_of_log(lite_path) < 35 * PAGES
    assert other.execute("SELECT count(*) FROM samples").fetchall() == [(1 + 40 * BATCH,)]


async def test_a_log_that_cannot_be_copied_is_told_and_keeps_nobody_from_closing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    checkpoints = sqlite_module.Checkpoints(str(tmp_path / "missing" / "lite.db"))
    checkpoints.after(sqlite_module.CHANGES_BETWEEN)
    await checkpoints.close()
    assert "cannot be copied (OperationalError" in caplog.text
