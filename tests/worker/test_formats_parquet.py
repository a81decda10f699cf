"""Parquet, read back by pyarrow and by DuckDB."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from awkward import AT, CELLS, NASTY_SOURCES, columns, counts, exported, nasty_database, written

from webapp.datasets.columns import Kind
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options
from worker.formats import parquet, writer_for
from worker.formats.writer import Metadata
from worker.sink import Sink

ROWS = {"nasty": 8, "twins": 8, "mixed": 5, "empty": 0, "long_cell": 1}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.parquet"


@pytest.fixture
def small_groups(monkeypatch):
    """Row groups of ten rows."""
    monkeypatch.setattr(parquet, "GROUP_ROWS", 10)


@pytest.fixture
def full():
    """A file on a disk without room."""
    with Path("/dev/full").open("wb", buffering=0) as file:
        yield file


def by_duckdb(out) -> list[tuple]:
    with closing(duckdb.connect()) as connection:
        return connection.execute(f"SELECT * FROM read_parquet('{out}')").fetchall()


def by_arrow(out) -> list[tuple]:
    table = pq.read_table(out)
    return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]


def types(out) -> list[str]:
    return [str(field.type) for field in pq.read_schema(out)]


def cells(out, values, kind="text") -> list:
    """What pyarrow reads back of one column; DuckDB has to agree."""
    written(out, "parquet", columns(v=kind), [(value,) for value in values])
    read = [row[0] for row in by_arrow(out)]
    assert [row[0] for row in by_duckdb(out)] == read
    return read


@pytest.mark.parametrize("source", NASTY_SOURCES)
def test_every_nasty_source_has_its_rows_for_both_readers(tmp_path, out, source):
    exported(nasty_database(tmp_path), f"SELECT * FROM {source}", out, "parquet")
    assert len(by_arrow(out)) == len(by_duckdb(out)) == pq.read_metadata(out).num_rows == ROWS[source]


def test_nasty_has_its_types_and_values(tmp_path, out):
    warnings = exported(nasty_database(tmp_path), "SELECT * FROM nasty", out, "parquet")
    assert types(out) == [
        *("int64", "int64", "string", "string", "string", "decimal128(38, 7)", "double", "bool", "date32[day]"),
        *("string", "binary"),
    ]
    assert counts(warnings) == {"COLUMN_AS_TEXT": 1}  # `at` has a leap second
    first, second, third, *_ = by_arrow(out)
    assert first == (
        *(1, 9007199254740993, "004", "王小明", "plain", Decimal(10), 0.1, True, date(2024, 2, 29)),
        *("2024-03-31 01:30:00+00:00", b"\x00\xff"),
    )
    assert (second[1], second[4], second[7], second[8], second[10]) == (-(2**63), "", False, date(1899, 12, 31), None)
    assert (third[4], third[10]) == (None, b"")
    assert by_duckdb(out)[3][3:5] == ("line\nbreak", "-5")


def test_a_result_without_rows_has_the_types_of_its_kinds(tmp_path, out):
    exported(nasty_database(tmp_path), "SELECT * FROM empty", out, "parquet")
    assert types(out) == [
        *("int64", "int64", "string", "string", "string", "decimal128(38, 0)", "double", "bool", "date32[day]"),
        *("timestamp[us]", "binary"),
    ]


def test_mixed_cells_are_text_with_a_warning(tmp_path, out):
    assert counts(exported(nasty_database(tmp_path), "SELECT * FROM mixed", out, "parquet")) == {"COLUMN_AS_TEXT": 1}
    assert by_arrow(out) == [("1",), ("text",), ("2.5",), (None,), ("Cg==",)]


@pytest.mark.parametrize(
    ("kind", "values", "read", "type"),
    [
        ("integer", [1, None, -(2**63)], [1, None, -(2**63)], "int64"),
        ("integer", [1, 2**63], ["1", str(2**63)], "string"),
        ("integer", [1, "004"], ["1", "004"], "string"),
        ("integer", [1, 2.5], ["1", "2.5"], "string"),
        ("float", [0.1, float("inf"), 5e-324], [0.1, float("inf"), 5e-324], "double"),
        ("float", [1.5, 2], [1.5, 2.0], "double"),
        ("float", [1.5, 2**53 + 1], ["1.5", "9007199254740993"], "string"),
        ("float", [1.5, "nan"], ["1.5", "nan"], "string"),
        ("boolean", [1, 0, None], [True, False, None], "bool"),
        ("boolean", [True, False], [True, False], "bool"),
        ("boolean", [1, 0, 2], ["true", "false", "2"], "string"),
        ("boolean", [1, "yes"], ["true", "yes"], "string"),
        ("date", ["2024-02-29", None], [date(2024, 2, 29), None], "date32[day]"),
        ("date", [date(2024, 2, 29)], [date(2024, 2, 29)], "date32[day]"),
        ("date", ["2024-02-29", "2023-02-29"], ["2024-02-29", "2023-02-29"], "string"),
        ("time", ["12:30", "12:30:15.25"], [time(12, 30), time(12, 30, 15, 250000)], "time64[us]"),
        ("time", ["12:30", "24:00:00"], ["12:30", "24:00:00"], "string"),
        ("time", [time(1, 2, 3)], [time(1, 2, 3)], "time64[us]"),
        ("timestamp", ["2024-03-31T01:30:00.5"], [datetime(2024, 3, 31, 1, 30, 0, 500000)], "timestamp[us]"),
        ("timestamp", [datetime(2024, 3, 31, 1, 30)], [datetime(2024, 3, 31, 1, 30)], "timestamp[us]"),
        ("timestamp", ["2024-03-31 01:30", "infinity"], ["2024-03-31 01:30", "infinity"], "string"),
        ("timestamp", ["0044-03-15 00:00:00 BC"], ["0044-03-15 00:00:00 BC"], "string"),
        ("timestamp", ["10000-01-01 00:00:00"], ["10000-01-01 00:00:00"], "string"),
        ("timestamp", [1700000000], ["1700000000"], "string"),
        ("timestamp", ["2024-01-01 00:00:00Z", "2024-01-01 00:00:00"], None, "string"),
        ("timestamp_tz", ["9999-12-31 23:59:59-12:00"], ["9999-12-31 23:59:59-12:00"], "string"),
        ("bytes", [b"", b"\x00\xff"], [b"", b"\x00\xff"], "binary"),
        ("bytes", [b"\x00\xff", "text"], ["AP8=", "text"], "string"),
        ("json", ['{"a": 1}', 5, [1, None]], ['{"a": 1}', "5", "[1, null]"], "string"),
        ("text", [1, 2], [1, 2], "int64"),
        ("text", [1, 2.5], [1.0, 2.5], "double"),
        ("text", [None, None], [None, None], "string"),
        ("decimal", [10, 0.001, None, 1e-7], None, "decimal128(38, 7)"),
        ("decimal", [Decimal("1.10"), Decimal("1E+3")], [Decimal("1.10"), Decimal("1000.00")], "decimal128(38, 2)"),
        ("decimal", ["1.10", "-12345678901234567890.5"], None, "decimal128(38, 2)"),
        ("decimal", ["1.10", "004"], ["1.10", "004"], "string"),
        ("decimal", [Decimal("NaN"), Decimal("1.0")], ["NaN", "1.0"], "string"),
        ("decimal", [10**37, Decimal("0.01")], [str(10**37), "0.01"], "string"),
        ("decimal", [2.4033143575625885e42, 1], ["2.4033143575625885e+42", "1"], "string"),
        ("decimal", [-(10**40)], [str(-(10**40))], "string"),
        ("decimal", [10**38 - 1, -(10**38) + 1], [Decimal(10**38 - 1), Decimal(-(10**38) + 1)], "decimal128(38, 0)"),
        ("decimal", ["0." + "0" * 36 + "1"], [Decimal("1e-37")], "decimal128(38, 37)"),
        ("decimal", [5e-324], ["5e-324"], "string"),
        ("decimal", [b"\x00\x01"], ["AAE="], "string"),
        ("decimal", [b"\xd7m\xf8", 1], ["1234", "1"], "string"),
    ],
)
def test_kinds_and_the_cells_that_fit_them(out, kind, values, read, type):
    found = cells(out, values, kind)
    assert types(out) == [type]
    expected = read or [
        value if value is None or type == "string" else Decimal(repr(value) if isinstance(value, float) else value)
        for value in values
    ]
    assert [*map(repr, found)] == [*map(repr, expected)] or found == expected


def test_a_zoned_time_is_the_instant(out):
    given = ["2024-10-27 02:30:00+02:00", "2024-01-01 12:00:00.123456+0530", "2024-01-01 00:00:00Z", "2024-01-01 00+00"]
    written(out, "parquet", columns(a="timestamp_tz", b="timestamp"), [(text, text) for text in given])
    assert types(out) == ["timestamp[us, tz=UTC]"] * 2
    table = pq.read_table(out).cast(pa.schema([("a", pa.string()), ("b", pa.string())]))
    assert table.column(0).to_pylist() == table.column(1).to_pylist()
    assert table.column(0).to_pylist() == [
        *("2024-10-27 00:30:00.000000Z", "2024-01-01 06:30:00.123456Z"),
        *("2024-01-01 00:00:00.000000Z", "2024-01-01 00:00:00.000000Z"),
    ]


PLAIN = {
    "integer": ([*range(25)], [*map(str, range(25))]),
    "float": ([0.1, 1e16, 5.0] * 8, ["0.1", "1e+16", "5.0"] * 8),
    "boolean": ([1, 0, None] * 8, ["true", "false", None] * 8),
    "date": (["2024-02-29"] * 25, ["2024-02-29"] * 25),
    "time": (["12:30", "12:30:00.50"] * 12, ["12:30", "12:30:00.50"] * 12),
    "timestamp": (["2024-01-01T10:00", "2024-01-01 10:00:00"] * 12, ["2024-01-01T10:00", "2024-01-01 10:00:00"] * 12),
    "timestamp_tz": (["2024-01-01 10:00:00+02"] * 24, ["2024-01-01 10:00:00+02"] * 24),
    "decimal": ([1, 2.5, Decimal("1.10")] * 8, ["1", "2.5", "1.10"] * 8),
    "bytes": ([b"\x00\xff"] * 24, ["AP8="] * 24),
    "text": ([*range(25)], [*map(str, range(25))]),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_widening_after_row_groups_were_written_gives_the_texts_of_the_source(out, small_groups, kind):
    given, texts = PLAIN[kind]
    rows = [(number, value, "x") for number, value in enumerate([*given, "late", *given])]
    warnings = written(out, "parquet", columns(n="integer", v=kind, t="text"), rows, size=7)
    assert counts(warnings) == {"COLUMN_AS_TEXT": 1}
    wanted = [(number, value, "x") for number, value in enumerate([*texts, "late", *texts])]
    assert by_arrow(out) == by_duckdb(out) == wanted
    assert pq.read_metadata(out).num_row_groups > 4
    assert os.listdir(out.parent) == ["out.parquet"]


def test_several_columns_widen_at_different_times(out, small_groups):
    rows = [
        ("x" if n == 35 else n, "x" if n == 75 else n, n * 0.5, None if n < 50 else "2024-02-29") for n in range(90)
    ]
    kinds = columns(a="integer", b="integer", c="float", d="date")
    assert counts(written(out, "parquet", kinds, rows)) == {"COLUMN_AS_TEXT": 2}
    assert by_arrow(out) == [(str(a), str(b), c, d if d is None else date.fromisoformat(d)) for a, b, c, d in rows]


def test_a_decimal_gets_more_places_and_stays_a_number(out, small_groups):
    given = [Decimal("1.5")] * 25 + [Decimal("0.0001")] * 25
    assert counts(written(out, "parquet", columns(v="decimal"), [(value,) for value in given])) == {}
    assert types(out) == ["decimal128(38, 4)"]
    assert [row[0] for row in by_arrow(out)] == given


def test_a_decimal_without_room_for_more_places_is_text(out, small_groups):
    given = [Decimal(10**36)] * 25 + [Decimal("0.0001")]
    assert counts(written(out, "parquet", columns(v="decimal"), [(value,) for value in given])) == {"COLUMN_AS_TEXT": 1}
    assert [row[0] for row in by_arrow(out)] == [*map(str, given)]


def test_cells_that_come_after_nulls_decide(out, small_groups):
    given = [None] * 25 + [7] * 25
    written(out, "parquet", columns(v="text"), [(value,) for value in given])
    assert (types(out), [row[0] for row in by_arrow(out)]) == (["int64"], given)


def test_the_file_says_what_it_is(out):
    written(out, "parquet", columns(v="integer"), [(1,), (2,)], title="Örders", parameters={"since": date(2026, 1, 1)})
    found = {key.decode(): value.decode() for key, value in pq.read_metadata(out).metadata.items()}
    assert json.loads(found["parameters"]) == {"since": "2026-01-01"}
    assert (found["dataset"], found["title"], found["created_at"], found["rows"]) == (
        *("awkward", "Örders", AT.isoformat()),
        "2",
    )
    assert pq.ParquetFile(out).metadata.row_group(0).column(0).compression == "ZSTD"


def test_row_groups_have_128_k_rows_and_end_earlier_when_they_grow_large(out, monkeypatch):
    written(out, "parquet", columns(v="integer"), [(n,) for n in range(131_073)])
    assert [pq.read_metadata(out).row_group(n).num_rows for n in range(2)] == [131_072, 1]
    monkeypatch.setattr(parquet, "GROUP_BYTES", 1000)
    written(out, "parquet", columns(v="text"), [("x" * 600,) for _ in range(10)], size=1)
    assert pq.read_metadata(out).num_row_groups == 5


def test_a_lone_surrogate_is_replaced_and_counted(out):
    assert counts(written(out, "parquet", columns(v="text"), [("a\ud800",), ("b",)])) == {"INVALID_TEXT": 1}
    assert by_arrow(out) == [("a\ufffd",), ("b",)]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_awkward_cell_is_there_in_every_kind_of_column(out, kind):
    written(out, "parquet", columns(a=kind, b="integer"), [(cell, 7) for cell in CELLS])
    assert [row[1] for row in by_arrow(out)] == [row[1] for row in by_duckdb(out)] == [7] * len(CELLS)


def opened(sink: Sink, kind: str):
    writer = writer_for("parquet")
    writer.open(columns(v=kind), Options(), sink, Metadata("d", "t", AT))
    return writer


def write_all(writer, batches) -> None:
    for batch in batches:
        writer.write(batch)
    writer.close()


def test_what_the_sink_refuses_comes_out_of_the_writer(out, small_groups):
    sink = Sink(out, max_bytes=100)
    writer = opened(sink, "text")
    with pytest.raises(AttemptFailed) as caught:
        write_all(writer, [[(f"{n}" * 50,)] * 10 for n in range(100)])
    assert caught.value.code is ErrorCode.TOO_LARGE
    writer.abort()
    sink.abort()
    assert os.listdir(out.parent) == []


def test_aborting_in_the_middle_of_a_second_pass_leaves_no_file(out, small_groups):
    sink = Sink(out)
    writer = opened(sink, "timestamp")
    for value in ("2024-01-01 10:00", "late", "2024-01-01 10:00"):
        writer.write([(value,)] * 30)
    writer.abort()
    writer.abort()
    sink.abort()
    assert os.listdir(out.parent) == []


def test_aborting_before_opening_is_nothing():
    writer_for("parquet").abort()


def test_a_disk_that_fills_under_the_originals_says_so(out, small_groups, full, monkeypatch):
    monkeypatch.setattr(Sink, "scratch", lambda self: full)
    sink = Sink(out)
    writer = opened(sink, "timestamp")
    with pytest.raises(AttemptFailed) as caught:
        write_all(writer, [[("2024-01-01 10:00",)] * 10] * 3)
    assert caught.value.code is ErrorCode.DISK_FULL
    writer.abort()
    sink.abort()
