"""JSON Lines: one object a row, UTF-8, a line feed after each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from webapp.datasets.columns import Column, Kind, Row
from webapp.domain.exports import FormatWarning
from webapp.domain.formats import Options
from worker.formats.cells import SURROGATES, is_numeral, is_switch, plain_text, without_surrogates
from worker.formats.writer import ByteSink, Metadata, Tally

AS_THEY_ARE = frozenset({str, int, bytes, bool, type(None), msgspec.Raw})
"""Types that the encoder writes as the format wants them: exact digits, base64."""

EMBEDDED = frozenset({Kind.JSON, Kind.LIST})
"""Kinds whose texts are JSON themselves."""

FLOATS_TOO = AS_THEY_ARE | {float}
SWITCHED = frozenset({int, type(None)})
SWITCHES = {0: False, 1: True, None: None}
MACHINE_INTEGERS = range(-(2**63), 2**64)


class JsonLinesWriter:
    def open(self, columns: Sequence[Column], options: Options, sink: ByteSink, context: Metadata) -> None:
        self._sink = sink
        self._tally = Tally()
        self._names = [without_surrogates(column.name) for column in columns]
        self._kinds = [column.kind for column in columns]
        self._object = _object(self._names)
        self._encode_lines = msgspec.json.Encoder().encode_lines

    def write(self, batch: list[Row]) -> None:
        if not batch:
            return
        columns = [
            self._column(values, kind) for values, kind in zip(zip(*batch, strict=True), self._kinds, strict=True)
        ]
        self._sink.write(self._encoded(columns))

    def close(self) -> tuple[FormatWarning, ...]:
        return self._tally.warnings()

    def abort(self) -> None:
        """Holds nothing."""

    def _encoded(self, columns: list[Sequence[Any]]) -> bytes:
        """What the encoder cannot take is so rare that it is looked for only once it has said so."""
        try:
            return self._encode_lines(self._objects(columns))
        except (UnicodeEncodeError, OverflowError):
            return self._encode_lines(self._objects([[*map(self._encodable, values)] for values in columns]))

    def _objects(self, columns: list[Sequence[Any]]) -> list[Any]:
        if self._object is not None:
            return [*map(self._object, *columns)]
        names = self._names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _encodable(self, value: Any) -> Any:
        """No lone surrogates, and integers of any length as the digits they are."""
        if type(value) is int and value not in MACHINE_INTEGERS:
            return msgspec.Raw(str(value).encode())
        if type(value) is str and SURROGATES.search(value):
            self._tally.add("INVALID_TEXT")
            return without_surrogates(value)
        return value

    def _column(self, values: Sequence[Any], kind: Kind) -> Sequence[Any]:
        types = set(map(type, values))
        if kind is Kind.BOOLEAN and int in types:
            values = _booleans(values, types)
        elif kind is Kind.DECIMAL and str in types:
            values = [Decimal(value) if type(value) is str and is_numeral(value) else value for value in values]
            types.add(Decimal)
        elif kind in EMBEDDED and str in types:
            values = [_embedded(value) if type(value) is str else value for value in values]
        if types <= AS_THEY_ARE or (types <= FLOATS_TOO and _all_finite(values)):
            return values
        return [self._cell(value) for value in values]

    def _cell(self, value: Any) -> Any:
        kind = value.__class__
        if kind in AS_THEY_ARE:
            return value
        if kind not in CONVERSIONS:
            return plain_text(value)
        converted = CONVERSIONS[kind](value)
        if converted is None:
            self._tally.add("NOT_FINITE")
        return converted


def _object(names: Sequence[str]) -> type[msgspec.Struct] | None:
    """Made and written twice as fast as a dict; but there are names that a struct cannot give its fields."""
    fields = [f"c{number}" for number in range(len(names))]
    try:
        return msgspec.defstruct("Row", fields, rename=dict(zip(fields, names, strict=True)), gc=False)
    except ValueError:
        return None


def _embedded(text: str) -> msgspec.Raw | str:
    """The JSON itself, digit for digit, on one line; text that is not JSON stays a string."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return msgspec.Raw(text.replace("\n", " ").replace("\r", " ").encode())  # outside strings these are mere space


def _float(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _booleans(values: Sequence[Any], types: set[type]) -> Sequence[Any]:
    """Nearly always there is nothing but zeros and ones: those are looked up four times as fast."""
    if types <= SWITCHED and SWITCHES.keys() >= set(values):
        return [*map(SWITCHES.__getitem__, values)]
    return [bool(value) if type(value) is int and is_switch(value) else value for value in values]


def _all_finite(values: Sequence[float | None]) -> bool:
    """One that is not makes the sum what it is; a sum of others that overflows says nothing."""
    try:
        return math.isfinite(sum(filter(None, values))) or all(map(math.isfinite, filter(None, values)))
    except (TypeError, OverflowError):  # other types among them, or an integer longer than any float
        return False


def _decimal(value: Decimal) -> Any:
    """A number when a reader that knows only floats gets the same value, else a string."""
    if not value.is_finite():
        return None
    digits = format(value, "f")
    return msgspec.Raw(digits.encode()) if Decimal(repr(float(value))) == value else digits


def _nested(value: Any) -> Any:
    return _embedded(plain_text(value))


CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    float: _float,
    Decimal: _decimal,
    dict: _nested,
    list: _nested,
}
