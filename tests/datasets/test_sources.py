"""SQLite sources: what is read, and what is refused."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import date

import apsw
import pytest
from answers import failure, rows

from webapp.datasets.columns import Column, Kind
from webapp.datasets.readers.sqlite import path_of
from webapp.datasets.readers.sqlite_query import kind_of
from webapp.datasets.sources import describe, open_rows
from webapp.domain.errors import ErrorCode

SCHEMA = """
CREATE TABLE stations (id INTEGER PRIMARY KEY, name TEXT, price DECIMAL(8, 2), open BOOLEAN, since DATE,
                       seen TIMESTAMP);
INSERT INTO stations VALUES (1, 'Zoë', 1.5, 1, '2024-02-29', NULL), (2, '王', NULL, 0, NULL, '2024-01-01 10:00:00');
CREATE VIEW busy AS SELECT id AS number, open, price * 2 AS twice FROM stations;
CREATE TABLE broken (id INTEGER, name TEXT);
"""


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "odd ?#%41 name.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO broken VALUES (?, CAST(? AS TEXT))",
            [(n, b"ok" if n % 1000 else b"bad \xff\xfe!") for n in range(1, 3001)],
        )
        connection.commit()
    return path


@pytest.fixture
def url(database):
    return f"sqlite:///{database}"


def test_columns_have_kinds_from_declared_types_also_without_rows(url):
    expected = [*zip(("id", "name", "price"), (Kind.INTEGER, Kind.TEXT, Kind.DECIMAL), strict=True)]
    sql = "SELECT id, name, price, open, since, seen, id + 1 FROM stations WHERE 0;"
    columns = describe(url, sql, {})
    assert columns[:3] == tuple(Column(name, kind) for name, kind in expected)
    assert [column.kind for column in columns[3:]] == [Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.TEXT]
    assert rows(url, sql) == []


def test_views_and_subqueries_keep_declared_types(url):
    assert [c.kind for c in describe(url, "SELECT * FROM (SELECT * FROM busy)", {})] == [
        *(Kind.INTEGER, Kind.BOOLEAN, Kind.TEXT)
    ]


def test_doubled_names_are_told_apart(url):
    assert [c.name for c in describe(url, "SELECT id, name, name FROM stations", {})] == ["id", "name", "name_2"]


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        *((None, "text"), ("", "text"), ("BOOL", "boolean"), ("boolean", "boolean"), ("BIGINT UNSIGNED", "integer")),
        *(("DATETIME", "timestamp"), ("TIMESTAMP WITHOUT TIME ZONE", "timestamp"), ("timestamptz", "timestamp_tz")),
        *(("TIMESTAMP  WITH TIME ZONE", "timestamp_tz"), ("DATE", "date"), ("TIME", "time"), ("NUMERIC", "decimal")),
        *(("DECIMAL(10,2)", "decimal"), ("DOUBLE PRECISION", "float"), ("FLOAT", "float"), ("REAL", "float")),
        *(("BLOB", "bytes"), ("JSONB", "json"), ("UUID", "uuid"), ("VARCHAR(20)", "text"), ("CLOB", "text")),
    ],
)
def test_kinds_of_declared_types(declared, kind):
    assert kind_of(declared) == kind


def test_parameters_missing_ones_are_null_and_unused_ones_ignored(url):
    assert rows(url, "SELECT :a, :b, @c", a=1, c=date(2024, 2, 29), d=[object()]) == [(1, None, "2024-02-29")]
    assert rows(url, "SELECT value FROM json_each(:ids)", ids=[3, "x"]) == [(3,), ("x",)]
    assert failure(url, "SELECT :a", a=2**63).code is ErrorCode.BAD_PARAMETER
    assert failure(url, "SELECT :a", a="\ud800").code is ErrorCode.BAD_PARAMETER


@pytest.mark.parametrize(
    "sql", ["SELECT 1;", "SELECT 1 ; -- done", "SELECT 1 -- a;", "-- first\nSELECT 1;;", "VALUES (1)"]
)
def test_semicolons_and_comments_may_follow(url, sql):
    assert rows(url, sql) == [(1,)]
    with open_rows(url, sql, {}) as reader:
        assert reader.count(5) == 1


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT typo FROM stations", "no such column: typo"),
        ("SELECT * FROM gone", "no such table: gone"),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT 1; SELECT 2", "only one statement is allowed"),
        ("SELECT 1; DELETE FROM stations", "not authorized"),
        ("-- nothing", "there is no query"),
        ("SELECT ?", "parameters must have names, such as :since"),
        ("EXPLAIN SELECT 1", "EXPLAIN gives no data"),
        ("DELETE FROM stations", "not authorized"),
        ("INSERT INTO stations (id) VALUES (9) RETURNING id", "not authorized"),
        ("ATTACH 'x.db' AS x", "not authorized"),
        ("PRAGMA query_only = 0", "not authorized"),
        ("CREATE TEMP TABLE t (x)", "not authorized"),
        ("COMMIT", "not authorized"),
        ("VACUUM INTO 'x.db'", "the statement gives no rows"),
        ("SELECT load_extension('x')", "not authorized to use function: load_extension"),
        ("SELECT abs(-9223372036854775808)", "integer overflow"),
    ],
)
def test_what_is_refused_is_a_query_error_in_a_short_sentence(url, database, sql, words):
    before = database.read_bytes()
    error = failure(url, sql)
    assert error.code is ErrorCode.QUERY_ERROR
    assert words in error.details["detail"]
    assert database.read_bytes() == before


def test_a_source_that_cannot_be_opened_is_unreachable(tmp_path):
    text = tmp_path / "text.db"
    text.write_text("not a database at all, but long enough to be read as one" * 20)
    for url in (
        f"sqlite:///{text}",
        f"sqlite:///{tmp_path}/gone.db",
        f"sqlite:///{tmp_path}",
        "sqlite:///",
        "mysql://x",
    ):
        assert failure(url, "SELECT 1").code is ErrorCode.SOURCE_UNREACHABLE
    assert not (tmp_path / "gone.db").exists()


def test_a_locked_source_is_unreachable(url, database, monkeypatch):
    monkeypatch.setattr("webapp.datasets.readers.sqlite.BUSY_MILLISECONDS", 50)
    with contextlib.closing(apsw.Connection(str(database))) as other:  # two SQLite libraries would not see each other
        other.execute("BEGIN EXCLUSIVE")
        assert failure(url, "SELECT 1 FROM stations").code is ErrorCode.SOURCE_UNREACHABLE


def test_paths_are_relative_first_and_absolute_where_only_that_exists(database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.db").touch()
    assert path_of("sqlite:///here.db").resolve() == tmp_path / "here.db"
    assert path_of(f"sqlite:///{str(database).lstrip('/')}") == database
    assert path_of(f"sqlite:///{database}") == database


def test_one_snapshot_for_the_whole_read(url, database):
    with contextlib.closing(apsw.Connection(str(database))) as other:
        other.execute("PRAGMA journal_mode = WAL")
        with open_rows(url, "SELECT id FROM stations", {}) as reader:
            other.execute("INSERT INTO stations (id) VALUES (3)")
            assert [*reader.batches()] == [[(1,), (2,)]]


def test_invalid_text_is_replaced_and_counted(url):
    with open_rows(url, "SELECT id, name, x'00ff' FROM broken ORDER BY id DESC", {}) as reader:
        read = [row for batch in reader.batches(700) for row in batch]
        assert reader.invalid_text == 3
    assert [row[0] for row in read] == [*range(3000, 0, -1)]
    assert (read[0][1], read[1]) == ("bad \ufffd\ufffd!", (2999, "ok", b"\x00\xff"))


def test_full_text_tables_can_be_read(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "fts.db")) as connection:
        connection.executescript("CREATE VIRTUAL TABLE notes USING fts5(text); INSERT INTO notes VALUES ('clean air')")
    assert rows(f"sqlite:///{tmp_path}/fts.db", "SELECT text FROM notes WHERE notes MATCH :q", q="air") == [
        ("clean air",)
    ]
