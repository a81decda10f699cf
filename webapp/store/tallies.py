"""Rows of `tallies`: running totals that no process keeps for itself, so they are right with any number of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from webapp.domain.tallies import Metric, Observation
from webapp.store import app_settings
from webapp.store.plain import ROWS, PlainSQL

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
    """Inside a transaction."""
    found: defaultdict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for one in observations:
        sums = found[one.metric.value, SEPARATOR.join(one.labels), one.bucket]
        sums[0] += one.count
        sums[1] += 0 if one.time is None else round(one.time / MILLISECOND)
    if not found:
        return
    keys = {"metric": "text", "labels": "text", "bucket": "integer"}
    await add_up(rows, "tallies", keys, ("count", "milliseconds"), [(*key, *sums) for key, sums in found.items()])


async def add_up(
    rows: PlainSQL, table: str, keys: Mapping[str, str], sums: Sequence[str], found: Iterable[tuple[Any, ...]]
) -> None:
    """Adds to the sums under these keys, or begins them. `keys`: the columns and their types; `found`: their values,
    then those of the sums. In one order always, so that two never wait for each other."""
    names = (*keys, *sums)
    given = [dict(zip(names, row, strict=True)) for row in sorted(found)]
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in sums)
    await rows.plain_rows(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(f'r.{name}' for name in names)} "
        f"FROM {ROWS} WHERE true ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {added}",
        given,
        {**keys, **dict.fromkeys(sums, "bigint")},
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
