"""What cells are in every format: one place decides how a value reads as text."""

from __future__ import annotations

import re
from binascii import b2a_base64
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

REPLACEMENT = "\ufffd"
SURROGATES = re.compile("[\ud800-\udfff]")
NUMERAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})


def is_switch(value: object) -> bool:
    """Whether an integer in a boolean column is one of the two that mean false and true."""
    return value in (0, 1)


def is_numeral(text: str) -> bool:
    """Whether text in a decimal column is a number, as databases write them; `007` is not."""
    return NUMERAL.fullmatch(text) is not None or text in NOT_FINITE


def base64_text(value: bytes | bytearray | memoryview) -> str:
    return str(b2a_base64(value, newline=False), "ascii")


def plain_text(value: Any) -> str:
    """A value of a kind that no format has a cell for, as text: ISO for times, base64 for bytes, JSON for the rest."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes() | bytearray() | memoryview():
            return base64_text(value)  # pyright: ignore[reportUnknownArgumentType]
        case datetime():
            return value.isoformat(sep=" ")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case dict() | list() | tuple():
            return _json(value)
        case _:
            return str(value)


def _json(value: Any) -> str:
    import json  # only sources with lists need it

    return json.dumps(value, ensure_ascii=False, default=plain_text)


def without_surrogates(text: str) -> str:
    """Text that UTF-8 can hold."""
    return SURROGATES.sub(REPLACEMENT, text)
