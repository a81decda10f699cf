"""Checks what a person or client chose about an endpoint: every mistake at once, by field."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from webapp.actions.reach import reach
from webapp.domain.callbacks import (
    CALLBACK_TYPES,
    IN_FLIGHT_RANGE,
    LONGEST_WAIT,
    MOST_RETRIES,
    RATE_RANGE,
    SCHEDULES,
    TIME_LIMITS,
    EndpointSettings,
)
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.headers import is_reserved
from webapp.domain.sentences import say, sentence_of
from webapp.domain.targets import BadTarget
from webapp.resources import Resources
from webapp.store import endpoints as rows

DESCRIPTION_LENGTH = 200
MOST_HEADERS = 20
HEADER_NAME_LENGTH = 100
HEADER_VALUE_BYTES = 1024
KEY_BYTES = 32
OWN = "own"
"""The schedule whose waits were given as a list."""
UNCHANGED = "…"
"""Stands for a header's value where it is shown; sent back, the value stays as it is."""

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

NO_EVENT_TYPE = say("There is no event type {name}.")
NO_DATASET = say("There is no dataset {name}.")
WHOLE_RANGE = say("Must be a whole number from {low} to {high}.")
SECONDS_RANGE = say("Must be a number of seconds from {low} to {high}.")
DUPLICATE = say("Another endpoint has the same URL: it will hear of such events more than once.")


@dataclass(frozen=True, slots=True)
class Checked:
    """`notes` are sentences about what may be meant but may as well surprise."""

    settings: EndpointSettings
    notes: tuple[str, ...] = ()


async def check(resources: Resources, given: Mapping[str, Any], *, before: EndpointSettings | None = None) -> Checked:
    """The settings that come of what was given, over those of before. Raises Invalid with every mistake, by field.

    Numbers may come as text, as a form sends them. A header whose value is `…` keeps the one it has.
    """
    form = _Form(resources, given, before or EndpointSettings(""))
    settings, notes = form.settings(), ()
    if before is None or "url" in given:
        notes = await _check_url(form, settings.url, before)
    if form.errors:
        raise Invalid(form.errors)
    return Checked(settings, notes)


