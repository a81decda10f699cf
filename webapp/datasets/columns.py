"""Columns of a result and the kinds of values in them: what sources give and writers take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any

from webapp.domain.errors import AttemptFailed, ErrorCode

Row = tuple[Any, ...]
NAMES_TOLD = 10
NAME_LENGTH = 60


class Kind(StrEnum):
    """What the query says a column holds. A cell may still differ (SQLite): writers decide per cell."""

    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TZ = "timestamp_tz"
    BYTES = "bytes"
    JSON = "json"
    UUID = "uuid"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind


def unique_names(names: Iterable[str]) -> list[str]:
    """Doubled column names get `_2`, `_3` …, so that none is lost; a name that is taken is skipped."""
    given = list(names)
    taken = set(given)
    seen: set[str] = set()
    result: list[str] = []
    for name in given:
        candidate, number = name, 2
        while candidate in seen or (candidate != name and candidate in taken):
            candidate, number = f"{name}_{number}", number + 1
        seen.add(candidate)
        result.append(candidate)
    return result


class UnknownColumns(AttemptFailed):
    """Columns were chosen that the query does not have. `known` are those it has."""

    def __init__(self, names: Sequence[str], known: Sequence[str]) -> None:
        super().__init__(ErrorCode.COLUMN_GONE, detail=told_names(names))
        self.names = names
        self.known = known


def places(columns: Sequence[Column], names: Sequence[str]) -> list[int]:
    """Where the columns of these names stand. Raises UnknownColumns."""
    known = {column.name: place for place, column in enumerate(columns)}
    if gone := [name for name in names if name not in known]:
        raise UnknownColumns(gone, list(known))
    return [known[name] for name in names]


def picker(chosen: Sequence[int]) -> Callable[[Row], Row]:
    """Takes a row's cells at these places."""
    if len(chosen) == 1:
        [place] = chosen
        return lambda row: (row[place],)
    return itemgetter(*chosen)


def told_names(names: Sequence[str], most: int = NAMES_TOLD) -> str:
    """In one line; of many only the first."""
    shown = [name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…" for name in names[:most]]
    return ", ".join(" ".join(name.split()) for name in shown) + (", …" if len(names) > most else "")
