"""What admins look at: how things are now, and how they went over a range of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate

from webapp import bus, open_streams, release
from webapp.actions import disk
from webapp.actions.changes import hint
from webapp.actions.disk import Usage
from webapp.actions.workers import SHOWN, slots
from webapp.domain.sentences import say
from webapp.domain.tallies import BOUNDS, Metric
from webapp.domain.workers import Worker
from webapp.queue import QUEUE_ERRORS
from webapp.resources import Resources
from webapp.store import app_settings, counted, events, monitor, overview, tallies, workers
from webapp.store import endpoints as endpoint_rows
from webapp.store.counted import Counted, CountedFilter
from webapp.store.monitor import LATE_COMMITS, LOOKS, SLOTS, STREAMS, Running, Sum
from webapp.store.types import from_milliseconds, to_milliseconds

RUNNING_SHOWN = 100
Counts = Counter[int]
"""By the number of the bucket."""


@dataclass(frozen=True, slots=True)
class Range:
    """So many periods of equal length that end with the one that is not over yet."""

    name: str
    title: str
    parts: int
    step: timedelta

    def begins(self, now: datetime) -> list[datetime]:
        last = monitor.begin(now, self.step)
        return [last - number * self.step for number in reversed(range(self.parts))]


RANGES: Mapping[str, Range] = {
    found.name: found
    for found in (
        Range("1h", say("1 hour"), 12, timedelta(minutes=5)),
        Range("24h", say("24 hours"), 24, timedelta(hours=1)),
        Range("7d", say("7 days"), 28, timedelta(hours=6)),
        Range("30d", say("30 days"), 30, timedelta(days=1)),
    )
}


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What the figures are of: one dataset, one channel; None is all of them."""

    dataset: str | None = None
    channel: str | None = None

    def matches(self, one: Sum) -> bool:
        """What is of no dataset or no channel is never narrowed by it."""
        wanted = (("dataset", self.dataset), ("channel", self.channel))
        return all(value in (None, one.labels.get(name, value)) for name, value in wanted)


@dataclass(slots=True)
class Part:
    """What happened in one period. Ends by event type, run times by dataset, latencies by channel, requests by
    outcome, what the sweep did by kind. `versions` first ran in it."""

    began_at: datetime
    ended_at: datetime
    ended: Counter[str] = field(default_factory=Counter[str])
    queue_time: Counts = field(default_factory=Counts)
    run_times: dict[str, Counts] = field(default_factory=dict[str, Counts])
    latencies: dict[str, Counts] = field(default_factory=dict[str, Counts])
    deliveries: Counter[str] = field(default_factory=Counter[str])
    failures: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """By error class and endpoint."""
    streams: Counter[str] = field(default_factory=Counter[str])
    slots: Counter[str] = field(default_factory=Counter[str])
    looks: Counter[str] = field(default_factory=Counter[str])
    """Streams by kind and slots by state, added up over so many looks at each."""
    swept: Counter[str] = field(default_factory=Counter[str])
    versions: list[str] = field(default_factory=list[str])

    @property
    def execution_time(self) -> Counts:
        return _added(self.run_times.values())

    def add(self, one: Sum) -> None:
        labels = one.labels
        match one.metric:
            case Metric.QUEUE_TIME:
                self.queue_time[one.bucket] += one.count
            case Metric.EXECUTION_TIME:
                self.run_times.setdefault(labels["dataset"], Counts())[one.bucket] += one.count
            case Metric.NOTIFICATION_LATENCY:
                self.latencies.setdefault(labels["channel"], Counts())[one.bucket] += one.count
            case Metric.DELIVERIES:
                self.deliveries[labels["outcome"]] += one.count
                if labels["reason"]:
                    self.failures[labels["reason"], labels["endpoint"]] += one.count
            case Metric.SWEEP_ACTIONS:
                self.swept[labels["kind"]] += one.count
            case monitor.STREAMS:
                self.streams[labels["kind"]] += one.count
            case monitor.SLOTS:
                self.slots[labels["state"]] += one.count
            case monitor.LOOKS:
                self.looks[labels["of"]] += one.count
            case _:
                self.ended[labels["type"]] += one.count

    def average(self, of: str, name: str) -> float | None:
        """Streams of a kind that were open, or slots in a state; None when nobody looked."""
        counts = {STREAMS: self.streams, SLOTS: self.slots}[of]
        return counts[name] / self.looks[of] if self.looks[of] else None


