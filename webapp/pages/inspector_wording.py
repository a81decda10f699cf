"""How a request that arrived is told: its verdict, its age, its event and its body. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from webapp.domain.receiving import ANSWER_RETRY_AFTER, Received, Verdict
from webapp.domain.sentences import say
from webapp.domain.signing import TOLERANCE_SECONDS
from webapp.language import gettext as _
from webapp.pages.wording import Badge
from webapp.web.words import duration

STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
DEEPEST = 32
"""Indents grow with the depth: a body that is nested deeper is shown as it came."""

BADGES: Mapping[Verdict, Badge] = {
    Verdict.VERIFIED: Badge(say("Verified"), "check", "good"),
    Verdict.WRONG_SIGNATURE: Badge(say("Wrong signature"), "alert", "bad"),
    Verdict.NO_SIGNATURE: Badge(say("No signature"), "alert", "warn"),
    Verdict.NO_ENDPOINT: Badge(say("Nothing to verify with"), "info", "quiet"),
    Verdict.TOO_OLD: Badge(say("Too old"), "clock", "warn"),
    Verdict.TOO_EARLY: Badge(say("Ahead of time"), "clock", "warn"),
    Verdict.REFUSED: Badge(say("Address refused"), "stop", "bad"),
}

SENTENCES: Mapping[Verdict, str] = {
    Verdict.VERIFIED: say("The signature is right and the timestamp is fresh. A receiver may act on this request."),
    Verdict.WRONG_SIGNATURE: say(
        "None of the valid secrets gives this signature: the body was changed on the way, or something else was "
        "signed. A receiver refuses it."
    ),
    Verdict.NO_SIGNATURE: say(
        "One of the headers webhook-id, webhook-timestamp and webhook-signature is missing. A receiver refuses it."
    ),
    Verdict.NO_ENDPOINT: say(
        "No endpoint is registered with exactly this inspector’s URL, so there is no secret here to check the "
        "signature with."
    ),
    Verdict.TOO_OLD: say(
        "The signature is right, but it was made more than {minutes} minutes before it arrived. A receiver refuses it: "
        "somebody may be sending an old request again.",
        minutes=TOLERANCE_SECONDS // 60,
    ),
    Verdict.TOO_EARLY: say(
        "The signature is right, but its timestamp is more than {minutes} minutes ahead. A receiver refuses it: the "
        "clock of one side is wrong.",
        minutes=TOLERANCE_SECONDS // 60,
    ),
    Verdict.REFUSED: say(
        "The caller’s address is not in the allow-list, so it was answered 403 and nothing else was checked."
    ),
}

ANSWERS: Mapping[int, str] = {
    200: say("Delivered."),
    400: say("Refused: it is tried again."),
    410: say("Gone: no more callbacks are wanted, so the endpoint is disabled."),
    429: say("Too many: it is tried again, {n} seconds later at the earliest.", n=ANSWER_RETRY_AFTER),
    500: say("Failed: it is tried again."),
    503: say("Not now: it is tried again, {n} seconds later at the earliest.", n=ANSWER_RETRY_AFTER),
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
        return _("{time} ahead", time=duration(-age)) if age <= -1 else _("under 1 s")
    return duration(age) if age >= 1 else _("under 1 s")


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
