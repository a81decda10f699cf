"""The named parameters of a query, found without running it."""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]      # texts and quoted names
    |--[^\n]*|/\*.*?(?:\*/|\Z)                                # comments
    |::\w+                                                    # a cast
    |:(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<foreign>\?[0-9]*|[@$][A-Za-z_]\w*)
    |[A-Za-z_][\w$]*""",
    re.DOTALL | re.VERBOSE,
)


def named_parameters(sql: str) -> list[str]:
    """`:name`s in the order of the query, each once; what stands in texts and comments does not count."""
    return list(dict.fromkeys(match["name"] for match in TOKEN.finditer(sql) if match["name"]))


def foreign_parameters(sql: str) -> list[str]:
    """Parameters written in another way: `?`, `?1`, `@name`, `$name`."""
    return list(dict.fromkeys(match["foreign"] for match in TOKEN.finditer(sql) if match["foreign"]))
