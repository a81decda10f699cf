"""MySQL and MariaDB sources: what is read and asked for, how a read ends early, and what its errors say."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest

from webapp.datasets.reading import Cancelled, RowReader
from webapp.datasets.sources import describe, open_rows, preview
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options

SCHEMA = r"""
SET sql_mode = '';
CREATE TABLE nasty (
  id INT PRIMARY KEY, big BIGINT, huge BIGINT UNSIGNED, code VARCHAR(80), name VARCHAR(80), note TEXT,
  amount DECIMAL(30, 12), ratio DOUBLE, flag BOOLEAN, day DATE, seen TIMESTAMP(6) NULL, moment DATETIME(3),
  clock TIME, raw_bytes BLOB, few VARBINARY(8), bits BIT(12), bit1 BIT(1), old VARCHAR(20) CHARACTER SET latin1,
  mood ENUM('sad', '=glad'), born YEAR, small FLOAT, tiny TINYINT, filled DECIMAL(8, 2) ZEROFILL);
INSERT INTO nasty VALUES
 (1, 9007199254740993, 18446744073709551615, '004', '王小明', 'plain', 10.00, 0.1, TRUE, '2024-02-29',
  '2024-03-31 01:30:00', '2024-03-31 02:30:00.5', '01:30:00', x'00ff', x'', b'101010101010', b'1', 'Zoë',
  'sad', 2024, 0.1, -128, 1.5);
