"""Column types that read the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def to_milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MILLISECOND


def from_milliseconds(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


class Milliseconds(TypeDecorator[datetime]):
    """An aware UTC datetime, kept as whole milliseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else to_milliseconds(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else from_milliseconds(value)


class Json(TypeDecorator[Any]):
    """Any JSON value, kept as text: a JSON column reads as str on PostgreSQL and as an object on SQLite."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else msgspec.json.decode(value)
