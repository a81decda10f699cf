"""What every writer does and is given, and how it counts what its format could not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Protocol

from webapp.datasets.columns import Column, Row
from webapp.domain.exports import FormatWarning
from webapp.domain.formats import Options


class ByteSink(Protocol):
    """Takes the file's bytes in order; `worker.sink.Sink` is one."""

    def write(self, data: bytes) -> None: ...


class TakingBack(ByteSink, Protocol):
    """A sink for formats that may have to write all they wrote once more."""

    def scratch(self) -> BinaryIO:
        """An unnamed temporary file to write and read; it is gone when closed."""
        ...

    def restart(self) -> BinaryIO:
        """What was written so far, to be read; the sink is empty again."""
        ...


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file may say about itself."""

    dataset: str
    title: str
    created_at: datetime
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Writer(Protocol):
    """`open`, then `write` any number of batches of any size, then `close`; the sink is the caller's to close."""

    def open(self, columns: Sequence[Column], options: Options, sink: ByteSink, context: Metadata) -> None: ...

    def write(self, batch: list[Row]) -> None: ...

    def close(self) -> tuple[FormatWarning, ...]: ...

    def abort(self) -> None:
        """Lets go of what the writer holds (threads); nothing more reaches the sink."""
        ...


WARNINGS: Mapping[str, str] = {
    "INVALID_TEXT": "Cells whose text was not valid Unicode; the bad characters were replaced by U+FFFD.",
    "NUL_REMOVED": "Cells with NUL characters, which CSV readers stop at; the NULs were removed.",
    "NOT_FINITE": "Cells that held NaN or an infinity, which JSON cannot hold; null was written.",
    "NOT_FINITE_AS_TEXT": "Cells that held NaN or an infinity, which XLSX cannot hold; they were written as text.",
    "DIGITS_AS_TEXT": "Numbers of more than 15 digits, which XLSX would round; they were written as text.",
    "CONTROL_REPLACED": "Cells with characters that XLSX cannot hold; these were replaced by U+FFFD.",
    "COLUMN_AS_TEXT": "Columns with cells that do not fit the column's type; in Parquet all of the column is text.",
    "CELL_CUT": "Cells longer than the 32,767 characters that XLSX holds; they were cut.",
}


class Tally:
    """Counts cells by warning code."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, code: str, count: int = 1) -> None:
        self._counts[code] += count

    def warnings(self) -> tuple[FormatWarning, ...]:
        return tuple(
            FormatWarning(code, WARNINGS[code], count) for code, count in sorted(self._counts.items()) if count
        )
