"""What an order is expected to come to, from what past ones came to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from factories import changed
from sqlalchemy import text

from webapp.actions.estimates import estimate
from webapp.datasets.declaration import Dataset
from webapp.domain.estimates import Rows
from webapp.domain.exports import Export, Status
from webapp.resources import Resources

ExportMaker = Callable[..., Awaitable[Export]]
MILLION = Rows(1_000_000, is_exact=True)


@pytest.fixture
def things(resources: Resources) -> Dataset:
    return resources.catalog.datasets["things"]


async def ran(
    resources: Resources, make_export: ExportMaker, *, rows: int, size: int, seconds: float, **order: Any
) -> None:
    export = await make_export(Status.SUCCESS, **order)
    assert export.file
    assert export.started_at
    file = replace(export.file, rows=rows, size=size)
    await changed(resources, export, file=file, completed_at=export.started_at + timedelta(seconds=seconds))


async def test_without_past_runs_nothing_is_expected(resources: Resources, things: Dataset) -> None:
    expected = await estimate(resources, things, MILLION, format="csv")
    assert (expected.bytes, expected.seconds, expected.notices) == (None, None, ())


async def test_size_and_time_follow_from_bytes_and_seconds_per_row(
    resources: Resources, things: Dataset, make_export: ExportMaker
) -> None:
    await ran(resources, make_export, rows=100_000, size=4_000_000, seconds=0.5)
    await ran(resources, make_export, rows=100_000, size=2_000_000, seconds=0.3)
    expected = await estimate(resources, things, MILLION, format="csv")
    assert (expected.bytes, expected.seconds) == (30_000_000, pytest.approx(4))
    assert (await estimate(resources, things, None, format="csv")).bytes is None
    assert (await estimate(resources, things, Rows(0, is_exact=True), format="csv")).seconds is None


async def test_only_the_same_dataset_and_format_count_and_for_the_size_the_same_compression(
    resources: Resources, things: Dataset, make_export: ExportMaker
) -> None:
    await ran(resources, make_export, rows=10, size=1000, seconds=1, format="xlsx", options={"timezone": "UTC"})
    await ran(resources, make_export, rows=10, size=1000, seconds=1, dataset="slow")
    await ran(resources, make_export, rows=10, size=50, seconds=1, options={"compression": "gzip"})
    await make_export(Status.FAILED)
    plain = await estimate(resources, things, MILLION, format="csv")
    assert (plain.bytes, plain.seconds) == (None, pytest.approx(100_000))
    assert (await estimate(resources, things, MILLION, format="csv", compression="gzip")).bytes == 5_000_000


async def test_only_runs_of_the_same_columns_count(
    resources: Resources, things: Dataset, make_export: ExportMaker
) -> None:
    await ran(resources, make_export, rows=10, size=1000, seconds=10)
    await ran(resources, make_export, rows=10, size=50, seconds=1, options={"columns": ["id", "name"]})
    rows = Rows(10, is_exact=True)
    for columns, size, seconds in (((), 1000, 10), (("name", "id"), 50, 1), (("id",), None, None)):
        expected = await estimate(resources, things, rows, format="csv", columns=columns)
        assert (expected.bytes, expected.seconds) == (size, seconds)


async def test_empty_and_old_runs_do_not_count(
    resources: Resources, things: Dataset, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.domain.limits.PAST_RUNS", 2)
    now = await resources.store.now()
    for age, size in ((3, 9_000), (2, 100), (1, 100)):
        at = now - timedelta(days=age)
        await ran(resources, make_export, rows=10, size=size, seconds=1, created_at=at)
    assert (await estimate(resources, things, Rows(10, is_exact=True), format="csv")).bytes == 100
    await ran(resources, make_export, rows=0, size=20, seconds=1, created_at=now)
    assert (await estimate(resources, things, Rows(10, is_exact=True), format="csv")).bytes == 100


@pytest.mark.parametrize(
    ("rows", "format", "message"),
    [
        (1_048_575, "xlsx", None),
        (1_048_576, "xlsx", "One sheet holds 1,048,575 rows: the workbook will continue on 2 sheets."),
        (3_000_000, "xlsx", "One sheet holds 1,048,575 rows: the workbook will continue on 3 sheets."),
        (3_000_000, "csv", None),
    ],
)
async def test_more_than_one_sheet_is_told(
    resources: Resources, things: Dataset, rows: int, format: str, message: str | None
) -> None:
    told = (await estimate(resources, things, Rows(rows, is_exact=True), format=format)).notices
    assert [(notice.code, notice.message) for notice in told] == ([("SEVERAL_SHEETS", message)] if message else [])


async def test_more_than_the_datasets_limits_is_told(
    resources: Resources, things: Dataset, make_export: ExportMaker
) -> None:
    await ran(resources, make_export, rows=10, size=1000, seconds=1)
    small = replace(things, row_limit=5_000, max_bytes=2_000_000)
    told = (await estimate(resources, small, Rows(54_321, is_exact=False), format="csv")).notices
    assert [(notice.code, notice.message) for notice in told] == [
        ("OVER_ROW_LIMIT", "About 54,321 rows: more than the limit of 5,000 rows; narrow the parameters."),
        ("OVER_SIZE_LIMIT", "The file may grow beyond the limit of 2 MB; narrow the parameters."),
    ]


async def test_past_runs_are_found_by_an_index(resources: Resources) -> None:
    sql = "EXPLAIN QUERY PLAN SELECT * FROM exports WHERE dataset = 'a' AND format = 'b' AND status = 'SUCCESS' ORDER BY completed_at DESC LIMIT 20"  # noqa: E501
    async with resources.store.connection():
        plan = [str(row["detail"]) for row in await resources.store.fetch_all(text(sql))]
    assert len(plan) == 1
    assert "ix_exports_past_runs" in plan[0]
