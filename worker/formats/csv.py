"""CSV as RFC 4180 has it: CRLF, quotes only where they are needed, an empty field for NULL and "" for empty text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from webapp.datasets.columns import Column, Kind, Row
from webapp.domain.exports import FormatWarning
from webapp.domain.formats import Options
from worker.formats.cells import SURROGATES, base64_text, is_numeral, is_switch, plain_text, without_surrogates
from worker.formats.writer import ByteSink, Metadata, Tally

BOM = b"\xef\xbb\xbf"
LINE_END = "\r\n"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
SEPARATOR = "\n"
"""Joins a column for one search over all its texts; a line break inside a text only sends it the slower way."""

Field = Callable[[Any], str]


class CsvWriter:
    """A column at a time: most columns of a batch turn out to need no quotes, which one search shows."""

    def open(self, columns: Sequence[Column], options: Options, sink: ByteSink, context: Metadata) -> None:
        self._sink = sink
        self._tally = Tally()
        self._delimiter = options.delimiter
        self._safe = options.csv_text == "safe"
        self._awkward = re.compile(f'["\\r\\0{re.escape(options.delimiter)}]')
        self._formula = re.compile("(?:^|\n)[=+\\-@\t\r]")
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
        lines = map(self._delimiter.join, zip(*columns, strict=True))
        self._sink.write(self._encoded(LINE_END.join(lines) + LINE_END))

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
        types = set(map(type, values))
        if types == {str} and self._is_plain(values):
            return values
        if types == {int} and kind is not Kind.BOOLEAN:
            return [*map(int.__repr__, values)]
        if types == {float}:
            return [*map(float.__repr__, values)]
        return [fields.get(value.__class__, self._other)(value) for value in values]

    def _is_plain(self, values: Sequence[str]) -> bool:
        joined = SEPARATOR.join(values)
        return (
            joined.count(SEPARATOR) == len(values) - 1
            and all(values)
            and not self._awkward.search(joined)
            and not (self._safe and self._formula.search(joined))
        )

    def _text(self, text: str) -> str:
        if "\0" in text:
            text = text.replace("\0", "")
            self._tally.add("NUL_REMOVED")
        if self._safe and text.startswith(FORMULA_STARTS):
            text = "'" + text
        return self._quoted(text)

    def _numeral(self, text: str) -> str:
        """A decimal that its source gives as text is a number, not text somebody typed."""
        return text if is_numeral(text) else self._text(text)

    def _quoted(self, text: str) -> str:
        if not text or self._awkward.search(text) or "\n" in text:
            return '"' + text.replace('"', '""') + '"'
        return text

    def _other(self, value: Any) -> str:
        """Dates, decimals and the like are values, not text somebody typed: never prefixed."""
        return self._quoted(plain_text(value).replace("\0", ""))

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            self._tally.add("INVALID_TEXT", len(SURROGATES.findall(text)))
            return without_surrogates(text).encode()


def _switch(value: int) -> str:
    return ("false", "true")[value] if is_switch(value) else int.__repr__(value)
