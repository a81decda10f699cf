"""Whose turn it is, on both databases: the claim's order, limits and lanes, and that places are told by the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from factories import new_export
from fresh_stores import person

from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Lane, Status
from webapp.domain.turns import Room, Running, in_order
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store import turns
from webapp.store.database import Store
from webapp.store.tables import exports
from webapp.store.types import to_milliseconds

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def second(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


async def put(store: Store, owner: Viewer, status: Status, **changes: Any) -> Export:
    export = new_export(owner.id, NOON, status=status, **changes)
    assert await rows.insert(store, export)
    return export


async def put_queued(store: Store, owner: Viewer, at: float, **changes: Any) -> Export:
    return await put(store, owner, Status.QUEUED, queued_at=second(at), **changes)


async def put_running(store: Store, owner: Viewer, **changes: Any) -> Export:
    times = {"queued_at": NOON, "started_at": NOON, "heartbeat_at": NOON}
    return await put(store, owner, Status.PROCESSING, attempt=1, **{**times, **changes})


@pytest.fixture
def store(each_resources: Resources) -> Store:
    return each_resources.store


@pytest.fixture
async def other(each_resources: Resources) -> Viewer:
    return await person(each_resources, "somebody")


async def claimable(store: Store, *, at: float = 100, limit: int = 2, **also: Any) -> str | None:
    export = await turns.next_claimable(store, at=second(at), max_running_per_user=limit, **also)
    return export.id if export else None


async def test_nobody_waits_nobody_is_next(store: Store, writer: Viewer):
    for status in Status:
        if status is not Status.QUEUED:
            await put(store, writer, status)
    assert await claimable(store) is None


async def test_who_waits_longest_is_next_and_ties_go_by_id(store: Store, writer: Viewer):
    await put_queued(store, writer, 2)
    tied = [await put_queued(store, writer, 1), await put_queued(store, writer, 1)]
    assert await claimable(store) == min(export.id for export in tied)


async def test_the_person_with_the_fewest_running_is_next(store: Store, writer: Viewer, other: Viewer):
    first = await put_queued(store, writer, 1)
    theirs = await put_queued(store, other, 50)
    assert await claimable(store) == first.id
    await put_running(store, writer)
    assert await claimable(store) == theirs.id
    await put_running(store, other)
    assert await claimable(store) == first.id


async def test_nobody_gets_more_than_the_limit(store: Store, writer: Viewer, other: Viewer):
    await put_queued(store, writer, 1)
    await put_running(store, writer)
    assert await claimable(store, limit=2) is not None
    assert await claimable(store, limit=1) is None
    await put_running(store, other)
    theirs = await put_queued(store, other, 2)
    await put_running(store, writer)
    assert await claimable(store, limit=2) == theirs.id
    await put_running(store, other)
    assert await claimable(store, limit=2) is None


async def test_a_retry_is_next_only_when_its_time_has_come(store: Store, writer: Viewer):
    waiting = await put_queued(store, writer, 1, retry_at=second(60))
    later = await put_queued(store, writer, 2)
    assert await claimable(store, at=59.999) == later.id
    assert await claimable(store, at=60) == waiting.id


async def test_who_was_served_last_comes_last(store: Store, writer: Viewer, other: Viewer):
    """With one slot nobody runs when it becomes free, and yet a hundred orders do not hold up somebody's first."""
    for n in range(5):
        await put_queued(store, writer, n)
    await put(store, writer, Status.SUCCESS, started_at=second(30), completed_at=second(31))
    theirs = await put_queued(store, other, 20)
    assert await claimable(store) == theirs.id


async def test_who_was_served_before_they_ordered_has_their_turn_by_the_order(
    store: Store, writer: Viewer, other: Viewer
):
    mine = await put_queued(store, writer, 20)
    await put(store, writer, Status.SUCCESS, started_at=second(10), completed_at=second(11))
    await put_queued(store, other, 21)
    assert await claimable(store) == mine.id


# Lanes


async def test_small_ones_go_before_large_ones_that_have_not_aged(store: Store, writer: Viewer, other: Viewer):
    large = await put_queued(store, writer, 0, lane=Lane.LARGE)
    unknown = await put_queued(store, other, 1)
    small = await put_queued(store, writer, 90, lane=Lane.SMALL)
    age = limits.LARGE_AGES_AFTER
    assert await claimable(store, at=100) == small.id
    assert await claimable(store, at=age) == large.id
    await put_running(store, writer)
    assert await claimable(store, at=100) == unknown.id


async def test_the_slot_for_small_ones_takes_no_other(store: Store, writer: Viewer, other: Viewer):
    await put_queued(store, writer, 0, lane=Lane.LARGE)
    await put_queued(store, other, 1)
    assert await claimable(store, at=9999, lane=Lane.SMALL) is None
    small = await put_queued(store, writer, 2, lane=Lane.SMALL)
    assert await claimable(store, at=9999, lane=Lane.SMALL) == small.id


