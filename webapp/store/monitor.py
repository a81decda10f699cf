"""Rows of `tallies_over_time`: what happened in each five minutes of the last hour, each hour of the last day, and so
on. Whatever range is asked for is a few dozen periods, however much happened in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from webapp.domain.events import TERMINAL_TYPES, Event
from webapp.domain.tallies import Metric, observations_of
from webapp.store import app_settings
from webapp.store.database import PlainSQL, json_rows
from webapp.store.tallies import SEPARATOR
from webapp.store.types import EPOCH, from_milliseconds, to_milliseconds

KEPT: Mapping[timedelta, timedelta] = {
    timedelta(minutes=5): timedelta(hours=2),
    timedelta(hours=1): timedelta(days=2),
    timedelta(hours=6): timedelta(days=8),
    timedelta(days=1): timedelta(days=31),
}
"""The lengths of periods, and how long the rows of each are kept."""
SECOND = timedelta(seconds=1)

ENDED = "ended"
"""Attempts that ended, by dataset and the type of the event that said so."""
COPIED = (Metric.NOTIFICATION_LATENCY, Metric.DELIVERIES)
"""What is copied from the running totals: nothing else says when it happened."""
POSITION = "monitored_tallies"

Key = tuple[str, str, int]
"""Metric, labels as one text, and the number of the bucket."""


@dataclass(frozen=True, slots=True)
class Sum:
    """How often within the period that began then."""

    began_at: datetime
    metric: str
    labels: tuple[str, ...]
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
    """Inside a transaction: how often at which time. In one order always, so that two never wait for each other."""
    sums: Counter[tuple[int, int, str, str, int]] = Counter()
    for at, counts in found.items():
        for span in KEPT:
            began_at = to_milliseconds(begin(at, span))
            for key, count in counts.items():
                sums[span // SECOND, began_at, *key] += count
    if not sums:
        return
    names = ("span", "began_at", "metric", "labels", "bucket", "count")
    given = [dict(zip(names, (*key, count), strict=True)) for key, count in sorted(sums.items())]
    source = json_rows(
        rows, span="integer", began_at="bigint", metric="text", labels="text", bucket="integer", count="bigint"
    )
    await rows.plain(
        "INSERT INTO tallies_over_time (span, began_at, metric, labels, bucket, count) "
        f"SELECT r.span, r.began_at, r.metric, r.labels, r.bucket, r.count FROM {source} WHERE true "
        "ON CONFLICT (span, began_at, metric, labels, bucket) "
        "DO UPDATE SET count = tallies_over_time.count + excluded.count",
        rows=msgspec.json.encode(given).decode(),
    )


async def copied_totals(rows: PlainSQL) -> dict[Key, int]:
    metrics = ", ".join(f"'{metric.value}'" for metric in COPIED)
    found = await rows.plain(
        f"SELECT metric, labels, bucket, count FROM tallies WHERE metric IN ({metrics}) ORDER BY metric, labels, bucket"
    )
    return {(metric, labels, bucket): count for metric, labels, bucket, count in found}


async def copied_before(rows: PlainSQL) -> str | None:
    """The totals that were copied last, as `written` writes them; None when none ever were."""
    found = await rows.plain("SELECT value FROM settings WHERE name = :name", name=POSITION)
    return found[0][0] if found else None


def written(totals: Mapping[Key, int]) -> str:
    return msgspec.json.encode([(*key, count) for key, count in totals.items()]).decode()


def read(text: str | None) -> dict[Key, int]:
    rows = msgspec.json.decode(text or "[]", type=list[tuple[str, str, int, int]])
    return {(metric, labels, bucket): count for metric, labels, bucket, count in rows}


async def move_on(rows: PlainSQL, before: str | None, after: str, *, at: datetime) -> bool:
    """Inside a transaction: these totals are copied by us. False when somebody else was first."""
    return await app_settings.move_on(rows, POSITION, before or "", after, at=at)


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
    return [
        Sum(from_milliseconds(began), metric, tuple(labels.split(SEPARATOR)), bucket, count)
        for began, metric, labels, bucket, count in found
    ]


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