INSERT INTO nasty VALUES
 (2, -9223372036854775808, 0, '0', 'Zoë 🚀', '', -5, -0e0, FALSE, '0000-00-00', '0000-00-00 00:00:00',
  '0000-00-00 00:00:00', '-838:59:59', NULL, NULL, NULL, NULL, NULL, '=glad', 0, NULL, NULL, NULL),
 (3, 9223372036854775807, NULL, '1e5', 'O''Neil, "Pat"', NULL, 0.001, 1e308, NULL, '9999-12-31', NULL,
  '2024-00-00', NULL, x'', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (4, 999999999999999, NULL, '=1+1', 'line\nbreak', '-5', 123456789012345678.12, 5e-324, 2, '1970-01-01',
  '1970-01-01 00:00:01', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (5, 0, NULL, '+49 30 1234', 'tab\there', '@SUM(A1)', NULL, NULL, FALSE, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (6, -1, NULL, '  padded  ', 'nul \0 and \\', '𠮷野家 👩‍👩‍👧‍👦', -0.5, 0.30000000000000004, TRUE, '2000-01-01', NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE many (id INT PRIMARY KEY, label VARCHAR(20));
INSERT INTO many SELECT seq, CONCAT('row ', seq) FROM seq_1_to_3000;
ANALYZE TABLE many;
"""
KINDS = [
    *("integer", "integer", "integer", "text", "text", "text", "decimal", "float", "boolean", "date", "timestamp_tz"),
    *("timestamp", "time", "bytes", "bytes", "integer", "boolean", "text", "text", "integer", "float", "integer"),
    "decimal",
]
ENDLESS = "SELECT count(*) FROM seq_1_to_1000000000000 a WHERE sqrt(a.seq) < 0"
ROWS_FOR_EVER = "SELECT seq, REPEAT('x', 100) AS x FROM seq_1_to_1000000000000"


def connection_to(url: str) -> Any:
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path.strip("/"),
        charset="utf8mb4",
        autocommit=True,
    )


def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
    with connection_to(url) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture(scope="module")
def url(mariadb: str) -> Iterator[str]:
    """A database of our own with the nasty table; the server's zone is not UTC."""
    name = f"reader_{uuid.uuid4().hex[:12]}"
    run(mariadb, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    made = urlsplit(mariadb)._replace(path=f"/{name}").geturl()
    run(made, "SET time_zone = '+00:00'", *[part for part in SCHEMA.split(";\n") if part.strip()])
    yield made
    run(mariadb, f"DROP DATABASE {name}")


def rows(url: str, sql: str, **params: Any) -> list[tuple[Any, ...]]:
    with open_rows(url, sql, params) as reader:
        return [row for batch in reader.batches() for row in batch]


def failure(url: str, sql: str, **params: Any) -> AttemptFailed:
    with pytest.raises(AttemptFailed) as caught:
        rows(url, sql, **params)
    return caught.value


def running(url: str) -> list[str]:
    """Queries of the endless kind that the server runs now."""
    return [row[7] for row in run(url, "SHOW FULL PROCESSLIST") if "seq_1_to_1000000" in (row[7] or "")]


def gone(url: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while running(url):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_columns_have_kinds_also_without_rows(url: str) -> None:
    assert [column.kind.value for column in describe(url, "SELECT * FROM nasty WHERE 1 = 0;  -- x", {})] == KINDS
    assert rows(url, "SELECT * FROM nasty WHERE 1 = 0") == []


def test_mariadb_is_a_scheme_too(url: str) -> None:
    assert rows(url.replace("mysql://", "mariadb://"), "SELECT 1") == [(1,)]


def test_doubled_names_are_told_apart(url: str) -> None:
    sql = "SELECT id, name, code AS name FROM nasty"
    assert [column.name for column in describe(url, sql, {})] == ["id", "name", "name_2"]
    with open_rows(url, sql, {}) as reader:
        assert reader.count(1) is None
        assert sum(map(len, reader.batches())) == 6


def test_cells_are_what_the_table_says(url: str) -> None:
    first, second, third, fourth, _, sixth = rows(url, "SELECT * FROM nasty ORDER BY id")
    assert first == (
        *(1, 9007199254740993, 18446744073709551615, "004", "王小明", "plain", "10.000000000000", 0.1, 1, "2024-02-29"),
        *("2024-03-31 01:30:00.000000+00:00", "2024-03-31 02:30:00.500", "01:30:00", b"\x00\xff", b"", 0b101010101010),
        *(1, "Zoë", "sad", 2024, 0.1, -128, "000001.50"),
    )
    assert second[:13] == (
        *(2, -9223372036854775808, 0, "0", "Zoë 🚀", "", "-5.000000000000", 0.0, 0, "0000-00-00"),
        *("0000-00-00 00:00:00.000000", "0000-00-00 00:00:00.000", "-838:59:59"),
    )
    assert third[7] == 1e308
    assert third[11] == "2024-00-00 00:00:00.000"
    assert (fourth[4], fourth[6], fourth[7], fourth[8]) == ("line\nbreak", "123456789012345678.120000000000", 5e-324, 2)
    assert (sixth[3], sixth[4], sixth[5]) == ("  padded  ", "nul \0 and \\", "𠮷野家 👩‍👩‍👧‍👦")


def test_optional_parameters_and_things_that_only_look_like_one(url: str) -> None:
    sql = """SELECT id, ':x', '5%s' /* :y */ FROM many
             WHERE (:origin IS NULL OR label = :origin) AND id <= coalesce(:most, id) AND label LIKE '%o%'"""
    assert len(rows(url, sql, origin=None, most=None)) == 3000
    assert rows(url, sql, origin="row 7", most=None) == [(7, ":x", "5%s")]
    assert len(rows(url, sql, origin=None, most=12)) == 12


def test_parameters_of_every_type(url: str) -> None:
    given = {"text": r"O'Neil \ %s :x; -- 🚀", "number": -5, "ratio": 0.5, "day": "2024-02-29", "flag": True}
    sql = "SELECT :text, :number - :number, :ratio, :day, (SELECT count(*) FROM nasty WHERE flag = :flag), :list"
    found = rows(url, sql, **given, list='["a", "ü\'"]')
    assert found == [(r"O'Neil \ %s :x; -- 🚀", 0, "0.5", "2024-02-29", 2, '["a", "ü\'"]')]


def test_one_snapshot_from_the_first_moment_on(url: str) -> None:
    with open_rows(url, "SELECT count(*) FROM many", {}) as reader:
        run(url, "INSERT INTO many VALUES (0, 'new')")
        try:
            assert [*reader.batches()] == [[(3000,)]]
        finally:
            run(url, "DELETE FROM many WHERE id = 0")


def test_count_and_estimate(url: str) -> None:
    with open_rows(url, "SELECT * FROM many", {}) as reader:
        assert reader.count(5) == 3000
        assert 2000 < (reader.estimate() or 0) < 4000
        assert len(next(reader.batches())) == 500
    with open_rows(url, ROWS_FOR_EVER, {}) as reader:
        assert reader.count(0.2) is None
        assert reader.raw_csv(Options()) is None
        assert [len(batch) for _, batch in zip(range(3), reader.batches(800), strict=False)] == [800] * 3
    assert gone(url, 2)


def test_a_preview_has_its_time_limit(url: str) -> None:
    seen = preview(url, ROWS_FOR_EVER, {}, rows=20, seconds=5)
    assert (len(seen.rows), seen.truncated) == (20, True)
    started = time.monotonic()
    with pytest.raises(AttemptFailed) as caught:
        preview(url, ENDLESS, {}, rows=20, seconds=0.5)
    assert time.monotonic() - started < 2
    assert (caught.value.code, caught.value.details) == (ErrorCode.TIMEOUT, {"limit": "0.5 s"})
    assert gone(url, 2)


def read_through(reader: RowReader, counting: bool) -> None:
    if counting:
        reader.count(60)
    for _ in reader.batches():
        pass


@pytest.mark.parametrize("sql", [ENDLESS, ROWS_FOR_EVER])
@pytest.mark.parametrize("counting", [True, False])
def test_cancelling_ends_the_query_in_the_server(url: str, sql: str, counting: bool) -> None:
    with open_rows(url, sql, {}) as reader:
        timer = threading.Timer(0.4, reader.cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            read_through(reader, counting)
        assert time.monotonic() - started < 2.4
        timer.join()
    assert gone(url, 1)


def test_closing_in_the_middle_neither_hangs_nor_leaves_the_query(url: str) -> None:
    reader = open_rows(url, ROWS_FOR_EVER, {})
    batches = reader.batches()
    next(batches)
    started = time.monotonic()
    reader.close()
    reader.close()
    assert time.monotonic() - started < 2
    assert gone(url, 2)


def test_a_connection_lost_in_the_middle_may_come_back(url: str) -> None:
    with open_rows(url, ROWS_FOR_EVER, {}) as reader:
        batches = reader.batches()
        next(batches)
        for row in run(url, "SHOW FULL PROCESSLIST"):
            if "seq_1_to_1000000" in (row[7] or ""):
                run(url, f"KILL {row[0]}")
        with pytest.raises(AttemptFailed) as caught:
            for _ in batches:
                pass
    assert caught.value.code is ErrorCode.SOURCE_UNREACHABLE


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM vanished", "vanished' doesn't exist"),
        ("SELECT vanished FROM many", "Unknown column 'vanished'"),
        ("SELEC 1", "error in your SQL syntax"),
        ("SELECT 1; DROP TABLE many", "only one statement"),
        ("INSERT INTO many VALUES (-1, 'x')", "READ ONLY transaction"),
        ("SELECT 1 INTO OUTFILE '/tmp/never'", "gives no rows"),
        ("DELETE FROM many RETURNING id", "READ ONLY transaction"),
    ],
)
def test_a_refused_query_is_explained(url: str, sql: str, words: str) -> None:
    failed = failure(url, sql)
    assert failed.code is ErrorCode.QUERY_ERROR
    assert words in failed.details["detail"]
    assert len(failed.details["detail"]) <= 200
    assert "\n" not in failed.details["detail"]


def test_a_server_that_cannot_be_reached_keeps_its_url_to_itself(url: str) -> None:
    parts = urlsplit(url)
    for address in (
        "mysql://somebody:s3cret@127.0.0.1:1/db",
        parts._replace(path="/no_such_database").geturl(),
        parts._replace(netloc=f"nobody:s3cret@{parts.hostname}:{parts.port}").geturl(),
    ):
        failed = failure(address, "SELECT 1")
        assert (failed.code, failed.details) == (ErrorCode.SOURCE_UNREACHABLE, {})
