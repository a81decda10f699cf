"""Types of MySQL and MariaDB: which kind of column each is, and how its cells become Python's."""

# PyMySQL has no type hints.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pymysql.constants import FIELD_TYPE

from webapp.datasets.columns import Kind

BINARY = 63
"""The number of the character set that means: these are bytes."""

KINDS: Mapping[int, Kind] = {
    FIELD_TYPE.SHORT: Kind.INTEGER,
    FIELD_TYPE.LONG: Kind.INTEGER,
    FIELD_TYPE.INT24: Kind.INTEGER,
    FIELD_TYPE.LONGLONG: Kind.INTEGER,
    FIELD_TYPE.YEAR: Kind.INTEGER,
    FIELD_TYPE.DECIMAL: Kind.DECIMAL,
    FIELD_TYPE.NEWDECIMAL: Kind.DECIMAL,
    FIELD_TYPE.FLOAT: Kind.FLOAT,
    FIELD_TYPE.DOUBLE: Kind.FLOAT,
    FIELD_TYPE.DATE: Kind.DATE,
    FIELD_TYPE.NEWDATE: Kind.DATE,
    FIELD_TYPE.TIME: Kind.TIME,
    FIELD_TYPE.DATETIME: Kind.TIMESTAMP,
    FIELD_TYPE.TIMESTAMP: Kind.TIMESTAMP_TZ,
    FIELD_TYPE.JSON: Kind.JSON,
}
TEXTS = frozenset(
    {FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.GEOMETRY}
    | {FIELD_TYPE.TINY_BLOB, FIELD_TYPE.BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB}
)


class Field(Protocol):
    """What the server says of a column: `length` is its display width or its bytes."""

    name: str
    type_code: int
    length: int
    charsetnr: int


def kind_of(field: Field) -> Kind:
    """`BOOLEAN` is `TINYINT(1)` to the server, a single bit as well may be one."""
    if field.type_code in (FIELD_TYPE.TINY, FIELD_TYPE.BIT):
        return Kind.BOOLEAN if field.length == 1 else Kind.INTEGER
    if field.type_code in TEXTS and field.charsetnr == BINARY:
        return Kind.BYTES
    return KINDS.get(field.type_code, Kind.TEXT)


def _utc(text: str) -> str:
    """The session's zone is UTC; the zero moment is none in any zone."""
    return text if text.startswith("0000") else text + "+00:00"


CONVERTERS: Mapping[int, Callable[[Any], Any]] = {
    **dict.fromkeys((FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.INT24), int),
    **dict.fromkeys((FIELD_TYPE.LONGLONG, FIELD_TYPE.YEAR), int),
    **dict.fromkeys((FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE), float),
    FIELD_TYPE.BIT: lambda data: int.from_bytes(data, "big"),
    FIELD_TYPE.TIMESTAMP: _utc,
}
"""By type; all others stay the server's text: there are zero dates, and times of more than a day."""
