"""How a read ends before its last row, in every kind of source: cancelled, closed, out of time, or with enough rows."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from patience import PATIENCE
from servers import SERVERS, Server, gone, own_database

from webapp.datasets.reading import Cancelled, RowReader
from webapp.datasets.sources import open_rows, preview
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
HASHED = "FROM range(100000000000) t(i) WHERE hash(i) % 7 = 1"
THREE_THOUSAND = {
    "sqlite": f"{NUMBERS} SELECT i FROM n LIMIT 3000",
    "duckdb": "SELECT i FROM range(1, 3001) t(i)",
    "postgres": "SELECT generate_series(1, 3000) AS i",
    "mariadb": "SELECT seq FROM seq_1_to_3000",
}


@dataclass(frozen=True)
class Source:
    """`endless` gives no row ever, `rows_for_ever` no last one."""

    url: str
    endless: str
    rows_for_ever: str
    three_thousand: str
    server: Server | None = None

    def is_idle(self) -> bool:
        """Whether nothing is left of a read after a while."""
        return self.server is None or gone(self.server, PATIENCE)


@pytest.fixture(scope="module", params=["sqlite", "duckdb", *SERVERS])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    kind, path = request.param, tmp_path_factory.mktemp("source") / "file"
    if kind == "sqlite":
        yield embedded(kind, path, f"{NUMBERS} SELECT count(*) FROM n", f"{NUMBERS} SELECT i FROM n")
    elif kind == "duckdb":
        yield embedded(kind, path, f"SELECT count(*) {HASHED}", f"SELECT i {HASHED}")
    else:
        with own_database(kind, request.getfixturevalue(kind)) as server:
            yield Source(server.url, server.ENDLESS, server.ROWS_FOR_EVER, THREE_THOUSAND[kind], server)


def embedded(kind: str, path: Path, endless: str, rows_for_ever: str) -> Source:
    with contextlib.closing(duckdb.connect(str(path)) if kind == "duckdb" else sqlite3.connect(path)):
        return Source(f"{kind}:///{path}", endless, rows_for_ever, THREE_THOUSAND[kind])


def read_through(reader: RowReader, way: str) -> None:
    """`csv` is the server's own where there is one."""
    if way == "count":
        reader.count(60)
    for _ in (reader.raw_csv(Options()) if way == "csv" else None) or reader.batches():
        pass


@pytest.mark.parametrize("sql", ["endless", "rows_for_ever"])
@pytest.mark.parametrize("way", ["rows", "csv", "count"])
def test_cancelling_ends_a_read_and_its_query(source: Source, sql: str, way: str) -> None:
    with open_rows(source.url, getattr(source, sql), {}) as reader:
        timer = threading.Timer(0.3, reader.cancel)
        timer.start()
        with pytest.raises(Cancelled):
            read_through(reader, way)
        with pytest.raises(Cancelled):
            next(reader.batches())
        timer.join()
    assert source.is_idle()


def test_cancelling_counts_before_the_first_batch_and_harms_nobody_after_the_last(source: Source) -> None:
    with open_rows(source.url, source.endless, {}) as reader:
        reader.cancel()
        with pytest.raises(Cancelled):
            next(reader.batches())
    reader.cancel()


@pytest.mark.parametrize("way", ["rows", "csv"])
def test_closing_in_the_middle_neither_hangs_nor_leaves_the_query(source: Source, way: str) -> None:
    reader = open_rows(source.url, source.rows_for_ever, {})
    going = (reader.raw_csv(Options()) if way == "csv" else None) or reader.batches()
    next(going)
    reader.close()
    reader.close()
    assert source.is_idle()


def test_a_count_is_exact_or_not_given_and_the_rows_come_after_it(source: Source) -> None:
    with open_rows(source.url, source.three_thousand, {}) as reader:
        assert reader.count(PATIENCE) == 3000
        assert [len(batch) for batch in reader.batches(800)] == [800, 800, 800, 600]
    with open_rows(source.url, source.rows_for_ever, {}) as reader:
        assert reader.count(0.2) is None
        assert len(next(reader.batches(2))) == 2
    assert source.is_idle()


def test_a_preview_gives_the_first_rows_and_says_whether_there_are_more(source: Source) -> None:
    for sql, rows, truncated in ((source.rows_for_ever, 20, True), (source.three_thousand, 3000, False)):
        seen = preview(source.url, sql, {}, rows=rows, seconds=PATIENCE)
        assert (len(seen.rows), seen.truncated) == (rows, truncated)
    assert source.is_idle()


def test_a_preview_has_a_time_limit(source: Source) -> None:
    with pytest.raises(AttemptFailed) as caught:
        preview(source.url, source.endless, {}, rows=20, seconds=0.5)
    assert (caught.value.code, caught.value.details) == (ErrorCode.TIMEOUT, {"limit": "0.5 s"})
    assert source.is_idle()
