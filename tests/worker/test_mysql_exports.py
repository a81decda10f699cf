"""Whole attempts over a real MariaDB or MySQL: files that hold what it holds, and no query left running in it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest
from python_calamine import CalamineWorkbook
from test_running_attempts import children as children
from test_running_attempts import claimed, run, stored, temporary_files

from webapp.actions import exports
from webapp.datasets.declaration import Catalog, Source
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from worker.children import Children

TABLE = """CREATE TABLE things (id INT PRIMARY KEY, name VARCHAR(80), price DECIMAL(30, 2), even BOOLEAN, made DATE,
 at TIMESTAMP NULL, note TEXT, data BLOB, huge BIGINT UNSIGNED) CHARACTER SET utf8mb4"""
ROWS = r"""INSERT INTO things SELECT seq, CONCAT('thing ', seq, ' – 東京 🚀'), (CAST(seq AS SIGNED) - 500) / 4,
 seq % 2 = 0, '2026-01-01' + INTERVAL (seq % 365) DAY, '2026-01-01 10:00:00' + INTERVAL seq SECOND,
 CASE seq % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE '=1+1\n"x",;' END, UNHEX(MD5(seq)), 18446744073709551615
 FROM seq_1_to_1000"""
ODD = "INSERT INTO things (id, price, made, at) VALUES (1001, 123456789012345678.12, '0000-00-00', 0)"
ENDLESS = "SELECT count(*) FROM seq_1_to_1000000000000 a WHERE sqrt(a.seq) < 0"
ROWS_FOR_EVER = "SELECT seq, REPEAT('x', 100) AS x FROM seq_1_to_1000000000000"


def query(url: str, *statements: str) -> list[tuple[Any, ...]]:
    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path.strip("/"),
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture(scope="module")
def url(mariadb: str) -> Iterator[str]:
    name = f"exports_{uuid.uuid4().hex[:12]}"
    query(mariadb, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    made = urlsplit(mariadb)._replace(path=f"/{name}").geturl()
    query(made, "SET sql_mode = '', time_zone = '+00:00'", TABLE, ROWS, ODD)
    yield made
    query(mariadb, f"DROP DATABASE {name}")


Asking = Callable[..., Resources]


@pytest.fixture
def asking(resources: Resources, url: str) -> Asking:
    """The same resources, with the dataset `things` asking MariaDB."""

    def ask(sql: str, **changes: Any) -> Resources:
        things = replace(resources.catalog.datasets["things"], source="my", sql=sql, parameters=(), **changes)
        sources = {**resources.catalog.sources, "my": Source("my", url)}
        return resources.with_catalog(Catalog({**resources.catalog.datasets, "things": things}, sources))

    return ask


def running(url: str) -> list[int]:
    """The numbers of the connections that run an endless query."""
    return [row[0] for row in query(url, "SHOW FULL PROCESSLIST") if "seq_1_to_1000000" in (row[7] or "")]


async def becomes(url: str, wanted: bool, seconds: float) -> bool:
    """Whether an endless query runs, or runs no more, within so many seconds."""
    until = time.monotonic() + seconds
    while bool(await asyncio.to_thread(running, url)) is not wanted:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.05)
    return True


def path_of(resources: Resources, export: Export) -> Path:
    assert export.error is None, export.error
    assert export.file is not None
    return resources.storage.path(export.file.key)


async def test_csv_holds_what_the_source_holds(asking: Asking, children: Children, user: Viewer) -> None:
    wanted = asking("SELECT * FROM things ORDER BY id")
    export = await run(wanted, children, await claimed(wanted, user, "things", options={"csv_text": "safe"}))
    text = path_of(wanted, export).read_bytes().decode()
    header, *found = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert header == ["id", "name", "price", "even", "made", "at", "note", "data", "huge"]
    assert (len(found), export.rows_done) == (1001, 1001)
    assert found[1] == [
        *("2", "thing 2 – 東京 🚀", "-124.50", "true", "2026-01-03", "2026-01-01 10:00:02+00:00", '\'=1+1\n"x",;'),
        *("yB5yjZ1ML2NvBn+JzBSGLA==", "18446744073709551615"),
    ]
    assert found[1000][2:6] == ["123456789012345678.12", "", "0000-00-00", "0000-00-00 00:00:00"]


async def test_json_lines_hold_what_the_source_holds(asking: Asking, children: Children, user: Viewer) -> None:
    wanted = asking("SELECT * FROM things ORDER BY id")
    export = await run(wanted, children, await claimed(wanted, user, "things", format="jsonl"))
    found = [json.loads(line) for line in path_of(wanted, export).read_text(encoding="utf-8").splitlines()]
    assert (found[1]["price"], found[1]["even"], found[1]["huge"]) == (-124.5, True, 2**64 - 1)
    assert (found[2]["note"], found[0]["note"], found[1000]["price"]) == (None, "", "123456789012345678.12")


async def test_xlsx_holds_what_the_source_holds(asking: Asking, children: Children, user: Viewer) -> None:
    wanted = asking("SELECT * FROM things ORDER BY id")
    export = await run(wanted, children, await claimed(wanted, user, "things", format="xlsx"))
    rows = CalamineWorkbook.from_path(path_of(wanted, export)).get_sheet_by_index(0).to_python()
    assert rows[2][:4] == [2, "thing 2 – 東京 🚀", -124.5, True]
    assert rows[2][5] == datetime(2026, 1, 1, 10, 0, 2)
    assert rows[1001][2] == "123456789012345678.12"
    assert rows[1001][4:6] == ["0000-00-00", "0000-00-00 00:00:00"]


@pytest.mark.parametrize("sql", [ENDLESS, ROWS_FOR_EVER])
async def test_cancelling_ends_the_query_in_the_server_within_two_seconds(
    asking: Asking, children: Children, user: Viewer, url: str, sql: str
) -> None:
    wanted = asking(sql)
    claim = await claimed(wanted, user, "things")
    attempt = asyncio.create_task(run(wanted, children, claim))
    assert await becomes(url, True, 15)
    await asyncio.sleep(2.5)
    started = time.monotonic()
    await exports.cancel(wanted, user, claim.id)
    assert await becomes(url, False, 2)
    export = await attempt
    assert time.monotonic() - started < 2.5
    assert export.status is Status.CANCELLED
    assert temporary_files(wanted) == []


async def test_a_source_that_dies_in_the_middle_leaves_no_file_and_the_next_export_runs(
    asking: Asking, children: Children, user: Viewer, url: str
) -> None:
    wanted = asking(ROWS_FOR_EVER)
    claim = await claimed(wanted, user, "things")
    attempt = asyncio.create_task(run(wanted, children, claim))
    until = time.monotonic() + 20
    while (await stored(wanted, claim)).rows_done == 0:
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    for number in running(url):
        query(url, f"KILL {number}")
    export = await attempt
    assert export.error is not None
    assert (export.status, export.error.code) == (Status.QUEUED, ErrorCode.SOURCE_UNREACHABLE)
    assert temporary_files(wanted) == []
    again = asking("SELECT 1 AS one")
    after = await run(again, children, await claimed(again, user, "things", format="jsonl"))
    assert after.status is Status.SUCCESS
