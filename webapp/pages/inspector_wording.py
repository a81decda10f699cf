"""How a request that arrived is told: its verdict, its age, its event and its body. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from webapp.domain.receiving import ANSWER_RETRY_AFTER, Received, Verdict
from webapp.domain.signing import TOLERANCE_SECONDS
from webapp.pages.wording import Badge
from webapp.web.words import duration

STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
DEEPEST = 32
"""Indents grow with the depth: a body that is nested deeper is shown as it came."""

BADGES: Mapping[Verdict, Badge] = {
    Verdict.VERIFIED: Badge("Verified", "check", "good"),
    Verdict.WRONG_SIGNATURE: Badge("Wrong signature", "alert", "bad"),
    Verdict.NO_SIGNATURE: Badge("No signature", "alert", "warn"),
    Verdict.NO_ENDPOINT: Badge("Nothing to verify with", "info", "quiet"),
    Verdict.TOO_OLD: Badge("Too old", "clock", "warn"),
    Verdict.TOO_EARLY: Badge("Ahead of time", "clock", "warn"),
    Verdict.REFUSED: Badge("Address refused", "stop", "bad"),
}

SENTENCES: Mapping[Verdict, str] = {
    Verdict.VERIFIED: "The signature is right and the timestamp is fresh. A receiver may act on this request.",
    Verdict.WRONG_SIGNATURE: "None of the valid secrets gives this signature: the body was changed on the way, or "
    "something else was signed. A receiver refuses it.",
    Verdict.NO_SIGNATURE: "One of the headers webhook-id, webhook-timestamp and webhook-signature is missing. "
    "A receiver refuses it.",
    Verdict.NO_ENDPOINT: "No endpoint is registered with exactly this inspector’s URL, so there is no secret here to "
    "check the signature with.",
    Verdict.TOO_OLD: f"The signature is right, but it was made more than {duration(TOLERANCE_SECONDS)} before it "
    "arrived. A receiver refuses it: somebody may be sending an old request again.",
    Verdict.TOO_EARLY: f"The signature is right, but its timestamp is more than {duration(TOLERANCE_SECONDS)} ahead. "
    "A receiver refuses it: the clock of one side is wrong.",
    Verdict.REFUSED: "The caller’s address is not in the allow-list, so it was answered 403 and nothing else was "
    "checked.",
}

ANSWERS: Mapping[int, str] = {
    200: "Delivered.",
    400: "Refused: it is tried again.",
    410: "Gone: no more callbacks are wanted, so the endpoint is disabled.",
    429: f"Too many: it is tried again, {ANSWER_RETRY_AFTER} seconds later at the earliest.",
    500: "Failed: it is tried again.",
    503: f"Not now: it is tried again, {ANSWER_RETRY_AFTER} seconds later at the earliest.",
}
"""What an answer means to whoever sends a callback."""


@dataclass(frozen=True, slots=True)
class Told:
    """One line of the list, and all of the request when it is shown whole."""

    request: Received
    badge: Badge
    sentence: str
    event_type: str
    age: str


class Typed(msgspec.Struct):
    """The part of a body that says what happened."""

    type: str = ""


_decoder = msgspec.json.Decoder(Typed)


def told(received: Received) -> Told:
    return Told(
        request=received,
        badge=BADGES[received.verdict],
        sentence=SENTENCES[received.verdict],
        event_type=event_type(received.body),
        age=told_age(received.age),
    )


def event_type(body: str) -> str:
    """Empty for a body that does not say, or says what cannot be shown."""
    try:
        found = _decoder.decode(body).type[:60]
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return found if found.isprintable() else ""


def told_age(age: float | None) -> str:
    """How long before its arrival it was signed. Timestamps are whole seconds, so less than one is nothing."""
    if age is None:
        return ""
    if age < 0:
        return f"{duration(-age)} ahead" if age <= -1 else "under 1 s"
    return duration(age) if age >= 1 else "under 1 s"


def pretty(body: str) -> str:
    """JSON with one member a line; anything else as it came."""
    if depth(body) > DEEPEST:
        return body
    try:
        return msgspec.json.format(body, indent=2)
    except (msgspec.MsgspecError, RecursionError):
        return body


def depth(body: str) -> int:
    """How deep brackets are nested, outside of strings."""
    deepest = level = 0
    for character in STRING.sub("", body):
        if character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest
