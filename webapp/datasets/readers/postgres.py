"""Rows from PostgreSQL: one read-only snapshot; finished CSV lines where the server can write them itself."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import psycopg
from psycopg import sql as composed
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from webapp.datasets.columns import Column, Kind, Row, places, unique_names
from webapp.datasets.readers.address import checked_address
from webapp.datasets.readers.errors import out_of_memory, query_error
from webapp.datasets.readers.halt import Halt
from webapp.datasets.readers.postgres_copy import copied_lines
from webapp.datasets.readers.postgres_errors import failure
from webapp.datasets.readers.postgres_text import TextLoader, tolerant_loader
from webapp.datasets.readers.postgres_types import KINDS, NATIVE, PLAIN_TEXTS, Cell
from webapp.datasets.readers.statement import filled, has_values, single_statement
from webapp.datasets.reading import BATCH_ROWS, BadUrl
from webapp.domain.errors import NO_UNICODE, AttemptFailed, ErrorCode
from webapp.domain.formats import Options

EXAMPLE = "postgresql://user:password@host/database"
ARGUMENTS = frozenset(
    {"sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "gssencmode", "target_session_attrs"}
    | {"connect_timeout", "require_auth"}
)
CONNECT_SECONDS = 10
INTERRUPT_SECONDS = 1.0
UNCHECKED = "SQL_ASCII"

KEEPALIVE: Mapping[str, Any] = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
SETTINGS: Mapping[str, str] = {
    "client_connection_check_interval": "500",  # a killed process must not leave its query running
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
}
"""Set for the transaction only, and only what the server knows: poolers refuse `options` when a connection starts."""


def normalized(url: str, folder: Path) -> str:
    """As it is; raises BadUrl when it cannot be the URL of a PostgreSQL database."""
    checked_address(url, example=EXAMPLE, arguments=ARGUMENTS)
    try:
        conninfo_to_dict(url)
    except psycopg.Error:
        raise BadUrl(f"url cannot be read; it must be like {EXAMPLE}.") from None
    return url


def missing(url: str) -> str | None:
    return None


def open_reader(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> PostgresReader:
    return PostgresReader(url, sql, params, seconds=seconds)


class PostgresReader:
    """See `RowReader`. With `seconds`, everything it does must be over by then: TIMEOUT."""

    counts_beside = False

    def __init__(self, url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> None:
        self.invalid_text = 0
        self._halt = Halt(seconds)
        self._values = has_values(sql, params)
        statement = single_statement(sql)
        with self._translated():
            self._connection = _connect(url, seconds)
        try:
            with self._translated():
                self._set(SETTINGS)
                self._sql = filled(statement, params, self._literal)
                self.columns, self._cells = self._described()
                self._names = [cell.name for cell in self._cells]
        except BaseException:
            self.close()
            raise
        self._values = False  # what fails from here on is not the parameters' form

    def choose(self, names: Sequence[str]) -> None:
        """PostgreSQL leaves a subquery that sorts as it is, so that its rows keep their order."""
        chosen = places(self.columns, names)
        self.columns = tuple(self.columns[place] for place in chosen)
        self._cells = tuple(self._cells[place] for place in chosen)

    def batches(self, size: int = BATCH_ROWS) -> Iterator[list[Row]]:
        query = self._selected([cell.value for cell in self._cells])
        with self._translated():
            self._set({"client_encoding": UNCHECKED} if self._is_unchecked else {})
            rows = self._connection.cursor().stream(query.encode(), size=BATCH_ROWS)
        while True:
            self._halt.check()
            with self._translated():
                batch = list(islice(rows, size))
            self._halt.check()
            if not batch:
                return
            yield batch

    def raw_csv(self, options: Options) -> Iterator[tuple[bytes, int]] | None:
        """None where the server does not know the encoding of its own texts."""
        if self._is_unchecked:
            return None
        safe = options.csv_text == "safe"
        query = self._selected([cell.csv(safe=safe) for cell in self._cells])
        delimiter = options.delimiter.replace("\t", r"\t")
        return self._copied(f"COPY (\n{query}\n) TO STDOUT (FORMAT csv, DELIMITER E'{delimiter}')")

    def count(self, seconds: float) -> int | None:
        found = self._asked(f"SELECT count(*) FROM (\n{self._sql}\n) AS q", seconds)
        return None if found is None else cast(int, found[0])

    def estimate(self) -> int | None:
        found = self._asked(f"EXPLAIN (FORMAT JSON) {self._sql}", CONNECT_SECONDS)
        if found is None:
            return None
        plan = json.loads(found[0]) if isinstance(found[0], str) else found[0]  # text where the query has JSON too
        return int(plan[0]["Plan"]["Plan Rows"])

    def cancel(self) -> None:
        self._halt.cancel(self._interrupt)

    def close(self) -> None:
        self._halt.close()
        if self._connection.info.transaction_status == TransactionStatus.ACTIVE:
            self._interrupt()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    @property
    def _is_unchecked(self) -> bool:
        """Whether texts may be in any encoding, of which the server knows nothing."""
        return self._connection.info.parameter_status("server_encoding") == UNCHECKED

    def _set(self, settings: Mapping[str, str]) -> None:
        """For the rest of the transaction, with what is left of the time limit."""
        self._halt.check()
        left = self._halt.seconds_left
        milliseconds = 0 if left is None else max(1, math.ceil(left * 1000))
        wanted = {**settings, "statement_timeout": str(milliseconds)}
        self._connection.execute(
            "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS s(name, value) "
            "WHERE current_setting(name, true) IS NOT NULL",
            [list(wanted), list(wanted.values())],
        )

    def _literal(self, value: Any) -> str:
        """As it would be written in the query by hand: texts take the type of their place, as do dates."""
        match value:
            case None:
                return "NULL"
            case bool():
                return "true" if value else "false"
            case int():
                return f"({value})" if value < 0 else str(value)
            case list() | tuple():
                return composed.Literal(json.dumps(value, default=str)).as_string(self._connection)
            case float() | str():
                return composed.Literal(value).as_string(self._connection)
            case _:
                return composed.Literal(str(value)).as_string(self._connection)

    def _described(self) -> tuple[tuple[Column, ...], tuple[Cell, ...]]:
        """The query's columns, from a run for no rows; everything but numbers and bytes will be read as text."""
        cursor = self._connection.execute(f"SELECT * FROM (\n{self._sql}\n) AS q LIMIT 0".encode())
        if not cursor.description:
            raise query_error("the statement gives no columns")
        names = unique_names(column.name for column in cursor.description)
        oids = [column.type_code for column in cursor.description]
        kinds = {**self._lists(set(oids) - KINDS.keys() - PLAIN_TEXTS), **KINDS}
        loader = tolerant_loader(self._count_invalid) if self._is_unchecked else TextLoader
        for oid in set(oids) - NATIVE:
            self._connection.adapters.register_loader(oid, loader)
        columns = tuple(Column(name, kinds.get(oid, Kind.TEXT)) for name, oid in zip(names, oids, strict=True))
        cells = tuple(
            Cell(oid, column.kind, f"c{n}") for n, (oid, column) in enumerate(zip(oids, columns, strict=True))
        )
        return columns, cells

    def _lists(self, oids: set[int]) -> dict[int, Kind]:
        """Which of these types are arrays; also of types that somebody defined."""
        if not oids:
            return {}
        found = self._connection.execute(
            "SELECT oid FROM pg_type WHERE typcategory = 'A' AND oid = ANY(%s::oid[])", [sorted(oids)]
        )
        return {oid: Kind.LIST for (oid,) in found}

    def _selected(self, expressions: list[str]) -> str:
        if expressions == self._names:
            return self._sql
        return f"SELECT {', '.join(expressions)} FROM (\n{self._sql}\n) AS q({', '.join(self._names)})"

    def _copied(self, query: str) -> Iterator[tuple[bytes, int]]:
        with self._translated():
            self._set({})
            lines = copied_lines(self._connection, query)
        while True:
            self._halt.check()
            with self._translated():
                chunk = next(lines, None)
            self._halt.check()
            if chunk is None:
                return
            yield chunk

    def _asked(self, query: str, seconds: float) -> Row | None:
        """The first row of a query about the query, or None when it fails or takes longer."""
        self._halt.check()
        try:
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}".encode())
                return self._connection.execute(query.encode()).fetchone()
        except psycopg.Error:
            self._halt.check()
            return None

    def _count_invalid(self) -> None:
        self.invalid_text += 1

    def _interrupt(self) -> None:
        with contextlib.suppress(psycopg.Error, OSError):
            self._connection.cancel_safe(timeout=INTERRUPT_SECONDS)

    @contextlib.contextmanager
    def _translated(self) -> Generator[None, None, None]:
        try:
            yield
        except psycopg.Error as error:
            raise (self._halt.reason or failure(error, limit=self._halt.limit, values=self._values)) from error
        except UnicodeEncodeError as error:
            raise AttemptFailed(ErrorCode.BAD_PARAMETER, detail=str(NO_UNICODE)) from error
        except MemoryError as error:
            raise out_of_memory() from error


def _connect(url: str, seconds: float | None) -> psycopg.Connection[Row]:
    patience = CONNECT_SECONDS if seconds is None else max(2, min(CONNECT_SECONDS, math.ceil(seconds)))
    given = conninfo_to_dict(url)
    connection = psycopg.connect(
        url,
        client_encoding="utf8",
        application_name="exportdesk",
        connect_timeout=given.get("connect_timeout", patience),
        **KEEPALIVE,
    )
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.prepare_threshold = None
    return connection
