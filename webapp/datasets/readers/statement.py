"""The statement of a query as it is sent to a database server, with its parameters put in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from webapp.datasets.placeholders import TOKEN, named_parameters
from webapp.datasets.readers.errors import query_error


def single_statement(sql: str) -> str:
    """Without the semicolon, the space and the comments at its end. Raises QUERY_ERROR when it is none or several."""
    code = TOKEN.sub(_blanked, sql)
    end = len(code.rstrip("; \t\r\n\f\v"))
    if not code[:end].strip():
        raise query_error("there is no query")
    if ";" in code[:end]:
        raise query_error("only one statement is allowed")
    return sql[:end]


def filled(sql: str, params: Mapping[str, Any], literal: Callable[[Any], str]) -> str:
    """With each `:name` outside of texts and comments replaced by its value's literal; everything else as it is.

    A literal takes the type that its place asks for, which NULL as a bound parameter does not; and neither `COPY` nor
    `EXPLAIN` takes bound parameters everywhere.
    """

    def value(match: re.Match[str]) -> str:
        return f" {literal(params.get(match['name']))} " if match["name"] else match[0]

    return TOKEN.sub(value, sql)


def has_values(sql: str, params: Mapping[str, Any]) -> bool:
    """Whether any of the statement's parameters is given, so that one of them can be what the server refuses."""
    return any(params.get(name) is not None for name in named_parameters(sql))


def _blanked(match: re.Match[str]) -> str:
    """Comments as space, texts and quoted names as letters: what is left is code."""
    text = match[0]
    if text.startswith(("--", "/*")):
        return " " * len(text)
    return "x" * len(text) if text[0] in "'\"`[" else text
