"""Callbacks: endpoints, deliveries, and when a delivery is tried again, given up, or its endpoint switched off."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from webapp.domain.alerts import ALERT_TYPES
from webapp.domain.emails import SCHEME
from webapp.domain.events import EVENT_TYPES
from webapp.domain.sentences import say

CALLBACK_TYPES = (*EVENT_TYPES, *ALERT_TYPES)
"""Events that an endpoint can ask for."""

STANDARD = (5.0, 5.0, 5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0)
QUICK = (5.0, 5.0, 5.0)
SCHEDULES: Mapping[str, tuple[float, ...]] = {"standard": STANDARD, "quick": QUICK}
"""Seconds to wait after the first, second, … failure; after the last one the delivery is a dead letter."""

JITTER = 0.2
STEADY_RETRIES = 3
"""Waits after so many failures are exact; later ones vary by `JITTER`, so that receivers are not hit in step."""

MOST_RETRIES = 20
LONGEST_WAIT = 7 * 86_400.0
LONGEST_RETRY_AFTER = 3600.0

DISABLE_AFTER_FAILURES = 100
DISABLE_AFTER = timedelta(hours=24)

TIME_LIMIT, TIME_LIMITS = 10.0, (1.0, 30.0)
CONNECT_SECONDS = 3.0
IN_FLIGHT, IN_FLIGHT_RANGE = 5, (1, 50)
RATE, RATE_RANGE = 20, (1, 500)
LEASE_SECONDS = 45.0
"""Longer than the longest time limit: a delivery that is being sent is nobody else's."""
LEASE_RENEWED_EVERY = 10.0
BODY_KEPT = 16 * 1024
ROTATION_OVERLAP, LONGEST_OVERLAP = timedelta(hours=24), timedelta(days=7)


class DeliveryState(StrEnum):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


class EndpointState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class ErrorClass(StrEnum):
    """Why a delivery attempt failed, as a person would sort it."""

    DNS = "DNS"
    ADDRESS_FORBIDDEN = "ADDRESS_FORBIDDEN"
    REFUSED = "REFUSED"
    TLS = "TLS"
    TIMEOUT = "TIMEOUT"
    DISCONNECTED = "DISCONNECTED"
    BAD_ANSWER = "BAD_ANSWER"
    REDIRECT = "REDIRECT"
    GONE = "GONE"
    HTTP_4XX = "HTTP_4XX"
    HTTP_5XX = "HTTP_5XX"
    INTERRUPTED = "INTERRUPTED"
    MAIL_OFF = "MAIL_OFF"
    MAIL_REFUSED = "MAIL_REFUSED"


UNREACHABLE = say("The host does not lead to an address that callbacks may reach.")
"""One sentence for both, so that nobody learns from us which names and addresses our inside network has."""

SENTENCES: Mapping[ErrorClass, str] = {
    ErrorClass.DNS: UNREACHABLE,
    ErrorClass.ADDRESS_FORBIDDEN: UNREACHABLE,
    ErrorClass.REFUSED: say("Nothing accepts connections there. Is the receiver running, and is the port right?"),
    ErrorClass.TLS: say("No secure connection came about. Is the receiver's certificate valid for this host?"),
    ErrorClass.TIMEOUT: say("The receiver did not answer in time. It should answer first and do its work afterwards."),
    ErrorClass.DISCONNECTED: say("The receiver closed the connection before it had answered."),
    ErrorClass.BAD_ANSWER: say("What came back is not HTTP. Does the URL lead to a web server?"),
    ErrorClass.REDIRECT: say(
        "The receiver answered with a redirect, which is not followed. Register the URL it leads to."
    ),
    ErrorClass.GONE: say("The receiver answered 410 Gone: it wants no more callbacks."),
    ErrorClass.HTTP_4XX: say(
        "The receiver refused the request. Its answer may say why; often the path is wrong, or the signature check "
        "fails."
    ),
    ErrorClass.HTTP_5XX: say("The receiver failed while it handled the request."),
    ErrorClass.INTERRUPTED: say("Our worker ended in the middle of the request. It may have arrived."),
    ErrorClass.MAIL_OFF: say("No mail server is set, or the person has no address any more."),
    ErrorClass.MAIL_REFUSED: say("The mail server refused it. Its answer says why."),
}


