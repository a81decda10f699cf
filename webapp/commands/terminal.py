"""What a person sees at the terminal: colours where they are wanted, and tables."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TextIO

from webapp.settings import colour_is_unwanted

CODES = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text as it is unless the stream is a terminal that wants colours."""
    if colour_is_unwanted() or not (stream or sys.stdout).isatty():
        return text
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m"


def say(text: str = "") -> None:
    """Prints at once; a terminal that was closed must not end what is being supervised."""
    with contextlib.suppress(OSError, ValueError):
        print(text, flush=True)


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Columns padded to their widest cell, two spaces apart."""
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join((indent + line).rstrip() for line in lines)
