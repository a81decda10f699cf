"""What a query is to SQLite: its one statement, columns and parameters, and what it may do."""

# apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from typing import Any, Self

import apsw

from webapp.datasets.columns import Column, Kind, unique_names
from webapp.datasets.readers.errors import query_error
from webapp.domain.errors import NO_UNICODE_NAME, NOT_COMPARABLE, AttemptFailed, ErrorCode

ALLOWED = frozenset(
    {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE}  # nothing that writes
)
FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})
SEARCH_PRAGMAS = frozenset({"data_version", "page_size"})
"""What full-text tables ask for by themselves while they are read."""

KINDS_BY_START: tuple[tuple[str, Kind], ...] = (
    ("BOOL", Kind.BOOLEAN),
    ("TIMESTAMPTZ", Kind.TIMESTAMP_TZ),
    ("TIMESTAMP", Kind.TIMESTAMP),
    ("DATETIME", Kind.TIMESTAMP),
    ("DATE", Kind.DATE),
    ("TIME", Kind.TIME),
    ("JSON", Kind.JSON),
    ("UUID", Kind.UUID),
    ("DEC", Kind.DECIMAL),
    ("NUMERIC", Kind.DECIMAL),
)
KINDS_BY_PART: tuple[tuple[str, Kind], ...] = (
    ("INT", Kind.INTEGER),
    ("CHAR", Kind.TEXT),
    ("CLOB", Kind.TEXT),
    ("TEXT", Kind.TEXT),
    ("BLOB", Kind.BYTES),
    ("REAL", Kind.FLOAT),
    ("FLOA", Kind.FLOAT),
    ("DOUB", Kind.FLOAT),
)


def kind_of(declared: str | None) -> Kind:
    """What a declared type says; SQLite itself lets any cell hold anything."""
    words = " ".join((declared or "").upper().split())
    for start, kind in KINDS_BY_START:
        if words.startswith(start):
            zoned = kind is Kind.TIMESTAMP and words.endswith("WITH TIME ZONE")
            return Kind.TIMESTAMP_TZ if zoned else kind
    return next((kind for part, kind in KINDS_BY_PART if part in words), Kind.TEXT)


@dataclass(frozen=True, slots=True)
class Query:
    """One statement as SQLite understood it, without running it; `names` are its parameters'."""

    sql: str
    columns: tuple[Column, ...]
    names: tuple[str, ...]

    @classmethod
    def prepare(cls, connection: apsw.Connection, sql: str) -> Self:
        first = _first_statement(connection, sql)
        if first is None:
            raise query_error("there is no query")
        statement, description, names = first
        if _first_statement(connection, sql[len(statement) :]) is not None:
            raise query_error("only one statement is allowed")
        if not description:
            raise query_error("the statement gives no rows")
        unique = unique_names(name for name, _ in description)
        kinds = [kind_of(declared) for _, declared in description]
        columns = tuple(Column(name, kind) for name, kind in zip(unique, kinds, strict=True))
        return cls(statement.rstrip("; \t\r\n"), columns, names)


Statement = tuple[str, list[tuple[str, str | None]], tuple[str, ...]]


class NullBindings(Mapping[str, None]):
    """Every name is NULL: enough to prepare a statement whose names are not known yet."""

    def __getitem__(self, key: str) -> None:
        return None

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _first_statement(connection: apsw.Connection, sql: str) -> Statement | None:
    """Its text, columns and parameter names; None when there is nothing but space and comments."""
    found: Statement | None = None

    def look(cursor: apsw.Cursor, text: str, bindings: object) -> bool:
        nonlocal found
        if cursor.is_explain:
            raise query_error("EXPLAIN gives no data")
        if cursor.has_vdbe:
            names = tuple(name for name in cursor.bindings_names if name)
            found = text, [(column[0], column[1]) for column in cursor.description_full], names
        return False

    cursor = connection.cursor()
    cursor.exec_trace = look
    try:
        cursor.execute(sql, NullBindings())
    except apsw.ExecTraceAbort:
        pass
    except apsw.BindingsError as error:
        raise query_error("parameters must have names, such as :since") from error
    except UnicodeError as error:
        raise query_error(NO_UNICODE_NAME) from error
    return found


def authorize(operation: int, first: str | None, second: str | None, schema: str | None, by: str | None) -> int:
    if operation == apsw.SQLITE_FUNCTION and (second or "").lower() in FORBIDDEN_FUNCTIONS:
        return apsw.SQLITE_DENY
    if operation == apsw.SQLITE_PRAGMA and first in SEARCH_PRAGMAS and second is None:
        return apsw.SQLITE_OK
    return apsw.SQLITE_OK if operation in ALLOWED else apsw.SQLITE_DENY


def bindable(name: str, value: Any) -> Any:
    """A parameter as SQLite can hold it: dates as ISO text, lists as a JSON array (for `json_each`)."""
    match value:
        case bool() | None | float() | bytes():
            return value
        case int() if -(2**63) <= value < 2**63:
            return value
        case str() if value.isascii() or value.encode("utf-8", "ignore").decode() == value:
            return value
        case date() | time():
            return value.isoformat()
        case list() | tuple():
            return json.dumps(value, default=str)
        case int() | str():
            raise AttemptFailed(ErrorCode.BAD_PARAMETER, detail=NOT_COMPARABLE.format(name=name))
        case _:
            return str(value)