@dataclass(frozen=True, slots=True)
class Figures:
    """`exports` by status. `streams`: those open now, by kind; None while Redis does not answer. `datasets`: all that
    there are or that anything was counted of. `endpoints`: what those behind failures are called. `workers`: those of
    the last hour, the gone ones too. `disk`: the one exports are written to; None when it cannot be asked. `moved`
    grows whenever anything new was counted."""

    now: datetime
    range: Range
    narrowed: Narrowed
    parts: Sequence[Part]
    exports: Mapping[str, int]
    streams: Mapping[str, int] | None
    datasets: Sequence[str]
    endpoints: Mapping[str, tuple[str, str]]
    waiting_since: datetime | None
    dead_letters: int
    running: Sequence[Running]
    workers: Sequence[Worker]
    disk: Usage | None
    cursor: int
    moved: int

    @property
    def ended(self) -> Counter[str]:
        return sum((part.ended for part in self.parts), Counter[str]())

    @property
    def deliveries(self) -> Counter[str]:
        return sum((part.deliveries for part in self.parts), Counter[str]())

    @property
    def failures(self) -> Counter[tuple[str, str]]:
        return sum((part.failures for part in self.parts), Counter[tuple[str, str]]())

    @property
    def swept(self) -> Counter[str]:
        return sum((part.swept for part in self.parts), Counter[str]())

    @property
    def latency(self) -> dict[str, Counts]:
        """By channel."""
        channels = sorted({channel for part in self.parts for channel in part.latencies})
        return {name: _added(part.latencies.get(name, {}) for part in self.parts) for name in channels}

    @property
    def run_times(self) -> dict[str, Counts]:
        """By dataset, those with the most attempts first."""
        names = sorted({name for part in self.parts for name in part.run_times})
        found = {name: _added(part.run_times.get(name, {}) for part in self.parts) for name in names}
        return dict(sorted(found.items(), key=lambda pair: -pair[1].total()))


def _added(found: Iterable[Mapping[int, int]]) -> Counts:
    added = Counts()
    for one in found:
        added.update(one)
    return added


async def keep(resources: Resources, now: datetime) -> int:
    """Counts requests and confirmations since the last time under the time they came at. Safe to run twice at once.

    The first time nothing is counted: what was before there was a monitor is under no time.
    """
    store, until = resources.store, now - LATE_COMMITS
    async with store.connection():
        since: int | None = await app_settings.get(store, monitor.POSITION)
        found = await counted.sums(store, until if since is None else from_milliseconds(since), until)
    if since is not None and not found:
        return 0
    async with store.transaction():
        before, after = "" if since is None else str(since), str(to_milliseconds(until))
        if not await app_settings.move_on(store, monitor.POSITION, before, after, at=now):
            return 0
        await monitor.add(store, found)
    await tell_news(resources)
    return 0


async def look(resources: Resources, now: datetime) -> int:
    """How many streams are open and what slots do, for the averages of the periods they are looked at in. Two that look
    at once count as two looks."""
    streams = await open_now(resources)
    async with resources.store.transaction():
        seen = {SLOTS: await slots(resources, now)} | ({STREAMS: streams} if streams is not None else {})
        found = {(of, name, 0): count for of, counts in seen.items() for name, count in counts.items() if count}
        await monitor.add(resources.store, {now: found | {(LOOKS, of, 0): 1 for of in seen}})
    await tell_news(resources)
    return 0


async def open_now(resources: Resources) -> Mapping[str, int] | None:
    """Streams of all web processes, by kind; None while Redis does not answer."""
    try:
        return await open_streams.count(resources.redis)
    except QUEUE_ERRORS:
        return None


