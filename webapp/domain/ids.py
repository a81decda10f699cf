"""Prefixed, sortable ids: a UUIDv7 (RFC 9562) in lower-case Crockford base32."""

import os
import re
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
RANDOM_BITS = (1 << 62) - 1
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


def new_id(prefix: str) -> str:
    """`exp_` + 26 characters. Ids made later by the same clock sort later, to the millisecond."""
    milliseconds = time.time_ns() // 1_000_000
    noise = int.from_bytes(os.urandom(10))
    bits = milliseconds << 80 | 0x7 << 76 | (noise >> 62 & 0xFFF) << 64 | 0b10 << 62 | noise & RANDOM_BITS
    return f"{prefix}_" + "".join([_PAIRS[(bits >> shift) & 1023] for shift in range(120, -1, -10)])


def is_id(text: str, prefix: str) -> bool:
    """Whether the text has the shape of such an id; says nothing about whether it exists."""
    return re.fullmatch(rf"{prefix}_[{ALPHABET}]{{{LENGTH}}}", text) is not None
