"""Alerts: measured, kept and told by the sweep, from the numbers that the monitor page and `/metrics` show."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from webapp import bus, queue
from webapp.actions import disk, outbox, workers
from webapp.actions.changes import hint
from webapp.actions.monitor import quantile
from webapp.domain.alerts import (
    FEWEST_REQUESTS,
    FIRING,
    LONG,
    RECENT,
    RESOLVED,
    RULES,
    Alert,
    Rule,
    Watch,
    payload,
    watched,
)
from webapp.domain.callbacks import DeliveryState
from webapp.domain.tallies import Metric
from webapp.domain.workers import Queue
from webapp.queue import QueueName
from webapp.resources import Resources
from webapp.store import app_settings, monitor, overview
from webapp.store.monitor import Sum

log = logging.getLogger(__name__)

NAME = "alerts"
"""The setting in which they are kept."""
SHOWN_FOR = timedelta(hours=24)
"""How long one that is over is still shown."""
PERIOD = timedelta(minutes=5)
SHARE = 0.95
POLLING = "polling"
"""How late news comes there is the client's choice."""

Watches = Mapping[Alert, Watch]
_watches = msgspec.json.Decoder(dict[str, Watch])


@dataclass(frozen=True, slots=True)
class Standing:
    alert: Alert
    rule: Rule
    watch: Watch


async def standing(resources: Resources) -> Sequence[Standing]:
    """Those that fire, the newest first, and those that ended within the last day."""
    async with resources.store.connection():
        since = await resources.store.now() - SHOWN_FOR
        kept = _read(await app_settings.get_text(resources.store, NAME))
    found = [Standing(alert, RULES[alert], watch) for alert, watch in kept.items()]
    firing = [one for one in found if one.watch.is_firing]
    over = [one for one in found if one.watch.resolved_at and one.watch.resolved_at >= since]
    return [*_newest_first(firing), *_newest_first(over)]


def _newest_first(found: Sequence[Standing]) -> Sequence[Standing]:
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(found, key=lambda one: one.watch.firing_since or oldest, reverse=True)


async def keep(resources: Resources, now: datetime) -> int:
    """One look: what fires from now on, or is over, is told to the endpoints that asked. Safe to run twice at once."""
    store, values = resources.store, await measured(resources, now)
    owed = 0
    async with store.transaction():
        before = await app_settings.get_text(store, NAME)
        kept = _read(before)
        after = {alert: _looked_at(resources, alert, kept.get(alert, Watch()), values[alert], now) for alert in RULES}
        if after == kept or not await app_settings.move_on(store, NAME, before or "", _written(after), at=now):
            return 0
        changed = {alert for alert, watch in after.items() if watch.is_firing is not _was_firing(kept, alert)}
        for alert in changed:
            owed += await _record(resources, alert, after[alert], now)
    for alert in changed:
        log.warning("alert %s: %s", alert, "firing" if after[alert].is_firing else "resolved")
    if changed:
        await hint(resources, bus.Hint("", bus.MONITOR, 0))
    if owed:
        await _wake(resources)
    return 0


def _looked_at(resources: Resources, alert: Alert, watch: Watch, value: float | None, now: datetime) -> Watch:
    """One that is switched off ends as if there were nothing to measure."""
    threshold = resources.settings.alerts.get(alert)
    if threshold is None:
        return watched(watch, RULES[alert], RULES[alert].usual, None, at=now)
    return watched(watch, RULES[alert], threshold, value, at=now)


def _was_firing(kept: Watches, alert: Alert) -> bool:
    return alert in kept and kept[alert].is_firing


async def _record(resources: Resources, alert: Alert, watch: Watch, now: datetime) -> int:
    """How many callbacks were written for it."""
    settings = resources.settings
    data = payload(alert, watch, settings.alerts.get(alert), base_url=settings.base_url)
    return await outbox.record_alert(resources, FIRING if watch.is_firing else RESOLVED, data, at=now)


async def measured(resources: Resources, now: datetime) -> Mapping[Alert, float | None]:
    """None where there is nothing to measure."""
    async with resources.store.connection():
        found = await monitor.since(resources.store, monitor.begin(now - LONG, PERIOD), span=PERIOD)
        waiting_since = await overview.waiting_since(resources.store)
        alive = await workers.alive(resources, now)
    recent = [one for one in found if one.began_at >= monitor.begin(now - RECENT, PERIOD)]
    return {
        Alert.QUEUE_TIME: _slowest(recent, Metric.QUEUE_TIME, labelled=False),
        Alert.STUCK_EXPORTS: (now - waiting_since).total_seconds() if waiting_since else None,
        Alert.DELIVERY_SUCCESS: _delivery_success(recent),
        Alert.DEAD_LETTERS: _deliveries(found)[DeliveryState.DEAD.value],
        Alert.NO_WORKER: min(alive[name] for name in Queue),
        Alert.NOTIFICATION_LATENCY: _slowest(recent, Metric.NOTIFICATION_LATENCY, labelled=True),
        Alert.STORAGE: await _used_percent(resources),
    }


def _slowest(found: Sequence[Sum], metric: Metric, *, labelled: bool) -> float | None:
    """The time that 5% exceeded; `labelled`, of the worst of its channels."""
    counts: dict[str | None, Counter[int]] = {}
    for one in found:
        channel = one.labels.get("channel")
        if one.metric == metric and channel != POLLING:
            counts.setdefault(channel if labelled else None, Counter())[one.bucket] += one.count
    return max(filter(None, (quantile(metric, each, SHARE) for each in counts.values())), default=None)


def _delivery_success(found: Sequence[Sum]) -> float | None:
    requests = _deliveries(found)
    if requests.total() < FEWEST_REQUESTS:
        return None
    return 100 * requests[DeliveryState.SUCCEEDED.value] / requests.total()


def _deliveries(found: Sequence[Sum]) -> Counter[str]:
    """Requests by their outcome."""
    outcomes = Counter[str]()
    for one in found:
        if one.metric == Metric.DELIVERIES:
            outcomes[one.labels["outcome"]] += one.count
    return outcomes


async def _used_percent(resources: Resources) -> float | None:
    """As people without special rights see it: what is kept for the system counts as used."""
    found = await disk.usage(resources)
    return 100 * (1 - found.free / found.total) if found and found.total else None


async def _wake(resources: Resources) -> None:
    """It may be lost: what is owed is looked for anyway."""
    try:
        await queue.wake(resources.redis, QueueName.CALLBACKS)
    except queue.QUEUE_ERRORS:
        return


def _read(text: str | None) -> Watches:
    """Without alerts that another release has."""
    kept = _watches.decode(text or "{}")
    return {alert: kept[alert] for alert in Alert if alert in kept}


def _written(watches: Watches) -> str:
    return msgspec.json.encode(watches).decode()