async def test_ones_own_large_ones_do_not_hold_up_a_small_one(store: Store, writer: Viewer):
    """In the slot for small ones, and one at a time: small ones count like all others."""
    for _ in range(2):
        await put_running(store, writer, lane=Lane.LARGE)
    small = await put_queued(store, writer, 1, lane=Lane.SMALL)
    assert await claimable(store) is None
    assert await claimable(store, lane=Lane.SMALL) == small.id
    await put_running(store, writer, lane=Lane.SMALL)
    assert await claimable(store, lane=Lane.SMALL) is None


async def test_a_hundred_small_orders_keep_to_the_limit(store: Store, writer: Viewer):
    for n in range(3):
        await put_queued(store, writer, n, lane=Lane.SMALL)
    for _ in range(2):
        await put_running(store, writer, lane=Lane.SMALL)
    assert await claimable(store, lane=Lane.SMALL) is None


async def test_sizes_are_found_out_for_each_persons_newest_first(store: Store, writer: Viewer, other: Viewer):
    mine = [await put_queued(store, writer, n) for n in (1, 2, 3)]
    theirs = await put_queued(store, other, 1)
    await put_queued(store, writer, 10, retry_at=second(200))
    await put_queued(store, other, 11, lane=Lane.LARGE)
    found = []
    while (export := await turns.unsized(store, at=second(100))) and len(found) < 9:
        found.append(export)
        await turns.set_lane(store, export.id, Lane.LARGE)
    assert [export.id for export in found] == [mine[2].id, mine[1].id, theirs.id, mine[0].id]


async def test_a_lane_is_no_new_version_and_only_for_what_waits(store: Store, writer: Viewer):
    waiting, running = await put_queued(store, writer, 1), await put_running(store, writer)
    for export in (waiting, running):
        await turns.set_lane(store, export.id, Lane.SMALL)
    after = await rows.get(store, waiting.id)
    assert after is not None
    assert (after.lane, after.version) == (Lane.SMALL, waiting.version)
    assert await rows.get(store, running.id) == running


# Datasets that may have no other one running


async def test_what_is_full_is_passed_over(store: Store, writer: Viewer):
    await put_queued(store, writer, 1, dataset="weak")
    await put_queued(store, writer, 2, dataset="weaker")
    last = await put_queued(store, writer, 3, dataset="strong")
    assert await claimable(store, full=frozenset({"weak", "weaker"})) == last.id
    assert await claimable(store, full=frozenset({"weak", "weaker", "strong"})) is None


async def test_running_ones_are_counted_by_dataset(store: Store, writer: Viewer, other: Viewer):
    for owner, dataset in ((writer, "a"), (other, "a"), (other, "b")):
        await put_running(store, owner, dataset=dataset)
    await put_queued(store, writer, 1, dataset="a")
    assert await turns.running_by_dataset(store) == {"a": 2, "b": 1}


# Places


@pytest.mark.parametrize("seed", range(6))
async def test_places_are_those_in_which_they_are_claimed(
    store: Store, each_resources: Resources, writer: Viewer, seed: int
):
    """Claimed one after the other, with nothing that runs ending meanwhile."""
    rng = random.Random(seed)
    people = [writer, *[await person(each_resources, f"p{n}") for n in range(3)]]
    now, lanes = second(1000), [None, *Lane]
    for owner in people:
        for _ in range(rng.randrange(3)):
            await put_running(store, owner, started_at=second(rng.randrange(900)))
        for _ in range(rng.randrange(1, 6)):
            weak = {"dataset": rng.choice(["weak", "things", "things"])}
            await put_queued(store, owner, rng.randrange(1000), lane=rng.choice(lanes), **weak)
    running = [Running(export.owner, export.dataset) for export in await turns.running(store)]
    waiting, served = await turns.waiting(store, at=now), await turns.served(store)
    room = Room({"weak": ["weak"]}, {"weak": 2})
    order = [export.id for export in in_order(waiting, running, served, room, now=now)]
    claims: list[str] = []
    while found := await turns.next_claimable(store, at=now, max_running_per_user=99, full=room.full):
        room.take(found.dataset)
        claims.append(found.id)
        started = {"status": Status.PROCESSING.value, "started_at": now + timedelta(milliseconds=len(claims))}
        await store.execute(exports.update().where(exports.c.id == found.id).values(**started))
    assert order[: len(claims)] == claims
    assert len(order) == len(waiting)
    assert room.full == {"weak"} or len(claims) == len(order)


async def test_a_claim_looks_at_what_waits_and_runs_and_at_nothing_else(each_resources: Resources):
    """However many exports there are."""
    if not each_resources.store.is_sqlite:
        pytest.skip("SQLite tells its plan in words that stay")
    values = {"at": to_milliseconds(NOON), "aged_before": 0, "most": 2}
    sql = turns.NEXT.format(goes_on=turns.GOES_ON, only="", beside=turns.ONE_SMALL_BESIDE)
    plan = [row[-1] for row in await each_resources.store.plain(f"EXPLAIN QUERY PLAN {sql}", **values)]
    tables = [line for line in plan if "exports" in line]
    assert tables
    assert all("USING" in line and "INDEX" in line and line.startswith("SEARCH") for line in tables), plan
