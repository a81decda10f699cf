"""The database behind `databases`: safe transactions, and one clock for status changes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import asyncpg
import msgspec
from databases import Database
from databases.backends.postgres import PostgresBackend, PostgresConnection
from databases.core import Connection
from sqlalchemy import ClauseElement, Table, text
from sqlalchemy.dialects import postgresql, sqlite

from webapp.store.plain import ROWS, PlainSQL, json_rows, numbered
from webapp.store.sqlite import DirectSQLite, WarmPool
from webapp.store.types import from_milliseconds

TURN_SECONDS = 15.0
"""How long a writer waits for others of its process, while each of them may wait `BUSY_SECONDS` for another one's."""

POSTGRES_POOL = (1, 8)

T = TypeVar("T")

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
        self._direct = DirectSQLite(self.database.url.database) if self.is_sqlite else None

    async def open(self) -> None:
        await self.database.connect()
        if self.is_sqlite:
            await self.execute(text("PRAGMA journal_mode = wal"))

    async def close(self) -> None:
        if self._direct is not None:
            await self._direct.close()
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
            query, names = numbered(sql)
            return cast("Sequence[Sequence[Any]]", await raw.fetch(query, *(values[name] for name in names)))

    async def plain_rows(
        self, sql: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], *, changed: str = ""
    ) -> Collection[Any]:
        """All rows travel as one JSON parameter, which costs a twentieth of what as many bound values do."""
        given = msgspec.json.encode(rows).decode()
        every = sql.replace(ROWS, json_rows(self, **kinds)) + (f" RETURNING {changed}" if changed else "")
        return {value for (value,) in await self.plain(every, rows=given)}

    async def at_once(self, work: Callable[[PlainSQL], Coroutine[Any, Any, T]]) -> T:
        """A transaction of plain SQL alone, for processes that do little else: SQLite runs it in the loop's thread."""
        if self._direct is None:
            async with self.transaction():
                return await work(self)
        async with self._turn():
            return await self._direct.transaction(work)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Raises TimeoutError when it does not come."""
        async with asyncio.timeout(TURN_SECONDS):
            await self._writing.acquire()
        try:
            yield
        finally:
            self._writing.release()

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
