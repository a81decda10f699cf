"""Rows that are built a batch at once say the same as rows that are built cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from awkward import FLOATS, INTEGERS, MOMENTS, TEXTS
from hypothesis import given, settings
from hypothesis import strategies as st

from webapp.datasets.columns import Kind
from worker.formats.writer import Tally
from worker.formats.xlsx_batches import rows_at_once
from worker.formats.xlsx_cells import ColumnCells

ZONES = [ZoneInfo(name) for name in ("UTC", "Asia/Kolkata", "Europe/Berlin", "Africa/Monrovia")]
OFFSETS = ["", "Z", "z", "+00:00", "-03:30", "+0530", "+05", "+05:30:15"]

ODD_CLOCKS = ["10", "10:15", "10:15:30", "24:00:00", "1:02"]

days = st.dates(date(1890, 1, 1)).map(date.isoformat)
clocks = st.times().map(lambda clock: clock.isoformat()) | st.sampled_from(ODD_CLOCKS)
moments = st.builds("{}{}{}".format, days, st.sampled_from(["T", " "]), clocks)
plain = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=8)
values = st.one_of(
    st.lists(st.none() | plain),
    st.lists(st.none() | st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=[]), max_size=6)),
    st.lists(st.none() | st.sampled_from(["  a", "b ", "\u00a0c", "d\ne", "<&>", "x\tz", "ordinary"])),
    st.lists(st.none() | st.integers(-(10**16), 10**16)),
    st.lists(st.none() | st.integers(10**15, 10**20)),
    st.lists(st.none() | st.integers(0, 1) | st.booleans()),
    st.lists(st.none() | st.integers(0, 1)),
    st.lists(st.none() | st.booleans()),
    st.lists(st.none() | st.sampled_from(INTEGERS) | st.sampled_from(FLOATS)),
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
    st.lists(st.none() | st.floats() | st.integers(-5, 5)),
    st.lists(st.none() | st.binary(max_size=6)),
    st.lists(st.none() | st.decimals()),
    st.lists(st.none() | st.decimals(-1000, 1000, places=3)),
    st.lists(st.none() | st.decimals(-1000, 1000, places=3).map(str)),
    st.lists(st.none() | st.dates()),
    st.lists(st.none() | st.datetimes()),
    st.lists(st.none() | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))),
    st.lists(st.none() | days),
    st.lists(st.none() | moments),
    st.sampled_from(OFFSETS).flatmap(lambda offset: st.lists(st.none() | moments.map(lambda text: text + offset))),
    st.lists(st.none() | st.sampled_from(MOMENTS)),
)
columns = st.tuples(st.sampled_from(list(Kind)), values.filter(bool))


def cells_of(xml: bytes) -> list[list[tuple]]:
    """For each row its number and its cells: reference, type, style, kept space, and text or number."""
    rows = ElementTree.fromstring(b"<x>" + xml + b"</x>")
    return [[int(row.attrib["r"]), *map(cell_of, row)] for row in rows]


def cell_of(cell: ElementTree.Element) -> tuple:
    sort, style, value = cell.get("t"), cell.get("s"), cell.find("v")
    if value is None:
        (text,) = cell.iter("t")
        return cell.attrib["r"], sort, style, (text.text or "")
    assert value.text
    return cell.attrib["r"], sort, style, float(value.text)


def both(kind: Kind, values: Sequence[Any], zone: ZoneInfo) -> tuple[Any, Any]:
    found = []
    for at_once in (False, True):
        tally = Tally()
        column = ColumnCells("C", kind, zone, tally)
        column.look(values)
        if at_once:
            xml = b"".join(rows_at_once([(value,) for value in values], 7, [column]))
        else:
            bodies = enumerate(column.bodies(values), 7)
            xml = "".join(
                f'<row r="{number}">{body and column.start + str(number) + body}</row>' for number, body in bodies
            ).encode()
        found.append((cells_of(xml), tally.warnings()))
    return found[0], found[1]


@given(columns, st.sampled_from(ZONES))
@settings(max_examples=1500, deadline=None)
def test_a_batch_says_what_its_cells_say(column, zone):
    by_cell, at_once = both(*column, zone)
    assert at_once == by_cell


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("offset", OFFSETS)
def test_moments_around_what_a_calendar_does(zone, offset):
    kind = Kind.TIMESTAMP_TZ if offset else Kind.TIMESTAMP
    texts = [
        f"{text}{offset}"
        for text in (
            "1900-02-28 23:59:59", "1900-03-01T00:00:00", "1969-12-31 23:59:59.999999", "1972-01-07 00:44:29",
            "2024-03-31 00:59:59", "2024-03-31 01:00:00", "2024-10-27 00:30:00",
            "9999-12-31 23:59:59", "0001-01-01 00:00:00",
        )
    ]  # fmt: skip
    for batch in (texts, *([text] for text in texts)):
        by_cell, at_once = both(kind, batch, zone)
        assert at_once == by_cell


def test_rows_follow_each_other_with_their_numbers():
    kinds = {"A": Kind.INTEGER, "B": Kind.TEXT}
    columns = [ColumnCells(letters, kind, ZONES[0], Tally()) for letters, kind in kinds.items()]
    rows = [(1, "a"), (2, None), (3, "c")]
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        column.look(values)
    assert cells_of(b"".join(rows_at_once(rows, 99_999, columns))) == [
        [99_999, ("A99999", None, None, 1.0), ("B99999", "inlineStr", None, "a")],
        [100_000, ("A100000", None, None, 2.0)],
        [100_001, ("A100001", None, None, 3.0), ("B100001", "inlineStr", None, "c")],
    ]


def test_a_large_batch_comes_in_whole_rows(monkeypatch):
    monkeypatch.setattr("worker.formats.xlsx_batches.MOST_BYTES", 200)
    column = ColumnCells("A", Kind.TEXT, ZONES[0], Tally())
    column.look(["one"])
    pieces = [bytes(piece) for piece in rows_at_once([(f"row {number}",) for number in range(10)], 2, [column])]
    assert len(pieces) > 2
    assert [row[0] for piece in pieces for row in cells_of(piece)] == list(range(2, 12))


@pytest.mark.parametrize("sort", [str, Decimal], ids=["text", "decimal"])
def test_numerals_with_few_digits_are_numbers(sort):
    by_cell, at_once = both(Kind.DECIMAL, [*map(sort, ("2.50", "-0.125", "17")), None], ZONES[0])
    assert at_once == by_cell
    assert [row[1][3] for row in at_once[0] if len(row) > 1] == [2.5, -0.125, 17.0]
