"""Text as XLSX can hold it: what XML forbids, what Excel reads as an escape, and how long a cell may be."""

from __future__ import annotations

import re

CELL_UNITS = 32_767
"""UTF-16 units that a cell holds."""

MARKUP = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
ESCAPE_LIKE = re.compile("_(?=x[0-9A-Fa-f]{4}_)")


def xml_text(text: str) -> str:
    """Characters that XML cannot hold become U+FFFD; markup is not escaped here."""
    return FORBIDDEN.sub("\ufffd", text)


def escaped(text: str) -> str:
    """Valid text as the content of `<t>`: `_x000D_` keeps a carriage return, `_x005F_` a literal escape."""
    if "_x" in text:
        text = ESCAPE_LIKE.sub("_x005F_", text)
    return markup(text).replace("\r", "_x000D_")


def markup(text: str) -> str:
    """For content; an attribute in double quotes needs `&quot;` as well."""
    for character, entity in MARKUP:
        text = text.replace(character, entity)
    return text


def utf16_cut(text: str, units: int) -> str:
    """The text's beginning in at most so many UTF-16 units, without half a surrogate pair."""
    if len(text) * 2 <= units:
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return text if len(data) <= units * 2 else data[: units * 2].decode("utf-16-le", "ignore")
