"""Passwords: kept as argon2id hashes; how long and how hard to guess they must be."""

from __future__ import annotations

import asyncio
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say

LENGTH = (10, 200)
WEIGHED = 24
"""So many characters are weighed: the rest can only make it harder to guess, and zxcvbn takes seconds for it where
somebody puts together all the characters that can stand for letters."""
LEAST_SCORE = 3
"""Of 4: safe from somebody who tries ten thousand a second for a month."""

_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_NOBODY = _hasher.hash(secrets.token_hex())
"""Checked when there is no such user, so that the answer takes as long as for one there is."""


async def hashed(password: str, *, name: str) -> str:
    """Raises Invalid for one that is too short, too long or easily guessed by who knows the person's name."""
    low, high = LENGTH
    if not low <= len(password) <= high:
        raise Invalid([FieldError("password", say("A password has {low} to {high} characters.", low=low, high=high))])
    if trouble := await asyncio.to_thread(_weakness, password, name):
        raise Invalid([FieldError("password", trouble)])
    return await asyncio.to_thread(_hasher.hash, password)


def _weakness(password: str, name: str) -> str:
    from zxcvbn import zxcvbn  # its word lists are 2 MB and take 60 ms to read

    found = zxcvbn(password[:WEIGHED], [name, "exportdesk"], max_length=WEIGHED)
    if found["score"] >= LEAST_SCORE:
        return ""
    return say("This password is easily guessed. Take several uncommon words, and none of your name.")


async def verified(password_hash: str | None, password: str) -> bool:
    """None is never right, and takes as long."""
    is_right = await asyncio.to_thread(_verify, password_hash or _NOBODY, password[: LENGTH[1]])
    return is_right and password_hash is not None


def _verify(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False
