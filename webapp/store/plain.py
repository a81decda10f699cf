"""SQL as text, for what runs so often that compiling it would be most of its cost; the same on both databases."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

COLUMN = re.compile(r"\br\.(\w+)")
PARAMETER = re.compile(r"(?<!:):(\w+)")


class PlainSQL(Protocol):
    """What runs SQL with `:name` parameters: a store, or one transaction of it."""

    @property
    def is_sqlite(self) -> bool: ...

    async def plain(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]: ...

    async def plain_rows(
        self, sql: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], *, changed: str = ""
    ) -> Collection[Any]:
        """SQL that changes something, with ` FROM {ROWS}`: a table `r` of these rows, with columns of these kinds.

        `changed`, a column that `rows` have too, as `table.column`: its values in the rows that were changed.
        """
        ...


ROWS = "(rows) AS r"


@lru_cache(256)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """The same SQL with `$1`, `$2` …, and the names in this order."""
    names = tuple(dict.fromkeys(PARAMETER.findall(sql)))
    return PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql), names


@lru_cache(64)
def of_one_row(sql: str) -> str:
    """With values instead of columns: for SQLite, joining a table of one row is more work than the update itself."""
    return COLUMN.sub(r":\1", sql.replace(f" FROM {ROWS}", ""))


def json_rows(store: PlainSQL, **kinds: str) -> str:
    """The JSON array in the parameter `rows` as a table `r` with these columns."""
    if store.is_sqlite:
        columns = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in kinds)
        return f"(SELECT {columns} FROM json_each(:rows)) AS r"
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    return f"json_to_recordset(CAST(:rows AS json)) AS r({columns})"


def json_text(store: PlainSQL, column: str, name: str) -> str:
    """A member of the JSON object that is kept in this column, as text."""
    if store.is_sqlite:
        return f"json_extract({column}, '$.{name}')"
    return f"(CAST({column} AS json) ->> '{name}')"
