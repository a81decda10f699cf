"""Alerts: what is watched over, when one fires, and when it is over. Times in seconds, shares in percent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from webapp.domain.events import rfc3339
from webapp.domain.sentences import say

FIRING, RESOLVED = ALERT_TYPES = ("alert.firing", "alert.resolved")
"""Events of alerts. They are told to endpoints that name them, and to nobody else."""


class Alert(StrEnum):
    QUEUE_TIME = "queue_time"
    STUCK_EXPORTS = "stuck_exports"
    DELIVERY_SUCCESS = "delivery_success"
    DEAD_LETTERS = "dead_letters"
    NO_WORKER = "no_worker"
    NOTIFICATION_LATENCY = "notification_latency"
    STORAGE = "storage"


class Unit(StrEnum):
    SECONDS = "seconds"
    PERCENT = "percent"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Rule:
    """`usual` is the threshold where none is set. With `is_floor` what is below it is past it, else what is above.

    A value has to be past it for all of `hold`, and to be well back for as long, by `margin` of the threshold: then the
    alert fires, or is over.
    """

    title: str
    summary: str
    unit: Unit
    usual: float
    hold: timedelta
    margin: float = 0.1
    is_floor: bool = False

    def is_past(self, value: float | None, threshold: float) -> bool:
        return value is not None and (value < threshold if self.is_floor else value > threshold)

    def is_back(self, value: float | None, threshold: float) -> bool:
        """With nothing to measure there is nothing wrong."""
        far = threshold * (1 + self.margin if self.is_floor else 1 - self.margin)
        return value is None or not self.is_past(value, far)


RECENT = timedelta(minutes=15)
"""Over which times and shares are taken."""
LONG = timedelta(hours=1)
"""Over which dead letters are counted."""
FEWEST_REQUESTS = 20
"""With fewer of them, the share that succeeded says nothing."""

RULES: Mapping[Alert, Rule] = {
    Alert.QUEUE_TIME: Rule(
        say("High queue time"),
        say("Of the exports that were started in the last 15 minutes, 5% had waited longer than this."),
        Unit.SECONDS,
        usual=300,
        hold=timedelta(minutes=5),
    ),
    Alert.STUCK_EXPORTS: Rule(
        say("Stuck exports"),
        say("An export has been waiting for this long."),
        Unit.SECONDS,
        usual=900,
        hold=timedelta(minutes=1),
    ),
    Alert.DELIVERY_SUCCESS: Rule(
        say("Low delivery success"),
        say("Of the callback requests of the last 15 minutes, this share succeeded."),
        Unit.PERCENT,
        usual=90,
        hold=timedelta(minutes=5),
        margin=0.02,
        is_floor=True,
    ),
    Alert.DEAD_LETTERS: Rule(
        say("Dead letters growing"),
        say("So many deliveries were given up within an hour."),
        Unit.COUNT,
        usual=10,
        hold=timedelta(minutes=1),
    ),
    Alert.NO_WORKER: Rule(
        say("No worker alive"),
        say("So many workers are alive of the kind that has fewest: for exports, or for callbacks."),
        Unit.COUNT,
        usual=1,
        hold=timedelta(minutes=1),
        margin=0,
        is_floor=True,
    ),
    Alert.NOTIFICATION_LATENCY: Rule(
        say("High notification latency"),
        say(
            "Of the changes that were confirmed in the last 15 minutes, 5% came later than this on the slowest channel "
            "that does not poll."
        ),
        Unit.SECONDS,
        usual=5,
        hold=timedelta(minutes=5),
    ),
    Alert.STORAGE: Rule(
        say("Storage nearly full"),
        say("So much of the disk is used to which exports are written."),
        Unit.PERCENT,
        usual=90,
        hold=timedelta(minutes=5),
        margin=0.02,
    ),
}


@dataclass(frozen=True, slots=True)
class Watch:
    """How it stands with an alert. `value` is the newest one that mattered; `turning_since`, since when what is
    measured speaks against the present state. Without `resolved_at` it fires since `firing_since`."""

    value: float | None = None
    turning_since: datetime | None = None
    firing_since: datetime | None = None
    resolved_at: datetime | None = None

    @property
    def is_firing(self) -> bool:
        return self.firing_since is not None and self.resolved_at is None


def watched(watch: Watch, rule: Rule, threshold: float, value: float | None, *, at: datetime) -> Watch:
    """One look later."""
    turns = rule.is_back(value, threshold) if watch.is_firing else rule.is_past(value, threshold)
    measured = value if watch.is_firing and value is not None else watch.value
    if not turns:
        return replace(watch, value=measured, turning_since=None)
    since = watch.turning_since or at
    if at - since < rule.hold:
        return replace(watch, value=measured, turning_since=since)
    if watch.is_firing:
        return replace(watch, value=measured, turning_since=None, resolved_at=at)
    return Watch(value=value, firing_since=at)


def payload(alert: Alert, watch: Watch, threshold: float | None, *, base_url: str) -> dict[str, Any]:
    """The alert as a callback carries it. `threshold` is None for one that was switched off."""
    rule = RULES[alert]
    return {
        "alert": alert.value,
        "state": "firing" if watch.is_firing else "resolved",
        "title": str(rule.title),
        "summary": str(rule.summary),
        "value": watch.value,
        "threshold": threshold,
        "unit": rule.unit.value,
        "firing_since": rfc3339(watch.firing_since),
        "resolved_at": rfc3339(watch.resolved_at),
        "url": f"{base_url}/monitor",
    }
