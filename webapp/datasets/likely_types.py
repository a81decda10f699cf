"""What type a parameter is likely to have, by how a query uses it. In doubt it is a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from webapp.datasets.columns import Column, Kind
from webapp.datasets.declaration import ParameterType
from webapp.datasets.placeholders import TOKEN

BY_KIND: Mapping[Kind, ParameterType] = {
    Kind.INTEGER: ParameterType.INTEGER,
    Kind.DECIMAL: ParameterType.NUMBER,
    Kind.FLOAT: ParameterType.NUMBER,
    Kind.DATE: ParameterType.DATE,
    Kind.TIMESTAMP: ParameterType.DATETIME,
    Kind.TIMESTAMP_TZ: ParameterType.DATETIME,
}
BY_CAST: Mapping[str, ParameterType] = {
    "int": ParameterType.INTEGER,
    "int4": ParameterType.INTEGER,
    "int8": ParameterType.INTEGER,
    "integer": ParameterType.INTEGER,
    "bigint": ParameterType.INTEGER,
    "smallint": ParameterType.INTEGER,
    "numeric": ParameterType.NUMBER,
    "decimal": ParameterType.NUMBER,
    "date": ParameterType.DATE,
    "timestamp": ParameterType.DATETIME,
    "timestamptz": ParameterType.DATETIME,
    "datetime": ParameterType.DATETIME,
}
DAYS = {"since", "until", "date", "day"}
"""Words that a parameter's name begins or ends with when it is a day."""
NAME = r'(?:"(?:[^"]|"")+"|`[^`]+`|\[[^\]]+\]|\b\w+)'
COLUMN = rf"(?P<column>{NAME})"
TABLE = rf"(?:{NAME}\.)*"
OPERATOR = r"(?:<=|>=|<>|!=|=|<|>)"


def likely_type(sql: str, name: str, columns: Iterable[Column]) -> ParameterType:
    """`columns` are those of the query's result: what is compared with one of them is of its kind."""
    plain = " ".join(TOKEN.sub(_without_text, sql).split())
    parameter = rf"(?<![:\w]):{name}\b"
    if re.search(rf"(?:\|\||\b(?:i?like|glob)\b)\s*{parameter}|{parameter}\s*\|\|", plain, re.IGNORECASE):
        return ParameterType.STRING
    if re.search(rf"\b(?:limit|offset)\s+{parameter}", plain, re.IGNORECASE):
        return ParameterType.INTEGER
    found = set(_cast_types(plain, parameter))
    if not found:
        kinds = {column.name.lower(): column.kind for column in columns}
        compared = [kinds.get(column.lower()) for column in _compared(plain, parameter)]
        found = {_of_kind(kind, name) for kind in compared}
    return found.pop() if len(found) == 1 else ParameterType.STRING


def _without_text(token: re.Match[str]) -> str:
    return " " if token[0].startswith(("'", "--", "/*")) else token[0]


def _cast_types(sql: str, parameter: str) -> Iterator[ParameterType]:
    for match in re.finditer(rf"{parameter}\s*(?:::|\s+as\s+)(?P<type>\w+)", sql, re.IGNORECASE):
        yield BY_CAST.get(match["type"].lower(), ParameterType.STRING)


def _compared(sql: str, parameter: str) -> Iterator[str]:
    """Names of columns, also of what only looks like one."""
    for pattern in (
        rf"{COLUMN}\s*{OPERATOR}\s*{parameter}",
        rf"{parameter}\s*{OPERATOR}\s*{TABLE}{COLUMN}",
        rf"{COLUMN}\s+between\s+(?:{parameter}|\S+\s+and\s+{parameter})",
    ):
        for match in re.finditer(pattern, sql, re.IGNORECASE):
            yield match["column"].strip('"`[]').replace('""', '"')


def _of_kind(kind: Kind | None, name: str) -> ParameterType:
    """SQLite keeps most dates as texts: there the parameter's own name tells."""
    words = name.lower().split("_")
    is_day = words[0] in DAYS or words[-1] in DAYS
    if is_day and kind in {None, Kind.TEXT, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ}:
        return ParameterType.DATE
    return BY_KIND.get(kind, ParameterType.STRING) if kind else ParameterType.STRING
