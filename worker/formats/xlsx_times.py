"""Dates and times as spreadsheets count them: days since 1899-12-30, right from 1900-03-01 on."""

from __future__ import annotations

import re
from datetime import date, datetime, time, tzinfo
from typing import NamedTuple

from worker.formats.xlsx_parts import STYLE_DATE, STYLE_FRACTION, STYLE_MOMENT, STYLE_TIME, STYLE_TIME_FRACTION

DAY_ZERO = date(1899, 12, 30).toordinal()
FIRST_DAY = date(1900, 3, 1).toordinal() - DAY_ZERO
"""Before it, spreadsheets disagree: Excel believes in 1900-02-29."""

DAY_LENGTH = len("2024-02-29")
ZONED = re.compile(r"(?:[Zz]|[+-]\d\d(?::?\d\d){0,2})$")
TOO_FINE = re.compile(r"[.,]\d{7}")
MICROSECONDS_PER_DAY = 86_400_000_000


class Serial(NamedTuple):
    """A number of days and the style that shows it; `zoned` when it was told with an offset."""

    days: float
    style: int
    zoned: bool


def names_a_zone(value: object) -> bool:
    """Whether a timestamp, as text or as a value, says which offset it is told in."""
    if isinstance(value, str):
        return ZONED.search(value, DAY_LENGTH) is not None
    return isinstance(value, datetime) and value.tzinfo is not None


def serial_of_text(text: str, zone: tzinfo) -> Serial | None:
    """None where a spreadsheet could not hold exactly this ISO date or timestamp."""
    if text[4:5] != "-" or text[7:8] != "-":
        return None
    try:
        if len(text) == DAY_LENGTH:
            return serial_of_day(date.fromisoformat(text))
        if text[DAY_LENGTH] not in " T" or TOO_FINE.search(text):
            return None
        return serial_of_moment(datetime.fromisoformat(text), zone)
    except ValueError:
        return None


def serial_of_day(day: date) -> Serial | None:
    days = day.toordinal() - DAY_ZERO
    return Serial(days, STYLE_DATE, False) if days >= FIRST_DAY else None


def serial_of_moment(moment: datetime, zone: tzinfo) -> Serial | None:
    """The wall clock in `zone` if the moment has an offset, else the moment as it is told."""
    zoned = moment.tzinfo is not None
    if zoned:
        try:
            moment = moment.astimezone(zone)
        except OverflowError:
            return None
    days = moment.toordinal() - DAY_ZERO
    if days < FIRST_DAY:
        return None
    style = STYLE_FRACTION if moment.microsecond else STYLE_MOMENT
    return Serial(days + _part_of_day(moment), style, zoned)


def serial_of_clock_text(text: str) -> Serial | None:
    if text[2:3] != ":" or TOO_FINE.search(text):
        return None
    try:
        return serial_of_clock(time.fromisoformat(text))
    except ValueError:
        return None


def serial_of_clock(clock: time) -> Serial | None:
    if clock.tzinfo is not None:
        return None
    return Serial(_part_of_day(clock), STYLE_TIME_FRACTION if clock.microsecond else STYLE_TIME, False)


def _part_of_day(clock: time | datetime) -> float:
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
    return (seconds * 1_000_000 + clock.microsecond) / MICROSECONDS_PER_DAY
