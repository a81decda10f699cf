"""Opening a source of rows by its URL. A new kind of source is one module with a `RowReader` and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from webapp.datasets.columns import Column, Row
from webapp.domain.errors import AttemptFailed, ErrorCode

BATCH_ROWS = 500
NO_ROWS: list[Row] = []
SQLITE_SCHEME = "sqlite:///"


class Cancelled(Exception):
    """The read was cancelled."""


class RowReader(Protocol):
    """One query's result, read once, front to back, from one snapshot of the source.

    Reading raises `AttemptFailed` with SOURCE_UNREACHABLE, QUERY_ERROR, BAD_PARAMETER, TIMEOUT, DISK_FULL or
    OUT_OF_MEMORY, and `Cancelled` after `cancel()`.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        """Known before the first row, and for a result without rows."""
        ...

    @property
    def invalid_text(self) -> int:
        """How many cells so far held text that is not valid in its encoding; bad bytes became U+FFFD."""
        ...

    def batches(self, size: int = BATCH_ROWS) -> Iterator[list[Row]]:
        """The rows, `size` at a time; never an empty batch."""
        ...

    def count(self, seconds: float) -> int | None:
        """The exact number of rows, or None when counting takes longer than `seconds` or is not possible."""
        ...

    def cancel(self) -> None:
        """Ends the query, also in the source; may be called from any thread, at any time."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Preview:
    """The first rows of a result; `truncated` when there are more."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    truncated: bool


def sqlite_path(url: str) -> Path:
    """The file a `sqlite:///` URL means: relative to the current directory, or absolute where only that exists."""
    path = Path(url.removeprefix(SQLITE_SCHEME))
    absolute = Path("/") / path
    return absolute if not path.exists() and absolute.exists() else path


def open_rows(url: str, sql: str, params: Mapping[str, Any]) -> RowReader:
    """A reader whose columns are known; the query itself runs when its batches are asked for."""
    return _open(url, sql, params, seconds=None)


def describe(url: str, sql: str, params: Mapping[str, Any]) -> tuple[Column, ...]:
    """The query's columns; prepares it, reads no row."""
    with open_rows(url, sql, params) as reader:
        return reader.columns


def preview(url: str, sql: str, params: Mapping[str, Any], *, rows: int, seconds: float) -> Preview:
    """The first `rows` rows; raises `AttemptFailed` with TIMEOUT when they take longer than `seconds`."""
    with _open(url, sql, params, seconds=seconds) as reader:
        first = next(reader.batches(rows + 1), NO_ROWS)
        return Preview(reader.columns, tuple(first[:rows]), len(first) > rows)


def _open(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> RowReader:
    if not url.startswith(SQLITE_SCHEME):
        raise AttemptFailed(ErrorCode.SOURCE_UNREACHABLE)
    from webapp.datasets.sqlite import SqliteReader  # a child process imports only what its order needs

    return SqliteReader(sqlite_path(url), sql, params, seconds=seconds)
