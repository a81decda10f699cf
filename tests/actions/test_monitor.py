"""What the monitor page counts, on both databases."""

from __future__ import annotations

from datetime import timedelta

from factories import stored_export
from fresh_stores import Clock

from webapp.actions import monitor
from webapp.actions.monitor import RANGES
from webapp.actions.tallies import LATE_COMMITS, tally_events
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.domain.tallies import Metric, Observation
from webapp.resources import Resources
from webapp.store import monitor as rows_of
from webapp.store import tallies


async def test_both_databases_tell_the_same(each_resources: Resources, writer: Viewer) -> None:
    clock = await Clock.of(each_resources.store)
    await monitor.keep(each_resources, clock.at)
    for status in (Status.SUCCESS, Status.FAILED, Status.CANCELLED, Status.PROCESSING):
        await stored_export(each_resources, writer, status)
    latency = [Observation(Metric.NOTIFICATION_LATENCY, ("sse",), timedelta(seconds=0.04), count=3)]
    async with each_resources.store.transaction():
        await tallies.add(each_resources.store, latency)
    clock.move(LATE_COMMITS.total_seconds())
    await tally_events(each_resources, clock.at)
    assert await monitor.keep(each_resources, clock.at) == 0
    found = await monitor.figures(each_resources, RANGES["24h"])
    assert found.ended == {"export.succeeded": 1, "export.failed": 1, "export.cancelled": 1}
    assert sum(part.queue_time.total() for part in found.parts) == 3
    assert sum(part.execution_time.total() for part in found.parts) == 2
    assert found.latency == {"sse": {1: 3}}
    assert [(run.dataset, run.worker) for run in found.running] == [("things", None)]


async def test_two_that_copy_at_once_count_nothing_twice(each_resources: Resources) -> None:
    store, at = each_resources.store, await each_resources.store.now()
    async with store.transaction():
        assert await rows_of.move_on(store, None, "[]", at=at)
        assert not await rows_of.move_on(store, None, "[1]", at=at)
        assert await rows_of.move_on(store, "[]", "[1]", at=at)
