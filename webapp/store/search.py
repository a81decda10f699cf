"""Looking for a text in a column, by LIKE."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, or_

from webapp.store.database import Store

SEARCH_LENGTH = 1_000
"""Characters of a search that count; SQLite refuses a LIKE pattern of more than 50,000 bytes."""


def containing(text: str) -> str:
    """The pattern, with `/` before what would stand for something else. It is made here and bound: `databases` trips
    over a literal percent sign in a statement."""
    escaped = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return f"%{escaped}%"


def says(store: Store, column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    """Whether the column has this in it, in any case; what PostgreSQL cannot fold, or Python folds by its place in a
    word, as it was written."""
    text = text[:SEARCH_LENGTH]
    folded = func.lower(column).like(containing(text.lower()), escape="/")
    if store.is_sqlite and text.isascii():
        return folded
    return or_(column.like(containing(text), escape="/"), folded)
