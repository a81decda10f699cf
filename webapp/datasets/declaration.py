"""What `exportdesk.toml` declares: sources, datasets and their parameters, and what is wrong with them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from webapp.domain import limits
from webapp.domain.access import Role, Viewer
from webapp.domain.sentences import say

MIB = 1024 * 1024


class ParameterType(StrEnum):
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    CHOICE = "choice"
    CHOICES = "choices"
    LIST = "list"

    @property
    def is_numeric(self) -> bool:
        return self in {ParameterType.INTEGER, ParameterType.NUMBER}

    @property
    def is_temporal(self) -> bool:
        return self in {ParameterType.DATE, ParameterType.DATETIME}

    @property
    def has_range(self) -> bool:
        return self.is_numeric or self.is_temporal

    @property
    def has_choices(self) -> bool:
        return self in {ParameterType.CHOICE, ParameterType.CHOICES}

    @property
    def has_length(self) -> bool:
        return self in {ParameterType.STRING, ParameterType.LIST}

    @property
    def is_multiple(self) -> bool:
        return self in {ParameterType.CHOICES, ParameterType.LIST}


@dataclass(frozen=True, slots=True)
class Source:
    """Where data comes from, and how many exports may read it at a time. The URL may hold a password, so that no repr
    shows it."""

    name: str
    url: str = field(repr=False)
    max_running: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """`value` is what is bound to the query, `label` what people read."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """`choices` are those of the file; what `choices_sql` gives is read when it is needed (see `datasets.choices`).

    `default`, `minimum` and `maximum` are canonical values, or relative ones (`today - 30d`) for dates and times.

    `max_length` counts characters of a text, or of each item of a list.
    """

    name: str
    type: ParameterType
    label: str
    description: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[Choice, ...] = ()
    choices_sql: str | None = field(default=None, repr=False)
    minimum: int | float | str | None = None
    maximum: int | float | str | None = None
    max_length: int | None = None

    @property
    def must_be_given(self) -> bool:
        return self.required and self.default is None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named, parameterised query. A limit that is None is the desk's own."""

    name: str
    title: str
    description: str
    source: str
    sql: str = field(repr=False)
    parameters: tuple[Parameter, ...]
    roles: frozenset[Role]
    formats: tuple[str, ...]
    row_limit: int | None = None
    max_bytes: int | None = None
    execution_limit: timedelta | None = None
    memory_limit: int | None = None
    max_attempts: int = 3
    max_running: int | None = None

    @property
    def memory_bytes(self) -> int:
        """What one attempt may use beyond what its process has when it starts."""
        return self.memory_limit or limits.ATTEMPT_MEMORY_MIB * MIB

    @property
    def memory_mib(self) -> int:
        return -(-self.memory_bytes // MIB)


def _is_for(viewer: Viewer, dataset: Dataset) -> bool:
    return viewer.role in dataset.roles and dataset.name not in viewer.denied


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that can be exported, in the order of the file."""

    datasets: Mapping[str, Dataset]
    sources: Mapping[str, Source]

    def dataset_for(self, name: str, viewer: Viewer) -> Dataset | None:
        """None when there is no such dataset, or it is not for this person: both the file's `roles` and, once it was
        granted to anybody, the grants must say so."""
        dataset = self.datasets.get(name)
        return dataset if dataset and _is_for(viewer, dataset) else None

    def datasets_for(self, viewer: Viewer) -> tuple[Dataset, ...]:
        return tuple(dataset for dataset in self.datasets.values() if _is_for(viewer, dataset))

    def withheld_from(self, viewer: Viewer) -> frozenset[str]:
        """Names of datasets that are not for this person, also of some that are no longer there."""
        return viewer.denied | {dataset.name for dataset in self.datasets.values() if not _is_for(viewer, dataset)}

    def source_of(self, dataset: Dataset) -> Source:
        return self.sources[dataset.source]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in one file; `line` counts from 1."""

    file: str
    line: int
    message: str

    @property
    def file_name(self) -> str:
        return self.file.rsplit("/", 1)[-1]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class BadCatalog(Exception):
    """One line per mistake, each with its file and line."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean since?`, or nothing when no known word is near."""
    spellings = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold()[:64], list(spellings), n=1)
    return say(" Did you mean {name}?", name=spellings[near[0]]) if near else ""
