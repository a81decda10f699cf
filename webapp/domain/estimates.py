"""What an order will come to, by what past runs came to: bytes, seconds, and what to say about limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webapp.domain.exports import Export
from webapp.domain.limits import SHEET_ROWS
from webapp.domain.sizes import told_size


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows there will be; `is_exact` False for the guess of a source's planner."""

    count: int
    is_exact: bool

    @property
    def told(self) -> str:
        return f"{self.count:,}" if self.is_exact else f"about {self.count:,}"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to know before ordering. `code` is stable; the order is possible all the same."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """None where nothing is known."""

    bytes: int | None = None
    seconds: float | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What the dataset allows; None allows any."""

    rows: int | None = None
    bytes: int | None = None


def expect(rows: Rows | None, past: Iterable[Export], *, format: str, compression: str, allowed: Limits) -> Expectation:
    """`past` are finished exports of the same dataset and format; for the size only those compressed alike count."""
    if rows is None or not rows.count:
        return Expectation()
    runs = [export for export in past if export.file and export.file.rows]
    alike = [export for export in runs if export.options.get("compression", "none") == compression]
    size = _bytes_per_row(alike)
    pace = _seconds_per_row(runs)
    expected = None if size is None else round(size * rows.count)
    return Expectation(
        bytes=expected,
        seconds=None if pace is None else pace * rows.count,
        notices=tuple(_notices(rows, expected, format, allowed)),
    )


def _bytes_per_row(runs: Sequence[Export]) -> float | None:
    """Of all runs together, so that large ones count for more."""
    rows = sum(export.file.rows for export in runs if export.file)
    return sum(export.file.size for export in runs if export.file) / rows if rows else None


def _seconds_per_row(runs: Sequence[Export]) -> float | None:
    timed = [export for export in runs if export.started_at and export.completed_at]
    rows = sum(export.file.rows for export in timed if export.file)
    seconds = sum((export.completed_at - export.started_at).total_seconds()
                  for export in timed if export.started_at and export.completed_at)  # fmt: skip
    return seconds / rows if rows else None


def _notices(rows: Rows, expected: int | None, format: str, allowed: Limits) -> Iterable[Notice]:
    how_many = rows.told[0].upper() + rows.told[1:]
    if allowed.rows is not None and rows.count > allowed.rows:
        yield Notice(
            "OVER_ROW_LIMIT", f"{how_many} rows: more than the limit of {allowed.rows:,} rows; narrow the parameters."
        )
    if allowed.bytes is not None and expected is not None and expected > allowed.bytes:
        yield Notice(
            "OVER_SIZE_LIMIT",
            f"The file may grow beyond the limit of {told_size(allowed.bytes)}; narrow the parameters.",
        )
    if format == "xlsx" and rows.count > SHEET_ROWS:
        sheets = -(-rows.count // SHEET_ROWS)
        yield Notice(
            "SEVERAL_SHEETS",
            f"One sheet holds {SHEET_ROWS:,} rows: the workbook will continue on {sheets:,} sheets.",
        )
