"""Whole attempts over a real MariaDB or MySQL: files that hold what it holds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime

import pytest
from python_calamine import CalamineWorkbook
from servers import own_database
from test_running_attempts import Asking, claimed, path_of, run

from webapp.domain.access import Viewer
from worker.children import Children

TABLE = """CREATE TABLE things (id INT PRIMARY KEY, name VARCHAR(80), price DECIMAL(30, 2), even BOOLEAN, made DATE,
 at TIMESTAMP NULL, note TEXT, data BLOB, huge BIGINT UNSIGNED) CHARACTER SET utf8mb4"""
ROWS = r"""INSERT INTO things SELECT seq, CONCAT('thing ', seq, ' – 東京 🚀'), (CAST(seq AS SIGNED) - 500) / 4,
 seq % 2 = 0, '2026-01-01' + INTERVAL (seq % 365) DAY, '2026-01-01 10:00:00' + INTERVAL seq SECOND,
 CASE seq % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE '=1+1\n"x",;' END, UNHEX(MD5(seq)), 18446744073709551615
 FROM seq_1_to_1000"""
ODD = "INSERT INTO things (id, price, made, at) VALUES (1001, 123456789012345678.12, '0000-00-00', 0)"


@pytest.fixture(scope="module")
def url(mariadb: str) -> Iterator[str]:
    with own_database("mariadb", mariadb) as server:
        server.run("SET sql_mode = '', time_zone = '+00:00'", TABLE, ROWS, ODD)
        yield server.url


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
