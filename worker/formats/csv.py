"""CSV as RFC 4180 has it: CRLF, quotes only where they are needed, an empty field for NULL and "" for empty text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from webapp.datasets.columns import Column, Kind, Row
from webapp.domain.exports import FormatWarning
from webapp.domain.formats import Options
from worker.formats.cells import SURROGATES, base64_text, is_numeral, is_switch, plain_text, without_surrogates
from worker.formats.numbers import Numbers
from worker.formats.writer import ByteSink, Metadata, Tally

BOM = b"\xef\xbb\xbf"
LINE_END = "\r\n"
FORMULA_STARTS = frozenset("=+-@\t\r")
FIRST = itemgetter(0)
EMPTY = '""'
NULL, TEXTS, BLOBS, INTEGERS = (frozenset[type]({kind}) for kind in (type(None), str, bytes, int))
NUMBERS = frozenset[type]({int, float})
SWITCHES: Mapping[int | None, str] = {0: "false", 1: "true", None: ""}

Field = Callable[[Any], str]


class CsvWriter:
    """A column at a time: whether any cell of a batch needs more than to be copied, a few searches over all show."""

    def open(self, columns: Sequence[Column], options: Options, sink: ByteSink, context: Metadata) -> None:
        self._sink = sink
        self._tally = Tally()
        self._numbers = Numbers()
        self._delimiter = options.delimiter
        self._safe = options.csv_text == "safe"
        self._kinds = [column.kind for column in columns]
        self._fields = [self._fields_of(kind) for kind in self._kinds]
        header = self._delimiter.join([self._text(column.name) for column in columns]) + LINE_END
        sink.write((BOM if options.bom else b"") + self._encoded(header))

    def write(self, batch: list[Row]) -> None:
        if not batch:
            return
        columns = [
            self._column(values, kind, fields)
            for values, kind, fields in zip(zip(*batch, strict=True), self._kinds, self._fields, strict=True)
        ]
        lines = [*map(self._delimiter.join, zip(*columns, strict=True)), ""]
        try:  # line by line: one wide character would make all of a joined batch wide, and slow
            data = b"\r\n".join(map(str.encode, lines))
        except UnicodeEncodeError:
            data = self._encoded(LINE_END.join(lines))
        self._sink.write(data)

    def write_lines(self, data: bytes) -> None:
        """Finished lines, made by the source exactly as `write` would make them."""
        self._sink.write(data)

    def close(self) -> tuple[FormatWarning, ...]:
        return self._tally.warnings()

    def abort(self) -> None:
        """Holds nothing."""

    def _fields_of(self, kind: Kind) -> dict[type, Field]:
        """How each type of cell is written in a column of this kind; NULL is the empty field."""
        return {
            type(None): lambda _: "",
            str: self._numeral if kind is Kind.DECIMAL else self._text,
            int: _switch if kind is Kind.BOOLEAN else int.__repr__,
            float: float.__repr__,
            bool: lambda value: "true" if value else "false",
            bytes: lambda value: self._quoted(base64_text(value)),
        }

    def _column(self, values: Sequence[Any], kind: Kind, fields: dict[type, Field]) -> Sequence[str]:
        types = frozenset[type](map(type, values)) - NULL
        written: Sequence[str] | None = None
        if types == TEXTS:
            written = self._texts(values)
        elif types == INTEGERS and kind is Kind.BOOLEAN:
            written = _switches(values)
        elif types and types <= NUMBERS:
            written = self._numbers.written(values)
        elif types == BLOBS:
            written = ["" if value is None else base64_text(value) or EMPTY for value in values]
        if written is None:
            return [fields.get(value.__class__, self._other)(value) for value in values]
        return written

    def _texts(self, values: Sequence[str | None]) -> Sequence[str] | None:
        """None where only a look at each cell can tell."""
        given = [*filter(None, values)]
        joined = "".join(given)
        if "\0" in joined or "\r" in joined:
            return None
        if self._safe and not FORMULA_STARTS.isdisjoint(map(FIRST, given)):
            return None
        delimiter = self._delimiter
        if '"' in joined or "\n" in joined or delimiter in joined:
            return [
                ""
                if text is None
                else quoted(text)
                if not text or '"' in text or delimiter in text or "\n" in text
                else text
                for text in values
            ]
        if len(given) == len(values):
            return values  # pyright: ignore[reportReturnType]
        return ["" if text is None else text or EMPTY for text in values]

    def _text(self, text: str) -> str:
        if "\0" in text:
            text = text.replace("\0", "")
            self._tally.add("NUL_REMOVED")
        if self._safe and text[:1] in FORMULA_STARTS:
            text = "'" + text
        return self._quoted(text)

    def _numeral(self, text: str) -> str:
        """A decimal that its source gives as text is a number, not text somebody typed."""
        return text if is_numeral(text) else self._text(text)

    def _quoted(self, text: str) -> str:
        awkward = not text or '"' in text or self._delimiter in text or "\n" in text or "\r" in text
        return quoted(text) if awkward else text

    def _other(self, value: Any) -> str:
        """Dates, decimals and the like are values, not text somebody typed: never prefixed."""
        return self._quoted(plain_text(value).replace("\0", ""))

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            self._tally.add("INVALID_TEXT", len(SURROGATES.findall(text)))
            return without_surrogates(text).encode()


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _switch(value: int) -> str:
    return ("false", "true")[value] if is_switch(value) else int.__repr__(value)


def _switches(values: Sequence[int | None]) -> list[str] | None:
    try:
        return [*map(SWITCHES.__getitem__, values)]
    except KeyError:
        return None
