"""What a receiver of callbacks must check: the signature, how old it is, whether it came before, and who calls.

The inspector is built on it; receivers of other people can do the same in a few lines of their own language.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import ip_network

from webapp.domain.addresses import parse_address, unwrapped
from webapp.domain.headers import is_open
from webapp.domain.sentences import say
from webapp.domain.signing import TOLERANCE_SECONDS, is_signed

MOST_INSPECTORS = 50
REQUESTS_KEPT = 200
BODY_KEPT = 64 * 1024
HEADERS_KEPT, HEADER_LENGTH, ID_LENGTH = 64, 2000, 200
MOST_NETWORKS = 50

RATE, REFUSED_RATE, RATE_SECONDS = 120, 60, 60
"""Requests that one inspector takes in such a time. Callers that are refused have a count of their own, so that no
stranger uses up what the others may send; together they are fewer than are kept, so the count is never short."""

ANSWER_STATUSES = (200, 400, 410, 429, 500, 503)
ANSWER_RETRY_AFTER = 10
"""Seconds that a chosen 429 or 503 asks for."""


class Verdict(StrEnum):
    VERIFIED = "verified"
    WRONG_SIGNATURE = "wrong_signature"
    NO_SIGNATURE = "no_signature"
    NO_ENDPOINT = "no_endpoint"
    TOO_OLD = "too_old"
    TOO_EARLY = "too_early"
    REFUSED = "refused"


SIGNED = frozenset({Verdict.VERIFIED, Verdict.TOO_OLD, Verdict.TOO_EARLY})
"""The signature itself was right."""


@dataclass(frozen=True, slots=True)
class Inspector:
    """A receiver of our own. `allowed` are networks; none means that anybody may call."""

    token: str
    url: str
    created_at: datetime
    created_by: str
    allowed: tuple[str, ...] = ()
    answer_status: int = 200


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came in. Names of headers are lower-case."""

    address: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def signature(self) -> SignatureHeaders:
        found = dict(self.headers)
        return SignatureHeaders(*(found.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")))


@dataclass(frozen=True, slots=True)
class SignatureHeaders:
    """Empty where the request has none."""

    id: str
    timestamp: str
    signature: str

    @property
    def moment(self) -> datetime | None:
        """When it says that it was signed; None for what is no time between 1970 and 9999."""
        text = self.timestamp
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            return None
        return datetime.fromtimestamp(int(text), UTC)


@dataclass(frozen=True, slots=True)
class Received:
    """A request that an inspector keeps. `age` is in seconds, negative for a timestamp ahead of our clock."""

    id: str
    token: str
    received_at: datetime
    address: str
    headers: tuple[tuple[str, str], ...]
    body: str
    is_cut: bool
    webhook_id: str | None
    verdict: Verdict
    age: float | None
    is_duplicate: bool


def judge(given: SignatureHeaders, secrets: Sequence[str], body: bytes, *, at: datetime) -> Verdict:
    """`body` is what came over the wire, byte for byte: JSON that was read and written again is signed differently."""
    if not (given.id and given.timestamp and given.signature):
        return Verdict.NO_SIGNATURE
    if not secrets:
        return Verdict.NO_ENDPOINT
    if not any([is_signed(secret, given.id, given.timestamp, given.signature, body) for secret in secrets]):  # noqa: C419 - tries all of them, so that time tells nothing
        return Verdict.WRONG_SIGNATURE
    age = age_of(given, at)
    if age is None or age > TOLERANCE_SECONDS:
        return Verdict.TOO_OLD
    return Verdict.TOO_EARLY if age < -TOLERANCE_SECONDS else Verdict.VERIFIED


def age_of(given: SignatureHeaders, at: datetime) -> float | None:
    return (at - given.moment).total_seconds() if given.moment else None


def counted_before(verdict: Verdict) -> frozenset[Verdict]:
    """Which earlier requests with the same `webhook-id` make one with this verdict a duplicate.

    Never a forged one for a signed one: else a stranger who guesses an id could have the real callback ignored.
    """
    known = SIGNED | {Verdict.NO_ENDPOINT}
    return known if verdict in known else frozenset(Verdict) - {Verdict.REFUSED}


def rate_of(*, is_refused: bool) -> int:
    return REFUSED_RATE if is_refused else RATE


def is_allowed(address: str, allowed: Iterable[str]) -> bool:
    """Whether the caller's address is in one of the networks. An address that cannot be read is in none."""
    networks = [ip_network(text) for text in allowed]
    caller = parse_address(address)
    if not networks:
        return True
    return caller is not None and any(one in network for network in networks for one in (caller, unwrapped(caller)))


def parse_networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Networks as CIDRs, each once; a plain address stands for itself. Raises ValueError with a sentence."""
    found = dict.fromkeys(_network(text) for text in texts)
    if len(found) > MOST_NETWORKS:
        raise ValueError(say("Give at most {most} networks.", most=MOST_NETWORKS))
    return tuple(found)


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise ValueError(say("{text} is not a network such as 10.1.0.0/16, nor an address.", text=text[:60])) from error


def kept_headers(headers: Iterable[tuple[str, str]], *, secret: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Without cookies. Of the headers named `secret`, and of all that may hold one, only that they came."""
    kept = [
        (name[:ID_LENGTH], without_nul(value[:HEADER_LENGTH]) if is_open(name) and name not in secret else "…")
        for name, value in headers
        if name != "cookie"
    ]
    return tuple(kept[:HEADERS_KEPT])


def kept_body(body: bytes) -> tuple[str, bool]:
    """The beginning as text, and whether that is less than all. What is not UTF-8 is replaced by U+FFFD."""
    is_cut = len(body) > BODY_KEPT
    text = body[:BODY_KEPT].decode("utf-8", "replace")
    return without_nul(text.rstrip("\ufffd") if is_cut else text), is_cut


def without_nul(text: str) -> str:
    """PostgreSQL keeps no NUL in a text."""
    return text.replace("\0", "\ufffd")
