"""The database behind `databases`: warm SQLite connections, safe transactions, one clock for status changes."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast

import aiosqlite
import asyncpg
import msgspec
from databases import Database, DatabaseURL
from databases.backends.postgres import PostgresBackend, PostgresConnection
from databases.backends.sqlite import SQLitePool
from databases.core import Connection
from sqlalchemy import ClauseElement, Table, text
from sqlalchemy.dialects import postgresql, sqlite

from webapp.store.types import from_milliseconds

BUSY_SECONDS = 5.0
TURN_SECONDS = 15.0
"""How long a writer waits for others of its process, while each of them may wait `BUSY_SECONDS` for another one's."""

WARM_CONNECTIONS = 8
POSTGRES_POOL = (1, 8)

PRAGMAS = (
    f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}",
    "PRAGMA foreign_keys = on",
    "PRAGMA synchronous = normal",
    "PRAGMA temp_store = memory",
    "PRAGMA cache_size = -8000",
    "PRAGMA wal_autocheckpoint = 4000",
)

T = TypeVar("T")

COLUMN = re.compile(r"\br\.(\w+)")
PARAMETER = re.compile(r"(?<!:):(\w+)")

DATABASE_ERRORS: tuple[type[Exception], ...] = (
    sqlite3.OperationalError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TransactionRollbackError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionError,
    TimeoutError,
)
"""What a busy, stopped or unreachable database raises; the same request may succeed a little later."""

TAKEN: tuple[type[Exception], ...] = (sqlite3.IntegrityError, asyncpg.UniqueViolationError)
"""What an update raises that would make two rows of what is unique."""


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


class LentConnection(PostgresConnection):
    """Of the pool. One that breaks while it is given back is none of its borrower's any more: `databases` would keep
    it, and the task that borrowed it could never borrow again."""

    async def release(self) -> None:
        lent, self._connection = self._connection, None
        with suppress(*DATABASE_ERRORS):
            await cast("Any", self._database)._pool.release(lent)


class LendingBackend(PostgresBackend):
    def connection(self) -> LentConnection:
        return LentConnection(self, self._dialect)


class PostgresDatabase(Database):
    SUPPORTED_BACKENDS = dict.fromkeys(("postgresql", "postgres"), f"{__name__}:{LendingBackend.__name__}")


class PlainSQL(Protocol):
    """What runs SQL with `:name` parameters: a store, or one transaction of it."""

    @property
    def is_sqlite(self) -> bool: ...

    async def plain(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]: ...

    async def plain_rows(
        self, sql: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], *, changed: str = ""
    ) -> Collection[Any]:
        """SQL that changes something, with ` FROM {ROWS}`: a table `r` of these rows, with columns of these kinds.

        `changed`, a column that `rows` have too, as `table.column`: its values in the rows that were changed.
        """
        ...


ROWS = "(rows) AS r"


@dataclass(frozen=True, slots=True)
class DirectSQLite:
    """A connection that is used without a thread between: nothing here waits for the loop."""

    connection: sqlite3.Connection
    is_sqlite: bool = True

    async def plain(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        return self.connection.execute(sql, values).fetchall()

    async def plain_rows(
        self, sql: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], *, changed: str = ""
    ) -> Collection[Any]:
        """One after the other: without a thread between, that costs half of taking them apart from one parameter."""
        one, run, name = _of_one_row(sql), self.connection.execute, changed.rpartition(".")[2]
        counts = [(run(one, row).rowcount, row) for row in rows]
        return {row[name] for count, row in counts if count} if name else ()

    def run(self, work: Callable[[PlainSQL], Coroutine[Any, Any, T]]) -> T:
        """Raises RuntimeError when the work waits for anything but its SQL."""
        running = work(self)
        try:
            running.send(None)
        except StopIteration as end:
            return end.value
        running.close()
        raise RuntimeError("plain SQL is all that this may wait for")


