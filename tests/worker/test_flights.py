"""A table as people have it, 20,000 rows of every kind, through the child in each format: what others read in it."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from python_calamine import CalamineWorkbook
from test_running_attempts import Asking, claimed, path_of, run

from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from worker.children import Children

ROWS = 20_000
SCHEMA = """CREATE TABLE flights (id INTEGER PRIMARY KEY, day DATE, departure TIMESTAMP, seen TIMESTAMPTZ, carrier TEXT,
 tail TEXT, delay INTEGER, miles REAL, fare DECIMAL(8, 2), cancelled BOOLEAN, remark TEXT, seal BLOB)"""
NAMES = ["id", "day", "departure", "seen", "carrier", "tail", "delay", "miles", "fare", "cancelled", "remark", "seal"]
REMARKS = (
    *(None, "", "on time", "Zürich – 東京 🚀", 'said "no", left', "two\nlines"),
    *("=1+1", "004", " padded ", "a;b\tc"),
)
START = datetime(2013, 1, 1, 5, 15)

Row = tuple[Any, ...]


def flight(number: int, chance: random.Random) -> Row:
    """As Python has it: dates, moments, decimals, booleans and bytes."""
    departure = START + timedelta(minutes=26 * number)
    flies = chance.random() > 0.03
    return (
        number,
        departure.date(),
        departure if flies else None,
        (departure + timedelta(hours=5)).replace(tzinfo=UTC),
        chance.choice(("UA", "DL", "AA", "B6")),
        f"N{chance.randrange(10_000):05d}" if chance.random() > 0.1 else None,
        chance.randrange(-40, 900) if flies else None,
        chance.random() * 3000,
        Decimal(chance.randrange(100_000)).scaleb(-2),
        not flies,
        chance.choice(REMARKS),
        hashlib.md5(str(number).encode()).digest() if flies else None,
    )


def stored(value: Any) -> Any:
    """As it lies in SQLite, which keeps a whole number of a decimal column as an integer."""
    match value:
        case Decimal():
            return int(value) if value == int(value) else float(value)
        case datetime() | date():
            return str(value)
        case _:
            return value


@pytest.fixture(scope="module")
def flights() -> list[Row]:
    chance = random.Random(2013)
    return [flight(number, chance) for number in range(1, ROWS + 1)]


@pytest.fixture(scope="module")
def url(flights: list[Row], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("flights") / "flights.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(SCHEMA)
        marks = ", ".join("?" * len(NAMES))
        connection.executemany(f"INSERT INTO flights VALUES ({marks})", [[*map(stored, row)] for row in flights])
        connection.commit()
    return f"sqlite:///{path}"


def from_csv(path: Path) -> Iterator[list[Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.reader(file, strict=True)


def from_json_lines(path: Path) -> Iterator[list[Any]]:
    with path.open(encoding="utf-8") as file:
        objects = [json.loads(line) for line in file]
    yield [*objects[0]]
    yield from ([*found.values()] for found in objects)


def from_xlsx(path: Path) -> Iterator[list[Any]]:
    names, *found = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()
    yield [name.removesuffix(" (UTC)") for name in names]
    yield from found


def from_parquet(path: Path) -> Iterator[list[Any]]:
    table = pq.read_table(path)
    yield table.column_names
    yield from map(list, zip(*(column.to_pylist() for column in table.columns), strict=True))


def in_csv(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case bytes():
            return b64encode(value).decode()
        case _:
            return str(stored(value))


def in_json(value: Any) -> Any:
    match value:
        case bytes():
            return b64encode(value).decode()
        case _:
            return stored(value)


def in_xlsx(value: Any) -> Any:
    match value:
        case None:
            return ""
        case datetime():
            return value.replace(tzinfo=None)
        case date():
            return value
        case _:
            return in_json(value)


def in_parquet(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("format", "read", "wanted"),
    [
        ("csv", from_csv, in_csv),
        ("jsonl", from_json_lines, in_json),
        ("xlsx", from_xlsx, in_xlsx),
        ("parquet", from_parquet, in_parquet),
    ],
)
async def test_every_cell_is_what_it_was(
    asking: Asking,
    children: Children,
    user: Viewer,
    flights: list[Row],
    format: str,
    read: Callable[[Path], Iterator[list[Any]]],
    wanted: Callable[[Any], Any],
) -> None:
    desk = asking("SELECT * FROM flights ORDER BY id")
    export = await run(desk, children, await claimed(desk, user, "things", format=format))
    assert (export.status, export.rows_done, export.warnings) == (Status.SUCCESS, ROWS, ())
    names, *found = read(path_of(desk, export))
    assert names == NAMES
    assert len(found) == ROWS
    wrong = [
        (row[0], name, cell, wanted(value))
        for row, cells in zip(flights, found, strict=True)
        for name, cell, value in zip(NAMES, cells, row, strict=True)
        if (cell, isinstance(cell, bool)) != (wanted(value), isinstance(wanted(value), bool))
    ]
    assert wrong[:20] == []