async def tell_news(resources: Resources) -> None:
    """A hint to open monitor pages that something was counted."""
    await hint(resources, bus.Hint("", bus.MONITOR, 0))


async def drop_old(resources: Resources, now: datetime) -> int:
    async with resources.store.transaction():
        await monitor.purge(resources.store, now=now)
    return 0


async def note_version(resources: Resources, now: datetime) -> int:
    """For the marks on charts: which version of the application runs, and since when."""
    store, version = resources.store, release.version()
    async with store.connection():
        is_known = await monitor.is_version_known(store, version)
    if not is_known:
        async with store.transaction():
            await monitor.note_version(store, version, at=now)
    return 0


async def figures(resources: Resources, over: Range, narrowed: Narrowed) -> Figures:
    store = resources.store
    async with store.connection():
        cursor = await events.latest_seq(store)
        moved = (await app_settings.get(store, monitor.POSITION) or 0) + (
            await app_settings.get(store, tallies.POSITION) or 0
        )
        now = await store.now()
        begins = over.begins(now)
        found = await monitor.since(store, begins[0], span=over.step)
        exports = await overview.exports(store)
        waiting_since = await overview.waiting_since(store, narrowed.dataset)
        dead_letters = await overview.dead_letters(store)
        running = await monitor.running(store, limit=RUNNING_SHOWN)
        at_work = await workers.newest_first(store, limit=SHOWN)
        parts = _parts([one for one in found if narrowed.matches(one)], begins, over.step)
        _note_versions(parts, await monitor.versions_since(store, begins[0]), over.step)
        endpoints = await endpoint_rows.names_of(store, list({id for part in parts for _, id in part.failures if id}))
    return Figures(
        now=now,
        range=over,
        narrowed=narrowed,
        parts=parts,
        exports=overview.by_status(exports, narrowed.dataset),
        streams=await open_now(resources),
        datasets=sorted(
            {*resources.catalog.datasets, *exports, *(one.labels.get("dataset", "") for one in found)} - {""}
        ),
        endpoints=endpoints,
        waiting_since=waiting_since,
        dead_letters=dead_letters,
        running=running,
        workers=at_work,
        disk=await disk.usage(resources),
        cursor=cursor,
        moved=moved,
    )


async def listed(
    resources: Resources, chosen: CountedFilter, *, limit: int, offset: int
) -> tuple[int, Sequence[Counted], Mapping[str, tuple[str, str]]]:
    """How many match, a page of them, and what their endpoints are called."""
    store = resources.store
    async with store.connection():
        total = await counted.count(store, chosen)
        found = await counted.page(store, chosen, limit=limit, offset=offset)
        ids = {one.endpoint_id for one in found if one.endpoint_id}
        return total, found, await endpoint_rows.names_of(store, list(ids))


def _parts(found: Iterable[Sum], begins: Sequence[datetime], step: timedelta) -> list[Part]:
    parts = {began_at: Part(began_at, began_at + step) for began_at in begins}
    for one in found:
        if one.began_at in parts:
            parts[one.began_at].add(one)
    return list(parts.values())


def _note_versions(parts: Iterable[Part], found: Iterable[tuple[datetime, str]], step: timedelta) -> None:
    at = {part.began_at: part for part in parts}
    for moment, version in found:
        if part := at.get(monitor.begin(moment, step)):
            part.versions.append(version)


def quantile(metric: Metric, counts: Mapping[int, int], share: float) -> float | None:
    """Seconds, read from the buckets: within one, times are taken to be evenly spread. None without any.

    Past the last bound nothing is known but that bound.
    """
    bounds, total = BOUNDS[metric], sum(counts.values())
    if not total:
        return None
    rank = share * total
    reached = accumulate(counts.get(number, 0) for number in range(len(bounds)))
    for number, upper in enumerate(reached):
        if upper >= rank and counts.get(number, 0):
            lower = bounds[number - 1] if number else 0.0
            into = (rank - (upper - counts[number])) / counts[number]
            return lower + (bounds[number] - lower) * into
    return float(bounds[-1])
