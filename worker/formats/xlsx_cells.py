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
from worker.formats.cells import is_switch, plain_text
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

MOST_EXACT = 10**15 - 1
"""The largest integer whose digits a spreadsheet all shows."""

PLAIN_UNITS = CELL_UNITS // 2
"""Texts up to this length fit whatever characters they hold."""

EMPTY = ""
TRUE, FALSE = '" t="b"><v>1</v></c>', '" t="b"><v>0</v></c>'
SERIAL_CACHE = 4096

Body = Callable[[Any], str]


class ColumnCells:
    """`zone` is what zoned timestamps are told in; whether the column has any is decided by its first batch."""

    def __init__(self, letters: str, kind: Kind, zone: tzinfo, tally: Tally) -> None:
        self._start = f'<c r="{letters}'
        self._kind = kind
        self._zone = zone
        self._tally = tally
        self.zoned = kind is Kind.TIMESTAMP_TZ
        self._bodies: dict[type, Body] = {
            str: self._text_body(kind),
            int: _switch if kind is Kind.BOOLEAN else self._integer,
            float: self._float,
            bool: lambda value: TRUE if value else FALSE,
            Decimal: self._decimal,
            datetime: lambda value: self._serial(value, serial_of_moment(value, zone)),
            date: lambda value: self._serial(value, serial_of_day(value)),
            time: lambda value: self._serial(value, serial_of_clock(value)),
        }

    def look(self, values: Sequence[Any]) -> None:
        """The first batch: what the header will say about the whole column is known after it."""
        if self._kind is Kind.TIMESTAMP:
            self.zoned = any(map(names_a_zone, values))

    def cells(self, values: Sequence[Any], numbers: Sequence[str]) -> list[str]:
        """One string a row, empty for NULL; `numbers` are the rows' numbers."""
        start = self._start
        present = values if None not in values else [value for value in values if value is not None]
        bodies = self._bodies_of(present)
        if len(present) == len(values):
            return [f"{start}{number}{body}" for number, body in zip(numbers, bodies, strict=True)]
        following = iter(bodies)
        cells = [
            EMPTY if value is None else f"{start}{number}{next(following)}"
            for number, value in zip(numbers, values, strict=True)
        ]
        if next(following, None) is not None:
            raise AssertionError("a cell was left over")
        return cells

    def _bodies_of(self, values: Sequence[Any]) -> list[str]:
        types = set(map(type, values))
        if types == {int} and self._are_exact(values):
            return [f'"><v>{value}</v></c>' for value in values]
        if types == {float} and all(map(math.isfinite, values)):
            return [f'"><v>{value!r}</v></c>' for value in values]
        if types == {str} and self._bodies[str] == self._text and _are_plain(values):
            return [f'" t="inlineStr"><is><t>{value}</t></is></c>' for value in values]
        bodies, other = self._bodies, self._other
        return [bodies.get(value.__class__, other)(value) for value in values]

    def _are_exact(self, values: Sequence[int]) -> bool:
        return self._kind is not Kind.BOOLEAN and min(values) >= -MOST_EXACT and max(values) <= MOST_EXACT

    def _text_body(self, kind: Kind) -> Body:
        """Dates in text that read as such become real ones; everything else stays text."""
        if kind is Kind.TIME:
            return lambda text: self._serial(text, serial_of_clock_text(text))
        if kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
            return self._text

        @lru_cache(SERIAL_CACHE)
        def parse(text: str) -> Serial | None:
            return serial_of_text(text, self._zone)

        return lambda text: self._serial(text, parse(text))

    def _serial(self, value: Any, serial: Serial | None) -> str:
        """Text when a spreadsheet cannot hold it, or when the header would say the wrong thing about its zone."""
        if serial is None or serial.zoned != self.zoned:
            return self._text(plain_text(value))
        return f'" s="{serial.style}"><v>{serial.days!r}</v></c>'

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
        if len(value.as_tuple().digits) <= 15:
            return f'"><v>{value}</v></c>'
        self._tally.add("DIGITS_AS_TEXT")
        return self._text(str(value))

    def _other(self, value: Any) -> str:
        return self._text(plain_text(value))

    def _text(self, text: str) -> str:
        valid = xml_text(text)
        if valid != text:
            self._tally.add("CONTROL_REPLACED")
        cut = utf16_cut(valid, CELL_UNITS)
        if cut is not valid:
            self._tally.add("CELL_CUT")
        return inline_text(cut)


def inline_text(text: str) -> str:
    """The body of a text cell, never a formula; space at the edges is kept only where the element says so."""
    keep = ' xml:space="preserve"' if text[:1].isspace() or text[-1:].isspace() or "\n" in text else ""
    return f'" t="inlineStr"><is><t{keep}>{escaped(text)}</t></is></c>'


def _are_plain(values: Sequence[str]) -> bool:
    """Whether all may be written as they are: no markup, no control characters, no space at the edges, not long."""
    joined = f"|{'|'.join(values)}|"
    return (
        joined.isprintable()
        and "<" not in joined
        and "&" not in joined
        and ">" not in joined
        and "_x" not in joined
        and "| " not in joined
        and " |" not in joined
        and max(map(len, values)) <= PLAIN_UNITS
    )


def _switch(value: int) -> str:
    if is_switch(value):
        return TRUE if value else FALSE
    return f'"><v>{value}</v></c>'
