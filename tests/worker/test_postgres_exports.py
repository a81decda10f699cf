"""Whole attempts over a real PostgreSQL: files that hold what it holds, and no query left running in it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
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
from worker.children import Child, Children

pytestmark = pytest.mark.postgres

SCHEMA = r"""
CREATE TABLE things AS SELECT i AS id, 'thing ' || i || ' – 東京' AS name, (i - 500) / 4.0 AS price,
  i % 2 = 0 AS even, date '2026-01-01' + i % 365 AS made,
  timestamptz '2026-01-01 12:00:00+02' + i * interval '1 s' AS at,
  CASE WHEN i % 3 = 0 THEN NULL WHEN i % 3 = 1 THEN '' ELSE E'=1+1\n"x",;' END AS note,
  decode(md5(i::text), 'hex') AS hash, ARRAY[i, NULL] AS list, jsonb_build_object('i', i) AS doc
  FROM generate_series(1, 1000) i;
INSERT INTO things (id, price, made, at) VALUES
  (1001, 123456789012345678.12, '0044-03-15 BC', 'infinity'), (1002, 'NaN', 'infinity', '-infinity'),
  (1003, 2.5000000000000000, '1899-12-31', '0001-01-01 00:00:00Z');
"""
THINGS = "SELECT * FROM things ORDER BY id"
ENDLESS = "SELECT count(i) FROM (SELECT generate_series(1, 1000000000000) AS i) s"
ROWS_FOR_EVER = "SELECT generate_series(1, 1000000000000) AS i, repeat('x', 100) AS x"


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    name = f"exports_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode())
        made = urlsplit(postgres)._replace(path=f"/{name}").geturl()
        with psycopg.connect(made) as connection:
            connection.execute(SCHEMA.encode())
        yield made
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


Asking = Callable[..., Resources]


@pytest.fixture
def asking(resources: Resources, url: str) -> Asking:
    """The same resources, with the dataset `things` asking PostgreSQL."""

    def ask(sql: str, **changes: Any) -> Resources:
        things = replace(resources.catalog.datasets["things"], source="pg", sql=sql, parameters=(), **changes)
        sources = {**resources.catalog.sources, "pg": Source("pg", url)}
        return resources.with_catalog(Catalog({**resources.catalog.datasets, "things": things}, sources))

    return ask


def queries(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT query FROM pg_stat_activity WHERE application_name = 'exportdesk' AND datname = current_database()"
        )
        return [query for (query,) in found]


async def gone(url: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while await asyncio.to_thread(queries, url):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.05)
    return True


async def is_running(url: str, query: str) -> bool:
    until = time.monotonic() + 15
    while time.monotonic() < until:
        if any(query in found for found in await asyncio.to_thread(queries, url)):
            return True
        await asyncio.sleep(0.05)
    return False


def path_of(resources: Resources, export: Export) -> Path:
    assert export.error is None, export.error
    assert export.file is not None
    return resources.storage.path(export.file.key)


@pytest.mark.parametrize("csv_text", ["raw", "safe"])
async def test_csv_holds_what_the_source_holds(asking: Asking, children: Children, user: Viewer, csv_text: str) -> None:
    wanted = asking(THINGS)
    options = {"csv_text": csv_text, "delimiter": ";", "bom": True}
    export = await run(wanted, children, await claimed(wanted, user, "things", options=options))
    text = path_of(wanted, export).read_bytes().decode("utf-8-sig")
    header, *found = csv.reader(io.StringIO(text, newline=""), delimiter=";", strict=True)
    assert header == ["id", "name", "price", "even", "made", "at", "note", "hash", "list", "doc"]
    assert (export.file.rows if export.file else 0) == export.rows_done == len(found) == 1003
    formula = '\'=1+1\n"x",;' if csv_text == "safe" else '=1+1\n"x",;'
    assert found[1] == [
        *("2", "thing 2 – 東京", "-124.5000000000000000", "true", "2026-01-03", "2026-01-01 10:00:02+00:00", formula),
        *("yB5yjZ1ML2NvBn+JzBSGLA==", "[2,null]", '{"i": 2}'),
    ]
    assert [row[2] for row in found[1000:]] == ["123456789012345678.12", "NaN", "2.5000000000000000"]
    minus = "'-infinity" if csv_text == "safe" else "-infinity"
    assert [(row[4], row[5]) for row in found[1000:]] == [
        *[("0044-03-15 BC", "infinity"), ("infinity", minus), ("1899-12-31", "0001-01-01 00:00:00+00:00")]
    ]
    assert text.count(';"";') >= 333


async def test_json_lines_hold_what_the_source_holds(asking: Asking, children: Children, user: Viewer) -> None:
    wanted = asking(THINGS)
    export = await run(wanted, children, await claimed(wanted, user, "things", format="jsonl"))
    lines = path_of(wanted, export).read_text(encoding="utf-8").splitlines()
    assert '"price":-124.5000000000000000,' in lines[1]
    found = [json.loads(line) for line in lines]
    assert len(found) == 1003
    assert (found[1]["even"], found[1]["list"], found[1]["doc"], found[2]["note"]) == (True, [2, None], {"i": 2}, None)
    assert [row["price"] for row in found[1000:]] == ["123456789012345678.12", None, 2.5]
    assert found[1000]["at"] == "infinity"
    assert [warning.code for warning in export.warnings] == ["NOT_FINITE"]


async def test_xlsx_holds_what_the_source_holds(asking: Asking, children: Children, user: Viewer) -> None:
    wanted = asking(THINGS)
    export = await run(wanted, children, await claimed(wanted, user, "things", format="xlsx"))
    rows = CalamineWorkbook.from_path(path_of(wanted, export)).get_sheet_by_index(0).to_python()
    assert len(rows) == 1004
    assert rows[2][:4] == [2, "thing 2 – 東京", -124.5, True]
    assert rows[2][5] == datetime(2026, 1, 1, 10, 0, 2)
    assert rows[2][6] == '=1+1\n"x",;'
    assert [row[2] for row in rows[1001:]] == ["123456789012345678.12", "NaN", 2.5]
    assert sorted(warning.code for warning in export.warnings) == ["DIGITS_AS_TEXT", "NOT_FINITE_AS_TEXT"]


async def test_the_row_limit_holds_for_the_servers_csv(asking: Asking, children: Children, user: Viewer) -> None:
    wanted = asking(ROWS_FOR_EVER, row_limit=5_000)
    export = await run(wanted, children, await claimed(wanted, user, "things"))
    assert export.error is not None
    assert export.error.code is ErrorCode.TOO_MANY_ROWS
    assert temporary_files(wanted) == []
    assert await gone_after(wanted)


async def gone_after(resources: Resources) -> bool:
    return await gone(resources.catalog.sources["pg"].url, 2)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("sql", [ENDLESS, ROWS_FOR_EVER])
async def test_cancelling_ends_the_query_in_the_server_within_two_seconds(
    asking: Asking, children: Children, user: Viewer, url: str, sql: str, format: str
) -> None:
    wanted = asking(sql)
    claim = await claimed(wanted, user, "things", format=format)
    running = asyncio.create_task(run(wanted, children, claim))
    assert await is_running(url, "generate_series")
    await asyncio.sleep(2.5)
    started = time.monotonic()
    await exports.cancel(wanted, user, claim.id)
    assert await gone(url, 2)
    export = await running
    assert time.monotonic() - started < 2.5
    assert export.status is Status.CANCELLED
    assert temporary_files(wanted) == []


async def test_a_killed_child_leaves_no_query(
    asking: Asking, children: Children, user: Viewer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assigned: list[Child] = []
    assign = Child.assign

    async def remember(child: Child, assignment: Any) -> None:
        assigned.append(child)
        await assign(child, assignment)

    monkeypatch.setattr(Child, "assign", remember)
    wanted = asking(ENDLESS)
    running = asyncio.create_task(run(wanted, children, await claimed(wanted, user, "things", format="jsonl")))
    assert await is_running(url, "generate_series")
    await asyncio.sleep(2.5)
    assigned[0].process.send_signal(signal.SIGKILL)
    assert await gone(url, 1.5)
    export = await running
    assert export.error is not None
    assert export.error.code is ErrorCode.WORKER_LOST


@pytest.mark.parametrize("format", ["csv", "xlsx"])
async def test_a_source_that_dies_in_the_middle_leaves_no_file_and_the_next_export_runs(
    asking: Asking, children: Children, user: Viewer, url: str, format: str
) -> None:
    wanted = asking(ROWS_FOR_EVER)
    claim = await claimed(wanted, user, "things", format=format)
    running = asyncio.create_task(run(wanted, children, claim))
    until = time.monotonic() + 20
    while (await stored(wanted, claim)).rows_done == 0:
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'exportdesk' AND datname = current_database()"
        )
    export = await running
    assert export.error is not None
    assert (export.status, export.error.code) == (Status.QUEUED, ErrorCode.SOURCE_UNREACHABLE)
    assert temporary_files(wanted) == []
    again = asking("SELECT 1 AS one")
    after = await run(again, children, await claimed(again, user, "things", format="jsonl"))
    assert after.status is Status.SUCCESS
