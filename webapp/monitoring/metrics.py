"""Prometheus metrics. What happened is read from the store, so every process tells the same, whoever did it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from webapp.actions import change_log, disk, workers
from webapp.actions.change_log import Lag
from webapp.domain.exports import Status
from webapp.domain.tallies import BOUNDS, LABELS, Metric
from webapp.resources import Resources
from webapp.store import overview, tallies
from webapp.store.tallies import Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "exportdesk_"

TEXTS: Mapping[Metric, str] = {
    Metric.QUEUE_TIME: "From being queued to being started, by dataset.",
    Metric.EXECUTION_TIME: "From being started to its end, however it ended, by dataset.",
    Metric.NOTIFICATION_LATENCY: "From the commit of a change to its confirmation by who was told, by channel.",
    Metric.DELIVERY_ATTEMPT: "Requests to callback endpoints, from their start to their end.",
    Metric.NOTIFICATIONS: "Changes that were confirmed, and ends of exports that had to be told again, by channel.",
    Metric.DELIVERIES: "Requests to callback endpoints by how they ended and why.",
    Metric.SWEEP_ACTIONS: "What the sweep put right, by kind.",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a scrape tells. Times in seconds; `storage` in bytes, empty when the disk cannot be asked."""

    series: Sequence[Series]
    exports: Mapping[str, int]
    oldest_queued: float
    dead_letters: int
    live_connections: Mapping[str, int]
    worker_slots: Mapping[str, int]
    storage: Mapping[str, int]
    change_log: Lag | None
    """None where it goes nowhere."""


async def take(resources: Resources, live_connections: Mapping[str, int]) -> Snapshot:
    """`live_connections`: those of this process, by kind."""
    store, room = resources.store, await disk.usage(resources)
    async with store.connection():
        now = await store.now()
        since = await overview.waiting_since(store)
        return Snapshot(
            series=await tallies.totals(store),
            exports=overview.by_status(await overview.exports(store)),
            oldest_queued=(now - since).total_seconds() if since else 0.0,
            dead_letters=await overview.dead_letters(store),
            live_connections=live_connections,
            worker_slots=await workers.slots(resources, now),
            storage={"used": room.total - room.free, "free": room.free} if room else {},
            change_log=await change_log.lag(resources, now),
        )


def exposition(snapshot: Snapshot) -> bytes:
    """As Prometheus reads it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(snapshot))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


@dataclass(eq=False, slots=True)
class _Told(Collector):
    snapshot: Snapshot

    def collect(self) -> Iterator[Family]:
        told = self.snapshot
        for metric in Metric:
            yield _family(metric, [series for series in told.series if series.metric is metric])
        exports = {status.value: told.exports.get(status.value, 0) for status in Status}
        yield _gauges("exports", "Exports by status.", "status", exports)
        yield _gauges("live_connections", "Open connections of this process, by kind.", "kind", told.live_connections)
        yield _gauges("worker_slots", "Slots for exports of workers that are alive.", "state", told.worker_slots)
        yield _gauges("storage_bytes", "The disk that this process writes exports to.", "state", told.storage)
        yield _gauge("oldest_queued_seconds", "How long the oldest export that waits has waited.", told.oldest_queued)
        yield _gauge("dead_letters", "Deliveries whose schedule is used up.", told.dead_letters)
        if told.change_log is not None:
            yield _gauge("change_log_lag_events", "Events that the sink was not sent.", told.change_log.events)
            yield _gauge("change_log_lag_seconds", "How long the oldest of them has waited.", told.change_log.seconds)


def _family(metric: Metric, found: Iterable[Series]) -> Family:
    name, labels = PREFIX + metric.value, LABELS[metric]
    if metric not in BOUNDS:
        counter = CounterMetricFamily(name, TEXTS[metric], labels=labels)
        for series in found:
            counter.add_metric(series.labels, series.counts[0])
        return counter
    histogram = HistogramMetricFamily(f"{name}_seconds", TEXTS[metric], labels=labels)
    bounds = [*map(str, map(float, BOUNDS[metric])), "+Inf"]
    for series in found:
        counts = accumulate(series.counts.get(number, 0) for number in range(len(bounds)))
        histogram.add_metric(series.labels, [*zip(bounds, counts, strict=True)], series.seconds)
    return histogram


def _gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Family:
    family = GaugeMetricFamily(PREFIX + name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def _gauge(name: str, text: str, value: float) -> Family:
    return GaugeMetricFamily(PREFIX + name, text, value=value)
