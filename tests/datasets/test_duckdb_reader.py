"""DuckDB databases and files of Parquet, CSV and JSON: what is read, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from answers import failure, rows

from webapp.datasets.columns import Kind
from webapp.datasets.readers import duckdb as urls
from webapp.datasets.reading import BadUrl
from webapp.datasets.sources import describe, missing, normalized, open_rows
from webapp.domain.errors import ErrorCode

SCHEMA = """
CREATE TABLE trips (id INTEGER, name VARCHAR, price DECIMAL(9, 2), seen TIMESTAMP, day DATE, done BOOLEAN);
INSERT INTO trips VALUES (1, 'Zoë', 1.10, '2024-01-01 10:00:00.5', '2024-02-29', true),
                         (2, '', NULL, NULL, NULL, false);
"""


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "odd #%41 na'me.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute(SCHEMA)
    return path


@pytest.fixture
def url(database):
    return f"duckdb:///{database}"


@pytest.fixture
def trips(tmp_path):
    """Two Parquet files and one that is not theirs."""
    folder = tmp_path / "it's here"
    folder.mkdir()
    with closing(duckdb.connect()) as connection:
        for name, first in (("a", 0), ("b", 1000)):
            rows = f"SELECT i AS id, 'n' || i AS name FROM range({first}, {first} + 1000) t(i)"
            path = str(folder / f"{name}.parquet").replace("'", "''")
            connection.execute(f"COPY ({rows}) TO '{path}'")
    (folder / "secret.csv").write_text("password\nhunter2\n")
    return folder


def csv(tmp_path, text: str) -> str:
    (tmp_path / "table.csv").write_text(text, "utf-8")
    return f"files:///{tmp_path}/table.csv"


def test_a_database_has_kinds_and_exact_values(url):
    assert [column.kind for column in describe(url, "SELECT * FROM trips", {})] == [
        *(Kind.INTEGER, Kind.TEXT, Kind.DECIMAL, Kind.TIMESTAMP, Kind.DATE, Kind.BOOLEAN)
    ]
    assert rows(url, "SELECT * FROM trips ORDER BY id") == [
        (1, "Zoë", Decimal("1.10"), "2024-01-01 10:00:00.5", "2024-02-29", True),
        (2, "", None, None, None, False),
    ]


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("sum(i)", "decimal", 6),
        ("max(18446744073709551615)", "decimal", 18446744073709551615),
        ("max(0.1::FLOAT)", "float", 0.1),
        ("max(1e308::DOUBLE)", "float", 1e308),
        ("max(date 'infinity')", "date", "infinity"),
        ("max(date '0044-03-15 (BC)')", "date", "0044-03-15 (BC)"),
        ("max(timestamp '12345-01-01 00:00:00')", "timestamp", "12345-01-01 00:00:00"),
        ("max(timestamp_ns '2020-01-01 00:00:00.123456789')", "timestamp", "2020-01-01 00:00:00.123456789"),
        ("max(timestamptz '2024-01-01 00:00:00+02')", "timestamp_tz", "2023-12-31 22:00:00+00"),
        ("max(time '12:30')", "time", "12:30:00"),
        ("max('\\x00\\xFF'::BLOB)", "bytes", b"\x00\xff"),
        ("max(interval 3 days)", "text", "3 days"),
        ("max('b'::ENUM('a', 'b'))", "text", "b"),
        ("max('0e7cd78e-7a4e-4b4c-b5d0-9ae0b52b0c0a'::UUID)", "uuid", "0e7cd78e-7a4e-4b4c-b5d0-9ae0b52b0c0a"),
        ("list(i ORDER BY i)", "json", "[1,2,3]"),
        ("{'a': max(date '2020-01-01')}", "json", '{"a":"2020-01-01"}'),
        ("max('{\"a\": 1.10}'::JSON)", "json", '{"a": 1.10}'),
        ("max(NULL)", "text", None),
    ],
)
def test_kinds_of_expressions(url, expression, kind, value):
    sql = f"SELECT {expression} AS v FROM range(1, 4) t(i)"
    assert [column.kind.value for column in describe(url, sql, {})] == [kind]
    assert [*map(repr, rows(url, sql)[0])] == [repr(value)]


def test_doubled_names_are_told_apart_and_an_order_is_kept(url):
    sql = "SELECT i AS n, -i AS n FROM range(100000) t(i) ORDER BY hash(i); -- done"
    assert [column.name for column in describe(url, sql, {})] == ["n", "n_2"]
    with closing(duckdb.connect()) as connection:
        assert rows(url, sql) == connection.execute(sql).fetchall()


def test_parameters_are_bound_by_name(url):
    sql = "SELECT id, ':name' FROM trips WHERE list_contains(:ids, id) AND (day = :day OR :day IS NULL)"
    assert rows(url, sql, ids=(1, 2), day=date(2024, 2, 29), unused=object()) == [(1, ":name")]
    assert rows(url, sql, ids=[1, 2]) == [(1, ":name"), (2, ":name")]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT typo FROM trips", 'Referenced column "typo" not found'),
        ("SELECT * FROM gone", "Table with name gone does not exist"),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT 1; SELECT 2", "only one statement is allowed"),
        ("-- nothing", "there is no query"),
        ("SELECT ?", "parameters must have names, such as :since"),
        ("DELETE FROM trips", "only a query that reads is allowed"),
        ("COPY trips TO '/tmp/x.csv'", "only a query that reads is allowed"),
        ("ATTACH '/tmp/x.duckdb' AS x", "only a query that reads is allowed"),
        ("SET enable_external_access = true", "only a query that reads is allowed"),
        ("INSTALL httpfs", "only a query that reads is allowed"),
        ("SELECT * FROM read_text('/etc/passwd')", "it may read nothing but its own source"),
        ("SELECT * FROM '/etc/passwd.csv'", "it may read nothing but its own source"),
        ("SELECT CAST(name AS INTEGER) FROM trips", "Could not convert string 'Zoë' to INT32"),
        ("SELECT * FROM database", "Table with name database does not exist"),
    ],
)
def test_what_is_refused_is_a_query_error_in_a_short_sentence(url, database, sql, words):
    before = database.read_bytes()
    error = failure(url, sql)
    assert error.code is ErrorCode.QUERY_ERROR
    assert words in error.details["detail"]
    assert str(database) not in error.details["detail"]
    assert database.read_bytes() == before


def test_files_of_a_pattern_are_one_table(trips):
    url = f"files:///{trips}/*.parquet"
    assert rows(url, "SELECT count(*), min(id), max(id) FROM files") == [(2000, 0, 1999)]
    assert rows(f"files:///{trips}/b.parquet", "SELECT count(*) FROM files") == [(1000,)]
    with open_rows(url, "SELECT * FROM files ORDER BY id", {}) as reader:
        assert (reader.count(5), reader.estimate()) == (2000, 2000)
        assert [len(batch) for batch in reader.batches(800)] == [800, 800, 400]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{}/secret.csv')",
        "SELECT * FROM read_text('{}/secret.csv')",
        "SELECT * FROM '{}/secret.csv'",
        "SELECT * FROM glob('{}/*')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM read_csv('https://example.org/x.csv')",
    ],
)
def test_other_files_cannot_be_read(trips, sql):
    error = failure(f"files:///{trips}/*.parquet", sql.format(str(trips).replace("'", "''")))
    assert error.code is ErrorCode.QUERY_ERROR
    assert "hunter2" not in str(error)
    assert str(trips) not in str(error)


def test_a_csv_keeps_codes_and_empty_texts(tmp_path):
    filler = "".join(f"{number + 10000},x,1.5,2024-01-01,7\n" for number in range(30_000))
    url = csv(tmp_path, f'zip,note,price,day,n\n{filler}00401,"",2.25,2024-02-29,8\n00402,,,,\n')
    assert [column.kind for column in describe(url, "FROM files", {})] == [
        *(Kind.TEXT, Kind.TEXT, Kind.FLOAT, Kind.DATE, Kind.INTEGER)
    ]
    assert rows(url, "SELECT * FROM files WHERE zip < '01000'") == [
        ("00401", "", 2.25, "2024-02-29", 8),
        ("00402", None, None, None, None),
    ]


def test_a_number_that_would_be_rounded_is_refused_and_can_be_read_as_text(tmp_path):
    url = csv(tmp_path, "v,w\n1.5,0.30000000000000004\n12345678901234567890.12,1\n")
    assert "add ?types=text to the url" in failure(url, "FROM files").details["detail"]
    assert rows(url, "SELECT w FROM files") == [(0.30000000000000004,), (1.0,)]
    assert rows(f"{url}?types=text", "FROM files")[1] == ("12345678901234567890.12", "1")


def test_a_code_further_down_than_the_sample_is_an_error_not_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr("webapp.datasets.readers.duckdb_csv.SAMPLE_ROWS", 2048)
    monkeypatch.setattr("webapp.datasets.readers.duckdb_csv.LEAST_SAMPLE_ROWS", 2048)
    url = csv(tmp_path, "zip,n\n" + "".join(f"{n},{n}\n" for n in range(10_000, 40_000)) + "00401,1\n")
    assert "the column zip has codes that start with 0" in failure(url, "FROM files").details["detail"]
    assert rows(f"{url}?types=text", "SELECT count(*), max(zip) FROM files WHERE zip < '1'") == [(1, "00401")]


def test_several_csv_files_are_one_table_if_their_columns_are_the_same(tmp_path):
    for name, text in (("a", "n;v\n1;7\n"), ("b", "n;v\n2;x\n"), ("c", "n;v\n1.5;31/12/2024\n")):
        (tmp_path / f"{name}.csv").write_text(text, "utf-8")
    url = f"files:///{tmp_path}/*.csv"
    assert rows(url, "FROM files ORDER BY n") == [(1.0, "7"), (1.5, "31/12/2024"), (2.0, "x")]
    (tmp_path / "d.csv").write_text("n;w\n1;2\n", "utf-8")
    assert failure(url, "FROM files").details["detail"] == "its CSV files do not have the same columns"


def test_dates_of_other_countries_are_dates(tmp_path):
    url = csv(tmp_path, "day;at\n31/12/2024;31/12/2024 10:00:00\n01/02/2024;\n")
    assert rows(url, "FROM files") == [("2024-12-31", "2024-12-31 10:00:00"), ("2024-02-01", None)]


def test_gzipped_texts_and_json_lines_are_read(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a;b\n1;x\n"))
    assert rows(f"files:///{tmp_path}/a.csv.gz", "FROM files") == [(1, "x")]
    for end in ("jsonl", "ndjson", "json"):
        lines = [json.dumps({"a": number, "b": {"c": [number]}}) for number in (1, 2)]
        (tmp_path / f"x.{end}").write_text("\n".join(lines), "utf-8")
        assert rows(f"files:///{tmp_path}/x.{end}", "FROM files") == [(1, '{"c":[1]}'), (2, '{"c":[2]}')]


def test_a_file_that_is_not_what_it_says_is_an_error_without_its_path(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"nonsense" * 50)
    (tmp_path / "bad.duckdb").write_bytes(b"nonsense" * 5000)
    (tmp_path / "bad.csv").write_bytes(b"a,b\n1,\xff\n")
    for url in ("files:///{}/bad.parquet", "duckdb:///{}/bad.duckdb", "files:///{}/bad.csv"):
        error = failure(url.format(tmp_path), "SELECT 1, * FROM files")
        assert error.code in (ErrorCode.QUERY_ERROR, ErrorCode.SOURCE_UNREACHABLE)
        assert str(tmp_path) not in str(error)


def test_what_is_not_there_is_unreachable(tmp_path):
    for url in ("duckdb:///{}/gone.duckdb", "files:///{}/gone.parquet", "files:///{}/*.csv", "duckdb:///{}"):
        assert failure(url.format(tmp_path), "SELECT 1").code is ErrorCode.SOURCE_UNREACHABLE
    assert os.listdir(tmp_path) == []


def test_a_database_that_another_process_writes_is_unreachable(url, database):
    code = f"import duckdb, sys; c = duckdb.connect({str(database)!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"open\n"
        assert failure(url, "SELECT 1").code is ErrorCode.SOURCE_UNREACHABLE
        writer.stdin.close()


def test_urls_are_made_absolute_in_the_catalogs_folder(tmp_path, trips):
    assert normalized("duckdb:///shop.duckdb", tmp_path) == f"duckdb:///{tmp_path}/shop.duckdb"
    assert normalized("files:///t/*.csv?types=text", tmp_path) == f"files:///{tmp_path}/t/*.csv?types=text"
    assert normalized(f"files:///{trips}/*.parquet", tmp_path) == f"files:///{trips}/*.parquet"
    assert normalized(f"files:///{str(trips).lstrip('/')}/*.parquet", tmp_path) == f"files:///{trips}/*.parquet"
    assert missing(f"files:///{trips}/*.parquet") is None
    assert missing(f"files:///{trips}/*.csv.gz") == f"There is no file {trips}/*.csv.gz."


@pytest.mark.parametrize(
    "url",
    [
        *("duckdb://x", "duckdb:///", "files:///", "files:///a.txt", "files:///folder/", "files:///a.parquet.gz"),
        "files:///a.parquet?types=text",
    ],
)
def test_urls_that_cannot_be_one(tmp_path, url):
    with pytest.raises(BadUrl):
        normalized(url, tmp_path)


def test_without_duckdb_the_catalog_says_what_to_install(tmp_path, url, monkeypatch):
    monkeypatch.setattr(urls, "find_spec", lambda name: None)
    with pytest.raises(BadUrl, match=r"pip install '\.\[duckdb\]'"):
        normalized("duckdb:///x.duckdb", tmp_path)
    assert "pip install '.[duckdb]'" in failure(url, "SELECT 1").details["detail"]


def test_what_does_not_fit_into_memory_goes_to_a_folder_that_is_removed(url, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "room"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "room").mkdir()
    sql = "SELECT i, md5(i::VARCHAR) AS s FROM range(4000000) t(i) ORDER BY s"
    with open_rows(url, sql, {}) as reader:
        assert len(next(reader.batches(10))) == 10
        assert any(path.is_file() for path in Path(tmp_path / "room").rglob("*"))
    assert os.listdir(tmp_path / "room") == []


def test_more_than_it_may_use_is_out_of_memory(url, monkeypatch):
    monkeypatch.setattr("webapp.datasets.readers.duckdb_reading.SETTINGS", {"memory_limit": "20MiB", "threads": "2"})
    error = failure(url, "SELECT list(md5(i::VARCHAR)) FROM range(4000000) t(i)")
    assert error.code is ErrorCode.OUT_OF_MEMORY


def test_a_csv_line_may_have_almost_two_million_bytes(tmp_path):
    lines = [("x" * 1_900_000, 1), ("y" * 1_900_000, 2), ("z", 3)]
    url = csv(tmp_path, "text,n\n" + "".join(f"{cell},{n}\n" for cell, n in lines))
    assert rows(url, "SELECT text, n FROM files ORDER BY n") == lines
