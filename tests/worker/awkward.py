"""Cells that broke other exporters, sources that hold them, and a short way from a query to a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from webapp.datasets.columns import Column, Kind, Row
from webapp.datasets.sources import open_rows
from webapp.domain.exports import FormatWarning
from webapp.domain.formats import Options
from worker.formats import writer_for
from worker.formats.writer import Metadata
from worker.sink import Sink

NASTY_SQL = Path(__file__).with_name("nasty.sql")
NASTY_SOURCES = ("nasty", "twins", "mixed", "empty", "long_cell")
AT = datetime(2026, 7, 29, 10, 30, tzinfo=UTC)

TEXTS = (
    *("", " ", "  padded  ", "\t", "\n", "\r", "\r\n", "a\rb", "line\nbreak", "a\r\nb", "trailing\n"),
    *("=1+1", "+49 30 1234", "-5", "-", "@SUM(A1)", "\tTAB", "\rCR", "'=quoted", "=cmd|' /C calc'!A0"),
    *('"', '""', 'O\'Neil, "Pat"', ",", ";semi;", "a,b;c\td", "NULL", "\\N", "\\."),
    *("004", "1e5", "TRUE", "12-05", "9007199254740993", "nan", "inf", "2024-02-29"),
    *("<b>&amp;</b>", "]]>", "a<b", "a&b", "a>b", "_x000D_", "_x0041_", "_x005F_x0041_", "_x", "__x0041__", "_x00g1_"),
    *(
        "\0",
        "a\0b",
        "\x0b",
        "control \x0b char",
        "\x1f",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeffbom first",
        "\ufffe",
        "\uffff",
    ),
    *("\ud800", "a\udfffb", "王小明", "Zoë 🚀", "𠮷野家 👩‍👩‍👧‍👦", "\ufffd", "|", "a|b", " |", "\x1e", "e\u0301"),
)
INTEGERS = (0, 1, -1, 42, 999999999999999, 1000000000000000, -999999999999999, 2**53 + 1, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 0.1, 0.30000000000000004, 1e308, 5e-324, 1e-7, -1.5, 1e16, 3.141592653589793)
BLOBS = (b"", b"\x00\xff", b"=1+1", bytes(range(256)))
MOMENTS = (
    *("1899-12-31", "1900-02-28", "1900-03-01", "1970-01-01", "2024-02-29", "9999-12-31", "2023-02-29"),
    *("2024-03-31 01:30:00", "2024-03-31T01:30:00.5", "2024-03-31 01:30", "2016-12-31 23:59:60", "0001-01-01 00:00:00"),
    *("2024-10-27 02:30:00+02:00", "1970-01-01 00:00:00Z", "2024-01-01 12:00:00.123456+05:30", "0001-01-01 00:00:00Z"),
    *("9999-12-31 23:59:59-12:00", "12:30", "12:30:15.25", "24:00:00", "tomorrow", "20240229", "2024-W01-1"),
)
CELLS: tuple[Any, ...] = (None, *TEXTS, *INTEGERS, *FLOATS, float("inf"), float("-inf"), *BLOBS, *MOMENTS)


def columns(**kinds: Kind | str) -> tuple[Column, ...]:
    return tuple(Column(name, Kind(kind)) for name, kind in kinds.items())


def nasty_database(folder: Path) -> str:
    """The URL of a SQLite file with every source of NASTY_SOURCES."""
    path = folder / "nasty.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(NASTY_SQL.read_text("utf-8"))
    connection.close()
    return f"sqlite:///{path}"


def written(
    path: Path,
    format: str,
    columns: Sequence[Column],
    rows: Iterable[Row],
    options: Options | None = None,
    *,
    title: str = "Awkward",
    size: int = 500,
    parameters: dict[str, Any] | None = None,
) -> tuple[FormatWarning, ...]:
    options = options or Options()
    writer, sink, todo = writer_for(format), Sink(path, compression=options.compression), [*rows]
    try:
        writer.open(columns, options, sink, Metadata("awkward", title, AT, parameters or {}))
        for start in range(0, len(todo), size):
            writer.write(todo[start : start + size])
        warnings = writer.close()
        sink.close()
    except BaseException:
        writer.abort()
        sink.abort()
        raise
    return warnings


def exported(url: str, sql: str, path: Path, format: str, options: Options | None = None) -> tuple[FormatWarning, ...]:
    with open_rows(url, sql, {}) as reader:
        rows = [row for batch in reader.batches() for row in batch]
        return written(path, format, reader.columns, rows, options)


def counts(warnings: Iterable[FormatWarning]) -> dict[str, int]:
    return {warning.code: warning.count for warning in warnings}
