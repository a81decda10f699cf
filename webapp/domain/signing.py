"""Signatures of callbacks: Standard Webhooks v1, and the plain HMAC that older receivers know. Verifying too."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

PREFIX = "whsec_"
SECRET_BYTES = 24
TOLERANCE_SECONDS = 300
"""How old or how far ahead a timestamp may be for a receiver that checks it."""

KEYS_KEPT = 1000


class BadSecret(ValueError):
    """It is not `whsec_` and base64 of 24 to 64 bytes."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """Raises BadSecret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSecret from error
    if not 24 <= len(key) <= 64:
        raise BadSecret
    return key


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """`v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`."""
    return "v1," + base64.b64encode(_mac(secret, f"{message_id}.{timestamp}.".encode() + body)).decode()


def plain_signature(secret: str, body: bytes) -> str:
    """`sha256=` and the hexadecimal HMAC-SHA256 of the raw body, under the same key."""
    return "sha256=" + _mac(secret, body).hex()


def _mac(secret: str, signed: bytes) -> bytes:
    mac = _keyed(secret).copy()
    mac.update(signed)
    return mac.digest()


@lru_cache(KEYS_KEPT)
def _keyed(secret: str) -> hmac.HMAC:
    """To copy: that takes half as long as to begin with the key."""
    return hmac.new(key_of(secret), digestmod=hashlib.sha256)


def signature_headers(secrets: Sequence[str], message_id: str, at: datetime, body: bytes) -> list[tuple[str, str]]:
    """One v1 signature for each secret, the newest first; the plain form knows only the newest."""
    timestamp = int(at.timestamp())
    return [
        ("webhook-id", message_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", " ".join(signature(secret, message_id, timestamp, body) for secret in secrets)),
        ("X-Signature", plain_signature(secrets[0], body)),
    ]


def is_signed(secret: str, message_id: str, timestamp: str, given: str, body: bytes) -> bool:
    """Whether one of the space-separated signatures is ours; in constant time for each."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        return False
    expected = signature(secret, message_id, int(timestamp), body).encode()
    return any([hmac.compare_digest(expected, one.encode()) for one in given.split(" ")])  # noqa: C419 - compares all of them
