"""Rows of `tallies`: running totals that no process keeps for itself, so they are right with any number of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from webapp.domain.tallies import Metric, Observation
from webapp.store import app_settings
from webapp.store.database import PlainSQL, json_rows

MILLISECOND = timedelta(milliseconds=1)
SEPARATOR = "\x1f"
POSITION = "tallied_events"


@dataclass(slots=True)
class Series:
    """One combination of labels: counts by the number of the bucket, and the sum of all times in seconds."""

    metric: Metric
    labels: tuple[str, ...]
    counts: dict[int, int] = field(default_factory=dict[int, int])
    seconds: float = 0.0


async def add(rows: PlainSQL, observations: Iterable[Observation]) -> None:
    """Inside a transaction. In one order always, so that two of them never wait for each other."""
    found: defaultdict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for one in observations:
        sums = found[one.metric.value, SEPARATOR.join(one.labels), one.bucket]
        sums[0] += one.count
        sums[1] += 0 if one.time is None else round(one.time / MILLISECOND)
    if not found:
        return
    given = [
        {"metric": metric, "labels": labels, "bucket": bucket, "count": count, "milliseconds": milliseconds}
        for (metric, labels, bucket), (count, milliseconds) in sorted(found.items())
    ]
    source = json_rows(rows, metric="text", labels="text", bucket="integer", count="bigint", milliseconds="bigint")
    await rows.plain(
        "INSERT INTO tallies (metric, labels, bucket, count, milliseconds) "
        f"SELECT r.metric, r.labels, r.bucket, r.count, r.milliseconds FROM {source} WHERE true "
        "ON CONFLICT (metric, labels, bucket) DO UPDATE SET count = tallies.count + excluded.count, "
        "milliseconds = tallies.milliseconds + excluded.milliseconds",
        rows=msgspec.json.encode(given).decode(),
    )


async def totals(rows: PlainSQL) -> Sequence[Series]:
    found: dict[tuple[str, str], Series] = {}
    for metric, labels, bucket, count, milliseconds in await rows.plain(
        "SELECT metric, labels, bucket, count, milliseconds FROM tallies ORDER BY metric, labels, bucket"
    ):
        series = found.setdefault((metric, labels), Series(Metric(metric), tuple(labels.split(SEPARATOR))))
        series.counts[bucket] = count
        series.seconds += milliseconds / 1000
    return list(found.values())


async def move_on(rows: PlainSQL, before: int, after: int, *, at: datetime) -> bool:
    """Inside a transaction: events up to the number `after` are tallied by us. False when somebody else was first."""
    return await app_settings.move_on(rows, POSITION, str(before), str(after), at=at)
