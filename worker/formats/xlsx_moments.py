"""Days and moments of a whole column as spreadsheets count them (`xlsx_times` says it for one), by Arrow's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from worker.formats.xlsx_times import DAY_LENGTH, DAY_ZERO, FIRST_DAY, MICROSECONDS_PER_DAY

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")

EPOCH_DAY = date(1970, 1, 1).toordinal() - DAY_ZERO
LAST_DAY = date.max.toordinal() - DAY_ZERO
SECOND, QUARTER = 1_000_000, 900_000_000
"""In microseconds."""

ZERO = datetime(1899, 12, 30, tzinfo=UTC)


class Serials(NamedTuple):
    """Days since 1899-12-30; `is_fraction` tells those with a fraction of a second, None when there are none."""

    days: Any
    is_fraction: Any


def days_of(dates: Any) -> Any | None:
    """Dates as numbers of days; None when a spreadsheet cannot hold them all."""
    days = pc.add(dates.cast(pa.int32()), EPOCH_DAY)
    return days if pc.min(days).as_py() >= FIRST_DAY else None


def moments_of_texts(texts: Any, zone: tzinfo, *, zoned: bool) -> Serials | None:
    """ISO timestamps, all with an offset or all without one; a day alone is no moment. Raises ValueError for others."""
    if pc.min(pc.binary_length(texts)).as_py() <= DAY_LENGTH:
        return None
    return _serials(texts.cast(pa.timestamp("us", "UTC" if zoned else None)), zone if zoned else None)


def moments_of_values(values: Sequence[datetime | None], zone: tzinfo, *, zoned: bool) -> Serials | None:
    if any(value is not None and (value.tzinfo is not None) != zoned for value in values):
        return None
    return _serials(pa.array(values, pa.timestamp("us", "UTC" if zoned else None)), zone if zoned else None)


def _serials(moments: Any, zone: tzinfo | None) -> Serials | None:
    """None when a spreadsheet cannot hold them all, or when their zone had an odd offset."""
    since = pc.add(moments.cast(pa.int64()), EPOCH_DAY * MICROSECONDS_PER_DAY)
    if not _are_within(since, FIRST_DAY, LAST_DAY):
        return None
    if zone is not None and str(zone) != "UTC":
        quarters = pc.divide(since, QUARTER)
        found = pc.unique(quarters)
        shifts = pa.array([None if each is None else _shift(zone, each) for each in found.to_pylist()], pa.int64())
        since = pc.add(since, shifts.take(pc.index_in(quarters, found)))
        if not _are_within(since, FIRST_DAY, LAST_DAY):
            return None
    days = pc.divide(since, MICROSECONDS_PER_DAY)
    rest = pc.subtract(since, pc.multiply(days, MICROSECONDS_PER_DAY))
    is_fraction = pc.not_equal(pc.multiply(pc.divide(rest, SECOND), SECOND), rest)
    serials = pc.add(days.cast(pa.float64()), pc.divide(rest.cast(pa.float64()), float(MICROSECONDS_PER_DAY)))
    return Serials(serials, is_fraction if pc.any(is_fraction).as_py() else None)


def _are_within(since: Any, first: int, last: int) -> bool:
    least, most = pc.min_max(since).as_py().values()
    return bool(first * MICROSECONDS_PER_DAY <= least and most < (last + 1) * MICROSECONDS_PER_DAY)


@lru_cache(8192)
def _shift(zone: tzinfo, quarter: int) -> int:
    """Microseconds that the zone is ahead of UTC in that quarter of an hour since day zero. Raises ValueError where it
    changes within."""
    begin = ZERO + timedelta(minutes=15 * quarter)
    first, last = ((begin + part).astimezone(zone).utcoffset() for part in (timedelta(), timedelta(seconds=899)))
    if first is None or first != last:
        raise ValueError(quarter)
    return first // timedelta(microseconds=1)
