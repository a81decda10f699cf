"""Rows from a SQLite file: read-only, one snapshot, nothing but reading allowed."""

# apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import apsw

from webapp.datasets.columns import Row, places
from webapp.datasets.readers.errors import out_of_memory, query_error
from webapp.datasets.readers.sqlite_query import Query, authorize, bindable
from webapp.datasets.reading import BATCH_ROWS, BadUrl, Cancelled
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options

SCHEME = "sqlite:///"
HERE = Path()
BUSY_MILLISECONDS = 5000
STEPS_BETWEEN_CHECKS = 50_000
FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX
"""One thread reads, and another only interrupts, which needs no lock: without the locks around every cell a row
costs a quarter less."""

UNREACHABLE = (
    apsw.CantOpenError,
    apsw.NotADBError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.IOError,
    apsw.CorruptError,
    apsw.PermissionsError,
)


def normalized(url: str, folder: Path) -> str:
    """Three slashes are relative to the catalog's folder, four are absolute. Raises BadUrl."""
    text = url.removeprefix(SCHEME)
    if not url.startswith(SCHEME):
        raise BadUrl(f"url must start with {SCHEME}, as in sqlite:///shop.db or sqlite:////srv/shop.db.")
    if not text:
        raise BadUrl("url names no file.")
    return SCHEME + str(path_of(url, folder))


def missing(url: str) -> str | None:
    path = path_of(url)
    return None if path.is_file() else f"There is no file {path}."


def path_of(url: str, folder: Path = HERE) -> Path:
    """In the folder; but three slashes are easily taken for an absolute path, so where only that exists, that is it."""
    text = url.removeprefix(SCHEME)
    path, absolute = folder / text, Path("/") / text
    return absolute if absolute.is_file() and not path.exists() else path


def open_reader(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> SqliteReader:
    return SqliteReader(path_of(url), sql, params, seconds=seconds)


class SqliteReader:
    """See `RowReader`. With `seconds`, everything it does must be over by then: TIMEOUT."""

    counts_beside = True

    def __init__(self, path: Path, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> None:
        self.invalid_text = 0
        self._path = path
        self._halted: Exception | None = None
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        with self._translated():
            self._connection = self._connect()
        try:
            with self._translated():
                query = Query.prepare(self._connection, sql)
        except BaseException:
            self.close()
            raise
        self.columns = query.columns
        self._sql = self._reading = query.sql
        self._width = len(query.columns)
        self._chosen = list(range(self._width))
        self._bindings = {name: bindable(name, params.get(name)) for name in query.names}

    def choose(self, names: Sequence[str]) -> None:
        """SQLite keeps the order of a subquery's rows as long as the query around it joins and sorts nothing."""
        self._chosen = places(self.columns, names)
        self.columns = tuple(self.columns[place] for place in self._chosen)
        self._reading = self._around(self._names)

    def batches(self, size: int = BATCH_ROWS) -> Iterator[list[Row]]:
        delivered = 0
        with self._translated():
            rows: Iterator[Row] = self._execute(self._reading)
        while True:
            try:
                with self._translated():
                    batch = list(islice(rows, size))
            except UnicodeDecodeError:
                rows = self._tolerant(delivered)
                continue
            self._check()
            if not batch:
                return
            delivered += len(batch)
            yield batch

    def count(self, seconds: float) -> int | None:
        until = time.monotonic() + seconds
        try:
            connection = self._connect(until)
        except apsw.Error:
            return None
        try:
            counted = connection.execute(f"SELECT count(*) FROM (\n{self._sql}\n)", self._bindings)
            return cast(int, counted.get)
        except apsw.Error:
            self._check()
            return None
        finally:
            connection.close(True)

    def estimate(self) -> int | None:
        """SQLite's planner keeps its guesses to itself."""
        return None

    def raw_csv(self, options: Options) -> Iterator[tuple[bytes, int]] | None:
        return None

    def cancel(self) -> None:
        self._halted = Cancelled()
        with contextlib.suppress(apsw.Error):
            self._connection.interrupt()

    def close(self) -> None:
        self._connection.close(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _connect(self, until: float | None = None) -> apsw.Connection:
        uri = f"file:{quote(os.fsencode(self._path.absolute()))}?mode=ro"
        connection = apsw.Connection(uri, flags=FLAGS)
        try:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            connection.set_progress_handler(self._must_stop(until), STEPS_BETWEEN_CHECKS)
            connection.pragma("query_only", True)
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # takes the snapshot
            connection.authorizer = authorize
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _must_stop(self, until: float | None) -> Callable[[], bool]:
        """An interrupt that comes between two statements is lost, so the running one asks now and then."""

        def must_stop() -> bool:
            now = time.monotonic()
            if self._deadline is not None and now > self._deadline and self._halted is None:
                self._halted = AttemptFailed(ErrorCode.TIMEOUT, limit=f"{self._seconds:g} s")
            return self._halted is not None or (until is not None and now > until)

        return must_stop

    def _check(self) -> None:
        if self._halted is not None:
            raise self._halted

    def _execute(self, sql: str) -> apsw.Cursor:
        self._check()
        return self._connection.execute(sql, self._bindings)

    def _tolerant(self, offset: int) -> Iterator[Row]:
        """The rows from `offset` on, in the same snapshot, with text fetched as bytes and decoded here."""
        cells = (f"typeof({n}), CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) ELSE {n} END" for n in self._names)
        with self._translated():
            for row in self._execute(f"{self._around(cells)} LIMIT -1 OFFSET {offset}"):
                yield tuple(
                    self._decoded(value) if kind == "text" else value
                    for kind, value in zip(row[::2], row[1::2], strict=True)
                )

    @property
    def _names(self) -> list[str]:
        """What the chosen columns are called in a query around the query."""
        return [f"c{place}" for place in self._chosen]

    def _around(self, cells: Iterable[str]) -> str:
        """Under a name that the query does not have: it would be taken for a table of that name in it."""
        name = "q"
        while name in self._sql.lower():
            name += "q"
        names = ", ".join(f"c{place}" for place in range(self._width))
        return f"WITH {name}({names}) AS (\n{self._sql}\n) SELECT {', '.join(cells)} FROM {name}"

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.invalid_text += 1
            return data.decode(errors="replace")

    @contextlib.contextmanager
    def _translated(self) -> Generator[None, None, None]:
        """SQLite's errors become ours; a text that cannot be decoded is the caller's business."""
        try:
            yield
        except apsw.InterruptError as error:
            raise (self._halted or Cancelled()) from error
        except (apsw.NoMemError, MemoryError) as error:
            raise out_of_memory() from error
        except apsw.FullError as error:
            raise AttemptFailed(ErrorCode.DISK_FULL) from error
        except UNREACHABLE as error:
            raise AttemptFailed(ErrorCode.SOURCE_UNREACHABLE) from error
        except apsw.Error as error:
            raise query_error(str(error)) from error
