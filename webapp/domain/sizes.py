"""Sizes in bytes as people write them: `512MB`, `2 GiB`. Pure."""

from __future__ import annotations

import re

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
         "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
NAMES = ("kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB")
SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([kmgt]?i?b)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError with the rest of a sentence."""
    match = SIZE.fullmatch(text.strip())
    unit = UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("write a number of bytes, or a number and a unit, such as 512MB or 2GiB")
    return round(float(match[1]) * unit)


def told_size(size: int) -> str:
    """In the unit that says it exactly with the smallest number: `512 MB`, `2 GiB`, `5,001 bytes`."""
    exact = [(size // UNITS[name.lower()], name) for name in NAMES if size and size % UNITS[name.lower()] == 0]
    count, name = min(exact, default=(size, "byte" if size == 1 else "bytes"))
    return f"{count:,} {name}"
