"""Prometheus metrics. What happened is read from the store, so every web process tells the same, whoever did it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from webapp.domain.exports import Status
from webapp.domain.tallies import BOUNDS, LABELS, Metric
from webapp.resources import Resources
from webapp.store import app_settings, overview, tallies
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
    """What a scrape tells. Times in seconds."""

    series: Sequence[Series]
    exports: Mapping[str, int]
    oldest_queued: float
    dead_letters: int
    live_connections: Mapping[str, int]


async def take(resources: Resources, live_connections: Mapping[str, int]) -> Snapshot:
    """`live_connections`: those of this process, by kind."""
    store = resources.store
    async with store.connection():
        now = await store.now()
        since = await overview.waiting_since(store)
        return Snapshot(
            series=await tallies.totals(store),
            exports=await overview.active(store) | (await app_settings.get(store, overview.ENDED) or {}),
            oldest_queued=(now - since).total_seconds() if since else 0.0,
            dead_letters=await overview.dead_letters(store),
            live_connections=live_connections,
        )


def exposition(snapshot: Snapshot) -> bytes:
    """As Prometheus reads it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(snapshot))
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
        yield _gauge("oldest_queued_seconds", "How long the oldest export that waits has waited.", told.oldest_queued)
        yield _gauge("dead_letters", "Deliveries whose schedule is used up.", told.dead_letters)


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
