"""The slot that is kept for small exports, and how it is found out which ones are small."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from webapp.actions import attempts, exports, turns
from webapp.datasets.declaration import Catalog
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Lane, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.ending import end
from webapp.resources import Resources
from webapp.store import exports as rows
from worker import jobs
from worker.children import Children
from worker.slots import Slots, serve_small

LARGE = limits.SMALL_ROWS + 1


async def order(resources: Resources, who: Viewer, wanted: int) -> Export:
    slow = exports.Order("slow", {"rows": wanted}, "csv", {})
    export, _ = await exports.order(resources, who, slow, defaults=API_DEFAULTS)
    return export


async def until(resources: Resources, export: Export, having: Callable[[Export], bool]) -> Export:
    async with asyncio.timeout(30):
        while True:
            found = await rows.get(resources.store, export.id)
            assert found is not None
            if having(found):
                return found
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def serving(resources: Resources, children: Children, slots: Slots) -> AsyncIterator[None]:
    task = asyncio.create_task(serve_small(resources, children, slots))
    try:
        yield
    finally:
        await end(task)


@pytest.mark.parametrize(("count", "common", "keeps_one"), [(1, 1, False), (2, 1, True), (3, 2, True), (64, 63, True)])
def test_of_several_slots_one_is_kept(count: int, common: int, keeps_one: bool):
    slots = Slots(count)
    assert (slots.common, slots.keeps_one) == (common, keeps_one)


async def test_a_small_one_does_not_wait_behind_large_ones(
    resources: Resources, user: Viewer, other: Viewer, children: Children
):
    """Of the same person, and of somebody else: all common slots are taken, and more large ones wait."""
    slots = Slots(2)
    large = [await order(resources, user, LARGE + n) for n in range(3)]
    for _ in range(2):
        assert await attempts.claim(resources)
    small = [await order(resources, user, 1000), await order(resources, other, 1001)]
    with slots.one_taken():
        async with serving(resources, children, slots):
            for export in small:
                done = await until(resources, export, lambda e: e.status is Status.SUCCESS)
                assert (done.lane, done.rows_done) == (Lane.SMALL, export.params["rows"])
            left = await until(resources, large[2], lambda e: e.lane is not None)
    assert (left.status, left.lane) == (Status.QUEUED, Lane.LARGE)


async def test_with_one_slot_small_ones_go_first(resources: Resources, user: Viewer, children: Children):
    slots = Slots(1)
    large, small = await order(resources, user, LARGE), await order(resources, user, 1000)
    with slots.one_taken():
        async with serving(resources, children, slots):
            for export in (small, large):
                await until(resources, export, lambda e: e.lane is not None)
    claimed = await attempts.claim(resources)
    assert claimed is not None
    assert (claimed.id, claimed.lane) == (small.id, Lane.SMALL)


async def test_what_no_common_slot_may_take_is_looked_for(resources: Resources, user: Viewer, children: Children):
    """A common slot is free, but the person has as many running as they may."""
    slots = Slots(8)
    for n in range(2):
        await order(resources, user, LARGE + n)
        assert await attempts.claim(resources)
    small = await order(resources, user, 1000)
    async with serving(resources, children, slots):
        await jobs.run_export({"resources": resources, "children": children, "slots": slots}, small.id)
        await until(resources, small, lambda e: e.status is Status.SUCCESS)


async def test_nobody_looks_while_common_slots_are_free(resources: Resources, user: Viewer, children: Children):
    slots = Slots(3)
    waiting = await order(resources, user, 1000)
    with slots.one_taken():
        async with serving(resources, children, slots):
            slots.told()
            await asyncio.sleep(0.3)
            found = await rows.get(resources.store, waiting.id)
    assert found is not None
    assert (found.lane, found.status) == (None, Status.QUEUED)


async def test_an_error_does_not_end_the_service(
    resources: Resources, user: Viewer, children: Children, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("worker.slots.LOOKED_EVERY", 0.05)
    claim, failures = attempts.claim, [OSError("away"), OSError("away")]

    async def failing(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop()
        return await claim(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(attempts, "claim", failing)
    slots = Slots(2)
    small = await order(resources, user, 1000)
    with slots.one_taken():
        async with serving(resources, children, slots):
            await until(resources, small, lambda e: e.status is Status.SUCCESS)
    assert failures == []


async def test_the_size_is_that_of_the_last_time_if_there_was_one(
    resources: Resources, user: Viewer, children: Children
):
    """Or what is counted now; what cannot be counted is not small."""
    catalog = resources.catalog
    broken = resources.with_catalog(
        Catalog({**catalog.datasets, "slow": replace(catalog.datasets["slow"], sql="SELECT gone")}, catalog.sources)
    )
    past = await order(resources, user, 1000)
    with Slots(1).one_taken():
        await jobs.run_export({"resources": resources, "children": children, "slots": Slots(1)}, past.id)
    again, never = await order(resources, user, 1000), await order(resources, user, 1001)
    while await turns.size_up_next(broken):
        pass
    lanes = [(await until(resources, export, lambda e: True)).lane for export in (again, never)]
    assert lanes == [Lane.SMALL, Lane.LARGE]
