"""English sentences that know what they were made of, so that whoever shows them can say them in another language.

Pure: the rules write English, and nothing here knows of another language. `webapp.language` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TAGS = ("en", "zh-CN")
"""The languages that there are, as HTML and HTTP name them."""


class Text(str):
    """A finished English text, with the pattern and the values behind it. `many` and `n` are there for what counts."""

    __slots__ = ("many", "msgid", "n", "values")

    msgid: str
    many: str | None
    n: int
    values: Mapping[str, Any]


def say(msgid: str, /, **values: Any) -> Text:
    """`{name}` in the pattern stands for a value. Whole numbers are set in groups of three: what is no quantity, such
    as a port, is given as a text. Without values the pattern stays as it is, and they may be given when it is told."""
    return _text(msgid, None, 0, values)


def say_many(one: str, many: str, n: int, /, **values: Any) -> Text:
    """The same with two patterns, for one and for any other number of things; `{n}` is that number."""
    return _text(one, many, n, {"n": n, **values})


def sentence_of(error: Exception) -> str:
    """What it was raised with: `str(error)` forgets what it was made of."""
    return error.args[0]


def _text(msgid: str, many: str | None, n: int, values: Mapping[str, Any]) -> Text:
    pattern = msgid if many is None or n == 1 else many
    english = pattern.format_map({name: _english(value) for name, value in values.items()}) if values else pattern
    text = Text(english)
    text.msgid, text.many, text.n, text.values = msgid, many, n, values
    return text


def _english(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