def shown_headers(headers: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """What was sent, without the values of custom headers: they may be secret."""
    return tuple((name, value if is_reserved(name) else UNCHANGED) for name, value in headers)


def new_encryption_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()


async def _check_url(form: _Form, url: str, before: EndpointSettings | None) -> tuple[str, ...]:
    if any(error.field == "url" for error in form.errors):
        return ()
    try:
        notes = await reach(form.resources, url)
    except BadTarget as error:
        form.wrong("url", sentence_of(error))
        return ()
    async with form.resources.store.connection():
        same = await rows.count_url(form.resources.store, url)
    itself = 1 if before is not None and before.url == url else 0
    return (*notes, DUPLICATE) if same > itself else notes


class _Form:
    """Reads each field that was given, and collects what is wrong with them."""

    def __init__(self, resources: Resources, given: Mapping[str, Any], before: EndpointSettings) -> None:
        self.resources = resources
        self.given = given
        self.before = before
        self.errors: list[FieldError] = []

    def wrong(self, field: str, sentence: str) -> None:
        self.errors.append(FieldError(field, sentence))

    def settings(self) -> EndpointSettings:
        before = self.before
        schedule, waits = self._schedule()
        return replace(
            before,
            url=self._text("url", before.url, longest=None),
            description=self._text("description", before.description, longest=DESCRIPTION_LENGTH).strip(),
            event_types=self._names("event_types", before.event_types, CALLBACK_TYPES, NO_EVENT_TYPE),
            datasets=self._names(
                "datasets", before.datasets, (*self.resources.catalog.datasets, *before.datasets), NO_DATASET
            ),
            schedule=schedule,
            waits=waits,
            time_limit=self._number("time_limit", before.time_limit, TIME_LIMITS, "seconds"),
            max_in_flight=int(self._number("max_in_flight", before.max_in_flight, IN_FLIGHT_RANGE)),
            rate=int(self._number("rate", before.rate, RATE_RANGE)),
            headers=self._headers(),
            encryption_key=self._encryption_key(),
        )

    def _text(self, field: str, before: str, *, longest: int | None) -> str:
        value = self.given.get(field, before)
        if not isinstance(value, str):
            self.wrong(field, say("Must be text."))
        elif longest is not None and len(value) > longest:
            self.wrong(
                field,
                say("May have at most {longest} characters; these are {count}.", longest=longest, count=len(value)),
            )
        elif longest is not None and CONTROL.search(value):
            self.wrong(field, say("Must be one line without control characters."))
        else:
            return value
        return ""

    def _names(self, field: str, before: tuple[str, ...], known: Sequence[str], unknown: str) -> tuple[str, ...]:
        """Each once, in the order given; none of them means all."""
        if field not in self.given:
            return before
        value = self.given[field]
        if not isinstance(value, list | tuple):
            self.wrong(field, say("Must be a list; an empty one means all."))
            return before
        names = cast("Sequence[Any]", value)
        for name in [name for name in names if name not in known][:5]:
            self.wrong(field, say(unknown, name=repr(str(name)[:80])))
        return tuple(dict.fromkeys(name for name in names if name in known))

    def _number(self, field: str, before: float, limits: tuple[float, float], unit: str = "") -> float:
        if field not in self.given:
            return before
        value, (low, high) = _number(self.given[field]), limits
        is_whole = not unit
        if value is None or not low <= value <= high or (is_whole and not value.is_integer()):
            pattern = WHOLE_RANGE if is_whole else SECONDS_RANGE
            self.wrong(field, say(pattern, low=format(low, "g"), high=format(high, "g")))
            return before
        return value

    def _schedule(self) -> tuple[str, tuple[float, ...]]:
        if "schedule" not in self.given:
            return self.before.schedule, self.before.waits
        value = self.given["schedule"]
        if isinstance(value, str) and value in SCHEDULES:
            return value, SCHEDULES[value]
        waits = [_number(wait) for wait in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else []
        if 1 <= len(waits) <= MOST_RETRIES and all(wait and 1 <= wait <= LONGEST_WAIT for wait in waits):
            return OWN, tuple(wait for wait in waits if wait is not None)
        self.wrong(
            "schedule",
            say(
                "Choose {schedules}, or give a list of 1 to {most} waits, each from 1 second to {days} days.",
                schedules=", ".join(SCHEDULES),
                most=MOST_RETRIES,
                days=format(LONGEST_WAIT / 86_400, "g"),
            ),
        )
        return self.before.schedule, self.before.waits

    def _headers(self) -> tuple[tuple[str, str], ...]:
        if "headers" not in self.given:
            return self.before.headers
        pairs = _pairs(self.given["headers"])
        if pairs is None:
            self.wrong("headers", say("Must be names with their values, all of them text."))
            return ()
        if len(pairs) > MOST_HEADERS:
            self.wrong("headers", say("At most {most} custom headers can be sent.", most=MOST_HEADERS))
            return ()
        kept = {name.lower(): value for name, value in self.before.headers}
        pairs = [
            (name, kept.get(name.lower(), value) if value == UNCHANGED else value.strip(" \t")) for name, value in pairs
        ]
        names = [name.lower() for name, _ in pairs]
        for name, value in pairs:
            if sentence := _wrong_with_header(name, value, is_twice=names.count(name.lower()) > 1):
                self.wrong("headers", sentence)
        return tuple(pairs)

    def _encryption_key(self) -> str | None:
        match self.given.get("encryption", "keep"):
            case "keep":
                return self.before.encryption_key
            case "none" | None:
                return None
            case "new":
                return new_encryption_key()
            case str() as key if (canonical := _canonical_key(key)) is not None:
                return canonical
            case _:
                self.wrong("encryption", say("Choose none, new, keep, or give a key of 32 bytes in URL-safe base64."))
                return None


def _number(value: Any) -> float | None:
    """None for what is no number; text of digits is one."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}(\.\d{1,6})?", value.strip(), re.ASCII):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e12 else None


def _pairs(value: Any) -> list[tuple[str, str]] | None:
    """None for what is neither an object nor a list of pairs, or holds anything but text."""
    if isinstance(value, Mapping):
        found = list(cast("Mapping[Any, Any]", value).items())
    elif isinstance(value, list | tuple):
        found = cast("list[Any]", list(value))  # pyright: ignore[reportUnknownArgumentType]
    else:
        return None
    pairs: list[tuple[str, str]] = []
    for pair in found:
        match pair:
            case (str() as name, str() as text):
                pairs.append((name.strip(" \t"), text))
            case _:
                return None
    return pairs


def _wrong_with_header(name: str, value: str, *, is_twice: bool) -> str | None:
    """A sentence, which never holds the value; None when all is well."""
    shown = repr(name[:40])
    if len(name) > HEADER_NAME_LENGTH or not TOKEN.fullmatch(name):
        return say(
            "{shown} is not a header's name: letters, digits and hyphens, at most {most}.",
            shown=shown,
            most=HEADER_NAME_LENGTH,
        )
    if is_reserved(name):
        return say("The header {shown} is reserved: Exportdesk or the connection sets it.", shown=shown)
    if is_twice:
        return say("The header {shown} is there twice.", shown=shown)
    if CONTROL.search(value):
        return say("The value of {shown} has a line break or control character.", shown=shown)
    try:
        length = len(value.encode("latin-1"))
    except UnicodeEncodeError:
        return say("The value of {shown} has characters beyond Latin-1, which a header cannot carry.", shown=shown)
    return (
        say("The value of {shown} is longer than {most} bytes.", shown=shown, most=HEADER_VALUE_BYTES)
        if length > HEADER_VALUE_BYTES
        else None
    )


def _canonical_key(text: str) -> str | None:
    """With its padding. None for what is not 32 bytes in URL-safe base64."""
    padded = text.strip().rstrip("=")
    padded += "=" * (-len(padded) % 4)
    if not re.fullmatch(r"[A-Za-z0-9_=-]+", padded):
        return None
    try:
        return padded if len(base64.urlsafe_b64decode(padded)) == KEY_BYTES else None
    except (binascii.Error, ValueError):
        return None
