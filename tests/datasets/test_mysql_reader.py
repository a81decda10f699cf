"""MySQL and MariaDB sources: what is read, and what is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from answers import rows
from servers import own_database

from webapp.datasets.sources import describe, for_attempt, open_rows

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
"""
KINDS = [
    *("integer", "integer", "integer", "text", "text", "text", "decimal", "float", "boolean", "date", "timestamp_tz"),
    *("timestamp", "time", "bytes", "bytes", "integer", "boolean", "text", "text", "integer", "float", "integer"),
    "decimal",
]


@pytest.fixture(scope="module")
def url(mariadb: str) -> Iterator[str]:
    """A database of our own with the nasty tables; the server's zone is not UTC."""
    with own_database("mariadb", mariadb) as server:
        server.run("SET time_zone = '+00:00'", *[part for part in SCHEMA.split(";\n") if part.strip()])
        yield server.url


def test_columns_have_kinds_also_without_rows(url: str) -> None:
    assert [column.kind.value for column in describe(url, "SELECT * FROM nasty WHERE 1 = 0;  -- x", {})] == KINDS
    assert rows(url, "SELECT * FROM nasty WHERE 1 = 0") == []


def test_mariadb_is_a_scheme_too(url: str) -> None:
    assert rows(url.replace("mysql://", "mariadb://"), "SELECT 1") == [(1,)]


def test_the_query_of_an_attempt_has_its_name_and_its_limit(url: str) -> None:
    sql = "SELECT @@max_statement_time AS most, info FROM information_schema.processlist WHERE id = CONNECTION_ID()"
    for seconds, most in ((1800.5, 1800.5), (10**9, 30 * 24 * 3600)):
        [(found, info)] = rows(for_attempt(url, "exp_1.2", seconds=seconds), sql)
        assert found == most
        assert info.startswith("/* exportdesk exp_1.2 */ SELECT @@")
    assert rows(url, sql)[0][0] == 0
    assert for_attempt("sqlite:///air.db", "exp_1.2", seconds=1) == "sqlite:///air.db"


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
