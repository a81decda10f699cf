"""What a query is to DuckDB: its one statement, columns and parameters, and its errors in our words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import duckdb

from webapp.datasets.columns import Column, Kind, places, unique_names
from webapp.datasets.placeholders import TOKEN
from webapp.datasets.readers.errors import out_of_memory, query_error
from webapp.domain.errors import AttemptFailed, ErrorCode

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), Kind.INTEGER),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), Kind.DECIMAL),  # sum() of integers is a HUGEINT
    **dict.fromkeys(("FLOAT", "DOUBLE"), Kind.FLOAT),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), Kind.TIMESTAMP),
    "TIMESTAMP WITH TIME ZONE": Kind.TIMESTAMP_TZ,
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
    "TIME": Kind.TIME,
    "BLOB": Kind.BYTES,
    "JSON": Kind.JSON,
    "UUID": Kind.UUID,
}
"""Everything else is text, but for decimals and nested types, whose names go on: `DECIMAL(9,2)`, `INTEGER[]`."""

AS_TEXT = frozenset({Kind.TEXT, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, Kind.UUID})
"""Kinds that DuckDB writes as text itself: Python cannot hold infinite dates, nor years beyond 9999."""

NESTED = ("STRUCT", "MAP", "UNION")
PATH = re.compile(r"""(["'])[^"']*[/\\].*\1""")


def kind_of(type: str) -> Kind:
    if type.endswith("]") or type.startswith(NESTED):
        return Kind.JSON
    return Kind.DECIMAL if type.startswith("DECIMAL") else KINDS.get(type, Kind.TEXT)


@dataclass(frozen=True, slots=True)
class Query:
    """One statement as DuckDB understood it, without running it; `bindings` are its parameters' values."""

    sql: str
    columns: tuple[Column, ...]
    bindings: dict[str, Any]
    types: tuple[str, ...]
    """DuckDB's own, of all columns of the statement."""
    reading: str
    """The statement, with its cells in forms that lose nothing on the way to Python."""

    @classmethod
    def prepare(cls, connection: duckdb.DuckDBPyConnection, sql: str, params: Mapping[str, Any]) -> Self:
        text = TOKEN.sub(lambda match: f"${match['name']}" if match["name"] else match[0], sql)
        statements = connection.extract_statements(text)  # the module's own would start a second database
        if not statements:
            raise query_error("there is no query")
        if len(statements) > 1:
            raise query_error("only one statement is allowed")
        if statements[0].type != duckdb.StatementType.SELECT:
            raise query_error("only a query that reads is allowed")
        names = statements[0].named_parameters
        if any(name.isdigit() for name in names):
            raise query_error("parameters must have names, such as :since")
        bindings = {name: bindable(params.get(name)) for name in names}
        text = _without_end(text)
        described = connection.execute(f"DESCRIBE\n{text}", bindings).fetchall()
        types = tuple(str(row[1]) for row in described)
        names_given = unique_names(str(row[0]) for row in described)
        columns = tuple(Column(name, kind_of(type)) for name, type in zip(names_given, types, strict=True))
        return cls(text, columns, bindings, types, _reading(text, types, range(len(types))))

    def narrowed(self, names: Sequence[str]) -> Self:
        """To these of its columns; DuckDB keeps the order of a subquery's rows. Raises UnknownColumns."""
        chosen = places(self.columns, names)
        columns = tuple(self.columns[place] for place in chosen)
        return replace(self, columns=columns, reading=_reading(self.sql, self.types, chosen))


def bindable(value: Any) -> Any:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def translated(error: duckdb.Error) -> AttemptFailed:
    """DuckDB's error in our codes: its first line, without paths."""
    message = str(error).strip().split("\n")[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        full = "max_temp_directory_size" in str(error)
        return AttemptFailed(ErrorCode.DISK_FULL) if full else out_of_memory()
    if isinstance(error, duckdb.IOException):
        full = "No space left" in str(error)
        return AttemptFailed(ErrorCode.DISK_FULL if full else ErrorCode.SOURCE_UNREACHABLE)
    if isinstance(error, duckdb.PermissionException):
        return query_error("it may read nothing but its own source")
    return query_error(PATH.sub("a file", message.partition("Error: ")[2] or message))


def _without_end(sql: str) -> str:
    """Without the semicolon and what follows it, so that it fits into brackets."""
    data = sql.encode()
    tokenize = cast("Callable[[str], list[tuple[int, Any]]]", duckdb.tokenize)
    end = next((offset for offset, _ in tokenize(sql) if data[offset : offset + 1] == b";"), len(data))
    return data[:end].decode()


def _reading(sql: str, types: Sequence[str], chosen: Iterable[int]) -> str:
    names = [f"c{number}" for number in range(len(types))]
    cells = ", ".join(_cell(names[place], types[place]) for place in chosen)
    return f"SELECT {cells} FROM (\n{sql}\n) AS q({', '.join(names)})"


def _cell(name: str, type: str) -> str:
    kind = kind_of(type)
    if kind is Kind.JSON and type != "JSON":
        return f"CAST(to_json({name}) AS VARCHAR)"
    if type == "FLOAT":
        return f"CAST(CAST({name} AS VARCHAR) AS DOUBLE)"  # 0.1 stays 0.1
    return f"CAST({name} AS VARCHAR)" if kind in AS_TEXT and type != "VARCHAR" else name


def listed(paths: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted_text, paths))}]"


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
