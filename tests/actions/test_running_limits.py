"""Limits of datasets and of sources when claims are made, whoever orders."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from factories import stored_export
from fresh_stores import person

from webapp.actions import attempts, exports
from webapp.datasets.declaration import Catalog
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Status
from webapp.resources import Resources

REFUSED = export_error(ErrorCode.QUERY_ERROR, detail="no such table: things")


def limited(resources: Resources, *, source: int | None = None, **datasets: int) -> Resources:
    """The same resources with limits for the source `shop` and for these datasets."""
    catalog = resources.catalog
    changed = {name: replace(catalog.datasets[name], max_running=most) for name, most in datasets.items()}
    shop = replace(catalog.sources["shop"], max_running=source)
    return resources.with_catalog(Catalog({**catalog.datasets, **changed}, {**catalog.sources, "shop": shop}))


async def put(resources: Resources, *datasets: str) -> None:
    """One waiting export of each, of as many people."""
    for number, dataset in enumerate(datasets):
        owner = await person(resources, f"{dataset}{number}")
        await stored_export(resources, owner, Status.QUEUED, dataset=dataset)


async def claim_all(resources: Resources) -> list[Export]:
    found = await asyncio.gather(*(attempts.claim(resources) for _ in range(10)))
    return [export for export in found if export]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["slow", "slow", "slow", "things", "things"]),
        ({"slow": 1}, ["slow", "things", "things"]),
        ({"slow": 2, "things": 1}, ["slow", "slow", "things"]),
        ({"source": 2}, 2),
        ({"source": 3, "slow": 1}, ["slow", "things", "things"]),
    ],
)
async def test_no_more_run_than_their_datasets_and_source_allow(
    each_resources: Resources, limits: dict[str, int], expected: list[str] | int
):
    await put(each_resources, "slow", "slow", "slow", "things", "things")
    claimed = sorted(export.dataset for export in await claim_all(limited(each_resources, **limits)))
    assert claimed == expected or len(claimed) == expected


async def test_the_next_one_goes_when_one_has_ended(each_resources: Resources):
    desk = limited(each_resources, slow=1)
    await put(desk, "slow", "slow")
    [running] = await claim_all(desk)
    await desk.redis.flushdb()
    await attempts.fail(desk, running, REFUSED)
    assert len(await desk.redis.keys("arq:job:*")) == 1
    [after] = await claim_all(desk)
    assert after.id != running.id


async def test_places_are_told_by_the_limits(each_resources: Resources):
    desk = limited(each_resources, slow=1)
    await put(desk, "slow", "slow", "things")
    assert await attempts.claim(desk)
    page, _ = await exports.list_page(desk, exports.rows.ListFilter(statuses=(Status.QUEUED,)), limit=9)
    told = {export["dataset"]: export["queue_position"] for export in await exports.describe(desk, *page)}
    assert told == {"slow": 2, "things": 1}
