"""Rows from MySQL and MariaDB: one read-only snapshot, read as they come."""

# PyMySQL has no type hints.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.cursors import DictCursor, SSCursor

from webapp.datasets.columns import Column, Row, picker, places, unique_names
from webapp.datasets.readers.address import checked_address
from webapp.datasets.readers.errors import out_of_memory, query_error
from webapp.datasets.readers.halt import Halt
from webapp.datasets.readers.mysql_errors import failure
from webapp.datasets.readers.mysql_session import (
    ARGUMENTS,
    Connection,
    Cursor,
    connect,
    described,
    drop,
    is_running,
    quoted,
    running,
)
from webapp.datasets.readers.mysql_types import kind_of
from webapp.datasets.readers.statement import filled, has_values, single_statement
from webapp.datasets.reading import BATCH_ROWS
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options

EXAMPLE = "mysql://user:password@host/database"
CONNECT_SECONDS = 10.0
CANCEL_SECONDS = 1.5
PREVIEW_SLACK_SECONDS = 1.0
MOST_SECONDS = 30 * 24 * 3600.0
"""What both servers take as a limit."""

SNAPSHOT = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)


def normalized(url: str, folder: Path) -> str:
    """As it is; raises BadUrl when it cannot be the URL of a MySQL or MariaDB database."""
    checked_address(url, example=EXAMPLE, arguments=ARGUMENTS)
    return url


def missing(url: str) -> str | None:
    return None


