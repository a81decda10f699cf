"""Sources written in Python: `python://NAME?key=value` opens the entry point NAME of the group `exportdesk.sources`.

A package brings one by this in its pyproject.toml:

    [project.entry-points."exportdesk.sources"]
    tides = "tides.export:open_source"

and a callable with the signature of `Opener`, whose result is a `PythonSource`:

    class Tides:
        columns = [("station", "text"), ("height", "decimal"), ("at", "timestamp_tz")]

        def __init__(self, station): self.station = station

        def batches(self, size):
            for page in pages_of(self.station, size):
                yield [(self.station, Decimal(reading.height), reading.at) for reading in page]

    def open_source(options, sql, params):
        return Tides(params["station"])

`options` is what stands behind the `?` of the url, `sql` the dataset's, any text that the source makes something of,
and `params` the order's parameters, checked. A worked example is tests/datasets/example_source.py.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import parse_qsl, urlsplit

from webapp.datasets.columns import Column, Kind, Row, picker, places, unique_names
from webapp.datasets.reading import BATCH_ROWS, BadUrl, Cancelled
from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.formats import Options

SCHEME = "python://"
GROUP = "exportdesk.sources"


class PythonSource(Protocol):
    """What an entry point gives. Each order opens one and reads it once, from front to back.

    It may also have `count() -> int | None` (exact), `estimate() -> int | None`, `cancel()` (from another thread:
    ends what `batches` waits for) and `close()`. What it raises fails the attempt; people see one sentence, the trace
    goes to the log.
    """

    @property
    def columns(self) -> Sequence[tuple[str, str] | Column]:
        """Name and kind: text, integer, decimal, float, boolean, date, time, timestamp, timestamp_tz, bytes, json,
        uuid or list."""
        ...

    def batches(self, size: int) -> Iterable[Sequence[Sequence[Any]]]:
        """The rows in order, about `size` at a time; each as wide as `columns`. None is NULL."""
        ...


Opener = Callable[[Mapping[str, str], str, Mapping[str, Any]], PythonSource]
"""`open(options, sql, params)`."""


def normalized(url: str, folder: Path) -> str:
    """Raises BadUrl, also when no package brings the entry point."""
    parts = urlsplit(url)
    if not url.startswith(SCHEME) or not parts.netloc or parts.path.strip("/") or parts.fragment:
        raise BadUrl(f"url must be {SCHEME}NAME or {SCHEME}NAME?key=value, with NAME of an entry point of {GROUP}.")
    if sentence := missing(url):
        raise BadUrl(sentence)
    return url


def missing(url: str) -> str | None:
    name = urlsplit(url).netloc
    return None if _entry_point(name) else f"No installed package has an entry point {name[:64]} of {GROUP}."


def open_reader(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> PythonReader:
    entry = _entry_point(urlsplit(url).netloc)
    if entry is None:
        raise AttemptFailed(ErrorCode.SOURCE_UNREACHABLE)
    options = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    with _blamed(entry.name):
        opener: Opener = entry.load()
        source = opener(options, sql, params)
    return PythonReader(entry.name, source, seconds=seconds)


class PythonReader:
    """See `RowReader`. With `seconds`, its rows must be there by then, as far as the source gives control back."""

    invalid_text = 0

    counts_beside = False

    def __init__(self, name: str, source: PythonSource, *, seconds: float | None) -> None:
        self._name = name
        self._source = source
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._cancelled = threading.Event()
        self._pick: Callable[[Row], Row] | None = None
        self._clock = threading.Timer(seconds or 0, self._optional, ["cancel"])
        self._clock.daemon = True
        if seconds is not None:
            self._clock.start()
        try:
            with _blamed(name):
                self.columns = _columns(source.columns)
                self._width = len(self.columns)
        except BaseException:
            self.close()
            raise

    def choose(self, names: Sequence[str]) -> None:
        """From each row: a source knows nothing of choices."""
        chosen = places(self.columns, names)
        self.columns = tuple(self.columns[place] for place in chosen)
        self._pick = picker(chosen)

    def batches(self, size: int = BATCH_ROWS) -> Iterator[list[Row]]:
        rows = self._rows(size)
        while True:
            self._check()
            try:
                with _blamed(self._name):
                    batch = list(islice(rows, size))
            except AttemptFailed:
                self._check()
                raise
            self._check()
            if not batch:
                return
            yield batch if self._pick is None else [*map(self._pick, batch)]

    def count(self, seconds: float) -> int | None:
        """The source's own business, also to be quick."""
        return self._optional("count")

    def estimate(self) -> int | None:
        return self._optional("estimate")

    def raw_csv(self, options: Options) -> Iterator[tuple[bytes, int]] | None:
        return None

    def cancel(self) -> None:
        self._cancelled.set()
        self._optional("cancel")

    def close(self) -> None:
        self._clock.cancel()
        self._optional("close")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _rows(self, size: int) -> Iterator[Row]:
        for batch in self._source.batches(size):
            for row in batch:
                if len(row) != self._width:
                    raise ValueError(f"a row has {len(row)} cells, but there are {self._width} columns")
                yield tuple(row)

    def _optional(self, name: str) -> Any:
        """What a source need not have; its failure is logged and changes nothing."""
        method: Callable[[], Any] | None = getattr(self._source, name, None)
        try:
            return method() if method else None
        except Exception:
            traceback.print_exc(file=sys.stderr)
            return None

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise AttemptFailed(ErrorCode.TIMEOUT, limit=f"{self._seconds:g} s")


def _entry_point(name: str) -> metadata.EntryPoint | None:
    return next(iter(metadata.entry_points(group=GROUP, name=name)), None)


def _columns(given: Sequence[tuple[str, str] | Column]) -> tuple[Column, ...]:
    """Raises ValueError for a kind that is none."""
    pairs = [(column.name, column.kind) if isinstance(column, Column) else column for column in given]
    if not pairs:
        raise ValueError("the source has no columns")
    return tuple(
        Column(name, Kind(kind))
        for name, kind in zip(unique_names(str(name) for name, _ in pairs), [kind for _, kind in pairs], strict=True)
    )


@contextlib.contextmanager
def _blamed(name: str) -> Generator[None, None, None]:
    """Whatever a source raises is one sentence to people; the trace is for the log. Our own errors stay as they are."""
    try:
        yield
    except (AttemptFailed, Cancelled, MemoryError):
        raise
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        detail = f"the Python source {name[:64]} failed; the desk's log says why"
        raise AttemptFailed(ErrorCode.QUERY_ERROR, detail=detail) from error
