"""JSON Lines, read back by the standard library."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from awkward import CELLS, NASTY_SOURCES, columns, counts, exported, nasty_database, written

from webapp.datasets.columns import Kind


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def read(out) -> list[dict]:
    """Strictly one object a line: NaN is refused, big numbers stay exact."""
    lines = out.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    return [json.loads(line, parse_float=Decimal, parse_constant=pytest.fail) for line in lines]


def values(out, cells, kind="text") -> list:
    written(out, "jsonl", columns(v=kind), [(cell,) for cell in cells])
    return [row["v"] for row in read(out)]


@pytest.mark.parametrize("source", NASTY_SOURCES)
def test_every_nasty_source_has_its_rows(tmp_path, out, source):
    exported(nasty_database(tmp_path), f"SELECT * FROM {source}", out, "jsonl")
    assert len(read(out)) == {"nasty": 8, "twins": 8, "mixed": 5, "empty": 0, "long_cell": 1}[source]


def test_nasty_row_by_row(tmp_path, out):
    exported(nasty_database(tmp_path), "SELECT * FROM nasty", out, "jsonl")
    first, second, third, *_ = read(out)
    assert first == {
        **{"id": 1, "big": 9007199254740993, "code": "004", "name": "王小明", "note": "plain", "amount": 10},
        **{
            "ratio": Decimal("0.1"),
            "flag": True,
            "day": "2024-02-29",
            "at": "2024-03-31 01:30:00+00:00",
            "blob": "AP8=",
        },
    }
    assert (second["big"], second["note"], second["flag"], second["blob"]) == (-(2**63), "", False, None)
    assert (third["note"], third["blob"], third["flag"]) == (None, "", None)


def test_doubled_columns_keep_both(tmp_path, out):
    exported(nasty_database(tmp_path), "SELECT name, name, code AS name FROM nasty WHERE id = 1", out, "jsonl")
    assert read(out) == [{"name": "王小明", "name_2": "王小明", "name_3": "004"}]


def test_what_json_cannot_hold_is_null_and_counted(out):
    rows = [(float("nan"),), (float("inf"),), (1.5,), (Decimal("NaN"),)]
    assert counts(written(out, "jsonl", columns(v="float"), rows)) == {"NOT_FINITE": 3}
    assert [row["v"] for row in read(out)] == [None, None, Decimal("1.5"), None]


def test_integers_keep_every_digit(out):
    assert values(out, [2**63 - 1, -(2**63), 2**64, 10**40], "integer") == [2**63 - 1, -(2**63), 2**64, 10**40]


def test_a_decimal_is_a_string_only_where_a_float_would_lose_digits(out):
    cells = [Decimal("1.10"), Decimal("0.1"), Decimal("12345678901234567.89"), Decimal("1E+3")]
    assert values(out, cells, "decimal") == [Decimal("1.10"), Decimal("0.1"), "12345678901234567.89", 1000]


def test_json_columns_are_embedded_when_they_parse(out):
    cells = [
        '{"a": [1,\n 2.50]}',
        "not json",
        '"text"',
        "",
        "null",
        "NaN",
        '{"a": 12345678901234567890123}',
        "[" * 9000,
    ]
    assert values(out, cells, "json") == [
        *({"a": [1, Decimal("2.50")]}, "not json", "text", "", None, "NaN", {"a": 12345678901234567890123}, "[" * 9000)
    ]


def test_only_zero_and_one_are_booleans(out):
    assert [repr(value) for value in values(out, [1, 0, 2, "yes", None], "boolean")] == [
        *("True", "False", "2", "'yes'", "None")
    ]


def test_a_lone_surrogate_is_replaced_and_counted(out):
    assert counts(written(out, "jsonl", columns(v="text"), [("a\ud800",), ("b",)])) == {"INVALID_TEXT": 1}
    assert read(out) == [{"v": "a\ufffd"}, {"v": "b"}]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_awkward_cell_is_one_line_in_every_kind_of_column(out, kind):
    written(out, "jsonl", columns(a=kind, b="integer"), [(cell, 7) for cell in CELLS])
    assert [row["b"] for row in read(out)] == [7] * len(CELLS)
