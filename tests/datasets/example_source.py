"""A worked example of a Python source: tide tables that are computed, not stored. See readers/python.py.

A package would name it in its pyproject.toml:

    [project.entry-points."exportdesk.sources"]
    tides = "example_source:open_source"

and a catalog would use it so:

    [sources.tides]
    url = "python://tides?step=6&rows=1000"

    [datasets.tides]
    title = "Tides"
    source = "tides"
    sql = "heights of :station"

    [datasets.tides.parameters.station]
    type = "string"
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)
Row = tuple[str, datetime, Decimal | None]


class Tides:
    """One order's rows: the height at a station every `step` hours."""

    columns = (("station", "text"), ("at", "timestamp_tz"), ("height", "decimal"))

    def __init__(self, station: str, step: timedelta, rows: int) -> None:
        self._station = station
        self._step = step
        self._rows = rows
        self._cancelled = threading.Event()

    def batches(self, size: int) -> Iterator[list[Row]]:
        """Lists of about `size` rows; a source that pages through an API would give a page each."""
        for first in range(0, self._rows, size):
            if self._cancelled.is_set():
                return
            yield [self._row(number) for number in range(first, min(first + size, self._rows))]

    def count(self) -> int | None:
        return self._rows

    def estimate(self) -> int | None:
        return self._rows

    def cancel(self) -> None:
        """Called from another thread. A source that waits for the network would close its connection."""
        self._cancelled.set()

    def close(self) -> None:
        """Nothing is held."""

    def _row(self, number: int) -> Row:
        height = None if number % 5 == 4 else Decimal(number % 40).scaleb(-1)
        return self._station, START + number * self._step, height


def open_source(options: Mapping[str, str], sql: str, params: Mapping[str, Any]) -> Tides:
    """`step` in hours and the number of `rows` come from the URL, the station from the order."""
    return Tides(params.get("station") or sql, timedelta(hours=int(options.get("step", "1"))), int(options["rows"]))
