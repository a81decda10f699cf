"""Whatever is in the cells: a reader that is not ours gets back what the format promises."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from base64 import b64encode
from decimal import Decimal
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from awkward import FLOATS, INTEGERS, MOMENTS, TEXTS, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from webapp.datasets.columns import Column, Kind, unique_names
from webapp.domain.formats import Options

SURROGATE = re.compile("[\ud800-\udfff]")
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
KINDS = (Kind.TEXT, Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.BYTES, Kind.UUID)
FILES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SHORT_NUMERAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
NUMERAL = re.compile(rf"{SHORT_NUMERAL.pattern}|NaN|-?Infinity")
MACHINE = st.integers(-(2**63), 2**63 - 1)

texts = st.sampled_from(TEXTS + MOMENTS) | st.text(st.characters(exclude_categories=[]), max_size=12)
cells = st.one_of(
    st.none(),
    texts,
    st.sampled_from(INTEGERS) | MACHINE,
    st.sampled_from(FLOATS) | st.floats(allow_nan=False),
    st.binary(max_size=6),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[tuple]]:
    names = draw(st.lists(texts, min_size=1, max_size=4))
    columns = [Column(name, draw(st.sampled_from(KINDS))) for name in unique_names(names)]
    homogeneous = [draw(st.sampled_from([cells, texts, MACHINE, st.floats(allow_nan=False)])) for _ in columns]
    row = st.tuples(*homogeneous, st.just(7))
    return [*columns, Column("last", Kind.INTEGER)], draw(st.lists(row, max_size=8))


def round_trip(format: str, table: tuple[list[Column], list[tuple]], options: Options | None = None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        written(path, format, *table, options, size=3)
        return path.read_bytes()


def clean(text: str) -> str:
    return SURROGATE.sub("\ufffd", text)


def as_csv(value: Any, safe: bool, kind: Kind = Kind.TEXT) -> str:
    match value:
        case str() if kind is Kind.DECIMAL and NUMERAL.fullmatch(value):
            return value
        case None:
            return ""
        case bytes():
            return b64encode(value).decode()
        case str():
            text = clean(value.replace("\0", ""))
            return "'" + text if safe and text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
        case _:
            return repr(value)


def csv_fields(data: str, delimiter: str) -> list[list[tuple[str, bool]]]:
    """RFC 4180 by a reader of our own, for it must tell quoted fields from bare ones: (text, quoted)."""
    field = re.compile(rf'(?:"((?:[^"]|"")*)"|([^"\r\n{re.escape(delimiter)}]*))({re.escape(delimiter)}|\r\n)', re.S)
    rows: list[list[tuple[str, bool]]] = [[]]
    position = 0
    while position < len(data):
        match = field.match(data, position)
        assert match, data[position : position + 80]
        rows[-1].append((match[2], False) if match[1] is None else (match[1].replace('""', '"'), True))
        position = match.end()
        if match[3] == "\r\n":
            rows.append([])
    return rows[:-1]


@FILES
@given(tables(), st.sampled_from([",", ";", "\t"]), st.booleans())
def test_csv(table, delimiter, safe):
    columns, rows = table
    kinds = [column.kind for column in columns]
    options = Options(delimiter=delimiter, csv_text="safe" if safe else "raw")
    data = round_trip("csv", table, options).decode()
    wanted = [[as_csv(c.name, safe) for c in columns], *([*map(as_csv, row, repeat(safe), kinds)] for row in rows)]
    fields = csv_fields(data, delimiter)
    assert [[text for text, _ in line] for line in fields] == wanted
    assert [*csv.reader(io.StringIO(data, newline=""), delimiter=delimiter)] == wanted
    bare = [[not quoted and not text for text, quoted in line] for line in fields[1:]]
    assert bare == [[value is None for value in row] for row in rows]


def is_number(value: Any, kind: Kind) -> bool:
    """Text in a decimal column that is a numeral of few digits is written as the number it is."""
    return kind is Kind.DECIMAL and isinstance(value, str) and len(value) <= 15 and SHORT_NUMERAL.fullmatch(value)


def as_json(value: Any, kind: Kind) -> Any:
    match value:
        case str() if is_number(value, kind):
            return float(value)
        case bytes():
            return b64encode(value).decode()
        case str():
            return clean(value)
        case float() if value in (float("inf"), float("-inf")):
            return None
        case _:
            return value


@FILES
@given(tables())
def test_json_lines(table):
    columns, rows = table
    names, kinds = [clean(column.name) for column in columns], [column.kind for column in columns]
    lines = round_trip("jsonl", table).decode().split("\n")
    read = [[*json.loads(line).items()] for line in lines[:-1]]
    if len({*names}) == len(names):
        assert read == [[*zip(names, map(as_json, row, kinds), strict=True)] for row in rows]
    assert len(read) == len(rows)


def as_cell(value: Any, kind: Kind) -> Any:
    match value:
        case str() if is_number(value, kind):
            return float(value)
        case None:
            return ""
        case bytes():
            return b64encode(value).decode()
        case str():
            return UNFIT.sub("\ufffd", value)
        case float() if value in (float("inf"), float("-inf")):
            return repr(value)
        case int() if abs(value) >= 10**15:
            return str(value)
        case _:
            return value


@FILES
@given(tables())
def test_xlsx(table):
    columns, rows = table
    data = round_trip("xlsx", table)
    book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    header, *found = book.get_sheet_by_index(0).to_python()
    assert [undone(name) for name in header] == [undone(as_cell(column.name, Kind.TEXT)) for column in columns]
    assert [[*map(undone, row)] for row in found] == [
        [undone(as_cell(value, column.kind)) for value, column in zip(row, columns, strict=True)] for row in rows
    ]


def undone(value: Any) -> Any:
    """Readers differ in whether they undo `_x000D_`; the exact escapes have a test of their own."""
    if not isinstance(value, str):
        return value
    return re.sub("_x([0-9A-Fa-f]{4})_", lambda match: chr(int(match[1], 16)), value.replace("_x005F_", "_"))


def as_text(value: Any) -> Any:
    """What a cell is in a column that became text."""
    return None if value is None else as_csv(value, False)


@FILES
@given(tables())
def test_parquet(table):
    columns, rows = table
    read = pq.read_table(io.BytesIO(round_trip("parquet", table)))
    assert read.column_names == [clean(column.name) for column in columns]
    for found, column, values in zip(read.columns, columns, zip(*rows, strict=True), strict=False):
        if str(found.type) == "string":
            wanted = [clean(value) if isinstance(value, str) else as_text(value) for value in values]
        elif column.kind is Kind.DECIMAL:
            wanted = [None if value is None else Decimal(str(value)) for value in values]
        else:
            wanted = [*values]
        assert found.to_pylist() == wanted
        assert str(found.type) != "string" or column.kind in (Kind.TEXT, Kind.UUID) or has_to_be_text(column, values)


def has_to_be_text(column: Column, values: tuple) -> bool:
    """Not because it was easier: some cell does not fit the column's kind."""
    types = {type(value) for value in values} - {type(None)}
    return types != {{Kind.INTEGER: int, Kind.FLOAT: float, Kind.BYTES: bytes}.get(column.kind)}
