"""What the monitor page counts, on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fresh_stores import Clock
from scripted_day import scripted_day

from webapp.actions import monitor
from webapp.actions.monitor import RANGES, Narrowed
from webapp.actions.tallies import tally_events
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.store import counted
from webapp.store import monitor as rows_of
from webapp.store.counted import CountedFilter, Kind


@pytest.mark.parametrize("dataset", [None, "flights"])
async def test_both_databases_count_what_they_list(
    each_resources: Resources, writer: Viewer, dataset: str | None
) -> None:
    clock = await Clock.of(each_resources.store)
    await monitor.keep(each_resources, clock.at - timedelta(days=1))
    began_at, until = clock.at - timedelta(hours=2), clock.at - timedelta(minutes=1)
    day = await scripted_day(each_resources, writer.id, 120, began_at=began_at, until=until)
    await tally_events(each_resources, clock.at)
    assert await monitor.keep(each_resources, clock.at) == 0
    found = await monitor.figures(each_resources, RANGES["24h"], Narrowed(dataset))
    since, store = found.parts[0].began_at, each_resources.store

    async def listed(kind: Kind, **more: str) -> int:
        chosen = CountedFilter(kind, since, found.parts[-1].ended_at, dataset, **more)  # type: ignore[arg-type]
        rows = await counted.page(store, chosen, limit=10_000, offset=0)
        assert len(rows) == await counted.count(store, chosen)
        return len(rows)

    ends = [one for one in day.happened if dataset in (None, one.dataset) and one.type in found.ended]
    assert len(ends) == found.ended.total() == await listed(Kind.ENDS) > 0
    for end, count in found.ended.items():
        assert await listed(Kind.ENDS, type=end) == count
    assert sum(part.execution_time.total() for part in found.parts) == await listed(Kind.RUNS) > 0
    assert sum(part.queue_time.total() for part in found.parts) == await listed(Kind.STARTS) > 0
    assert found.deliveries.total() == await listed(Kind.REQUESTS) > 0
    for (error, endpoint), count in found.failures.items():
        assert await listed(Kind.REQUESTS, error=error, endpoint=endpoint) == count
    assert {*found.latency} == {"sse", "polling", "websocket", "callback"}
    for channel, counts in found.latency.items():
        assert await listed(Kind.CONFIRMATIONS, channel=channel) == counts.total()


async def test_two_that_count_at_once_count_nothing_twice(each_resources: Resources, writer: Viewer) -> None:
    clock = await Clock.of(each_resources.store)
    await monitor.keep(each_resources, clock.at - timedelta(days=1))
    began_at, until = clock.at - timedelta(minutes=5), clock.at - timedelta(minutes=1)
    day = await scripted_day(each_resources, writer.id, 30, began_at=began_at, until=until)
    for _ in range(3):
        await monitor.keep(each_resources, clock.at)
    found = await monitor.figures(each_resources, RANGES["24h"], Narrowed())
    assert found.deliveries.total() == len(day.sent) > 0


async def test_a_version_is_known_from_when_it_first_ran(each_resources: Resources) -> None:
    clock, store = await Clock.of(each_resources.store), each_resources.store
    await monitor.note_version(each_resources, clock.at)
    first = clock.at
    clock.move(60)
    await monitor.note_version(each_resources, clock.at)
    async with store.transaction():
        await rows_of.note_version(store, "next", at=clock.at)
        await rows_of.note_version(store, "next", at=clock.at + timedelta(hours=1))
    known = await rows_of.versions_since(store, first)
    assert [at for at, _ in known] == [first, clock.at]
    found = await monitor.figures(each_resources, RANGES["24h"], Narrowed())
    assert [version for part in found.parts for version in part.versions] == [version for _, version in known]
