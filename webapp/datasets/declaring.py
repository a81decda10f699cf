"""Writes sources and datasets into the text of `exportdesk.toml`; comments, order and all else stay as they are."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import tomlkit
from tomlkit.items import Item

from webapp.datasets.declaration import ParameterType

QUOTES = '"""'
FORM_KEYS = ("type", "label", "required", "default", "choices")
"""What a form says of a parameter; whatever else the file says of it stays."""


@dataclass(frozen=True, slots=True)
class DeclaredParameter:
    """`choices` are texts, or value and label. None is left out."""

    name: str
    type: ParameterType
    label: str
    required: bool
    default: Any = None
    choices: Sequence[str | Mapping[str, str]] = ()

    @property
    def table(self) -> dict[str, Any]:
        values = {
            "type": self.type.value,
            "label": self.label or None,
            "required": self.required or None,
            "default": self.default,
            "choices": list(self.choices) or None,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class DeclaredDataset:
    name: str
    title: str
    description: str
    source: str
    sql: str
    formats: Sequence[str]
    """Empty for all."""

    parameters: Sequence[DeclaredParameter]

    @property
    def table(self) -> dict[str, Any]:
        values = {
            "title": self.title,
            "description": self.description or None,
            "source": self.source,
            "sql": self.sql,
            "formats": list(self.formats) or None,
        }
        return {key: value for key, value in values.items() if value is not None}


def with_source(text: str, name: str, url: str) -> str:
    return _appended(text, {"sources": {name: {"url": url}}})


def with_changed_source(text: str, name: str, url: str) -> str:
    """Raises KeyError when there is none of the name."""
    document = tomlkit.parse(text)
    tables: Any = document["sources"]
    _set(tables[name], {"url": url}, ("url",))
    return tomlkit.dumps(document)


class Entangled(Exception):
    """The table cannot be taken out without touching what stands around it."""


def without_source(text: str, name: str) -> str:
    """Comments above its table and below it stay. Raises KeyError, and Entangled."""
    return _without(text, "sources", name)


def without_dataset(text: str, name: str) -> str:
    """Without its parameters too. Comments above its tables and below them stay. Raises KeyError, and Entangled."""
    return _without(text, "datasets", name)


def _without(text: str, kind: str, name: str) -> str:
    if not _has(text, kind, name):
        raise KeyError(name)
    others = _others(text, kind, name)
    for without in (_without_sections, _without_key):
        left = without(text, kind, name)
        if _others(left, kind, name) == others and not _has(left, kind, name):
            return left
    raise Entangled


def _has(text: str, kind: str, name: str) -> bool:
    return name in tomllib.loads(text).get(kind, {})


def _others(text: str, kind: str, name: str) -> Mapping[str, Any] | None:
    """What the file says apart from this table; None for what is no TOML."""
    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    tables = found.pop(kind, {})
    return {**found, kind: {key: table for key, table in tables.items() if key != name}}


def _without_sections(text: str, kind: str, name: str) -> str:
    """Without the lines from `[KIND.NAME]`, and of each table inside it, to the last of its keys. What only looks like
    one of them, inside a query, stays."""
    header = re.compile(rf"""\s*\[\s*{kind}\s*\.\s*(["']?){re.escape(name)}\1\s*[\].]""")
    lines, others = text.splitlines(keepends=True), _others(text, kind, name)
    for first in reversed([number for number, line in enumerate(lines) if header.match(line)]):
        left = _without_section(lines, first)
        if _others("".join(left), kind, name) == others:
            lines = left
    return "".join(lines)


def _without_section(lines: list[str], first: int) -> list[str]:
    end = next((n for n in range(first + 1, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
    while lines[end - 1].strip() == "" or lines[end - 1].lstrip().startswith("#"):
        end -= 1
    before, after = lines[:first], lines[end:]
    while after and after[0] == "\n" and (not before or before[-1] == "\n"):
        after = after[1:]
    return before + after


def _without_key(text: str, kind: str, name: str) -> str:
    """However else TOML may write it: as an inline table, by dotted keys."""
    document = tomlkit.parse(text)
    tables: Any = document[kind]
    del tables[name]
    return tomlkit.dumps(document)


def with_dataset(text: str, dataset: DeclaredDataset) -> str:
    """With a new one, at the end."""
    table = {key: _item(key, value) for key, value in dataset.table.items()}
    parameters = {parameter.name: parameter.table for parameter in dataset.parameters}
    return _appended(
        text, {"datasets": {dataset.name: {**table, **({"parameters": parameters} if parameters else {})}}}
    )


def with_changed_dataset(text: str, dataset: DeclaredDataset) -> str:
    """With one that is there as the form has it. Raises KeyError when there is none of the name."""
    document = tomlkit.parse(text)
    tables: Any = document["datasets"]
    _set(tables[dataset.name], dataset.table, ("title", "description", "source", "sql", "formats"))
    _set_parameters(tables[dataset.name], dataset.parameters)
    return tomlkit.dumps(document)


def _set_parameters(table: Any, parameters: Sequence[DeclaredParameter]) -> None:
    declared = {parameter.name: parameter.table for parameter in parameters}
    kept: Any = table.get("parameters")
    if kept is None:
        if declared:
            table["parameters"] = declared
        return
    for name in [name for name in kept if name not in declared]:
        del kept[name]
    for name, values in declared.items():
        if name in kept:
            _set(kept[name], values, FORM_KEYS)
        else:
            kept[name] = tomlkit.item(values).add(tomlkit.nl())


def _set(table: Any, values: Mapping[str, Any], keys: Sequence[str]) -> None:
    """A key that says the same already is not touched, so that it stays as somebody wrote it."""
    for key in keys:
        if key not in values:
            table.pop(key, None)
        elif key not in table or not _is_same(table[key], values[key]):
            table[key] = _item(key, values[key])


def _is_same(before: Any, after: Any) -> bool:
    return before.strip() == after.strip() if isinstance(before, str) and isinstance(after, str) else before == after


def _item(key: str, value: Any) -> Item:
    """A query of several lines begins on a line of its own."""
    if key != "sql" or "\n" not in value:
        return cast(Item, tomlkit.item(value))
    quoted = tomlkit.string(f"{value.strip()}\n", multiline=True).as_string()
    document: Any = tomlkit.parse("sql = " + quoted.replace(QUOTES, f"{QUOTES}\n", 1))
    return document["sql"]


def _appended(text: str, tables: Mapping[str, Any]) -> str:
    """Tables of one kind may stand anywhere in a TOML file."""
    return f"{text.rstrip()}\n\n{tomlkit.dumps(tables).lstrip()}"
