"""Running totals, on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from factories import stored_export
from fresh_stores import Clock

from webapp.actions.tallies import tally_events
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.domain.tallies import Metric, Observation
from webapp.resources import Resources
from webapp.store import tallies
from webapp.store.monitor import LATE_COMMITS
from webapp.store.tallies import Series


async def totals(resources: Resources) -> Mapping[tuple[Metric, tuple[str, ...]], Series]:
    async with resources.store.connection():
        return {(series.metric, series.labels): series for series in await tallies.totals(resources.store)}


async def test_what_is_added_adds_up(each_resources: Resources) -> None:
    store = each_resources.store
    for _ in range(2):
        async with store.transaction():
            await tallies.add(
                store,
                [
                    Observation(Metric.QUEUE_TIME, ("things",), timedelta(seconds=0.1)),
                    Observation(Metric.QUEUE_TIME, ("things",), timedelta(seconds=0.2)),
                    Observation(Metric.QUEUE_TIME, ("others",), timedelta(hours=2)),
                    Observation(Metric.SWEEP_ACTIONS, ("queued",), count=5),
                ],
            )
            await tallies.add(store, [])
    found = await totals(each_resources)
    things, others = found[Metric.QUEUE_TIME, ("things",)], found[Metric.QUEUE_TIME, ("others",)]
    assert (things.counts, things.seconds) == ({0: 2, 1: 2}, pytest.approx(0.6))
    assert (others.counts, others.seconds) == ({13: 2}, 14400)
    assert found[Metric.SWEEP_ACTIONS, ("queued",)].counts == {0: 10}


async def test_each_event_is_tallied_once_however_many_there_are(
    each_resources: Resources, writer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.actions.tallies.EVENTS_AT_ONCE", 2)
    for status in (Status.SUCCESS, Status.CANCELLED, Status.FAILED):
        await stored_export(each_resources, writer, status)
    later = await each_resources.store.now() + timedelta(minutes=1)
    assert await tally_events(each_resources, later) == 11
    assert await tally_events(each_resources, later) == 0
    found = await totals(each_resources)
    assert sum(found[Metric.EXECUTION_TIME, ("things",)].counts.values()) == 2


async def test_on_postgresql_the_newest_events_wait_for_late_commits(each_resources: Resources, writer: Viewer) -> None:
    clock = await Clock.of(each_resources.store)
    await stored_export(each_resources, writer, Status.QUEUED)
    now = await tally_events(each_resources, clock.at)
    clock.move(LATE_COMMITS.total_seconds())
    later = await tally_events(each_resources, clock.at)
    assert (now, later) == ((2, 0) if each_resources.store.is_sqlite else (0, 2))


async def test_two_that_tally_at_once_add_nothing_twice(each_resources: Resources) -> None:
    store, at = each_resources.store, await each_resources.store.now()
    async with store.transaction():
        assert await tallies.move_on(store, 0, 7, at=at)
        assert not await tallies.move_on(store, 0, 9, at=at)
        assert await tallies.move_on(store, 7, 9, at=at)