@dataclass(frozen=True, slots=True)
class Secret:
    """`value` is `whsec_` and base64. It signs until `expires_at`; None for the newest."""

    value: str
    created_at: datetime
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return "Secret(…)"

    def is_valid(self, at: datetime) -> bool:
        return self.expires_at is None or at < self.expires_at


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """What a person chooses about an endpoint; checked by `webapp.actions.endpoints`.

    Empty `event_types` or `datasets` mean all of exports; events of alerts are for who names them. `time_limit` is in
    seconds, `rate` in requests a second. `waits` are those of the schedule, in seconds. `encryption_key` is 32 bytes in
    URL-safe base64, or None for plain data.
    """

    url: str
    description: str = ""
    event_types: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    schedule: str = "standard"
    waits: tuple[float, ...] = STANDARD
    time_limit: float = TIME_LIMIT
    max_in_flight: int = IN_FLIGHT
    rate: int = RATE
    headers: tuple[tuple[str, str], ...] = ()
    encryption_key: str | None = None

    def __repr__(self) -> str:
        return f"EndpointSettings(url={self.url!r})"

    @property
    def reader(self) -> str | None:
        """The id of the person who is written to by mail; None for a URL that is called."""
        return self.url.removeprefix(SCHEME) if self.url.startswith(SCHEME) else None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A registered callback URL. With `export_id` it hears of that export alone (`callback_url` of an order)."""

    id: str
    settings: EndpointSettings
    secrets: tuple[Secret, ...]
    created_by: str
    created_at: datetime
    updated_at: datetime
    version: int = 1
    export_id: str | None = None
    paused_at: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    failures_in_row: int = 0
    failing_since: datetime | None = None
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None

    @property
    def state(self) -> EndpointState:
        if self.disabled_at is not None:
            return EndpointState.DISABLED
        return EndpointState.PAUSED if self.paused_at is not None else EndpointState.ACTIVE

    @property
    def disables_at(self) -> datetime | None:
        """When its row of failures will have lasted long enough to disable it; None while nothing fails."""
        if self.failing_since is None or self.state is EndpointState.DISABLED:
            return None
        return self.failing_since + DISABLE_AFTER

    def valid_secrets(self, at: datetime) -> tuple[Secret, ...]:
        """Newest first."""
        return tuple(secret for secret in self.secrets if secret.is_valid(at))


class Delivery(NamedTuple):
    """One event owed to one endpoint; that of an alert has no export. `attempts` counts all its requests, `failures`
    those of the present round: a redelivery begins a new one."""

    id: str
    event_id: str
    event_type: str
    export_id: str | None
    endpoint_id: str
    state: DeliveryState
    created_at: datetime
    attempts: int = 0
    failures: int = 0
    next_attempt_at: datetime | None = None
    lease_until: datetime | None = None
    completed_at: datetime | None = None
    last_attempt_at: datetime | None = None
    last_status: int | None = None
    last_error: ErrorClass | None = None


class Answer(NamedTuple):
    """What came of one request. `error` None is success. `body` is text of at most `BODY_KEPT` bytes."""

    error: ErrorClass | None
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    is_cut: bool = False
    retry_after: float | None = None
    seconds: float = 0.0


class DeliveryAttempt(NamedTuple):
    """One HTTP request of a delivery. While it has no `finished_at` it is under way, or its worker died."""

    id: str
    delivery_id: str
    endpoint_id: str
    number: int
    started_at: datetime
    finished_at: datetime | None = None
    url: str = ""
    request_headers: tuple[tuple[str, str], ...] = ()
    request_body: str = ""
    answer: Answer | None = None


class Message(NamedTuple):
    """What is sent for an event: `data` is the export or alert as it was then, a mapping or JSON that is ready."""

    id: str
    type: str
    timestamp: datetime
    data: Any


def wants(settings: EndpointSettings, *, event_type: str, dataset: str) -> bool:
    return (not settings.event_types or event_type in settings.event_types) and (
        not settings.datasets or dataset in settings.datasets
    )


def wants_alerts(settings: EndpointSettings, event_type: str) -> bool:
    """Only who names them: whoever wants everything about exports may not know what an alert is."""
    return event_type in settings.event_types


def is_success(status: int) -> bool:
    return 200 <= status < 300


def error_of_status(status: int) -> ErrorClass | None:
    """None for success, which only 2xx is."""
    if is_success(status):
        return None
    if status == 410:
        return ErrorClass.GONE
    if 300 <= status < 400:
        return ErrorClass.REDIRECT
    if 400 <= status < 500:
        return ErrorClass.HTTP_4XX
    return ErrorClass.HTTP_5XX if 500 <= status < 600 else ErrorClass.BAD_ANSWER


def wait_before(
    waits: tuple[float, ...], failures: int, *, retry_after: float | None = None, dice: random.Random
) -> float | None:
    """Seconds until the next try after so many failures of this round; None when the schedule is used up.

    A longer `Retry-After` of the receiver wins, up to an hour.
    """
    if failures > len(waits):
        return None
    wait = waits[failures - 1]
    if failures > STEADY_RETRIES:
        wait *= dice.uniform(1 - JITTER, 1 + JITTER)
    return max(wait, min(retry_after or 0.0, LONGEST_RETRY_AFTER))


def after_attempt(
    delivery: Delivery, answer: Answer, waits: tuple[float, ...], *, at: datetime, dice: random.Random
) -> Delivery:
    """The delivery once a request has ended. Its attempt was counted when it was begun."""
    ended = partial(delivery._replace, lease_until=None, last_status=answer.status, last_error=answer.error)
    if answer.error is None:
        return ended(state=DeliveryState.SUCCEEDED, completed_at=at, failures=0, next_attempt_at=None)
    failures = delivery.failures + 1
    wait = wait_before(waits, failures, retry_after=answer.retry_after, dice=dice)
    if wait is None or answer.error is ErrorClass.GONE:
        return ended(state=DeliveryState.DEAD, completed_at=at, failures=failures, next_attempt_at=None)
    return ended(failures=failures, next_attempt_at=at + timedelta(seconds=wait))


def after_answer(endpoint: Endpoint, answer: Answer, *, at: datetime) -> Endpoint:
    """Health, and whether the endpoint is to be switched off: a 410, or a long enough row of failures. A person whose
    mail is not taken is not switched off."""
    if answer.error is None:
        return replace(endpoint, failures_in_row=0, failing_since=None, last_success_at=at)
    failing = replace(
        endpoint,
        failures_in_row=endpoint.failures_in_row + 1,
        failing_since=endpoint.failing_since or at,
        last_failure_at=at,
    )
    if endpoint.disabled_at is not None or endpoint.settings.reader:
        return failing
    if answer.error is ErrorClass.GONE:
        return replace(failing, disabled_at=at, disabled_reason="GONE")
    assert failing.failing_since is not None
    is_over = failing.failures_in_row >= DISABLE_AFTER_FAILURES and at - failing.failing_since >= DISABLE_AFTER
    return replace(failing, disabled_at=at, disabled_reason="FAILING") if is_over else failing
