"""Cells of a column as XML bodies, a whole batch at once, for the batches whose cells are all of one ordinary sort.

Each function gives one body for each value ("" for None), or None where only a look at each cell can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, TypeVar

import msgspec

from worker.formats.cells import base64_text
from worker.formats.xlsx_parts import STYLE_MOMENT
from worker.formats.xlsx_text import CELL_UNITS, FORBIDDEN, markup
from worker.formats.xlsx_times import DAY_ZERO, FIRST_DAY, ZONED

MOST_DIGITS = 15
MOST_EXACT = 10**MOST_DIGITS - 1
"""The largest integer whose digits a spreadsheet all shows."""

PLAIN_UNITS = CELL_UNITS // 2
"""Texts up to this length fit whatever characters they hold."""

PLAIN_BYTES = PLAIN_UNITS // 4 * 3
TEXT, KEPT, TEXT_END = '" t="inlineStr"><is><t>', '" t="inlineStr"><is><t xml:space="preserve">', "</t></is></c>"
NUMBER, NUMBER_END = '"><v>', "</v></c>"

Value = TypeVar("Value", str, bytes, int, float)

_encode = msgspec.json.Encoder().encode


def text_bodies(values: Sequence[str | None]) -> list[str] | None:
    texts = _present(values)
    joined = "".join(texts)
    if "\r" in joined or "_x" in joined or (len(joined) > PLAIN_UNITS and max(map(len, texts)) > PLAIN_UNITS):
        return None
    printable = joined.isprintable()
    if not printable and FORBIDDEN.search(joined):
        return None
    edges = (not printable or " " in joined) and texts != [*map(str.strip, texts)]
    if "&" in joined or "<" in joined or ">" in joined:
        texts = [markup(text) if "&" in text or "<" in text or ">" in text else text for text in texts]
    if edges or not printable:
        starts = [KEPT if "\n" in text or text != text.strip() else TEXT for text in texts]
        bodies = [f"{start}{text}{TEXT_END}" for start, text in zip(starts, texts, strict=True)]
    else:
        bodies = [f"{TEXT}{text}{TEXT_END}" for text in texts]
    return _spread(values, bodies)


def bytes_bodies(values: Sequence[bytes | None]) -> list[str] | None:
    if max(map(len, _present(values))) > PLAIN_BYTES:
        return None
    return ["" if value is None else f"{TEXT}{base64_text(value)}{TEXT_END}" for value in values]


def number_bodies(values: Sequence[float | None]) -> list[str] | None:
    """Floats, and integers of up to 15 digits among them."""
    numbers = _present(values)
    if (min(numbers) < -MOST_EXACT or max(numbers) > MOST_EXACT) and int in set(map(type, numbers)):
        return None
    return _numbers(values, NUMBER, NUMBER_END)


def long_integer_bodies(values: Sequence[int | None]) -> list[str] | None:
    """Integers that all have more than 15 digits, as text."""
    numbers = _present(values)
    if min(numbers) <= MOST_EXACT and min(map(abs, numbers)) <= MOST_EXACT:
        return None
    return _numbers(values, TEXT, TEXT_END)


def _numbers(values: Sequence[float | None], start: str, end: str) -> list[str] | None:
    try:
        text = _encode(values).decode("ascii")
    except OverflowError:
        return None
    if "null" in text and text.count("null") != values.count(None):  # NaN and the infinities are null too
        return None
    cells = f"{start}{text[1:-1].replace(',', f'{end},{start}')}{end}"
    return cells.replace(f"{start}null{end}", "").split(",")


class Moments:
    """The moments of one column: ISO timestamps in whole seconds, all with an offset or all without one.

    Taken apart by position and looked up piece by piece, several times faster than by `datetime`.
    """

    def __init__(self, zone: tzinfo, zoned: bool) -> None:
        self._days = Days()
        self._offsets: dict[str, int] = Offsets() if zoned else {"": 0}
        self._shifts = Shifts(zone) if zoned and str(zone) != "UTC" else None

    def bodies(self, values: Sequence[str | None]) -> list[str] | None:
        days, offsets, shifts = self._days, self._offsets, self._shifts
        try:
            seconds = [
                days[text[:10]] + MINUTES[text[10:17]] + SECONDS[text[17:19]] - offsets[text[19:]]
                for text in values
                if text is not None
            ]
            if shifts is not None:
                seconds = [second + shifts[second // QUARTER] for second in seconds]
        except (LookupError, ValueError, OverflowError):
            return None
        if min(seconds) < FIRST_SECOND or max(seconds) > LAST_SECOND:
            return None
        bodies = _numbers([second / DAY for second in seconds], MOMENT, NUMBER_END)
        return None if bodies is None else _spread(values, bodies)


DAY, QUARTER = 86_400, 900
FIRST_SECOND = FIRST_DAY * DAY
LAST_SECOND = (date.max.toordinal() - DAY_ZERO + 1) * DAY - 1
MOMENT = f'" s="{STYLE_MOMENT}"><v>'
ZERO = datetime(1899, 12, 30, tzinfo=UTC)
SECONDS = {f"{second:02}": second for second in range(60)}
MINUTES = {
    f"{mark}{minute // 60:02}:{minute % 60:02}:": minute * 60 for mark in " T" for minute in range(24 * 60)
}  # fmt: skip
REMEMBERED = 8192


class Days(dict[str, int]):
    """Seconds from day zero to the beginning of an ISO date."""

    def __missing__(self, text: str) -> int:
        if text[4:5] != "-" or text[7:8] != "-":
            raise ValueError(text)
        _forget(self)
        self[text] = seconds = (date.fromisoformat(text) - ZERO.date()).days * DAY
        return seconds


class Offsets(dict[str, int]):
    """Seconds that an offset such as `Z` or `+05:30` is ahead of UTC."""

    def __missing__(self, text: str) -> int:
        if not ZONED.fullmatch(text):
            raise ValueError(text)
        _forget(self)
        ahead = datetime.fromisoformat(f"2000-01-01T00:00:00{text}").utcoffset()
        assert ahead is not None
        self[text] = seconds = ahead // timedelta(seconds=1)
        return seconds


class Shifts(dict[int, int]):
    """Seconds that the zone is ahead of UTC, by quarters of an hour since day zero."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def __missing__(self, quarter: int) -> int:
        ahead = self._at(quarter * QUARTER)
        if ahead != self._at((quarter + 1) * QUARTER - 1):
            raise ValueError(quarter)
        _forget(self)
        self[quarter] = ahead
        return ahead

    def _at(self, second: int) -> int:
        ahead = (ZERO + timedelta(seconds=second)).astimezone(self._zone).utcoffset()
        assert ahead is not None
        return ahead // timedelta(seconds=1)


def _forget(memory: dict[Any, int]) -> None:
    if len(memory) >= REMEMBERED:
        memory.clear()


def _present(values: Sequence[Value | None]) -> list[Value]:
    return [value for value in values if value is not None]


def _spread(values: Sequence[Any], bodies: list[str]) -> list[str]:
    if len(values) == len(bodies):
        return bodies
    rest = iter(bodies)
    return ["" if value is None else next(rest) for value in values]
