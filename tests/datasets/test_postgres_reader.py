"""PostgreSQL sources: what is read and asked for, and what a URL may say."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from answers import failure, rows
from servers import own_database

from webapp.datasets.columns import Kind
from webapp.datasets.readers.statement import filled, single_statement
from webapp.datasets.reading import BadUrl
from webapp.datasets.sources import describe, normalized, open_rows
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options
from worker.formats.csv import CsvWriter
from worker.formats.writer import Metadata

pytestmark = pytest.mark.postgres

SCHEMA = r"""
CREATE TYPE mood AS ENUM ('sad', '=glad');
CREATE DOMAIN price AS numeric(12, 2);
CREATE TABLE nasty (
  id int PRIMARY KEY, big bigint, code text, name varchar(80), note text, amount numeric, ratio float8, flag boolean,
  day date, at timestamptz, blob bytea, moment timestamp, clock time, zoned_clock timetz, tags text[], numbers int[],
  doc jsonb, raw json, ident uuid, span interval, padded char(6), mood mood, moods mood[], cost price, small real);
INSERT INTO nasty VALUES
 (1, 9007199254740993, '004', '王小明', 'plain', 10.00, 0.1, true, '2024-02-29', '2024-03-31 01:30:00+00', '\x00ff',
  '2024-03-31 01:30:00', '01:30', '01:30+02', '{a,"b,c",NULL}', '{1,2}', '{"b": 1.10, "a": "x"}', E'{"k":\n 1}',
  '6f9619ff-8b86-d011-b42d-00cf4fc964ff', '1 day -2 hours', 'ab', 'sad', '{sad,=glad}', 1.5, 0.1),
 (2, -9223372036854775808, '0', 'Zoë 🚀', '', -5, '-0', false, '1899-12-31', '2024-10-27 02:30:00+02', NULL,
  'infinity', '23:59:59.999999', NULL, '{}', NULL, 'null', '-5', NULL, '-1 day', '-x', '=glad', '{}', -1.5, 'NaN'),
 (3, 9223372036854775807, '1e5', 'O''Neil, "Pat"', NULL, 0.001, 1e308, NULL, '9999-12-31', NULL, '',
  '-infinity', NULL, NULL, NULL, '{{1,2},{3,4}}', '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (4, 999999999999999, '=1+1', E'line\nbreak', '-5', 123456789012345678.12, 5e-324, true, '1970-01-01',
  '1970-01-01 00:00:00Z', decode(repeat('ab', 300), 'hex'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL),
 (5, 1000000000000000, '+49 30 1234', E'tab\there', '@SUM(A1)', NULL, NULL, false, NULL, '2038-01-19 03:14:08Z', NULL,
  NULL, NULL, NULL, NULL, NULL, '"=x"', NULL, NULL, NULL, '', NULL, NULL, NULL, NULL),
 (6, 0, '  padded  ', E'control \x0b char', '=cmd|'' /C calc''!A0', 1e-7, pi(), true, '2000-01-01',
  '2016-12-31 23:59:60Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (7, 42, 'TRUE', U&'\FEFFbom first', 'NULL', 'NaN', 'Infinity', true, '0044-03-15 BC', 'infinity', NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (8, -1, '12-05', '𠮷野家 👩‍👩‍👧‍👦', ';semi;', '-Infinity', '-Infinity', false, '-infinity', '-infinity', NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (9, NULL, '\.', E'\r', E'\t', 0, 0, NULL, 'infinity', '0044-03-15 00:00:00+00 BC', NULL,
  '2024-01-01 12:00:00.123456', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (10, NULL, E'a\r\nb', '"', E'\t=1', NULL, 1e22, NULL, '12024-01-01', '2024-01-01 12:00:00.123456+05:30', NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE many AS SELECT i AS id, 'row ' || i AS label FROM generate_series(1, 3000) i;
ANALYZE many;
"""
KINDS = {
    **{"id": "integer", "big": "integer", "code": "text", "name": "text", "note": "text", "amount": "decimal"},
    **{"ratio": "float", "flag": "boolean", "day": "date", "at": "timestamp_tz", "blob": "bytes"},
    **{"moment": "timestamp", "clock": "time", "zoned_clock": "time", "tags": "list", "numbers": "list"},
    **{"doc": "json", "raw": "json", "ident": "uuid", "span": "text", "padded": "text", "mood": "text"},
    **{"moods": "list", "cost": "decimal", "small": "float"},
}


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    """A database of our own with the nasty table."""
    with own_database("postgres", postgres) as server:
        server.run(SCHEMA)
        yield server.url


class Memory:
    """A sink."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data


def csv_both_ways(url: str, sql: str, options: Options, **params: Any) -> tuple[list[list[str]], list[list[str]]]:
    """Parsed: as the server writes it, and as our writer does from rows."""
    texts: list[str] = []
    for raw in (True, False):
        with open_rows(url, sql, params) as reader:
            writer, sink = CsvWriter(), Memory()
            writer.open(reader.columns, options, sink, Metadata("d", "D", None))  # type: ignore[arg-type]
            if raw:
                lines = reader.raw_csv(options)
                assert lines is not None
                for data, _ in lines:
                    writer.write_lines(data)
            else:
                for batch in reader.batches():
                    writer.write(batch)
            texts.append(sink.data.decode())
    server, ours = (csv_rows(text, options) for text in texts)
    return server, ours


def csv_rows(text: str, options: Options) -> list[list[str]]:
    assert text.endswith("\r\n")
    return [*csv.reader(io.StringIO(text, newline=""), delimiter=options.delimiter, strict=True)]


def test_columns_have_kinds_also_without_rows(url: str) -> None:
    columns = describe(url, "SELECT * FROM nasty WHERE false;  -- none", {})
    assert {column.name: column.kind.value for column in columns} == KINDS
    assert rows(url, "SELECT * FROM nasty WHERE false") == []


def test_doubled_names_are_told_apart(url: str) -> None:
    columns = describe(url, "SELECT id, name, code AS name, at, at FROM nasty", {})
    assert [column.name for column in columns] == ["id", "name", "name_2", "at", "at_2"]
    assert len(rows(url, "SELECT id, name, code AS name, at, at FROM nasty")) == 10


def test_cells_are_what_the_table_says(url: str) -> None:
    first, second, third = rows(url, "SELECT * FROM nasty ORDER BY id")[:3]
    assert first == (
        *(1, 9007199254740993, "004", "王小明", "plain", "10.00", 0.1, True, "2024-02-29"),
        *("2024-03-31 01:30:00+00:00", b"\x00\xff", "2024-03-31 01:30:00", "01:30:00", "01:30:00+02"),
        *('["a","b,c",null]', "[1,2]", '{"a": "x", "b": 1.10}', '{"k":\n 1}'),
        *("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "1 day -02:00:00", "ab    ", "sad", '["sad","=glad"]', "1.50", 0.1),
    )
    assert second[9] == "2024-10-27 00:30:00+00:00"
    assert second[11] == "infinity"
    assert (third[10], third[15]) == (b"", "[[1,2],[3,4]]")


def test_infinity_and_years_before_christ_are_texts(url: str) -> None:
    found = rows(url, "SELECT day, at, amount::text FROM nasty WHERE id IN (7, 8, 9) ORDER BY id")
    assert found == [
        ("0044-03-15 BC", "infinity", "NaN"),
        ("-infinity", "-infinity", "-Infinity"),
        ("infinity", "0044-03-15 00:00:00+00 BC", "0"),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("csv_text", ["raw", "safe"])
def test_the_servers_csv_holds_the_same_values_as_ours(url: str, csv_text: str, delimiter: str) -> None:
    options = Options(csv_text=csv_text, delimiter=delimiter, bom=True)
    server, ours = csv_both_ways(url, "SELECT * FROM nasty ORDER BY id", options)
    floats = {list(KINDS).index(name) for name in ("ratio", "small")}
    assert len(server) == len(ours) == 11
    for theirs, mine in zip(server, ours, strict=True):
        for n, (a, b) in enumerate(zip(theirs, mine, strict=True)):
            same = a == b or (n in floats and repr(float(a)) == repr(float(b)))
            assert same, (list(KINDS)[n], a, b)


def test_the_servers_csv_tells_null_from_empty_text_and_ends_lines_with_crlf(url: str) -> None:
    sql = r"SELECT * FROM (VALUES (1, NULL, ''), (2, E'a\nb', 'c'), (3, '\.', E'\r\n')) v(a, b, c) ORDER BY 1"
    with open_rows(url, sql, {}) as reader:
        chunks = [*(reader.raw_csv(Options()) or ())]
    assert b"".join(data for data, _ in chunks) in (
        b'1,,""\r\n2,"a\nb",c\r\n3,\\.,"\r\n"\r\n',
        b'1,,""\r\n2,"a\nb",c\r\n3,"\\.","\r\n"\r\n',
    )
    assert sum(count for _, count in chunks) == 3


@pytest.mark.parametrize("sql", ["SELECT label FROM many", "SELECT NULL FROM many", "SELECT id FROM many WHERE false"])
def test_rows_of_the_servers_csv_are_counted(url: str, sql: str) -> None:
    with open_rows(url, sql, {}) as reader:
        chunks = [*(reader.raw_csv(Options()) or ())]
    assert (
        sum(data.count(b"\r\n") for data, _ in chunks) == sum(n for _, n in chunks) == (0 if "false" in sql else 3000)
    )


OPTIONAL = "SELECT id FROM many WHERE (:origin IS NULL OR label = :origin) AND id <= coalesce(:most, id) ORDER BY id"


def test_parameters_may_be_left_out_of_the_servers_csv(url: str) -> None:
    for options in (Options(), Options(csv_text="safe")):
        server, ours = csv_both_ways(url, OPTIONAL, options, origin="row 7", most=None)
        assert server == ours == [["id"], ["7"]]


def test_parameters_of_every_type(url: str) -> None:
    sql = """SELECT :text, :number + 1, :ratio::float8, :day::date, :at::timestamptz, :flag::boolean, :other::boolean,
                    - :number, :number - :number,
                    (SELECT string_agg(x, '|') FROM jsonb_array_elements_text(:list) x)"""
    given = {"text": r"O'Neil \ %s :x; --", "number": -5, "ratio": 1e-07, "day": "2024-02-29", "flag": 1, "other": True}
    found = rows(url, sql, **given, at="2024-02-29T12:00:00Z", list='["a", "ü\'"]')
    assert found == [
        (r"O'Neil \ %s :x; --", -4, 1e-07, "2024-02-29", "2024-02-29 12:00:00+00:00", True, True, 5, 0, "a|ü'")
    ]
    assert rows(url, "SELECT :least", least=-(2**63)) == [(-(2**63),)]


def test_what_only_looks_like_a_parameter_is_left_alone(url: str) -> None:
    sql = """SELECT ':x' AS ":y", '1'::int, 5 % 3, 'a%sb%%' -- :z it's
             , /* :w */ count(*) FROM many WHERE label LIKE '%row%' AND id <= :n;"""
    assert describe(url, sql, {"n": 4})[0].name == ":y"
    assert rows(url, sql, n=4) == [(":x", 1, 2, "a%sb%%", 4)]


def test_a_statement_is_cut_at_its_end_only() -> None:
    assert single_statement("SELECT ';' ;; -- x;\n") == "SELECT ';'"
    assert filled("a::int, ':b', :b", {"b": 1}, str) == "a::int, ':b',  1 "
    for several in ("SELECT 1; SELECT 2", "", " -- x", ";"):
        with pytest.raises(AttemptFailed) as caught:
            single_statement(several)
        assert caught.value.code is ErrorCode.QUERY_ERROR


def test_an_estimate_of_a_join_is_the_planners(url: str) -> None:
    with open_rows(url, "SELECT * FROM many, (SELECT raw FROM nasty LIMIT 1) r", {}) as reader:
        assert reader.estimate() == 3000


def test_a_value_that_the_server_cannot_take_is_a_bad_parameter(url: str) -> None:
    for sql, value in (
        ("SELECT :x::date", "2024-02-30"),
        ("SELECT :x::int2", 70000),
        ("SELECT jsonb_array_elements_text(:x)", "{nonsense"),
        ("SELECT :x::text", "a\0b"),
        ("SELECT :x::text", "\ud800"),
    ):
        assert failure(url, sql, x=value).code is ErrorCode.BAD_PARAMETER


def test_texts_of_a_server_that_does_not_check_them(postgres: str) -> None:
    name = f"reader_{uuid.uuid4().hex[:12]}"
    address = urlsplit(postgres)._replace(path=f"/{name}").geturl()
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'".encode())
        try:
            with open_rows(address, r"SELECT convert_from('\x61ff62'::bytea, 'SQL_ASCII') AS t", {}) as reader:
                assert reader.raw_csv(Options()) is None
                assert [*reader.batches()] == [[("a\ufffdb",)]]
                assert reader.invalid_text == 1
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///db",
        "postgresql://host",
        "postgresql://user:s3cret@host:port/db",
        "postgresql://user:s3#cret@host/db",
        "postgresql://user:s3cret@host/db?options=-cfsync%3Doff",
        "postgresql://user:s3cret@host/db?passfile=/etc/passwd",
        "postgresql://user:s3%cret@host/db",
        "mysql://user:s3cret@host",
        "mysql://user:s3cret@host/db?read_default_file=/etc/my.cnf",
        "mysql://user:s3cret@/db",
    ],
)
def test_a_url_that_cannot_be_one_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        normalized(url, Path("/srv"))
    assert "s3" not in str(caught.value).replace("#", "")


def test_urls_stay_as_they_are() -> None:
    for url in (
        *("postgres://u:p%23@h/d", "postgresql://u@h:5432/d?sslmode=verify-full&connect_timeout=3"),
        *("mysql://u:p%40@h/d", "mariadb://u:p@[::1]:3307/d?ssl_ca=/etc/ca.pem"),
    ):
        assert normalized(url, Path("/srv")) == url


def test_kinds_are_kinds() -> None:
    assert set(KINDS.values()) == {kind.value for kind in Kind}
