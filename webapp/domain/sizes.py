"""Sizes in bytes as people write them: `512MB`, `2 GiB`. Pure."""

from __future__ import annotations

import re

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
         "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
NAMES = ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB")
SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([kmgt]?i?b)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError with the rest of a sentence."""
    match = SIZE.fullmatch(text.strip())
    unit = UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("write a number of bytes, or a number and a unit, such as 512MB or 2GiB")
    return round(float(match[1]) * unit)


def told_size(size: int) -> str:
    """In the largest unit that says it exactly: `512 MB`, `2 GiB`, `5,001 bytes`."""
    for name in NAMES:
        unit = UNITS[name.lower()]
        if size >= unit and size % unit == 0:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"
