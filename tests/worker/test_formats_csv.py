"""CSV: exact bytes, and what Python's own reader makes of them."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import subprocess
import sys
from decimal import Decimal

import pytest
from awkward import CELLS, NASTY_SOURCES, columns, counts, exported, nasty_database, written

from webapp.datasets.columns import Kind
from webapp.domain.formats import PERSON_DEFAULTS, Options

NASTY = """\
id,big,code,name,note,amount,ratio,flag,day,at,blob
1,9007199254740993,004,王小明,plain,10,0.1,true,2024-02-29,2024-03-31 01:30:00+00:00,AP8=
2,-9223372036854775808,0,Zoë 🚀,"",-5,0.0,false,1899-12-31,2024-10-27 02:30:00+02:00,
3,9223372036854775807,1e5,"O'Neil, ""Pat""\",,0.001,1e+308,,9999-12-31,,""
4,999999999999999,=1+1,"line\vbreak",-5,123456789012345680,5e-324,true,1970-01-01,1970-01-01 00:00:00Z,
5,1000000000000000,+49 30 1234,tab\there,@SUM(A1),,,false,,2038-01-19 03:14:08Z,
6,0,  padded  ,control \x0b char,=cmd|' /C calc'!A0,1e-07,3.141592653589793,true,2000-01-01,2016-12-31 23:59:60Z,
7,42,TRUE,\ufeffbom first,NULL,5,0.30000000000000004,true,1900-02-28,2024-01-01 12:00:00.123456+05:30,
8,-1,12-05,𠮷野家 👩‍👩‍👧‍👦,;semi;,-0.5,-1.0,false,1900-03-01,0001-01-01 00:00:00Z,
"""


def expected(text: str) -> bytes:
    """CRLF at the end of each line, a bare line feed inside the one cell that breaks."""
    return text.replace("\n", "\r\n").replace("line\vbreak", "line\nbreak").encode()


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.csv"


def text_of(out, rows, options=None, **kinds) -> str:
    written(out, "csv", columns(**kinds), rows, options)
    return out.read_bytes().decode()


def test_nasty_raw_is_exactly_this(tmp_path, out):
    assert exported(nasty_database(tmp_path), "SELECT * FROM nasty", out, "csv") == ()
    assert out.read_bytes() == expected(NASTY)


def test_nasty_for_people_differs_only_in_bom_and_prefixes(tmp_path, out):
    safe = NASTY
    for text in ("=1+1", "+49 30", "@SUM", "=cmd"):
        safe = safe.replace(f",{text}", f",'{text}")
    safe = safe.replace('break",-5', "break\",'-5")
    exported(nasty_database(tmp_path), "SELECT * FROM nasty", out, "csv", PERSON_DEFAULTS)
    assert out.read_bytes() == b"\xef\xbb\xbf" + expected(safe)


@pytest.mark.parametrize("source", NASTY_SOURCES)
def test_every_nasty_source_has_its_rows(tmp_path, out, source):
    exported(nasty_database(tmp_path), f"SELECT * FROM {source}", out, "csv")
    with out.open(newline="", encoding="utf-8") as file:
        rows = [*csv.reader(file)]
    assert len(rows) == {"nasty": 9, "twins": 9, "mixed": 6, "empty": 1, "long_cell": 2}[source]


def test_mixed_cells_are_written_each_as_what_it_is(tmp_path, out):
    exported(nasty_database(tmp_path), "SELECT * FROM mixed", out, "csv")
    assert out.read_bytes() == b"v\r\n1\r\ntext\r\n2.5\r\n\r\nCg==\r\n"


def test_null_is_an_empty_field_and_empty_text_is_quoted(out):
    assert text_of(out, [(None, "", 1)], a="text", b="text", c="integer") == 'a,b,c\r\n,"",1\r\n'


@pytest.mark.parametrize("kind", ["text", "integer", "float"])
def test_safe_prefixes_text_in_any_column_and_never_a_number(out, kind):
    rows = [("=1",), ("-5",), (-5,), (-0.5,), ("\tx",), ("\rx",), ("x=1",), (Decimal("-1.10"),)]
    text = text_of(out, rows, Options(csv_text="safe"), v=kind)
    assert text == "v\r\n'=1\r\n'-5\r\n-5\r\n-0.5\r\n'\tx\r\n\"'\rx\"\r\nx=1\r\n-1.10\r\n"


def test_a_decimal_that_its_source_gives_as_text_is_a_number(out):
    rows = [("-5",), ("123456789012345678.12",), ("-0.10",), ("-Infinity",), ("NaN",), ("-007",), ("-5;",), ("=1",)]
    text = text_of(out, rows, Options(csv_text="safe"), v="decimal")
    assert text == "v\r\n-5\r\n123456789012345678.12\r\n-0.10\r\n-Infinity\r\nNaN\r\n'-007\r\n'-5;\r\n'=1\r\n"


def test_safe_covers_the_header_too(out):
    written(out, "csv", columns(**{"=1+1": "text", "a,b": "text"}), [], Options(csv_text="safe"))
    assert out.read_bytes() == b'\'=1+1,"a,b"\r\n'


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_only_the_chosen_delimiter_needs_quotes(out, delimiter):
    text = text_of(out, [("a,b", "c;d", "e\tf")], Options(delimiter=delimiter), x="text", y="text", z="text")
    fields = [f'"{field}"' if delimiter in field else field for field in ("a,b", "c;d", "e\tf")]
    assert text.splitlines()[1] == delimiter.join(fields)


def test_nul_is_removed_and_counted(out):
    assert counts(written(out, "csv", columns(v="text"), [("a\0b",), ("\0",), ("c",)])) == {"NUL_REMOVED": 2}
    assert out.read_bytes() == b'v\r\nab\r\n""\r\nc\r\n'


def test_a_lone_surrogate_is_replaced_and_counted(out):
    assert counts(written(out, "csv", columns(v="text"), [("a\ud800",), ("b",)])) == {"INVALID_TEXT": 1}
    assert out.read_bytes().decode() == "v\r\na\ufffd\r\nb\r\n"


def test_only_zero_and_one_are_booleans(out):
    assert text_of(out, [(1,), (0,), (2,), ("yes",), (None,), (True,)], v="boolean").split() == [
        *("v", "true", "false", "2", "yes", "true")
    ]


def test_values_of_python_sources_are_written_as_iso(out):
    row = (
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 1, 2, tzinfo=dt.UTC),
        dt.time(1, 2),
        Decimal("1.10"),
        [1, "é"],
    )
    written(out, "csv", columns(a="date", b="timestamp_tz", c="time", d="decimal", e="list"), [row])
    assert (
        out.read_bytes().decode().splitlines()[1] == '2024-02-29,2024-02-29 01:02:00+00:00,01:02:00,1.10,"[1, ""é""]"'
    )


def test_gzip_holds_the_same_bytes(out):
    text = text_of(out, [("x",)] * 2000, v="text")
    written(out, "csv", columns(v="text"), [("x",)] * 2000, Options(compression="gzip"))
    assert gzip.decompress(out.read_bytes()).decode() == text


@pytest.mark.parametrize("kind", list(Kind))
def test_every_awkward_cell_is_one_field_in_every_kind_of_column(out, kind):
    written(out, "csv", columns(a=kind, b="integer"), [(cell, 7) for cell in CELLS])
    rows = [*csv.reader(io.StringIO(out.read_bytes().decode(), newline=""))]
    assert [row[1] for row in rows[1:]] == ["7"] * len(CELLS)


def test_the_writer_starts_light():
    code = "import sys, worker.formats.csv; print([m for m in ('isal', 'msgspec', 'apsw') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
