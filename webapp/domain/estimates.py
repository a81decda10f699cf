"""What an order will come to, by what past runs came to: bytes, seconds, and what to say about limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webapp.domain.exports import Export
from webapp.domain.limits import SHEET_ROWS
from webapp.domain.sentences import say
from webapp.domain.sizes import told_size

EXACTLY_OVER = say("{count} rows: more than the limit of {limit} rows; narrow the parameters.")
ABOUT_OVER = say("About {count} rows: more than the limit of {limit} rows; narrow the parameters.")


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


def expect(
    rows: Rows | None,
    past: Iterable[Export],
    *,
    format: str,
    compression: str,
    columns: Sequence[str] = (),
    allowed: Limits,
) -> Expectation:
    """`past` are finished exports of the same dataset and format. Only those of the same columns count, in whatever
    order, and for the size only those compressed alike."""
    if rows is None or not rows.count:
        return Expectation()
    same = set(columns)
    runs = [export for export in past if export.file and export.file.rows and _columns(export) == same]
    alike = [export for export in runs if export.options.get("compression", "none") == compression]
    size = _bytes_per_row(alike)
    pace = _seconds_per_row(runs)
    expected = None if size is None else round(size * rows.count)
    return Expectation(
        bytes=expected,
        seconds=None if pace is None else pace * rows.count,
        notices=tuple(_notices(rows, expected, format, allowed)),
    )


def _columns(export: Export) -> set[str]:
    return set(export.options.get("columns", ()))


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
    if allowed.rows is not None and rows.count > allowed.rows:
        pattern = EXACTLY_OVER if rows.is_exact else ABOUT_OVER
        yield Notice("OVER_ROW_LIMIT", say(pattern, count=rows.count, limit=allowed.rows))
    if allowed.bytes is not None and expected is not None and expected > allowed.bytes:
        yield Notice(
            "OVER_SIZE_LIMIT",
            say("The file may grow beyond the limit of {size}; narrow the parameters.", size=told_size(allowed.bytes)),
        )
    if format == "xlsx" and rows.count > SHEET_ROWS:
        sheets = -(-rows.count // SHEET_ROWS)
        yield Notice(
            "SEVERAL_SHEETS",
            say(
                "One sheet holds {rows} rows: the workbook will continue on {sheets} sheets.",
                rows=SHEET_ROWS,
                sheets=sheets,
            ),
        )
