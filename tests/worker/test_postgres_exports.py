"""Whole attempts over a real PostgreSQL: files that hold what it holds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime

import pytest
from python_calamine import CalamineWorkbook
from servers import Server, gone, own_database
from test_running_attempts import Asking, claimed, path_of, run, temporary_files

from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode
from worker.children import Children

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


@pytest.fixture(scope="module")
def server(postgres: str) -> Iterator[Server]:
    with own_database("postgres", postgres) as made:
        made.run(SCHEMA)
        yield made


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    return server.url


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


async def test_the_row_limit_holds_for_the_servers_csv(
    asking: Asking, children: Children, user: Viewer, server: Server
) -> None:
    wanted = asking(server.ROWS_FOR_EVER, row_limit=5_000)
    export = await run(wanted, children, await claimed(wanted, user, "things"))
    assert export.error is not None
    assert export.error.code is ErrorCode.TOO_MANY_ROWS
    assert temporary_files(wanted) == []
    assert gone(server, 2)
