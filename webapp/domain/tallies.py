"""What is counted of all that happens: how long it took, how often, and how it went."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from webapp.domain.events import TERMINAL_TYPES, Event


class Metric(StrEnum):
    QUEUE_TIME = "queue_time"
    EXECUTION_TIME = "execution_time"
    NOTIFICATION_LATENCY = "notification_latency"
    DELIVERY_ATTEMPT = "delivery_attempt"
    NOTIFICATIONS = "notifications"
    DELIVERIES = "deliveries"
    SWEEP_ACTIONS = "sweep_actions"


_LONG = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800, 3600)
BOUNDS: Mapping[Metric, Sequence[float]] = {
    Metric.QUEUE_TIME: _LONG,
    Metric.EXECUTION_TIME: _LONG,
    Metric.NOTIFICATION_LATENCY: (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5, 10, 30, 60),
    Metric.DELIVERY_ATTEMPT: (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
}
"""Upper bounds of the buckets, in seconds, of what is measured; the rest is only counted."""

LABELS: Mapping[Metric, tuple[str, ...]] = {
    Metric.QUEUE_TIME: ("dataset",),
    Metric.EXECUTION_TIME: ("dataset",),
    Metric.NOTIFICATION_LATENCY: ("channel",),
    Metric.DELIVERY_ATTEMPT: (),
    Metric.NOTIFICATIONS: ("channel", "outcome"),
    Metric.DELIVERIES: ("outcome", "reason"),
    Metric.SWEEP_ACTIONS: ("kind",),
}


@dataclass(frozen=True, slots=True)
class Observation:
    """`labels` are values in the order of LABELS; `time` is None for what is only counted."""

    metric: Metric
    labels: tuple[str, ...] = ()
    time: timedelta | None = None
    count: int = 1

    @property
    def bucket(self) -> int:
        """The number of the bucket: the first whose bound it does not exceed, or the one past them all."""
        return 0 if self.time is None else bisect_left(BOUNDS[self.metric], self.time.total_seconds())


def observations_of(event: Event) -> list[Observation]:
    """How long it waited when it starts, how long it ran when it ends."""
    if event.type == "export.started":
        return _since("queued_at", Metric.QUEUE_TIME, event)
    return _since("started_at", Metric.EXECUTION_TIME, event) if event.type in TERMINAL_TYPES else []


def _since(name: str, metric: Metric, event: Event) -> list[Observation]:
    began = event.data.get(name)
    if not began:
        return []
    time = max(event.timestamp - datetime.fromisoformat(began), timedelta())
    return [Observation(metric, (str(event.data["dataset"]),), time)]
