"""Choices that a query gives (`choices_sql`): read under limits, kept for a minute, and searched."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, cast

from webapp.datasets import sources
from webapp.datasets.columns import Row
from webapp.datasets.declaration import Choice, Dataset
from webapp.domain import limits
from webapp.domain.errors import AttemptFailed, ErrorCode

FAILURE_KEPT = 5.0
"""Seconds in which a source that just failed is not asked again for the same list."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """A list, or why there is none, and until when that holds."""

    result: tuple[Choice, ...] | AttemptFailed
    until: float


@dataclass(frozen=True, slots=True)
class Found:
    """The first choices that fit a search, and how many fit in all."""

    items: tuple[Choice, ...]
    total: int


def read_choices(url: str, sql: str) -> tuple[Choice, ...]:
    """Each value once, in the query's order; NULL and empty values are no choices. Raises AttemptFailed."""
    found = sources.preview(url, sql, {}, rows=limits.CHOICES_MOST, seconds=limits.CHOICES_SECONDS)
    if len(found.columns) not in (1, 2):
        raise _refused("choices_sql must have one column, the value, or two, the value and its label")
    if found.truncated:
        raise _refused(f"choices_sql gives more than {limits.CHOICES_MOST:,} values")
    choices: dict[str, Choice] = {}
    for row in found.rows:
        if (choice := _choice(row)) is not None:
            choices.setdefault(choice.value, choice)
    return tuple(choices.values())


class ChoiceLists:
    """The lists that this process has read, by source and query. May be used from any thread."""

    def __init__(self) -> None:
        self._kept: dict[Key, Kept] = {}
        self._locks: dict[Key, threading.Lock] = {}

    def get(self, url: str, sql: str) -> tuple[Choice, ...]:
        """At most a minute old; several that ask at once wait for one query. Raises AttemptFailed."""
        key = (url, sql)
        with self._locks.setdefault(key, threading.Lock()):
            kept = self._kept.get(key)
            if kept is None or kept.until <= monotonic():
                kept = self._read(key)
        if isinstance(kept.result, AttemptFailed):
            raise AttemptFailed(kept.result.code, **kept.result.details)
        return kept.result

    def _read(self, key: Key) -> Kept:
        try:
            kept = Kept(read_choices(*key), monotonic() + limits.CHOICES_KEPT)
        except AttemptFailed as failure:
            kept = Kept(failure, monotonic() + FAILURE_KEPT)
        now = monotonic()
        self._kept = {other: held for other, held in self._kept.items() if held.until > now} | {key: kept}
        return kept


def with_choices(dataset: Dataset, lists: Mapping[str, Sequence[Choice]]) -> Dataset:
    """The dataset with these lists as its parameters' choices, by parameter name."""
    parameters = tuple(
        replace(parameter, choices=tuple(lists[parameter.name])) if parameter.name in lists else parameter
        for parameter in dataset.parameters
    )
    return replace(dataset, parameters=parameters)


def labels_of(dataset: Dataset, params: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What the chosen values are called, by parameter and value; those that are called what they are, are left out."""
    labels: dict[str, dict[str, str]] = {}
    for parameter in dataset.parameters:
        given = params.get(parameter.name)
        chosen = set(cast(list[str], given) if isinstance(given, list) else [given])
        named = {c.value: c.label for c in parameter.choices if c.value in chosen and c.label != c.value}
        if named:
            labels[parameter.name] = named
    return labels


def search(choices: Sequence[Choice], text: str, *, limit: int) -> Found:
    """Those that have every word in value or label: what begins with the text comes first."""
    words, start = text.casefold().split(), text.casefold().strip()
    fitting = [choice for choice in choices if all(word in _searched(choice) for word in words)]
    if start:
        fitting.sort(key=lambda choice: _distance(choice, start))
    return Found(tuple(fitting[:limit]), len(fitting))


def _distance(choice: Choice, start: str) -> int:
    value, label = choice.value.casefold(), choice.label.casefold()
    if start in (value, label):
        return 0
    return 1 if value.startswith(start) or label.startswith(start) else 2


def _searched(choice: Choice) -> str:
    return f"{choice.value} {choice.label}".casefold()


def _choice(row: Row) -> Choice | None:
    value, label = row[0], row[-1]
    if isinstance(value, bytes) or isinstance(label, bytes):
        raise _refused("choices_sql gives bytes; cast them to text")
    if value is None or str(value) == "":
        return None
    return Choice(str(value), str(value) if label is None or str(label) == "" else str(label))


def _refused(detail: str) -> AttemptFailed:
    return AttemptFailed(ErrorCode.QUERY_ERROR, detail=detail)
