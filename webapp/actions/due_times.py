"""When a cron line is due, in a time zone: what summer time skips runs right after, what it repeats runs once."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile

from cronsim import CronSim, CronSimError

from webapp.datasets.relative import known_zone
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say

CRON_LENGTH = 100
MOST_OFTEN = timedelta(minutes=15)
LOOKED_AT = 50
LOOKED_AHEAD = timedelta(days=366)
"""Of the first times, those within a year show how often a line is due. Later ones of a rare line take long to find."""

NEVER = say("Is never due.")


def following(cron: str, zone: str, after: datetime, count: int) -> Sequence[datetime]:
    """The next times after a moment, in UTC; fewer when there are no more. The line has been checked."""
    times = CronSim(cron, after.astimezone(zoneinfo.ZoneInfo(zone)))
    return [moment.astimezone(UTC) for moment in islice(times, count)]


def checked_cron(cron: object, zone: object, now: datetime) -> tuple[str, str]:
    """The line with single spaces, and the zone. Raises Invalid naming `cron` and `zone`."""
    errors: list[FieldError] = []
    if not _is_zone(zone):
        errors.append(FieldError("zone", say("Must be a time zone's name, such as Europe/Berlin.")))
    line = " ".join(cron.split()) if isinstance(cron, str) else ""
    if problem := _cron_problem(line, zone if _is_zone(zone) and isinstance(zone, str) else "UTC", now):
        errors.append(FieldError("cron", problem))
    if errors:
        raise Invalid(errors)
    return line, str(zone)


def _is_zone(zone: object) -> bool:
    return isinstance(zone, str) and zone in ("UTC", known_zone(zone))


def _cron_problem(line: str, zone: str, now: datetime) -> str | None:
    try:
        if len(line) > CRON_LENGTH or len(line.split(" ")) != 5:
            raise ValueError(line)
        times = CronSim(line, now.astimezone(zoneinfo.ZoneInfo(zone)))
    except (CronSimError, ValueError):
        is_never = len(line) <= CRON_LENGTH and _has_no_such_day(line, now)
        return NEVER if is_never else say("Must be a cron line of five fields, such as 30 8 * * 1.")
    found = [moment.astimezone(UTC) for moment in islice(times, 1)]
    if not found:
        return NEVER
    soon = takewhile(lambda moment: moment < now + LOOKED_AHEAD, (moment.astimezone(UTC) for moment in times))
    if any(later - earlier < MOST_OFTEN for earlier, later in pairwise([*found, *islice(soon, LOOKED_AT)])):
        return say("Must not be due more often than every 15 minutes.")
    return None


def _has_no_such_day(line: str, now: datetime) -> bool:
    """As the 31st of February: its day and its month are right, each by itself."""
    try:
        minute, hour, day, month, weekday = line.split(" ")
        CronSim(f"{minute} {hour} {day} * {weekday}", now)
        CronSim(f"{minute} {hour} * {month} {weekday}", now)
    except (CronSimError, ValueError):
        return False
    return True
