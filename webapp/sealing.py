"""Secrets at rest: sealed under the application's key, opened only where they are needed."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

PURPOSE = b"exportdesk sealed secrets v1"


class Unsealable(Exception):
    """It was sealed under a key that this process does not have: see `exportdesk key`."""


class Sealer:
    """The first key seals; all of them open."""

    def __init__(self, *keys: str) -> None:
        self._fernet = MultiFernet([Fernet(_derived(key)) for key in keys])

    def seal(self, text: str) -> str:
        return self._fernet.encrypt(text.encode()).decode("ascii")

    def open(self, sealed: str) -> str:
        """Raises Unsealable."""
        try:
            return self._fernet.decrypt(sealed.encode("ascii")).decode()
        except (InvalidToken, UnicodeError) as error:
            raise Unsealable from error

    def resealed(self, sealed: str) -> str:
        """The same secret under the first key. Raises Unsealable."""
        return self.seal(self.open(sealed))


def _derived(key: str) -> bytes:
    """A Fernet key of its own: the application's key may have any length, and other uses."""
    return base64.urlsafe_b64encode(
        hashlib.blake2b(PURPOSE, key=hashlib.sha256(key.encode()).digest(), digest_size=32).digest()
    )
