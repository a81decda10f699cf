"""Rows of `tallies_over_time`: what happened in each five minutes of the last hour, each hour of the last day, and so
on. Whatever range is asked for is a few dozen periods, however much happened in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from webapp.domain.events import TERMINAL_TYPES, Event
from webapp.domain.tallies import Metric, observations_of
from webapp.store.plain import PlainSQL
from webapp.store.tallies import SEPARATOR, add_up
from webapp.store.types import EPOCH, from_milliseconds, to_milliseconds

KEPT: Mapping[timedelta, timedelta] = {
    timedelta(minutes=5): timedelta(hours=2),
    timedelta(hours=1): timedelta(days=2),
    timedelta(hours=6): timedelta(days=8),
    timedelta(days=1): timedelta(days=31),
}
"""The lengths of periods, and how long the rows of each are kept."""
SECOND = timedelta(seconds=1)
LATE_COMMITS = timedelta(seconds=10)
"""What happened may be committed so much later than its time says; after that nobody waits for it."""

ENDED = "ended"
"""Attempts that ended, by dataset and the type of the event that said so."""
STREAMS, SLOTS = "streams", "slots"
"""How many there were, added up over the looks at them; LOOKS is how often it was looked."""
LOOKS = "looks"
LABELS: Mapping[str, tuple[str, ...]] = {
    Metric.QUEUE_TIME: ("dataset",),
    Metric.EXECUTION_TIME: ("dataset",),
    ENDED: ("dataset", "type"),
    Metric.NOTIFICATION_LATENCY: ("channel", "dataset"),
    Metric.DELIVERIES: ("outcome", "reason", "dataset", "endpoint"),
    Metric.SWEEP_ACTIONS: ("kind",),
    STREAMS: ("kind",),
    SLOTS: ("state",),
    LOOKS: ("of",),
}
"""`endpoint` is an id where a request failed; empty for those of single exports, of which there is no end."""
POSITION = "monitored_until"

Key = tuple[str, str, int]
"""Metric, labels as one text, and the number of the bucket."""


@dataclass(frozen=True, slots=True)
class Sum:
    """How often within the period that began then."""

    began_at: datetime
    metric: str
    labels: Mapping[str, str]
    bucket: int
    count: int


@dataclass(frozen=True, slots=True)
class Running:
    """`worker` is None for an attempt from before attempts were kept."""

    export_id: str
    dataset: str
    worker: str | None
    started_at: datetime
    heartbeat_at: datetime | None


def begin(at: datetime, span: timedelta) -> datetime:
    """Of the period that this time is in. Periods begin at whole multiples of their length, in UTC."""
    return EPOCH + (at - EPOCH) // span * span


async def add_events(rows: PlainSQL, events: Iterable[Event]) -> None:
    """Inside a transaction. Each event counts where its time is."""
    found: dict[datetime, Counter[Key]] = {}
    for event in events:
        counts = found.setdefault(event.timestamp, Counter())
        for one in observations_of(event):
            counts[one.metric.value, SEPARATOR.join(one.labels), one.bucket] += one.count
        if event.type in TERMINAL_TYPES:
            counts[ENDED, SEPARATOR.join((str(event.data["dataset"]), event.type)), 0] += 1
    await add(rows, found)


async def add(rows: PlainSQL, found: Mapping[datetime, Mapping[Key, int]]) -> None:
    """Inside a transaction: how often at which time."""
    sums: Counter[tuple[int, int, str, str, int]] = Counter()
    for at, counts in found.items():
        for span in KEPT:
            began_at = to_milliseconds(begin(at, span))
            for key, count in counts.items():
                sums[span // SECOND, began_at, *key] += count
    if not sums:
        return
    keys = {"span": "integer", "began_at": "bigint", "metric": "text", "labels": "text", "bucket": "integer"}
    await add_up(rows, "tallies_over_time", keys, ("count",), [(*key, count) for key, count in sums.items()])


async def purge(rows: PlainSQL, *, now: datetime) -> None:
    for span, kept in KEPT.items():
        await rows.plain(
            "DELETE FROM tallies_over_time WHERE span = :span AND began_at < :before",
            span=span // SECOND,
            before=to_milliseconds(now - kept),
        )


async def since(rows: PlainSQL, began_at: datetime, *, span: timedelta) -> Sequence[Sum]:
    """All of the period that began then, and of those after it."""
    found = await rows.plain(
        "SELECT began_at, metric, labels, bucket, count FROM tallies_over_time "
        "WHERE span = :span AND began_at >= :since",
        span=span // SECOND,
        since=to_milliseconds(began_at),
    )
    begins = {began: from_milliseconds(began) for began in {row[0] for row in found}}
    return [
        Sum(begins[began], metric, _named(metric, labels), bucket, count)
        for began, metric, labels, bucket, count in found
    ]


@lru_cache(10_000)
def _named(metric: str, labels: str) -> Mapping[str, str]:
    return dict(zip(LABELS[metric], labels.split(SEPARATOR), strict=True))


async def running(rows: PlainSQL, *, limit: int) -> Sequence[Running]:
    """Those that run longest first."""
    found = await rows.plain(
        "SELECT e.id, e.dataset, a.worker, e.started_at, e.heartbeat_at FROM exports e "
        "LEFT JOIN attempts a ON a.export_id = e.id AND a.number = e.attempt "
        "WHERE e.status = 'PROCESSING' ORDER BY e.started_at, e.id LIMIT :most",
        most=limit,
    )
    return [
        Running(id, dataset, worker, from_milliseconds(began), None if beat is None else from_milliseconds(beat))
        for id, dataset, worker, began, beat in found
    ]


async def is_version_known(rows: PlainSQL, version: str) -> bool:
    return bool(await rows.plain("SELECT 1 FROM versions WHERE version = :version", version=version))


async def note_version(rows: PlainSQL, version: str, *, at: datetime) -> None:
    """The first time counts."""
    await rows.plain(
        "INSERT INTO versions (version, first_ran_at) VALUES (:version, :at) ON CONFLICT (version) DO NOTHING",
        version=version,
        at=to_milliseconds(at),
    )


async def versions_since(rows: PlainSQL, moment: datetime) -> Sequence[tuple[datetime, str]]:
    """When which version first ran, oldest first."""
    found = await rows.plain(
        "SELECT first_ran_at, version FROM versions WHERE first_ran_at >= :since ORDER BY first_ran_at, version",
        since=to_milliseconds(moment),
    )
    return [(from_milliseconds(at), version) for at, version in found]
