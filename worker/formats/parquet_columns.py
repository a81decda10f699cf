"""What a Parquet column is: its Arrow type, found from its kind and its cells, and its cells as exact text.

A column keeps a type for as long as every cell fits it without loss; else it becomes text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from importlib import import_module
from typing import Any

from webapp.datasets.columns import Column, Kind
from worker.formats.cells import SURROGATES, is_switch, plain_text, without_surrogates
from worker.formats.writer import Tally

pa: Any = import_module("pyarrow")  # it has no stubs: what comes out of it is Any
pc: Any = import_module("pyarrow.compute")

DIGITS = 38
NULL, TEXT, BINARY, BOOLEAN = pa.null(), pa.string(), pa.binary(), pa.bool_()
INTEGER, FLOAT, DATE, TIME = pa.int64(), pa.float64(), pa.date32(), pa.time64("us")
TIMESTAMP, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")

NATURAL: dict[frozenset[type], Any] = {
    frozenset({str}): TEXT,
    frozenset({int}): INTEGER,
    frozenset({float}): FLOAT,
    frozenset({bytes}): BINARY,
    frozenset({bool}): BOOLEAN,
    frozenset(): NULL,
}
"""Arrow types that hold cells of one Python type exactly as they are."""

CANDIDATES: dict[Kind, tuple[Any, ...]] = {
    Kind.TEXT: (INTEGER, FLOAT, BINARY, BOOLEAN),
    Kind.INTEGER: (INTEGER,),
    Kind.FLOAT: (FLOAT,),
    Kind.BOOLEAN: (BOOLEAN,),
    Kind.DATE: (DATE,),
    Kind.TIME: (TIME,),
    Kind.TIMESTAMP: (TIMESTAMP, INSTANT),
    Kind.TIMESTAMP_TZ: (INSTANT,),
    Kind.BYTES: (BINARY,),
}
"""What a kind is tried as before it is text. SQLite's expressions have no declared type, so their kind is text: their
cells decide. A decimal's type needs its cells, see `_decimal_type`."""

DEFAULTS: dict[Kind, Any] = {Kind.TEXT: TEXT, Kind.DECIMAL: pa.decimal128(DIGITS, 0)}
"""Types of columns without cells, where the first candidate is not meant."""

STORED = frozenset({int, float, bool, bytes, Decimal})
"""Cells that are not text by nature: in a column of text they are worth a warning."""

NUMBERS = frozenset({int, float})
WRITTEN_NUMBERS = NUMBERS | {Decimal, str}
PLAIN_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"
LONG_INTEGER = r"^-?[0-9]{16,}$"
CLOCK = r"^[0-9]{2}:[0-9]{2}"
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds of the years 1 to 9999: Arrow holds more, most readers do not."""


class ParquetColumn:
    """Takes cells batch by batch with `add`; `group` gives them as one typed array."""

    def __init__(self, column: Column, tally: Tally) -> None:
        self.name = without_surrogates(column.name)
        self.type: Any = None
        """None until a cell that is not null has been seen."""

        self._kind = column.kind
        self._default = DEFAULTS.get(column.kind, CANDIDATES.get(column.kind, (TEXT,))[0])
        self._tally = tally
        self._warned = False
        self._whole_digits = 0

    @property
    def arrow_type(self) -> Any:
        """Without cells, what the kind says."""
        return self._default if self.type is None else self.type

    def natural(self, values: Sequence[Any]) -> tuple[frozenset[type], Any]:
        """The types of the cells, and an array that holds exactly them; text where they are of several types."""
        types = frozenset(map(type, values)) - {type(None)}
        try:
            if types in NATURAL:
                return types, pa.array(values, NATURAL[types])
        except OverflowError:
            pass
        except UnicodeEncodeError:
            self._tally.add("INVALID_TEXT", sum(1 for value in values if value and SURROGATES.search(value)))
        text = repr if types == NUMBERS else self._text
        return types, pa.array([None if value is None else text(value) for value in values], TEXT)

    def typed(self, types: frozenset[type], raw: Any) -> Any:
        """A row group's cells in the column's type, which is another one afterwards where they did not fit it."""
        if not types:
            return pa.nulls(len(raw), self.arrow_type)
        for candidate in self._candidates(types, raw):
            array = self._fitted(types, raw, candidate)
            if array is not None:
                self.type = candidate
                return array
        if self._is_surprise(types):
            self._warned = True
            self._tally.add("COLUMN_AS_TEXT")
        self.type = TEXT
        return self.texts(raw)

    def texts(self, array: Any) -> Any:
        """Every cell as the text that CSV would hold, without quotes."""
        if array.type in (INTEGER, DATE, BOOLEAN) and not (array.type == INTEGER and self._kind is Kind.BOOLEAN):
            return array.cast(TEXT)
        if array.type in (TEXT, NULL):
            return array.cast(TEXT)
        if array.type == FLOAT:
            return pa.array([None if value is None else repr(value) for value in array.to_pylist()], TEXT)
        return pa.array([None if value is None else self._text(value) for value in array.to_pylist()], TEXT)

    def is_exact(self, raw: Any, typed: Any) -> bool:
        """Whether `texts(typed)` gives what `texts(raw)` does, so that the raw cells need not be kept."""
        if raw.type == typed.type or typed.type in (TEXT, DATE, BOOLEAN):
            return True
        return bool(pa.types.is_decimal(typed.type) and raw.type == TEXT and typed.cast(TEXT).equals(raw))

    def _text(self, value: Any) -> str:
        if self._kind is Kind.BOOLEAN and value.__class__ is int and is_switch(value):
            return "true" if value else "false"
        return without_surrogates(plain_text(value))

    def _is_surprise(self, types: frozenset[type]) -> bool:
        if self._warned or (self.type == TEXT and self._kind is not Kind.TEXT):
            return False
        if self._kind is Kind.TEXT and self.type in (None, TEXT):
            return not types.isdisjoint(STORED)
        return self._kind not in (Kind.JSON, Kind.UUID, Kind.LIST)

    def _candidates(self, types: frozenset[type], raw: Any) -> Iterator[Any]:
        if self.type == TEXT:
            return
        if self.type is not None:
            yield self.type
        elif self._kind is not Kind.DECIMAL:
            yield from CANDIDATES.get(self._kind, ())
        if self._kind is Kind.DECIMAL:
            yield from self._decimal_type(types, raw)

    def _decimal_type(self, types: frozenset[type], raw: Any) -> Iterator[Any]:
        """Large enough for these cells and for all before them, if there is one."""
        numbers = _plain_numbers(types, self.texts(raw))
        if numbers is None:
            return
        scale = max(_digits(numbers)[1], 0 if self.type is None else self.type.scale)
        if self._whole_digits + scale <= DIGITS:
            yield pa.decimal128(DIGITS, scale)

    def _fitted(self, types: frozenset[type], raw: Any, target: Any) -> Any:
        """None where a cell does not fit."""
        try:
            if pa.types.is_decimal(target):
                return self._decimals(types, raw, target)
            array = FITS[target](types, raw)
            return array if array is None or array.type == target else array.cast(target)
        except pa.ArrowInvalid:
            return None

    def _decimals(self, types: frozenset[type], raw: Any, target: Any) -> Any:
        """Digits are counted here: Arrow's own cast lets some numbers overflow silently."""
        numbers = _plain_numbers(types, self.texts(raw))
        if numbers is None:
            return None
        whole_digits, _ = _digits(numbers)
        if whole_digits + target.scale > DIGITS:
            return None
        array = numbers.cast(target)
        self._whole_digits = max(self._whole_digits, whole_digits)
        return array