def open_reader(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> MysqlReader:
    return MysqlReader(url, sql, params, seconds=seconds)


def for_attempt(url: str, name: str, seconds: float) -> str:
    """With a fragment, which a catalog's URL never has and no server is sent."""
    return f"{url}#{name},{seconds:.3f}"


def end_query(url: str) -> None:
    """By the attempt's name, which its query carries: these servers see that a client is gone when they have rows."""
    name, _ = _attempt(url)
    if name is not None:
        with _second_connection(url) as other:
            for number in running(other, _mark(name)):
                other.query(f"KILL {number}")


def _attempt(url: str) -> tuple[str | None, float | None]:
    """The name of the attempt and its seconds."""
    name, _, seconds = url.partition("#")[2].partition(",")
    return (name, float(seconds)) if name else (None, None)


def _mark(name: str | None) -> str:
    return f"/* exportdesk {name} */ " if name else ""


@contextlib.contextmanager
def _second_connection(url: str) -> Generator[Connection, None, None]:
    """When the first one is busy or gone. Errors end the block, and are not told."""
    with contextlib.suppress(pymysql.err.MySQLError, OSError):
        other = connect(url, patience=CANCEL_SECONDS, read_seconds=CANCEL_SECONDS)
        try:
            yield other
        finally:
            drop(other, None)


class MysqlReader:
    """See `RowReader`. With `seconds`, everything it does must be over by then: TIMEOUT."""

    counts_beside = False

    def __init__(self, url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> None:
        self.invalid_text = 0
        self._url = url
        self._halt = Halt(seconds)
        name, self._attempt_seconds = _attempt(url)
        self._cursor: Cursor | None = None
        self._pick: Callable[[Row], Row] | None = None
        self._values = has_values(sql, params)
        statement = single_statement(sql)
        with self._translated(connecting=True):
            patience = min(CONNECT_SECONDS, max(seconds or CONNECT_SECONDS, 1.0))
            reading = None if seconds is None else seconds + PREVIEW_SLACK_SECONDS
            self._connection = connect(url, patience=patience, read_seconds=reading)
        try:
            with self._translated():
                for command in SNAPSHOT:
                    self._connection.query(command)
                self._sql = _mark(name) + filled(statement, params, self._literal)
                self.columns = self._described()
        except BaseException:
            self.close()
            raise

    def choose(self, names: Sequence[str]) -> None:
        """From each row: around a query these servers lose its order, and two columns of one name they refuse."""
        chosen = places(self.columns, names)
        self.columns = tuple(self.columns[place] for place in chosen)
        self._pick = picker(chosen)

    def batches(self, size: int = BATCH_ROWS) -> Iterator[list[Row]]:
        self._halt.check()
        with self._translated():
            self._set_limit(self._attempt_seconds if self._halt.limit is None else self._halt.seconds_left)
            self._cursor = cursor = self._connection.cursor(SSCursor)
            cursor.execute(self._sql)
        while True:
            self._halt.check()
            with self._translated():
                batch = list(cursor.fetchmany(size))
            self._halt.check()
            if not batch:
                return
            yield batch if self._pick is None else [*map(self._pick, batch)]

    def count(self, seconds: float) -> int | None:
        """None too where the query has two columns of one name, which these servers do not count."""
        found = self._asked(f"SELECT count(*) AS n FROM (\n{self._sql}\n) AS q", seconds)
        return int(found[0]["n"]) if found else None

    def estimate(self) -> int | None:
        """The tables of the outermost query multiplied by one another: far off where they are joined loosely."""
        found = self._asked(f"EXPLAIN {self._sql}", CONNECT_SECONDS)
        rows = [int(row["rows"]) for row in found or [] if row["id"] in (1, "1") and row["rows"] is not None]
        return math.prod(rows) if rows else None

    def raw_csv(self, options: Options) -> Iterator[tuple[bytes, int]] | None:
        """These servers write CSV to their own disk only."""
        return None

    def cancel(self) -> None:
        self._halt.cancel(self._kill)

    def close(self) -> None:
        """Ends the query in the server if it still runs: it would notice only when it has rows to send."""
        self._halt.close()
        if is_running(self._cursor):
            self._kill()
        drop(self._connection, self._cursor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    @staticmethod
    def _literal(value: Any) -> str:
        """As it would be written in the query by hand."""
        match value:
            case None:
                return "NULL"
            case bool() | int():
                return f"({int(value)})" if value < 0 else str(int(value))
            case float():
                return repr(value)
            case list() | tuple():
                return quoted(json.dumps(value, default=str))
            case _:
                return quoted(str(value))

    def _described(self) -> tuple[Column, ...]:
        fields = described(self._connection, self._sql)
        if not fields:
            raise query_error("the statement gives no rows")
        names = unique_names(field.name for field in fields)
        return tuple(Column(name, kind_of(field)) for name, field in zip(names, fields, strict=True))

    def _set_limit(self, seconds: float | None) -> None:
        """Each of the two servers has its own name and unit for it; None is for ever."""
        left = 0.0 if seconds is None else min(max(seconds, 0.001), MOST_SECONDS)
        is_mariadb = "mariadb" in self._connection.get_server_info().lower()
        limit = f"max_statement_time = {left:.3f}" if is_mariadb else f"max_execution_time = {math.ceil(left * 1000)}"
        self._connection.query(f"SET SESSION {limit}")

    def _asked(self, query: str, seconds: float) -> list[dict[str, Any]] | None:
        """The answer to a query about the query, or None when it fails or takes longer."""
        self._halt.check()
        try:
            self._set_limit(seconds)
            with self._connection.cursor(DictCursor) as cursor:
                cursor.execute(query)
                return list(cursor.fetchall())
        except (pymysql.err.MySQLError, OSError):
            self._halt.check()
            return None

    def _kill(self) -> None:
        with _second_connection(self._url) as other:
            other.query(f"KILL QUERY {self._connection.thread_id()}")

    @contextlib.contextmanager
    def _translated(self, *, connecting: bool = False) -> Generator[None, None, None]:
        try:
            yield
        except MemoryError as error:
            raise out_of_memory() from error
        except (pymysql.err.MySQLError, OSError) as error:
            self._halt.check()
            if connecting:
                raise AttemptFailed(ErrorCode.SOURCE_UNREACHABLE) from error
            raise failure(error, limit=self._halt.limit, values=self._values) from error
