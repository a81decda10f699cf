"""Rows as XML a whole batch at once, by Arrow's kernels, for the columns whose cells are all of one ordinary sort.

Importing Arrow takes as long as some thousand rows do cell by cell, so short files do without this module.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from webapp.datasets.columns import Kind
from worker.formats.cells import NUMERAL, base64_text
from worker.formats.xlsx_cells import EMPTY, MOMENTS, MOST_DIGITS, MOST_EXACT, TEXT, TEXT_END, TEXT_KEPT, ColumnCells
from worker.formats.xlsx_moments import Serials, days_of, moments_of_texts, moments_of_values
from worker.formats.xlsx_parts import STYLE_DATE, STYLE_FRACTION, STYLE_MOMENT
from worker.formats.xlsx_text import CELL_UNITS, FORBIDDEN, MARKUP

pa: Any = import_module("pyarrow")  # it has no stubs: what comes out of it is Any
pc: Any = import_module("pyarrow.compute")

MOST_BYTES = 16 * 1024 * 1024
"""Of XML in one piece, about: memory stays flat, and an Arrow array holds 2 GiB."""

CELL_BYTES = 50
"""Of a cell's XML beside its text, about."""

NULL = type(None)
NUMBER, SWITCH, NUMBER_END = '"><v>', '" t="b"><v>', "</v></c>"
DAY, MOMENT, FRACTION = (f'" s="{style}"><v>' for style in (STYLE_DATE, STYLE_MOMENT, STYLE_FRACTION))
WHOLE_NUMERAL = f"^(?:{NUMERAL.pattern})$"
BYTES_PER_UNIT = 4
"""At most, in UTF-8."""


class Bodies(NamedTuple):
    """What follows the references of a column's cells: `start`, one for all or an array, then the text, null where
    there is no cell, then `end`."""

    start: Any
    texts: Any
    end: str


