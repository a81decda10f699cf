"""What every reader of a source gives: columns, then batches of rows from one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from webapp.datasets.columns import Column, Row
from webapp.domain.formats import Options

BATCH_ROWS = 500


class BadUrl(ValueError):
    """A sentence that says what is wrong with a source's URL; never quotes it, it may hold a password."""


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
    def counts_beside(self) -> bool:
        """Whether `count` may run in another thread while the rows are read."""
        ...

    @property
    def invalid_text(self) -> int:
        """How many cells so far held text that is not valid in its encoding; bad bytes became U+FFFD."""
        ...

    def choose(self, names: Sequence[str]) -> None:
        """Before anything is read: only these columns, in this order. Raises `UnknownColumns`, an AttemptFailed.

        Where the source keeps the order of the rows inside a query around the query, that one asks for the chosen
        cells alone; elsewhere they are picked from each row. Cells that nobody chose need not be right."""
        ...

    def batches(self, size: int = BATCH_ROWS) -> Iterator[list[Row]]:
        """The rows, `size` at a time; never an empty batch."""
        ...

    def count(self, seconds: float) -> int | None:
        """The exact number of rows, or None when counting takes longer than `seconds` or is not possible."""
        ...

    def estimate(self) -> int | None:
        """The planner's guess at the number of rows where the source has one: cheap, and sometimes far off."""
        ...

    def raw_csv(self, options: Options) -> Iterator[tuple[bytes, int]] | None:
        """Chunks of finished CSV lines without a header, and how many rows each holds, where the server writes CSV
        itself exactly as `worker.formats.csv` would; None where it cannot, for these options or at all."""
        ...

    def cancel(self) -> None:
        """Ends the query, also in the source; may be called from any thread, at any time."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
