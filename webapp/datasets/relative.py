"""Dates and times that move with the day: `today - 30d`, `start of month`, `end of last quarter`, `now - 6h`."""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

EXAMPLES = "today - 30d, start of month or now - 6h"

DATE = re.compile(
    r"(today|(?:start|end) of (?:last |next )?(?:week|month|quarter|year))(?:\s*([+-])\s*([0-9]{1,5})\s*d)?"
)
NOW = re.compile(r"now(?:\s*([+-])\s*([0-9]{1,5})\s*([smhd]))?")
MONTHS = {"month": 1, "quarter": 3, "year": 12}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Moment:
    """What `today` and `now` mean. `now` carries its offset."""

    today: date
    now: datetime


def moment_in(zone: object, now: datetime) -> Moment:
    """What they mean to somebody in this zone; None and a zone that nobody knows are UTC."""
    local = now.astimezone(zoneinfo.ZoneInfo(known_zone(zone)))
    return Moment(local.date(), local)


def known_zone(text: object) -> str:
    """The IANA name if it is one, else UTC."""
    try:
        return zoneinfo.ZoneInfo(text).key if isinstance(text, str) and text else "UTC"
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


def is_relative(value: object) -> bool:
    return isinstance(value, str) and bool(DATE.fullmatch(value) or NOW.fullmatch(value))


def resolve_date(text: str, today: date) -> date:
    """The day that the words mean today; a week starts on Monday, a period ends on its last day. Raises ValueError."""
    match = DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign = -1 if match[2] == "-" else 1
    try:
        return _anchor(match[1], today) + timedelta(days=sign * int(match[3] or 0))
    except OverflowError as error:
        raise ValueError(text) from error


def resolve_datetime(text: str, today: date, now: datetime) -> datetime:
    """In UTC, whole seconds; a day means its midnight where `now` is, which carries its offset, and the end of a period
    the midnight after its last day. Raises ValueError."""
    match = NOW.fullmatch(text)
    try:
        if match is None:
            day = resolve_date(text, today) + timedelta(days=text.startswith("end of"))
            return datetime.combine(day, time(), now.tzinfo).astimezone(UTC)
        sign = -1 if match[1] == "-" else 1
        seconds = sign * int(match[2] or 0) * SECONDS[match[3] or "s"]
        return now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
    except OverflowError as error:
        raise ValueError(text) from error


def _anchor(words: str, today: date) -> date:
    if words == "today":
        return today
    edge, _, rest = words.partition(" of ")
    which, _, period = rest.rpartition(" ")
    step = {"last": -1, "": 0, "next": 1}[which]
    return _start(period, today, step) if edge == "start" else _start(period, today, step + 1) - timedelta(days=1)


def _start(period: str, today: date, step: int) -> date:
    """The first day of the period that is `step` periods from today's."""
    if period == "week":
        return today - timedelta(days=today.weekday()) + timedelta(weeks=step)
    months = MONTHS[period]
    month = ((today.year * 12 + today.month - 1) // months + step) * months
    return date(month // 12, month % 12 + 1, 1)
