"""Columns of a result and the kinds of values in them: what sources give and writers take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Row = tuple[Any, ...]


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
