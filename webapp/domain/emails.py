"""Addresses of people, and which events they are mailed about. Pure."""

from __future__ import annotations

import re

from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say

SCHEME = "mailto:"
"""The URL of an endpoint that is a person: this and their id. The address is looked up when it is written to."""
EMAIL = "email"
"""How an order asks for it: `"notify": "email"`."""
MAILED = ("export.succeeded", "export.failed", "export.timed_out")
LONGEST = 254
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*")
"""What browsers take in a field for an address (HTML, 4.10.5.1.5): nothing that could end a header or begin another."""


def is_address(text: str) -> bool:
    return len(text) <= LONGEST and _ADDRESS.fullmatch(text) is not None


def checked_address(text: str) -> str:
    """Without spaces around it. Raises Invalid."""
    address = text.strip()
    if not is_address(address):
        raise Invalid([FieldError("email", say("Write an address such as {example}.", example="name@example.org"))])
    return address
