"""Tables of a TOML file that remember where they stand, and the mistakes found in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from webapp.datasets.declaration import Problem, did_you_mean
from webapp.domain.sizes import parse_size, told_size

Path = tuple[str, ...]

TOKEN = re.compile(
    r'''(?P<multiline>"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2}))
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
    |(?P<comment>\#[^\n]*)
    |(?P<bare>[A-Za-z0-9_-]+)
    |(?P<mark>[\[\]{}=\n])''',
    re.DOTALL | re.VERBOSE,
)


class LineIndex:
    """Where the tables and keys of a TOML text stand. The text must have been accepted by tomllib."""

    def __init__(self, text: str) -> None:
        self.rows = text.split("\n")
        self.lines: dict[Path, int] = {}
        self._table: Path = ()
        self._scan(text)

    def line_of(self, path: Path, near: str = "") -> int:
        """The line of the key, or of what encloses it; with `near`, the first line from there on that has that text."""
        while path and path not in self.lines:
            path = path[:-1]
        line = self.lines.get(path, 1)
        if near:
            word = re.compile(re.escape(near) + r"(?![A-Za-z0-9_])")
            return next((n for n in range(line, len(self.rows) + 1) if word.search(self.rows[n - 1])), line)
        return line

    def _scan(self, text: str) -> None:
        line, depth, in_value, is_header = 1, 0, False, False
        parts: list[str] = []
        for match in TOKEN.finditer(text):
            word, kind = match[0], match.lastgroup
            if in_value and kind == "mark" and word in "[{]}":
                depth += 0 if is_header else 1 if word in "[{" else -1
            elif not in_value and word == "[":
                is_header = True
            elif not in_value and kind in {"bare", "quoted"}:
                parts.append(_plain(word) if kind == "quoted" else word)
            elif not in_value and parts and word in {"=", "]"}:
                self._record(tuple(parts), line, is_header)
                parts, in_value = [], True
            elif word == "\n" and depth == 0:
                in_value, is_header = False, False
            line += word.count("\n")

    def _record(self, parts: Path, line: int, is_header: bool) -> None:
        """A header opens the table that the keys after it belong to."""
        path = parts if is_header else self._table + parts
        if is_header:
            self._table = path
        self.lines[path] = line
        for length in range(1, len(path)):
            self.lines.setdefault(path[:length], line)


def _plain(quoted: str) -> str:
    return str(tomllib.loads(f"key = {quoted}")["key"])


@dataclass(slots=True)
class Report:
    """Collects mistakes, so that a person can mend them all at once."""

    file: str
    index: LineIndex
    problems: list[Problem] = field(default_factory=list[Problem])

    def add(self, path: Path, message: str, *, near: str = "") -> None:
        self.problems.append(Problem(self.file, self.index.line_of(path, near), message))


@dataclass(frozen=True, slots=True)
class Table:
    """One table. Each reading method reports a value that does not fit and then gives None."""

    path: Path
    values: dict[str, Any]
    report: Report

    @property
    def name(self) -> str:
        """As it is written in the file: `datasets.orders`."""
        return ".".join(self.path)

    def wrong(self, key: str, message: str, *, near: str = "") -> None:
        self.report.add((*self.path, key), f"{self.name}: {message}" if self.path else message, near=near)

    def allow(self, keys: Collection[str]) -> None:
        for key in self.values:
            if key not in keys:
                self.wrong(key, f"There is no setting {key[:64]} here.{did_you_mean(key, keys)}")

    def require(self, *keys: str) -> None:
        for key in keys:
            if key not in self.values:
                self.report.add(self.path, f"{self.name}: {key} is missing.")

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        return self.wrong(key, f"{key} must be a text that is not empty.")

    def boolean(self, key: str) -> bool | None:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return value
        return self.wrong(key, f"{key} must be true or false.")

    def integer(self, key: str, *, low: int, high: int) -> int | None:
        value = self.values.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
            return value
        return self.wrong(key, f"{key} must be a whole number from {low:,} to {high:,}.")

    def size(self, key: str, *, low: int, high: int) -> int | None:
        """Bytes: a whole number of them, or a text such as 512MB."""
        value = self.values.get(key)
        if isinstance(value, str):
            try:
                value = parse_size(value)
            except ValueError as error:
                return self.wrong(key, f"{key}: {error}.")
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
            return value
        return self.wrong(key, f"{key} must be a size from {told_size(low)} to {told_size(high)}.")

    def chosen(self, key: str, known: Collection[str]) -> str | None:
        value = self.values.get(key)
        if value is None or (isinstance(value, str) and value in known):
            return value
        return self._not_one_of(key, value, known)

    def several(self, key: str, known: Collection[str]) -> tuple[str, ...] | None:
        """A list of known words, each once."""
        value = self.items(key)
        if value is None:
            return None
        for item in value:
            if not isinstance(item, str) or item not in known:
                return self._not_one_of(key, item, known)
        return tuple(dict.fromkeys(cast(list[str], value)))

    def items(self, key: str) -> list[Any] | None:
        value = self.values.get(key)
        if value is None or (isinstance(value, list) and value):
            return cast(list[Any] | None, value)
        return self.wrong(key, f"{key} must be a list with at least one item.")

    def tables(self, key: str) -> Iterator[Table]:
        """The tables inside the table `key`."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            return self.wrong(key, f"{key} must be a table, written [{'.'.join((*self.path, key))}.NAME].")
        for name, inner in cast(dict[str, Any], value).items():
            path = (*self.path, key, name)
            if isinstance(inner, dict):
                yield Table(path, cast(dict[str, Any], inner), self.report)
            else:
                self.report.add(path, f"{'.'.join(path)} must be a table, written [{'.'.join(path)}].")

    def _not_one_of(self, key: str, value: Any, known: Collection[str]) -> None:
        near = did_you_mean(value, known) if isinstance(value, str) else ""
        shown = repr(value[:64]) if isinstance(value, str) else "something else"
        self.wrong(key, f"{key} must be one of {', '.join(known)}, not {shown}.{near}")
