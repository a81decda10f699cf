"""The first rows of a dataset as a small table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.actions.datasets import Preview
from webapp.datasets.columns import Column, Kind
from webapp.domain.estimates import Expectation, Rows
from webapp.domain.sentences import say
from webapp.language import gettext as _
from webapp.language import ngettext
from webapp.web.words import duration, size

TITLE_LENGTH = 500
NUMERIC = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT})
KINDS = {
    Kind.TEXT: say("text"),
    Kind.INTEGER: say("whole number"),
    Kind.DECIMAL: say("decimal number"),
    Kind.FLOAT: say("number"),
    Kind.BOOLEAN: say("yes or no"),
    Kind.DATE: say("date"),
    Kind.TIME: say("time"),
    Kind.TIMESTAMP: say("date and time"),
    Kind.TIMESTAMP_TZ: say("date, time and zone"),
    Kind.BYTES: say("bytes"),
    Kind.JSON: "JSON",
    Kind.UUID: "UUID",
    Kind.LIST: say("list"),
}


@dataclass(frozen=True, slots=True)
class Heading:
    name: str
    kind: str
    is_numeric: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """`is_missing` for NULL, which is not the same as an empty text."""

    text: str
    is_numeric: bool
    is_missing: bool


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the file will be like in one format: its size and time in words, or nothing, and what to know before."""

    format: str
    told: str
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreviewTable:
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    truncated: bool
    estimate: Rows | None
    outlooks: tuple[Outlook, ...]


def table(found: Preview, expected: Mapping[str, Expectation]) -> PreviewTable:
    return PreviewTable(
        headings=tuple(map(_heading, found.columns)),
        rows=tuple(tuple(map(_cell, found.columns, row)) for row in found.rows),
        truncated=found.truncated,
        estimate=found.estimate,
        outlooks=tuple(_outlook(format, expectation) for format, expectation in expected.items()),
    )


def _outlook(format: str, expected: Expectation) -> Outlook:
    parts = [_("about {size}", size=size(expected.bytes))] if expected.bytes is not None else []
    parts += [_("about {time}", time=duration(max(1, expected.seconds)))] if expected.seconds is not None else []
    told = ", ".join(parts)
    return Outlook(format, told, tuple(notice.message for notice in expected.notices))


def _heading(column: Column) -> Heading:
    return Heading(column.name, KINDS[column.kind], column.kind in NUMERIC)


def _cell(column: Column, value: Any) -> Cell:
    return Cell(_text(column, value), column.kind in NUMERIC, value is None)


def _text(column: Column, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return ngettext("{n} byte", "{n} bytes", len(value))
    if isinstance(value, bool) or (column.kind is Kind.BOOLEAN and value in (0, 1)):
        return "true" if value else "false"
    text = str(value)
    return text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1] + "…"
