"""The bench's rows in every kind of source: a block of a million, read again and again by UNION ALL."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from data import POSTGRES_URL, VERSION, postgres_table, sqlite_file
from race import ROOT, SITE, export, workplace

BLOCK = 1_000_000
MYSQL_URL = os.environ.get("EXPORTDESK_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/test")
MYSQL_TABLE = f"exportdesk_bench_{VERSION}_{BLOCK}"
MYSQL_TYPES = (
    *("bigint PRIMARY KEY", "bigint", "varchar(20)", "varchar(100)", "text", "decimal(12,2)", "double"),
    *("boolean", "date", "varchar(40)", "varchar(40)", "blob"),
)
MYSQL_ROWS = 5_000
"""Rows of one INSERT."""


def sqlite() -> tuple[str, str]:
    return f"sqlite:///{sqlite_file(BLOCK)}", "rows"


def postgres() -> tuple[str, str]:
    return POSTGRES_URL, postgres_table(BLOCK)


def mysql() -> tuple[str, str]:
    """Its moments are text: these servers keep no offset."""
    import pymysql
    from data import COLUMNS
    from pymysql.connections import Connection

    from webapp.datasets.readers.mysql_session import connect

    connection: Connection = connect(MYSQL_URL, patience=10, read_seconds=None)
    with connection, connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT 1 FROM {MYSQL_TABLE} LIMIT 1")
        except pymysql.err.ProgrammingError:
            columns = ", ".join(f"`{column[0]}` {kind}" for column, kind in zip(COLUMNS, MYSQL_TYPES, strict=True))
            cursor.execute(f"CREATE TABLE {MYSQL_TABLE} ({columns})")
            insert = f"INSERT INTO {MYSQL_TABLE} VALUES ({', '.join(['%s'] * len(COLUMNS))})"
            with sqlite3.connect(sqlite_file(BLOCK)) as rows:
                read = rows.execute("SELECT * FROM rows")
                while batch := read.fetchmany(MYSQL_ROWS):
                    cursor.executemany(insert, batch)
            connection.commit()
    return MYSQL_URL, MYSQL_TABLE


def parquet() -> tuple[str, str]:
    return f"files:///{_file('parquet')}", "files"


def csv() -> tuple[str, str]:
    return f"files:///{_file('csv')}", "files"


def jsonl() -> tuple[str, str]:
    return f"files:///{_file('jsonl')}", "files"


def duckdb() -> tuple[str, str]:
    import duckdb

    path = workplace(f"rows-{VERSION}-{BLOCK}.duckdb")
    if not path.exists():
        unfinished = path.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        with duckdb.connect(str(unfinished)) as connection:
            connection.execute(f"CREATE TABLE rows AS SELECT * FROM read_parquet('{_file('parquet')}')")
        unfinished.rename(path)
    return f"duckdb:///{path}", '"rows"'


TABLES: Mapping[str, Callable[[], tuple[str, str]]] = {
    each.__name__: each for each in (sqlite, postgres, mysql, duckdb, parquet, csv, jsonl)
}
KINDS = (*TABLES, "python")


def source(kind: str, count: int) -> tuple[str, str]:
    """The URL and a query of so many rows. The Python source computes its own: it is the worked example."""
    if kind == "python":
        _install_example()
        return f"python://tides?rows={count}", "heights"
    url, table = TABLES[kind]()
    return url, " UNION ALL ".join([f"SELECT * FROM {table}"] * -(-count // BLOCK)) + f" LIMIT {count}"


def _file(format: str) -> Path:
    """What the export of the SQLite file makes."""
    path = workplace(f"rows-{VERSION}-{BLOCK}.{format}")
    if not path.exists():
        unfinished = path.with_suffix(f".part.{format}")
        export(*source("sqlite", BLOCK), format, unfinished)
        unfinished.rename(path)
    return path


def _install_example() -> None:
    """As pip would leave it in a folder that the exporting process has on its path."""
    example = ROOT / "tests" / "datasets" / "example_source.py"
    folder = SITE / "tides-1.0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (SITE / example.name).write_bytes(example.read_bytes())
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tides\nVersion: 1.0\n", "utf-8")
    (folder / "entry_points.txt").write_text("[exportdesk.sources]\ntides = example_source:open_source\n", "utf-8")
