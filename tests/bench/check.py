"""Reads what was exported with readers that are not ours and compares it, cell by cell, with what the source holds."""

from __future__ import annotations

import csv
import json
import sqlite3
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
FLAG = 7
"""Where the boolean column is."""


def source_rows(path: Path) -> Iterator[Row]:
    connection = sqlite3.connect(path)
    yield from connection.execute("SELECT * FROM rows")
    connection.close()


def differences(wanted: Iterable[Row], found: Iterable[Row]) -> int:
    """Cells that differ; a row too many or too few counts with all its cells."""
    count = 0
    for want, have in zip_longest(wanted, found, fillvalue=()):
        if want != have:
            count += sum(a != b for a, b in zip_longest(want, have, fillvalue=...))
    return count


def csv_differences(source: Path, path: Path, *, safe: bool = False) -> int:
    """NULL and empty text look the same to Python's reader; the tests of the format tell them apart."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        next(lines)
        return differences((_csv_row(row, safe) for row in source_rows(source)), map(tuple, lines))


def _csv_row(row: Row, safe: bool) -> Row:
    cells = [_csv_cell(cell, safe) for cell in row]
    if row[FLAG] is not None:
        cells[FLAG] = ("false", "true")[row[FLAG]]
    return tuple(cells)


def _csv_cell(cell: Any, safe: bool) -> str:
    if isinstance(cell, str):
        return "'" + cell if safe and cell.startswith(FORMULA_STARTS) else cell
    if isinstance(cell, bytes):
        return b64encode(cell).decode()
    return "" if cell is None else repr(cell)


def json_differences(source: Path, path: Path) -> int:
    with path.open(encoding="utf-8", newline="\n") as file:
        found = (tuple(json.loads(line).values()) for line in file)
        return differences(map(_json_row, source_rows(source)), found)


def _json_row(row: Row) -> Row:
    cells = [b64encode(cell).decode() if isinstance(cell, bytes) else cell for cell in row]
    if row[FLAG] is not None:
        cells[FLAG] = bool(row[FLAG])
    return tuple(cells)
