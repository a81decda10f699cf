"""Sources by the scheme of their URL: what a catalog may name, and opening one to read rows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from webapp.datasets.columns import Column, Row
from webapp.datasets.reading import BadUrl, RowReader
from webapp.domain.errors import AttemptFailed, ErrorCode

NO_ROWS: list[Row] = []

READERS: Mapping[str, str] = {
    "sqlite": "webapp.datasets.readers.sqlite",
    "duckdb": "webapp.datasets.readers.duckdb",
    "files": "webapp.datasets.readers.duckdb",
    "python": "webapp.datasets.readers.python",
    "postgresql": "webapp.datasets.readers.postgres",
    "postgres": "webapp.datasets.readers.postgres",
    "mysql": "webapp.datasets.readers.mysql",
    "mariadb": "webapp.datasets.readers.mysql",
}
"""Module by scheme; imported when asked for, so that a child process pays only for what its order needs."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The first rows of a result; `truncated` when there are more."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    truncated: bool


def normalized(url: str, folder: Path) -> str:
    """The URL as readers take it: relative files are in `folder`. Raises BadUrl."""
    reader = _reader_for(url)
    if reader is None:
        schemes = " or ".join(f"{scheme}://" for scheme in READERS)
        raise BadUrl(f"url must start with {schemes}, as in sqlite:///shop.db or sqlite:////srv/shop.db.")
    return reader.normalized(url, folder)


def missing(url: str) -> str | None:
    """A sentence when the file that the source needs is not there."""
    reader = _reader_for(url)
    return reader.missing(url) if reader else None


def scheme_of(url: str) -> str:
    return url.partition(":")[0]


def load(scheme: str) -> None:
    """What reading from such a source takes is imported by then, if it is there; no code of a source itself."""
    if scheme in READERS:
        import_module(READERS[scheme])


def open_rows(url: str, sql: str, params: Mapping[str, Any]) -> RowReader:
    """A reader whose columns are known; the query itself runs when its batches are asked for."""
    return _open(url, sql, params, seconds=None)


def describe(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None = None) -> tuple[Column, ...]:
    """The query's columns; prepares it, reads no row. Raises `AttemptFailed`, with TIMEOUT after `seconds`."""
    with _open(url, sql, params, seconds=seconds) as reader:
        return reader.columns


def preview(
    url: str, sql: str, params: Mapping[str, Any], *, rows: int, seconds: float, columns: Sequence[str] = ()
) -> Preview:
    """The first `rows` rows, of the chosen columns or of all; raises `AttemptFailed` with TIMEOUT when they take longer
    than `seconds`."""
    with _open(url, sql, params, seconds=seconds) as reader:
        if columns:
            reader.choose(columns)
        first = next(reader.batches(rows + 1), NO_ROWS)
        return Preview(reader.columns, tuple(first[:rows]), len(first) > rows)


def for_attempt(url: str, name: str, *, seconds: float) -> str:
    """The URL for one attempt. A server that does not notice when its client is gone needs to know whose a query is
    and how long it may take; readers of other sources have no `for_attempt`."""
    reader = _reader_for(url)
    return reader.for_attempt(url, name, seconds) if reader and hasattr(reader, "for_attempt") else url


def end_query(url: str) -> None:
    """Ends what still runs in the source for the attempt of this URL, whose process is gone. Raises nothing."""
    reader = _reader_for(url)
    if reader and hasattr(reader, "end_query"):
        reader.end_query(url)


def _open(url: str, sql: str, params: Mapping[str, Any], *, seconds: float | None) -> RowReader:
    reader = _reader_for(url)
    if reader is None:
        raise AttemptFailed(ErrorCode.SOURCE_UNREACHABLE)
    return reader.open_reader(url, sql, params, seconds=seconds)


def _reader_for(url: str) -> ModuleType | None:
    name = READERS.get(scheme_of(url))
    return import_module(name) if name else None