class Store:
    """One database. Work inside `connection()` or `transaction()`: both hold one connection for the current task."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith("sqlite")
        self.url = url
        if self.is_sqlite:
            self.database = Database(url)
            self._pool = WarmPool(self.database.url)
            self.database._backend._pool = self._pool  # type: ignore[attr-defined]
        else:
            low, high = POSTGRES_POOL
            self.database = PostgresDatabase(
                url, min_size=low, max_size=high, command_timeout=30, timeout=5,
                server_settings={"application_name": "exportdesk"},
            )  # fmt: skip
            self._pool = None
        self._writing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "sqlite")
        self._direct: DirectSQLite | None = None

    async def open(self) -> None:
        await self.database.connect()
        if self.is_sqlite:
            await self.execute(text("PRAGMA journal_mode = wal"))

    async def close(self) -> None:
        if self._direct is not None:
            await self._in_thread(self._direct.connection.close)
        self._thread.shutdown(wait=False)
        if self._pool is not None:
            await self._pool.close()
        await self.database.disconnect()

    def connection(self) -> Connection:
        return self.database.connection()

    async def fetch_one(self, query: ClauseElement) -> Mapping[str, Any] | None:
        """The first row, or None. A compare-and-set is an UPDATE … RETURNING read this way, since `execute` of
        `databases` does not tell how many rows changed."""
        return cast("Mapping[str, Any] | None", await self._run("fetch_one", query))

    async def fetch_all(self, query: ClauseElement) -> Sequence[Mapping[str, Any]]:
        return cast("Sequence[Mapping[str, Any]]", await self._run("fetch_all", query))

    async def fetch_val(self, query: ClauseElement) -> Any:
        """The first column of the first row, or None."""
        return await self._run("fetch_val", query)

    async def execute(self, query: ClauseElement) -> None:
        await self._run("execute", query)

    async def plain(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        """All rows of SQL with `:name` parameters, as the driver gives them: for what runs so often that compiling and
        two of three trips to SQLite's thread would be most of its cost."""
        async with self.connection() as connection:
            raw = connection.raw_connection
            if self.is_sqlite:
                return cast("Sequence[Sequence[Any]]", await raw.execute_fetchall(sql, values))
            query, names = _numbered(sql)
            return cast("Sequence[Sequence[Any]]", await raw.fetch(query, *(values[name] for name in names)))

    async def plain_rows(
        self, sql: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], *, changed: str = ""
    ) -> Collection[Any]:
        """All rows travel as one JSON parameter, which costs a twentieth of what as many bound values do."""
        given = msgspec.json.encode(rows).decode()
        every = sql.replace(ROWS, json_rows(self, **kinds)) + (f" RETURNING {changed}" if changed else "")
        return {value for (value,) in await self.plain(every, rows=given)}

    async def at_once(self, work: Callable[[PlainSQL], Coroutine[Any, Any, T]]) -> T:
        """A transaction of plain SQL alone, for processes that do little else.

        On SQLite it begins and commits in a thread, where it may have to wait, and runs its statements in this one: a
        thread between each two of them costs more than most statements, and beside a busy loop milliseconds.
        """
        if not self.is_sqlite:
            async with self.transaction():
                return await work(self)
        async with self._turn():
            try:
                direct = await self._in_thread(self._begin)
                result = direct.run(work)
                await self._in_thread(direct.connection.commit)
            except BaseException:
                await self._in_thread(self._roll_back)
                raise
            return result

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Raises TimeoutError when it does not come."""
        async with asyncio.timeout(TURN_SECONDS):
            await self._writing.acquire()
        try:
            yield
        finally:
            self._writing.release()

    async def _in_thread(self, step: Callable[[], T]) -> T:
        """Goes on when it is cancelled, and so does who waits for it: nobody else may use the connection meanwhile."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, step)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    def _begin(self) -> DirectSQLite:
        if self._direct is None:
            connection = sqlite3.connect(self.database.url.database, factory=WarmSQLite, check_same_thread=False)
            self._direct = DirectSQLite(connection)
        self._direct.connection.execute("BEGIN IMMEDIATE")
        return self._direct

    def _roll_back(self) -> None:
        if self._direct is not None:
            self._direct.connection.rollback()

    async def _run(self, method: str, query: ClauseElement) -> Any:
        return await getattr(self.database, method)(query)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """All or nothing. On SQLite writers of one process queue here instead of polling for the file's lock.

        Begun on the driver's connection: `databases` begins deferred on SQLite, where two read-then-write
        transactions fail at once whatever the busy timeout says, and loses the connection when beginning fails.
        A task that is cancelled while it waits to begin rolls back too: its thread may get the lock after all.
        """
        if not self.is_sqlite:
            async with self.connection() as connection, connection.raw_connection.transaction():
                yield
            return
        async with self._turn(), self.connection() as connection:
            raw = connection.raw_connection
            try:
                await raw.execute("BEGIN IMMEDIATE")
                yield
                await raw.commit()
            except BaseException:
                await raw.rollback()
                raise

    async def now(self) -> datetime:
        """The database's clock, so that hosts whose clocks differ agree on what is late. Millisecond precision."""
        if self.is_sqlite:
            now = datetime.now(UTC)
            return now.replace(microsecond=now.microsecond // 1000 * 1000)
        value = await self.fetch_val(text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))
        return from_milliseconds(value)

    def insert_new(self, table: Table) -> Any:
        """An INSERT that does nothing where a unique constraint already holds; RETURNING tells which it was."""
        dialect = sqlite if self.is_sqlite else postgresql
        return dialect.insert(table).on_conflict_do_nothing()


@lru_cache(256)
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """The same SQL with `$1`, `$2` …, and the names in this order."""
    names = tuple(dict.fromkeys(PARAMETER.findall(sql)))
    return PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql), names


@lru_cache(64)
def _of_one_row(sql: str) -> str:
    """With values instead of columns: for SQLite, joining a table of one row is more work than the update itself."""
    return COLUMN.sub(r":\1", sql.replace(f" FROM {ROWS}", ""))


def json_rows(store: PlainSQL, **kinds: str) -> str:
    """The JSON array in the parameter `rows` as a table `r` with these columns."""
    if store.is_sqlite:
        columns = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in kinds)
        return f"(SELECT {columns} FROM json_each(:rows)) AS r"
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    return f"json_to_recordset(CAST(:rows AS json)) AS r({columns})"


def json_text(store: PlainSQL, column: str, name: str) -> str:
    """A member of the JSON object that is kept in this column, as text."""
    if store.is_sqlite:
        return f"json_extract({column}, '$.{name}')"
    return f"(CAST({column} AS json) ->> '{name}')"