def rows_at_once(batch: Sequence[Sequence[Any]], first: int, columns: Sequence[ColumnCells]) -> Generator[memoryview]:
    """The rows' XML, as so many whole rows as fit; `first` is the number of the first."""
    numbers = pa.array(range(first, first + len(batch))).cast(pa.string())
    pieces: list[Any] = [_constant('<row r="'), numbers]
    constant, size = '">', 0
    for column, values in zip(columns, zip(*batch, strict=True), strict=True):
        start, texts, end = _bodies(column, values)
        size += texts.nbytes + CELL_BYTES * len(batch)
        if texts.null_count:
            cells = _joined([_constant(column.start), numbers, _piece(start), texts, _constant(end)])
            pieces += [_constant(constant), pc.fill_null(cells, EMPTY)]
            constant = ""
        else:
            pieces += [_constant(constant + column.start), numbers, _piece(start), texts]
            constant = end
    pieces.append(_constant(constant + "</row>"))
    rows = max(1, len(batch) * MOST_BYTES // size)
    for start in range(0, len(batch), rows):
        taken = [piece if isinstance(piece, pa.Scalar) else piece.slice(start, rows) for piece in pieces]
        yield memoryview(_joined(taken).buffers()[2])


def _joined(pieces: list[Any]) -> Any:
    return pc.binary_join_element_wise(*pieces, _constant(""))


@lru_cache(65_536)
def _constant(text: str) -> Any:
    return pa.scalar(text)


def _piece(start: Any) -> Any:
    return _constant(start) if isinstance(start, str) else start


def _bodies(column: ColumnCells, values: Sequence[Any]) -> Bodies:
    """The same as cell by cell, but at once where the whole batch allows it."""
    try:
        at_once = _bodies_at_once(column, values)
    except (ValueError, OverflowError):  # a value that Arrow has no place for
        at_once = None
    if at_once is not None:
        return at_once
    return Bodies("", pa.array([body or None for body in column.bodies(values)], pa.string()), "")


def _bodies_at_once(column: ColumnCells, values: Sequence[Any]) -> Bodies | None:
    types = set(map(type, values))
    types.discard(NULL)
    if types == {int, float}:
        return None if column.kind is Kind.BOOLEAN else _numbers(values, mixed=True)
    if len(types) > 1:
        return None
    for kind in types:
        if kind is str:
            return _of_texts(column, values)
        if kind is int:
            return _switches(values) if column.kind is Kind.BOOLEAN else _integers(column, values)
        if kind is float:
            return _numbers(values)
        if kind is bool:
            return Bodies(SWITCH, pa.array(values).cast(pa.int8()).cast(pa.string()), NUMBER_END)
        if kind is bytes:
            return _blobs(values)
        if kind is datetime:
            return _moments(moments_of_values(values, column.zone, zoned=column.zoned))
        if kind is date and not column.zoned:
            return _days(days_of(pa.array(values, pa.date32())))
        if kind is Decimal:
            return _decimals(values)
        return None
    return Bodies("", pa.nulls(len(values), pa.string()), "")


def _of_texts(column: ColumnCells, values: Sequence[str | None]) -> Bodies | None:
    array = pa.array(values, pa.string())
    if column.kind in MOMENTS:
        return _moments(moments_of_texts(array, column.zone, zoned=column.zoned))
    if column.kind is Kind.DATE:
        lengths = pc.min_max(pc.binary_length(array)).as_py()
        return _days(days_of(array.cast(pa.date32()))) if set(lengths.values()) == {10} else None
    if column.kind is Kind.DECIMAL:
        are_short = pc.max(pc.binary_length(array)).as_py() <= MOST_DIGITS
        are_numerals = are_short and _all(pc.match_substring_regex(array, WHOLE_NUMERAL))
        return Bodies(NUMBER, array, NUMBER_END) if are_numerals else None
    return None if column.kind is Kind.TIME else _texts(array)


def _texts(array: Any) -> Bodies | None:
    joined = str(array.buffers()[2] or b"", "utf-8")
    if "\r" in joined or "_x" in joined:
        return None
    if len(joined) * BYTES_PER_UNIT > CELL_UNITS and pc.max(pc.binary_length(array)).as_py() > CELL_UNITS:
        return None
    start: Any = TEXT
    if not joined.isprintable():
        if FORBIDDEN.search(joined):
            return None
        stripped = pc.utf8_trim_whitespace(array)
        start = _starts(pc.or_(pc.match_substring(array, "\n"), pc.not_equal(stripped, array)))
    elif " " in joined:
        start = _starts(pc.or_(pc.starts_with(array, " "), pc.ends_with(array, " ")))
    for character, entity in MARKUP:
        if character in joined:
            array = pc.replace_substring(array, character, entity)
    return Bodies(start, array, TEXT_END)


def _starts(keeps_space: Any) -> Any:
    return pc.if_else(keeps_space, TEXT_KEPT, TEXT) if pc.any(keeps_space).as_py() else TEXT


def _blobs(values: Sequence[bytes | None]) -> Bodies | None:
    array = pa.array([None if value is None else base64_text(value) for value in values], pa.string())
    return Bodies(TEXT, array, TEXT_END) if pc.max(pc.binary_length(array)).as_py() <= CELL_UNITS else None


def _switches(values: Sequence[int | None]) -> Bodies | None:
    array = pa.array(values, pa.int64())
    least, most = pc.min_max(array).as_py().values()
    return Bodies(SWITCH, array.cast(pa.string()), NUMBER_END) if least >= 0 and most <= 1 else None


def _integers(column: ColumnCells, values: Sequence[int | None]) -> Bodies | None:
    array = pa.array(values, pa.int64())
    least, most = pc.min_max(array).as_py().values()
    if least >= -MOST_EXACT and most <= MOST_EXACT:
        return Bodies(NUMBER, array.cast(pa.string()), NUMBER_END)
    if least <= MOST_EXACT and pc.min(pc.abs(array)).as_py() <= MOST_EXACT:
        return None
    column.count_long_integers(len(array) - array.null_count)
    return Bodies(TEXT, array.cast(pa.string()), TEXT_END)


def _numbers(values: Sequence[float | None], *, mixed: bool = False) -> Bodies | None:
    array = pa.array(values, pa.float64())
    least, most = pc.min_max(array).as_py().values()
    if not _all(pc.is_finite(array)) or (mixed and (least < -MOST_EXACT or most > MOST_EXACT)):
        return None
    return Bodies(NUMBER, array.cast(pa.string()), NUMBER_END)


def _decimals(values: Sequence[Decimal | None]) -> Bodies | None:
    if not all(value is None or value.is_finite() for value in values):
        return None
    array = pa.array(values)
    return Bodies(NUMBER, array.cast(pa.string()), NUMBER_END) if array.type.precision <= MOST_DIGITS else None


def _days(days: Any) -> Bodies | None:
    return None if days is None else Bodies(DAY, days.cast(pa.string()), NUMBER_END)


def _moments(serials: Serials | None) -> Bodies | None:
    if serials is None:
        return None
    days, is_fraction = serials
    start = MOMENT if is_fraction is None else pc.if_else(is_fraction, FRACTION, MOMENT)
    return Bodies(start, days.cast(pa.string()), NUMBER_END)


def _all(array: Any) -> bool:
    return bool(pc.all(array).as_py())