def _integers(types: frozenset[type], raw: Any) -> Any:
    return raw if raw.type == INTEGER else None


def _floats(types: frozenset[type], raw: Any) -> Any:
    if raw.type in (FLOAT, INTEGER):
        return raw
    mixed = types == NUMBERS and not _any(raw, LONG_INTEGER)  # longer ones a float would round
    return raw if mixed else None


def _booleans(types: frozenset[type], raw: Any) -> Any:
    if raw.type == INTEGER:
        span = pc.min_max(raw)
        return raw if span["min"].as_py() >= 0 and span["max"].as_py() <= 1 else None
    return raw if raw.type == BOOLEAN else None


def _bytes(types: frozenset[type], raw: Any) -> Any:
    return raw if raw.type == BINARY else None


def _dates(types: frozenset[type], raw: Any) -> Any:
    return _moments(types, raw)


def _times(types: frozenset[type], raw: Any) -> Any:
    texts = _moments(types, raw)
    if texts is None or not _all(texts, CLOCK):
        return None
    return pc.binary_join_element_wise("1970-01-01", texts, " ").cast(TIMESTAMP).cast(TIME)


def _timestamps(types: frozenset[type], raw: Any) -> Any:
    texts = _moments(types, raw)
    return texts if texts is None else _in_our_era(texts.cast(TIMESTAMP))


def _instants(types: frozenset[type], raw: Any) -> Any:
    texts = _moments(types, raw)
    return texts if texts is None else _in_our_era(texts.cast(INSTANT))


FITS: dict[Any, Callable[[frozenset[type], Any], Any]] = {
    INTEGER: _integers,
    FLOAT: _floats,
    BOOLEAN: _booleans,
    BINARY: _bytes,
    DATE: _dates,
    TIME: _times,
    TIMESTAMP: _timestamps,
    INSTANT: _instants,
}
"""What is to be cast to the type; None, or `ArrowInvalid` from the cast, where a cell does not fit."""


def _moments(types: frozenset[type], raw: Any) -> Any:
    return raw if raw.type == TEXT and types.isdisjoint(STORED) else None


def _in_our_era(array: Any) -> Any:
    span = pc.min_max(array.cast(INTEGER))
    return array if span["min"].as_py() >= EARLIEST and span["max"].as_py() <= LATEST else None


def _all(texts: Any, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _any(texts: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _plain_numbers(types: frozenset[type], texts: Any) -> Any:
    """These numbers without exponents; None where a text is not a number, or absurdly far from 1."""
    if not types <= WRITTEN_NUMBERS or (str in types and not _all(texts, PLAIN_NUMBER)):
        return None
    unusual = pc.match_substring_regex(texts, "[eEnN]")  # exponents, NaN and infinities
    if not pc.any(unusual).as_py():
        return texts
    numbers = [Decimal(text) for text in texts.filter(unusual).to_pylist()]
    if any(not number.is_finite() or abs(number.adjusted()) > DIGITS for number in numbers):
        return None
    return pc.replace_with_mask(texts, pc.fill_null(unusual, False), pa.array([f"{n:f}" for n in numbers], TEXT))


def _digits(numbers: Any) -> tuple[int, int]:
    """The most digits before and behind the point."""
    lengths = pc.binary_length(numbers)
    points = pc.find_substring(numbers, ".")
    has_point = pc.greater_equal(points, 0)
    signs = pc.starts_with(numbers, "-").cast(pa.int32())
    before = pc.subtract(pc.if_else(has_point, points, lengths), signs)
    behind = pc.if_else(has_point, pc.subtract(pc.subtract(lengths, points), 1), 0)
    return pc.max(before).as_py(), pc.max(behind).as_py()
