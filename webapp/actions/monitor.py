"""What admins look at: how things are now, and how they went over a range of time."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate

from webapp import queue
from webapp.domain.tallies import BOUNDS, Metric
from webapp.queue import QueueName
from webapp.resources import Resources
from webapp.store import app_settings, monitor, overview
from webapp.store.monitor import ENDED, Running, Sum

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
        Range("1h", "1 hour", 12, timedelta(minutes=5)),
        Range("24h", "24 hours", 24, timedelta(hours=1)),
        Range("7d", "7 days", 28, timedelta(hours=6)),
        Range("30d", "30 days", 30, timedelta(days=1)),
    )
}


@dataclass(slots=True)
class Part:
    """What happened in one period. Ends by event type, deliveries by outcome."""

    began_at: datetime
    ended: Counter[str] = field(default_factory=Counter[str])
    queue_time: Counts = field(default_factory=Counts)
    execution_time: Counts = field(default_factory=Counts)
    deliveries: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class Figures:
    """`latency` by channel, `reasons` by error class. `workers` by queue; None when the broker cannot be asked."""

    now: datetime
    range: Range
    parts: Sequence[Part]
    latency: Mapping[str, Counts]
    reasons: Mapping[str, int]
    exports: Mapping[str, int]
    waiting_since: datetime | None
    dead_letters: int
    running: Sequence[Running]
    workers: Mapping[QueueName, bool] | None
    disk_free: int
    disk_total: int

    @property
    def ended(self) -> Counter[str]:
        return sum((part.ended for part in self.parts), Counter[str]())

    @property
    def deliveries(self) -> Counter[str]:
        return sum((part.deliveries for part in self.parts), Counter[str]())


async def keep(resources: Resources, now: datetime) -> int:
    """Brings what was counted since the last time under its time, and drops what is too old. Safe to run twice at once.

    The first time there is nothing to compare with, so what was counted before is under no time.
    """
    store = resources.store
    async with store.transaction():
        before = await monitor.copied_before(store)
        totals = await monitor.copied_totals(store)
        after = monitor.written(totals)
        if after != before and await monitor.move_on(store, before, after, at=now) and before is not None:
            known = monitor.read(before)
            await monitor.add(store, {now: {key: count - known.get(key, 0) for key, count in totals.items()
                                            if count > known.get(key, 0)}})  # fmt: skip
        await monitor.purge(store, now=now)
    return 0


async def figures(resources: Resources, over: Range) -> Figures:
    store = resources.store
    async with store.connection():
        now = await store.now()
        begins = over.begins(now)
        found = await monitor.since(store, begins[0], span=over.step)
        ended: dict[str, int] = await app_settings.get(store, overview.ENDED) or {}
        exports = await overview.active(store) | ended
        waiting_since = await overview.waiting_since(store)
        dead_letters = await overview.dead_letters(store)
        running = await monitor.running(store, limit=RUNNING_SHOWN)
    disk = await asyncio.to_thread(shutil.disk_usage, resources.settings.data_dir)
    return Figures(
        now=now,
        range=over,
        parts=_parts(found, begins),
        latency=_latency(found),
        reasons=_reasons(found),
        exports=exports,
        waiting_since=waiting_since,
        dead_letters=dead_letters,
        running=running,
        workers=await _workers(resources),
        disk_free=disk.free,
        disk_total=disk.total,
    )


async def _workers(resources: Resources) -> dict[QueueName, bool] | None:
    try:
        return {name: await queue.worker_is_alive(resources.redis, name) for name in QueueName}
    except queue.QUEUE_ERRORS:
        return None


def _parts(found: Sequence[Sum], begins: Sequence[datetime]) -> list[Part]:
    parts = {began_at: Part(began_at) for began_at in begins}
    for one in found:
        part = parts.setdefault(one.began_at, Part(one.began_at))
        match one.metric:
            case Metric.QUEUE_TIME:
                part.queue_time[one.bucket] += one.count
            case Metric.EXECUTION_TIME:
                part.execution_time[one.bucket] += one.count
            case Metric.DELIVERIES:
                part.deliveries[one.labels[0]] += one.count
            case _ if one.metric == ENDED:
                part.ended[one.labels[1]] += one.count
            case _:
                continue
    return list(parts.values())


def _latency(found: Sequence[Sum]) -> dict[str, Counts]:
    channels: dict[str, Counts] = {}
    for one in found:
        if one.metric == Metric.NOTIFICATION_LATENCY:
            channels.setdefault(one.labels[0], Counts())[one.bucket] += one.count
    return dict(sorted(channels.items()))


def _reasons(found: Sequence[Sum]) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for one in found:
        if one.metric == Metric.DELIVERIES and one.labels[1]:
            reasons[one.labels[1]] += one.count
    return reasons


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
