"""CSV files as one typed table: types from a sample, and nothing silently lost where the sample was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from webapp.datasets.readers.duckdb_query import listed, quoted_name, quoted_text
from webapp.domain.errors import UNLIKE_FILES, AttemptFailed, ErrorCode

SAMPLE_ROWS = 100_000
"""Of all files together. Looking at every row takes five seconds for 160 MB, each time the source is opened."""

LEAST_SAMPLE_ROWS = 2_000
BUFFER_BYTES = 4_000_000
"""Of the reading; it must hold a line, of which DuckDB takes two million bytes. With its own 32 million, of which
several are held, the memory of an export grows by 40 MiB over the first million rows."""
QUOTES = "quote = '\"', escape = '\"'"
LEADING_ZERO = r"^\s*(?:\+|-?0[0-9])"
LONG_NUMBER = r"[1-9](?:\.?[0-9]){17,}"
"""More digits than a double holds."""

LOSSES = {
    "BIGINT": (LEADING_ZERO, "codes that start with 0 or +"),
    "DOUBLE": (f"{LEADING_ZERO}|{LONG_NUMBER}", "numbers with more digits than can be kept, or that start with 0"),
}
"""What a number of this type would lose, and how a person is told; the query then fails instead."""


@dataclass(frozen=True, slots=True)
class Dialect:
    delimiter: str
    has_header: bool
    skipped: int
    date_format: str | None
    timestamp_format: str | None


def csv_query(connection: duckdb.DuckDBPyConnection, paths: Sequence[str], *, all_text: bool) -> str:
    """A query over all files, which must have the same columns; raises AttemptFailed where they have not."""
    sample = max(SAMPLE_ROWS // len(paths), LEAST_SAMPLE_ROWS)
    sniffed = [_sniffed(connection, path, sample) for path in paths]
    dialect, types = sniffed[0]
    if any(other[0].delimiter != dialect.delimiter or [*other[1]] != [*types] for other in sniffed):
        raise AttemptFailed(ErrorCode.QUERY_ERROR, detail=str(UNLIKE_FILES))
    types = {name: "VARCHAR" if all_text else _common({found[name] for _, found in sniffed}) for name in types}
    cells = ", ".join(_cell(name, type) for name, type in types.items())
    return f"SELECT {cells} FROM read_csv({listed(paths)}, {_arguments(dialect, types)})"


def _sniffed(connection: duckdb.DuckDBPyConnection, path: str, sample: int) -> tuple[Dialect, dict[str, str]]:
    found = connection.execute(
        "SELECT Delimiter, HasHeader, SkipRows, DateFormat, TimestampFormat, Columns "
        f"FROM sniff_csv({quoted_text(path)}, sample_size = {sample}, {QUOTES})"
    ).fetchone()
    assert found is not None
    *dialect, columns = found
    return Dialect(*dialect), {column["name"]: column["type"] for column in columns}


def _common(types: set[str]) -> str:
    if types == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return types.pop() if len(types) == 1 else "VARCHAR"


def _arguments(dialect: Dialect, types: dict[str, str]) -> str:
    columns = ", ".join(
        f"{quoted_text(name)}: {quoted_text('VARCHAR' if type in LOSSES else type)}" for name, type in types.items()
    )
    given: dict[str, Any] = {
        "delim": quoted_text(dialect.delimiter),
        "header": str(dialect.has_header).lower(),
        "skip": dialect.skipped,
        "buffer_size": BUFFER_BYTES,
        "columns": f"{{{columns}}}",
        "dateformat": dialect.date_format and quoted_text(dialect.date_format),
        "timestampformat": dialect.timestamp_format and quoted_text(dialect.timestamp_format),
    }
    told = ", ".join(f"{name} = {value}" for name, value in given.items() if value is not None)
    return f"auto_detect = false, allow_quoted_nulls = false, {QUOTES}, {told}"


def _cell(name: str, type: str) -> str:
    column = quoted_name(name)
    if type not in LOSSES:
        return column
    pattern, what = LOSSES[type]
    message = quoted_text(f"the column {name} has {what}; add ?types=text to the url of its source")
    return (
        f"CASE WHEN regexp_matches({column}, {quoted_text(pattern)}) THEN error({message}) "
        f"ELSE CAST({column} AS {type}) END AS {column}"
    )
