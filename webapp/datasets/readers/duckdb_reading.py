"""Rows from DuckDB: read-only, locked down to its one database or its files, interruptible."""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, cast

import duckdb

from webapp.datasets.columns import Row
from webapp.datasets.readers.duckdb import Place
from webapp.datasets.readers.duckdb_csv import csv_query
from webapp.datasets.readers.duckdb_query import Query, listed, translated
from webapp.datasets.readers.errors import out_of_memory, query_error
from webapp.datasets.reading import BATCH_ROWS, Cancelled
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options

MEMORY = "64MiB"
"""What DuckDB counts itself; what lies beyond goes to the disk. With Arrow beside it, a sorted export of three million
rows then stays within the 512 MiB of addresses that an attempt has by default; two threads would not."""

THREADS = "1"
INSIST_EVERY = 0.05
"""Seconds between interrupts: one that comes between two statements is lost."""

M_ARENA_MAX = -8
ARENAS = 1
"""Each of DuckDB's threads would have glibc reserve 64 MiB of addresses, and a limit of address space counts them."""

SETTINGS: Mapping[str, str] = {
    "memory_limit": MEMORY,
    "threads": THREADS,
    "async_threads": "1",  # eight of them by default, each with a stack of 8 MiB
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


class DuckdbReader:
    """See `RowReader`. With `seconds`, everything it does must be over by then: TIMEOUT."""

    invalid_text = 0

    counts_beside = False

    def __init__(self, place: Place, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> None:
        self._halted: Exception | None = None
        self._closed = threading.Event()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._counting: duckdb.DuckDBPyConnection | None = None
        self._room = TemporaryDirectory(prefix="exportdesk-duckdb-", ignore_cleanup_errors=True)
        self._clock = threading.Timer(
            seconds or 0, self._halt, [AttemptFailed(ErrorCode.TIMEOUT, limit=f"{seconds} s")]
        )
        self._clock.daemon = True
        if seconds is not None:
            self._clock.start()
        try:
            with self._translated():
                self._connect(place)
                self._query = Query.prepare(self._running(), sql, params)
        except BaseException:
            self.close()
            raise
        self.columns = self._query.columns

    def choose(self, names: Sequence[str]) -> None:
        self._query = self._query.narrowed(names)
        self.columns = self._query.columns

    def batches(self, size: int = BATCH_ROWS) -> Iterator[list[Row]]:
        with self._translated():
            rows = self._running().execute(self._query.reading, self._query.bindings)
        while True:
            with self._translated():
                batch = rows.fetchmany(size)
            self._check()
            if not batch:
                return
            yield batch

    def count(self, seconds: float) -> int | None:
        self._counting = cursor = self._running().cursor()
        clock = threading.Timer(seconds, cursor.interrupt)
        try:
            clock.start()
            counted = cursor.execute(f"SELECT count(*) FROM (\n{self._query.sql}\n) AS q", self._query.bindings)
            return cast("tuple[int]", counted.fetchone())[0]
        except (duckdb.Error, RuntimeError):
            self._check()
            return None
        finally:
            clock.cancel()
            self._counting = None
            cursor.close()

    def estimate(self) -> int | None:
        """What DuckDB's planner says of the last step that it made an estimate for."""
        try:
            with self._translated():
                explain = f"EXPLAIN (FORMAT json)\n{self._query.sql}"
                plan = self._running().execute(explain, self._query.bindings).fetchone()
            return _estimated(json.loads(cast("tuple[str, str]", plan)[1]))
        except (AttemptFailed, ValueError, LookupError, TypeError):
            return None

    def raw_csv(self, options: Options) -> Iterator[tuple[bytes, int]] | None:
        return None

    def cancel(self) -> None:
        self._halt(Cancelled())

    def close(self) -> None:
        self._closed.set()
        self._clock.cancel()
        if self._connection is not None:
            self._connection.close()
        self._room.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _connect(self, place: Place) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)
        settings = {**SETTINGS, "temp_directory": self._room.name}
        if place.function is None:
            self._connection = duckdb.connect(place.pattern, read_only=True, config=dict(settings))
        else:
            self._connection = duckdb.connect(":memory:", config=dict(settings))
            self._check()
            self._connection.execute(f"CREATE VIEW files AS {_files(self._connection, place)}")
            self._connection.execute(f"SET allowed_paths = {listed(place.paths)}")
        self._connection.execute("SET enable_external_access = false")  # not before: settings come in any order
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET lock_configuration = true")

    def _running(self) -> duckdb.DuckDBPyConnection:
        self._check()
        assert self._connection is not None
        return self._connection

    def _halt(self, reason: Exception) -> None:
        if self._halted is None and not self._closed.is_set():
            self._halted = reason
            threading.Thread(target=self._insist, name="duckdb-interrupt", daemon=True).start()

    def _insist(self) -> None:
        """Until whoever reads has noticed and closed."""
        while not self._closed.is_set():
            for connection in filter(None, (self._connection, self._counting)):
                with contextlib.suppress(duckdb.Error):
                    connection.interrupt()
            self._closed.wait(INSIST_EVERY)

    def _check(self) -> None:
        if self._halted is not None:
            raise self._halted

    @contextlib.contextmanager
    def _translated(self) -> Generator[None, None, None]:
        try:
            yield
        except duckdb.InterruptException as error:
            raise (self._halted or Cancelled()) from error
        except duckdb.Error as error:
            raise (self._halted or translated(error)) from error
        except (RuntimeError, NotImplementedError) as error:
            if "start new thread" in str(error):
                raise out_of_memory() from error
            raise (self._halted or query_error(str(error))) from error
        except MemoryError as error:
            raise out_of_memory() from error


def _files(connection: duckdb.DuckDBPyConnection, place: Place) -> str:
    """A query over all files."""
    paths = place.paths
    if place.function == "read_csv":
        return csv_query(connection, paths, all_text=place.all_text)
    more = ", sample_size = -1" if place.function == "read_json" else ""
    return f"SELECT * FROM {place.function}({listed(paths)}{more})"


def _estimated(plan: Any) -> int | None:
    """The first estimate from the top of the tree down."""
    nodes: list[Any] = list(plan)
    while nodes:
        node = nodes.pop(0)
        if guess := node.get("extra_info", {}).get("Estimated Cardinality"):
            return int(guess)
        nodes = [*node.get("children", []), *nodes]
    return None
