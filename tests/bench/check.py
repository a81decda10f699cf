"""Reads what was exported with readers that are not ours and compares it, cell by cell, with what the source holds."""

from __future__ import annotations

import csv
import json
import sqlite3
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
AMOUNT, FLAG, DAY, AT = 5, 7, 8, 9
"""Where the columns are that some format tells in its own way."""


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


def parquet_differences(source: Path, path: Path) -> int:
    """Read by pyarrow; decimals and times are compared as the values they are."""
    import pyarrow.parquet as pq

    found = (tuple(row.values()) for batch in pq.ParquetFile(path).iter_batches(10_000) for row in batch.to_pylist())
    return differences(map(_typed_row, source_rows(source)), (tuple(map(_utc, row)) for row in found))


def _typed_row(row: Row) -> Row:
    cells = [*row]
    cells[AMOUNT] = None if row[AMOUNT] is None else Decimal(repr(row[AMOUNT]))
    cells[FLAG] = None if row[FLAG] is None else bool(row[FLAG])
    cells[DAY], cells[AT] = date.fromisoformat(row[DAY]), datetime.fromisoformat(row[AT]).astimezone(UTC)
    return tuple(cells)


def _utc(cell: Any) -> Any:
    return cell.astimezone(UTC) if isinstance(cell, datetime) else cell


def xlsx_differences(source: Path, path: Path) -> int:
    """Read by calamine, which has one empty cell for NULL and empty text, and tells wall clocks without their zone."""
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_path(str(path))
    sheets = (book.get_sheet_by_name(name).iter_rows() for name in book.sheet_names)
    found = (tuple(row) for sheet in sheets for row in islice(sheet, 1, None))
    return differences(map(_sheet_row, source_rows(source)), found)


def _sheet_row(row: Row) -> Row:
    cells = [_sheet_cell(cell) for cell in _json_row(row)]
    cells[DAY] = date.fromisoformat(row[DAY])
    clock = datetime.fromisoformat(row[AT]).astimezone(UTC).replace(tzinfo=None)
    cells[AT] = clock if clock.time() != time() else clock.date()  # calamine takes midnight for a mere date
    return tuple(cells)


def _sheet_cell(cell: Any) -> Any:
    if cell is None:
        return ""
    return str(cell) if type(cell) is int and abs(cell) >= 10**15 else cell
