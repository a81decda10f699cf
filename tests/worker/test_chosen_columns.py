"""Files with chosen columns: of every kind of source, in every format, read by somebody else's reader."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from python_calamine import CalamineWorkbook
from servers import own_database

from webapp.datasets.sources import open_rows, preview
from webapp.domain.errors import AttemptFailed, ErrorCode, export_error
from webapp.domain.formats import Options
from worker.child import Attempt
from worker.messages import Assignment, Failed, Finished, Message, decode_message

ROWS = [(n, f"thing {n} – 東京", n + 0.25, n * 7919 % 1201) for n in range(1, 1201)]
"""Id, label, price and place; more than two batches, and by place in no order of the others."""
TABLE = "CREATE TABLE things (id INTEGER, label VARCHAR(30), price DOUBLE PRECISION, place INTEGER)"
SQL = "SELECT id, label, price, label FROM things WHERE id >= :least ORDER BY place; -- as they stand"
ORDERED = sorted(ROWS, key=lambda row: row[3])
KINDS = ["sqlite", "duckdb", "files", "python", pytest.param("postgres", marks=pytest.mark.postgres), "mariadb"]
CHOICES = [("price", "id"), ("label_2",), ("label_2", "price", "label", "id"), ("id", "label", "price", "label_2")]
PLACES = {"id": 0, "label": 1, "price": 2, "label_2": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chosen")


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    kind: str = request.param
    values = ", ".join(f"({n}, '{label}', {price}, {place})" for n, label, price, place in ROWS)
    fill = f"INSERT INTO things VALUES {values}"
    match kind:
        case "sqlite":
            with closing(sqlite3.connect(folder / "shop.db")) as connection:
                connection.executescript(f"{TABLE}; {fill}")
            yield f"sqlite:///{folder}/shop.db"
        case "duckdb":
            with duckdb.connect(folder / "shop.duckdb") as database:
                database.execute(f"{TABLE}; {fill}")
            yield f"duckdb:///{folder}/shop.duckdb"
        case "files":
            lines = [f'{n},"{label}",{price},{place}' for n, label, price, place in ROWS]
            (folder / "things.csv").write_text("\n".join(["id,label,price,place", *lines]), "utf-8")
            yield f"files:///{folder}/things.csv"
        case "python":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    metadata, "entry_points", lambda **wanted: [SimpleNamespace(name="x", load=lambda: opened)]
                )
                yield "python://things"
        case _:
            with own_database(kind, request.getfixturevalue(kind)) as server:
                server.run(TABLE, fill)
                yield server.url


def opened(options: Any, sql: str, params: Any) -> SimpleNamespace:
    columns = [("id", "integer"), ("label", "text"), ("price", "float"), ("label", "text")]
    rows = [(n, label, price, label) for n, label, price, _ in ORDERED if n >= params["least"]]
    return SimpleNamespace(columns=columns, batches=lambda size: [rows], count=lambda: len(rows))


def query(url: str) -> str:
    return SQL.replace("things", "files") if url.startswith("files") else SQL


def wanted(columns: tuple[str, ...], least: int = 1) -> list[tuple[Any, ...]]:
    return [tuple(row[PLACES[name]] for name in columns) for row in ORDERED if row[0] >= least]


def run(url: str, path: Path, format: str, columns: tuple[str, ...]) -> Message:
    """What the child says last, run in this process."""
    order = Assignment(
        export_id="exp_1", attempt=1, dataset="things", title="Things", url=url, sql=query(url), params={"least": 7},
        shown_params={}, format=format, options={"columns": list(columns)} if columns else {}, path=str(path),
        row_limit=None, max_bytes=None, memory_mib=512,
    )  # fmt: skip
    reading, writing = os.pipe()
    try:
        Attempt(order, writing).run()
    finally:
        os.close(writing)
    with open(reading, "rb") as told:
        return [decode_message(line) for line in told][-1]


def read(path: Path, format: str) -> list[list[Any]]:
    """The heading, then the rows, by a reader that is not ours."""
    match format:
        case "csv":
            with path.open(encoding="utf-8", newline="") as file:
                return list(csv.reader(file, strict=True))
        case "jsonl":
            found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            return [list(found[0]), *([*row.values()] for row in found)]
        case "xlsx":
            return CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()
        case _:
            table = pq.read_table(path)
            return [table.column_names, *([*row.values()] for row in table.to_pylist())]


@pytest.mark.parametrize("format", ["csv", "jsonl", "xlsx", "parquet"])
def test_a_file_has_the_chosen_columns_in_their_order_and_the_rows_in_theirs(
    url: str, tmp_path: Path, format: str
) -> None:
    for number, columns in enumerate(CHOICES):
        path = tmp_path / f"{number}.{format}"
        told = run(url, path, format, columns)
        assert isinstance(told, Finished), told
        rows: list[tuple[Any, ...]] = wanted(columns, least=7)
        assert told.rows == len(rows) == 1194
        heading, *found = read(path, format)
        assert heading == list(columns)
        assert [tuple(row) for row in found] == ([tuple(map(str, row)) for row in rows] if format == "csv" else rows)


def test_who_chooses_nothing_gets_all_as_before(url: str, tmp_path: Path) -> None:
    run(url, tmp_path / "all.jsonl", "jsonl", ())
    run(url, tmp_path / "each.jsonl", "jsonl", ("id", "label", "price", "label_2"))
    assert (tmp_path / "all.jsonl").read_bytes() == (tmp_path / "each.jsonl").read_bytes()


def test_a_column_that_is_gone_is_an_error_and_no_file(url: str, tmp_path: Path) -> None:
    told = run(url, tmp_path / "things.csv", "csv", ("id", "weight", "LABEL"))
    assert told == Failed("COLUMN_GONE", {"detail": "weight, LABEL"})
    assert list(tmp_path.iterdir()) == []
    error = export_error(ErrorCode(told.code), **told.details)
    assert not error.retriable
    assert error.message == (
        "The dataset no longer has columns that were chosen: weight, LABEL. Order the export again with those it has."
    )


def test_first_rows_and_counts_are_of_the_chosen_columns(url: str) -> None:
    found = preview(url, query(url), {"least": 7}, rows=3, seconds=20, columns=("price", "label_2"))
    assert [column.name for column in found.columns] == ["price", "label_2"]
    assert [tuple(row) for row in found.rows] == wanted(("price", "label_2"), least=7)[:3]
    assert found.truncated
    with open_rows(url, query(url), {"least": 7}) as reader:
        before = reader.columns
        with pytest.raises(AttemptFailed):
            reader.choose(["id", "gone"])
        assert reader.columns == before
        reader.choose(["price"])
        assert reader.count(20) in ({None} if url.startswith("mysql") else {1194})


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("VALUES (1, 2), (3, 4)", [(2, 1), (4, 3)]),
        ("SELECT 1 AS a, 2 AS b UNION ALL SELECT 5, 6 ORDER BY 1 DESC", [(6, 5), (2, 1)]),
        ("WITH q(x, y) AS (SELECT 1, 2) SELECT x, y FROM q", [(2, 1)]),
        (
            "SELECT id, id * 2 FROM things ORDER BY place LIMIT 2 OFFSET 1",
            [(row[0] * 2, row[0]) for row in ORDERED[1:3]],
        ),
        ('SELECT 1 AS "a""b", 2 AS "c d"', [(2, 1)]),
    ],
)
@pytest.mark.parametrize("url", ["sqlite", "duckdb"], indirect=True)
def test_any_statement_can_be_asked_around(url: str, sql: str, rows: list[tuple[int, int]]) -> None:
    with open_rows(url, sql, {}) as reader:
        first, second = (column.name for column in reader.columns)
        reader.choose([second, first])
        assert [row for batch in reader.batches() for row in batch] == rows


def test_text_that_is_no_unicode_is_counted_among_the_chosen_columns_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "bad.db")) as connection:
        connection.execute("CREATE TABLE bad (id INTEGER, broken TEXT, fine TEXT)")
        connection.execute("INSERT INTO bad VALUES (1, CAST(x'61ff' AS TEXT), 'b')")
        connection.commit()
    for columns, rows, invalid in ((["fine", "id"], [("b", 1)], 0), (["broken", "id"], [("a\ufffd", 1)], 1)):
        with open_rows(f"sqlite:///{tmp_path}/bad.db", "SELECT * FROM bad", {}) as reader:
            reader.choose(columns)
            assert [row for batch in reader.batches() for row in batch] == rows
            assert reader.invalid_text == invalid


@pytest.mark.parametrize("table", ["q", "Q", "qq"])
def test_a_table_of_sqlite_may_have_any_name(tmp_path: Path, table: str) -> None:
    """Also where its text is read a second time, since it is no Unicode."""
    with closing(sqlite3.connect(tmp_path / "short.db")) as connection:
        connection.execute(f"CREATE TABLE {table} (a INTEGER, b TEXT)")
        connection.execute(f"INSERT INTO {table} VALUES (1, CAST(x'61ff' AS TEXT))")
        connection.commit()
    for columns, rows in ((["a"], [(1,)]), (["b", "a"], [("a\ufffd", 1)])):
        with open_rows(f"sqlite:///{tmp_path}/short.db", f"SELECT a, b FROM {table}", {}) as reader:
            reader.choose(columns)
            assert [row for batch in reader.batches() for row in batch] == rows


@pytest.mark.parametrize("url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_postgresql_still_writes_the_csv_itself(url: str) -> None:
    with open_rows(url, query(url), {"least": 1}) as reader:
        reader.choose(["price", "id"])
        lines = reader.raw_csv(Options(delimiter=";"))
        assert lines is not None
        data = b"".join(chunk for chunk, _ in lines).decode()
    assert data.splitlines() == [f"{price};{n}" for price, n in wanted(("price", "id"))]
