"""The cells of one column as XML, a batch at a time.

A cell is `<c r="A1` (its reference) and a body, which is all the rest; bodies are built without knowing the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Any

from webapp.datasets.columns import Kind
from worker.formats.cells import is_numeral, is_switch, plain_text
from worker.formats.writer import Tally
from worker.formats.xlsx_text import CELL_UNITS, escaped, utf16_cut, xml_text
from worker.formats.xlsx_times import (
    Serial,
    names_a_zone,
    serial_of_clock,
    serial_of_clock_text,
    serial_of_day,
    serial_of_moment,
    serial_of_text,
)

EMPTY = ""
TRUE, FALSE = '" t="b"><v>1</v></c>', '" t="b"><v>0</v></c>'
CACHED_TIMES = 8192
TEXT, TEXT_KEPT, TEXT_END = '" t="inlineStr"><is><t>', '" t="inlineStr"><is><t xml:space="preserve">', "</t></is></c>"
MOST_DIGITS = 15
MOST_EXACT = 10**MOST_DIGITS - 1
"""The largest integer whose digits a spreadsheet all shows."""

PLAIN_UNITS = CELL_UNITS // 2
"""Texts up to this length fit whatever characters they hold."""

MOMENTS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_TZ})
TIMES = frozenset({Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ})

Body = Callable[[Any], str]


class ColumnCells:
    """`zone` is what zoned timestamps are told in; whether the column has any is decided by its first batch."""

    def __init__(self, letters: str, kind: Kind, zone: tzinfo, tally: Tally) -> None:
        self.start = f'<c r="{letters}'
        self.kind = kind
        self.zone = zone
        self._tally = tally
        self.zoned = kind is Kind.TIMESTAMP_TZ
        self._bodies: dict[type, Body] = {
            type(None): lambda _: EMPTY,
            str: self._text_body(kind),
            int: self._switch if kind is Kind.BOOLEAN else self._integer,
            float: self._float,
            bool: lambda value: TRUE if value else FALSE,
            Decimal: self._decimal,
            datetime: lambda value: self._serial(value, serial_of_moment(value, zone)),
            date: lambda value: self._serial(value, serial_of_day(value)),
            time: lambda value: self._serial(value, serial_of_clock(value)),
        }

    def look(self, values: Sequence[Any]) -> None:
        """The first batch: what the header will say about the whole column is known after it."""
        if self.kind is Kind.TIMESTAMP:
            self.zoned = any(map(names_a_zone, values))

    def bodies(self, values: Sequence[Any]) -> list[str]:
        """One for each value, empty for a cell that is not written."""
        bodies, other = self._bodies, self._other
        return [bodies.get(value.__class__, other)(value) for value in values]

    def count_long_integers(self, count: int) -> None:
        """What was written as text without a look at each cell."""
        self._tally.add("DIGITS_AS_TEXT", count)

    def _text_body(self, kind: Kind) -> Body:
        """Dates in text that read as such become real ones; everything else stays text."""
        if kind is Kind.TIME:
            return lambda text: self._serial(text, serial_of_clock_text(text))
        if kind is Kind.DECIMAL:
            return lambda text: self._decimal(Decimal(text)) if is_numeral(text) else self._text(text)
        if kind not in TIMES:
            return self._text

        @lru_cache(CACHED_TIMES)
        def body(text: str) -> str:
            return self._serial(text, serial_of_text(text, self.zone))

        return body

    def _serial(self, value: Any, serial: Serial | None) -> str:
        """Text when a spreadsheet cannot hold it, or when the header would say the wrong thing about its zone."""
        if serial is None or serial.zoned != self.zoned:
            return self._text(plain_text(value))
        return f'" s="{serial.style}"><v>{serial.days!r}</v></c>'

    def _switch(self, value: int) -> str:
        return (FALSE, TRUE)[value] if is_switch(value) else self._integer(value)

    def _integer(self, value: int) -> str:
        if -MOST_EXACT <= value <= MOST_EXACT:
            return f'"><v>{value}</v></c>'
        self._tally.add("DIGITS_AS_TEXT")
        return self._text(str(value))

    def _float(self, value: float) -> str:
        if math.isfinite(value):
            return f'"><v>{value!r}</v></c>'
        self._tally.add("NOT_FINITE_AS_TEXT")
        return self._text(repr(value))

    def _decimal(self, value: Decimal) -> str:
        if not value.is_finite():
            self._tally.add("NOT_FINITE_AS_TEXT")
            return self._text(str(value))
        if _significant_digits(value) <= MOST_DIGITS:
            return f'"><v>{value}</v></c>'
        self._tally.add("DIGITS_AS_TEXT")
        return self._text(str(value))

    def _other(self, value: Any) -> str:
        return self._text(plain_text(value))

    def _text(self, text: str) -> str:
        if len(text) <= PLAIN_UNITS and text.isprintable():
            return inline_text(text)
        valid = xml_text(text)
        if valid != text:
            self._tally.add("CONTROL_REPLACED")
        cut = utf16_cut(valid, CELL_UNITS)
        if cut is not valid:
            self._tally.add("CELL_CUT")
        return inline_text(cut)


def inline_text(text: str) -> str:
    """The body of a text cell, never a formula; space at the edges is kept only where the element says so."""
    start = TEXT_KEPT if text[:1].isspace() or text[-1:].isspace() or "\n" in text else TEXT
    return f"{start}{escaped(text)}{TEXT_END}"


def _significant_digits(value: Decimal) -> int:
    """Zeros at the end of a fraction do not count: an average of 2.5 may come as 2.5000000000000000."""
    _, digits, exponent = value.as_tuple()
    count = len(digits)
    while count > MOST_DIGITS and isinstance(exponent, int) and exponent < 0 and digits[count - 1] == 0:
        count, exponent = count - 1, exponent + 1
    return count
