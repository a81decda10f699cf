"""Connections to SQLite: warm ones for everybody, and one that is used without a thread between."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import aiosqlite
from databases import DatabaseURL
from databases.backends.sqlite import SQLitePool

from webapp.store.plain import PlainSQL, of_one_row

log = logging.getLogger(__name__)

BUSY_SECONDS = 5.0
BUSY = f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}"
NOT_BUSY = "PRAGMA busy_timeout = 0"
WARM_CONNECTIONS = 8

PRAGMAS = (
    BUSY,
    "PRAGMA foreign_keys = on",
    "PRAGMA synchronous = normal",
    "PRAGMA temp_store = memory",
    "PRAGMA cache_size = -8000",
    "PRAGMA wal_autocheckpoint = 4000",
)
OF_ONE_WRITER = (NOT_BUSY, "PRAGMA cache_size = -32000", "PRAGMA wal_autocheckpoint = 0")

CHANGES_BETWEEN = 4000
"""Rows that are written between two checkpoints, some two pages for three of them."""

MOST_PAGES = 8000
"""Of the write-ahead log; with more of them the next transaction waits until all is copied, so that it begins anew."""

T = TypeVar("T")


class WarmSQLite(sqlite3.Connection):
    """A SQLite connection with our pragmas; only WAL persists in the file. Its own `lower` knows ASCII alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for pragma in PRAGMAS:
            self.execute(pragma)
        self.create_function("lower", 1, str.lower, deterministic=True)


class WarmPool(SQLitePool):
    """Keeps connections open between uses: opening one costs a thread and 1.2 ms, a statement a third of that."""

    def __init__(self, url: DatabaseURL) -> None:
        super().__init__(url, factory=WarmSQLite)
        self._idle: list[aiosqlite.Connection] = []
        self._places = asyncio.Semaphore(WARM_CONNECTIONS)
        self._closed = False

    async def acquire(self) -> aiosqlite.Connection:
        await self._places.acquire()
        try:
            return self._idle.pop() if self._idle else await super().acquire()
        except BaseException:
            self._places.release()
            raise

    async def release(self, connection: aiosqlite.Connection) -> None:
        try:
            if connection.in_transaction:
                await connection.rollback()
            if self._closed:
                await super().release(connection)
            else:
                self._idle.append(connection)
        except BaseException:
            await super().release(connection)
            raise
        finally:
            self._places.release()

    async def close(self) -> None:
        """A connection that is out just now is closed when it comes back."""
        self._closed = True
        while self._idle:
            await super().release(self._idle.pop())


class DirectSQLite:
    """One connection for transactions that wait for nothing but their SQL: a thread between each two statements costs
    more than most of them, and beside a busy loop milliseconds.

    Only for its turn, while another connection writes, a thread waits; and the log is copied beside it.
    """

    is_sqlite = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "sqlite")
        self._connection: sqlite3.Connection | None = None
        self._checkpoints = Checkpoints(path)

    async def transaction(self, work: Callable[[PlainSQL], Coroutine[Any, Any, T]]) -> T:
        """Raises RuntimeError when the work waits for anything else."""
        await self._checkpoints.until_the_log_is_short()
        try:
            connection = self._begun_at_once() or await self._in_thread(self._begun)
            result = _of(work(self))
            connection.commit()
        except BaseException:
            if self._connection is not None:
                self._connection.rollback()
            raise
        self._checkpoints.after(connection.total_changes)
        return result

    async def plain(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        return self._open.execute(sql, values).fetchall()

    async def plain_rows(
        self, sql: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], *, changed: str = ""
    ) -> Collection[Any]:
        """One after the other: without a thread between, that costs half of taking them apart from one parameter."""
        one, run, name = of_one_row(sql), self._open.execute, changed.rpartition(".")[2]
        if not name:
            self._open.executemany(one, rows)
            return ()
        return {row[name] for row in rows if run(one, row).rowcount}

    async def close(self) -> None:
        if self._connection is not None:
            await self._in_thread(self._connection.close)
            self._connection = None
        self._thread.shutdown(wait=False)
        await self._checkpoints.close()

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    def _begun_at_once(self) -> sqlite3.Connection | None:
        if self._connection is not None:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return None
        return self._connection

    def _begun(self) -> sqlite3.Connection:
        """Waits for its turn, so not for the loop's thread."""
        if self._connection is None:
            self._connection = _connected(self._path, *OF_ONE_WRITER)
        self._connection.execute(BUSY)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        finally:
            self._connection.execute(NOT_BUSY)
        return self._connection

    async def _in_thread(self, step: Callable[[], T]) -> T:
        """Goes on when it is cancelled, and so does who waits for it, however often that is cancelled: nobody else may
        use the connection meanwhile."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, step)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([running])
            running.exception()  # looked at, so that nothing is logged of it
            raise


class Checkpoints:
    """Copies the write-ahead log into the database, in a thread, while others write. Who does that where it commits
    stands still for 20 ms every 4,000 pages."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._connection: sqlite3.Connection | None = None
        self._running: Future[None] | None = None
        self._changes = 0
        self._is_long = False

    def after(self, changes: int) -> None:
        """So many rows were written in all; SQLite begins anew with less than none."""
        if 0 <= changes - self._changes < CHANGES_BETWEEN or not (self._running is None or self._running.done()):
            return
        self._changes = changes
        self._running = self._thread.submit(self._copy)

    async def until_the_log_is_short(self) -> None:
        """While somebody writes, not all of it can be copied."""
        if self._is_long and self._running is not None:
            await asyncio.shield(asyncio.wrap_future(self._running))

    def _copy(self) -> None:
        """What fails is copied the next time, or by whoever closes the database last."""
        try:
            if self._connection is None:
                self._connection = _connected(self._path, NOT_BUSY)
            _, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._is_long = pages > MOST_PAGES
            if self._is_long:
                self._is_long, _, _ = self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        except sqlite3.Error as error:
            log.warning("the write-ahead log cannot be copied (%s: %s)", type(error).__name__, error)

    async def close(self) -> None:
        if self._running is not None:
            await asyncio.wrap_future(self._running)
        if self._connection is not None:
            self._connection.close()
        self._thread.shutdown(wait=False)


def _connected(path: str, *pragmas: str) -> sqlite3.Connection:
    """To use in any thread, in one at a time."""
    connection = sqlite3.connect(path, factory=WarmSQLite, check_same_thread=False)
    for pragma in pragmas:
        connection.execute(pragma)
    return connection


def _of(running: Coroutine[Any, Any, T]) -> T:
    try:
        running.send(None)
    except StopIteration as end:
        return end.value
    running.close()
    raise RuntimeError("plain SQL is all that this may wait for")
