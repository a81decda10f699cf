"""How endpoints, deliveries and their attempts are told to people. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from webapp.actions.messages import KEPT_SEALED
from webapp.domain.callbacks import (
    DISABLE_AFTER_FAILURES,
    SCHEDULES,
    SENTENCES,
    Answer,
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointSettings,
    EndpointState,
    ErrorClass,
)
from webapp.domain.sentences import say
from webapp.language import gettext as _
from webapp.language import ngettext
from webapp.pages.inspector_wording import pretty
from webapp.pages.wording import Badge
from webapp.web.words import duration

EVENT_LABELS: Mapping[str, str] = {
    "export.created": say("Order taken"),
    "export.queued": say("Queued"),
    "export.started": say("Started"),
    "export.succeeded": say("Ready"),
    "export.failed": say("Failed"),
    "export.timed_out": say("Timed out"),
    "export.expired": say("File removed"),
    "export.cancelled": say("Cancelled"),
    "alert.firing": say("Alert firing"),
    "alert.resolved": say("Alert resolved"),
}

STATES: Mapping[DeliveryState, Badge] = {
    DeliveryState.PENDING: Badge(say("Waiting"), "clock", "quiet"),
    DeliveryState.SUCCEEDED: Badge(say("Delivered"), "check", "good"),
    DeliveryState.DEAD: Badge(say("Dead letter"), "alert", "bad"),
    DeliveryState.CANCELLED: Badge(say("Cancelled"), "stop", "quiet"),
}
RETRYING = Badge(say("Retrying"), "again", "warn")
SENDING = Badge(say("Sending"), "running", "accent")

ACTIVE = Badge(say("Active"), "check", "good")
FAILING = Badge(say("Failing"), "alert", "warn")
PAUSED = Badge(say("Paused"), "pause", "quiet")
DISABLED = Badge(say("Disabled"), "stop", "bad")

DISABLED_REASONS: Mapping[str, str] = {
    "GONE": say("The receiver answered 410 Gone: it wants no more callbacks."),
    "FAILING": say("At least {n} requests in a row failed over a whole day.", n=DISABLE_AFTER_FAILURES),
}
ERROR_LABELS: Mapping[ErrorClass, str] = {
    ErrorClass.DNS: say("Name not found"),
    ErrorClass.ADDRESS_FORBIDDEN: say("Address forbidden"),
    ErrorClass.REFUSED: say("Connection refused"),
    ErrorClass.TLS: say("No secure connection"),
    ErrorClass.TIMEOUT: say("Timed out"),
    ErrorClass.DISCONNECTED: say("Disconnected"),
    ErrorClass.BAD_ANSWER: say("Not HTTP"),
    ErrorClass.REDIRECT: say("Redirect"),
    ErrorClass.GONE: say("Gone (410)"),
    ErrorClass.HTTP_4XX: say("Refused (4xx)"),
    ErrorClass.HTTP_5XX: say("Receiver failed (5xx)"),
    ErrorClass.INTERRUPTED: say("Interrupted"),
    ErrorClass.MAIL_OFF: say("No mail is sent"),
    ErrorClass.MAIL_REFUSED: say("Refused by the mail server"),
}

SCHEDULE_LABELS: Mapping[str, str] = {"standard": say("Standard"), "quick": say("Quick")}

NOT_REACHED = frozenset(
    {ErrorClass.DNS, ErrorClass.ADDRESS_FORBIDDEN, ErrorClass.REFUSED, ErrorClass.TLS, ErrorClass.TIMEOUT}
)
"""One and the same to whoever may only name a `callback_url`: it is no tool to look around our network."""

NOT_REACHED_SENTENCE = say("The host could not be reached, or did not answer in time. It is tried again a few times.")

OPEN_HEADERS = re.compile(
    r"webhook-[a-z-]+|x-signature|host|content-(type|length|encoding)|user-agent|accept(-encoding)?|connection"
)
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
DISABLE_NOTICE = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour of the sparkline; in units of its drawing, which is 20 high."""

    x: int
    succeeded_y: float
    succeeded_height: float
    failed_y: float
    failed_height: float
    title: str


def endpoint_badge(endpoint: Endpoint) -> Badge:
    if endpoint.state is EndpointState.DISABLED:
        return DISABLED
    if endpoint.state is EndpointState.PAUSED:
        return PAUSED
    return FAILING if endpoint.failures_in_row else ACTIVE


def endpoint_code(endpoint: Endpoint) -> str:
    """For `data-status`: the state, or `failing`."""
    return endpoint_badge(endpoint).label.lower()


def disabled_reason(endpoint: Endpoint) -> str:
    return DISABLED_REASONS.get(endpoint.disabled_reason or "", say("It was switched off."))


def disables_soon(endpoint: Endpoint, now: datetime) -> datetime | None:
    """When it will be disabled if nothing gets better, once that is less than half a day away."""
    if endpoint.state is not EndpointState.ACTIVE or endpoint.disables_at is None:
        return None
    return endpoint.disables_at if endpoint.disables_at - now <= DISABLE_NOTICE else None


def delivery_badge(delivery: Delivery, now: datetime) -> Badge:
    if delivery.state is not DeliveryState.PENDING:
        return STATES[delivery.state]
    if delivery.lease_until is not None and delivery.lease_until > now:
        return SENDING
    return RETRYING if delivery.failures else STATES[DeliveryState.PENDING]


def cause(error: ErrorClass | None, status: int | None) -> str:
    """What came of the last request, in two or three words."""
    if error is None:
        return f"{status}" if status else ""
    if error in {ErrorClass.HTTP_4XX, ErrorClass.HTTP_5XX, ErrorClass.REDIRECT} and status:
        return _("Answered {status}", status=str(status))
    return ERROR_LABELS[error]


def owners_cause(error: ErrorClass | None, status: int | None) -> str:
    """The same for somebody who is no admin."""
    return say("Not reached") if error in NOT_REACHED else cause(error, status)


def sentence(error: ErrorClass | None) -> str:
    return SENTENCES[error] if error else ""


def verdict(answer: Answer) -> str:
    """One sentence about a test."""
    if answer.error is None:
        return _("Delivered: the receiver answered {status}.", status=str(answer.status))
    return SENTENCES[answer.error]


def short_url(url: str) -> str:
    """Host and path, for a heading."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    path = parts.path if parts.path not in {"", "/"} else ""
    return f"{parts.netloc}{path}" or url


def share(succeeded: int, failed: int) -> str:
    """`99.8%` of the attempts; an en dash when there were none. Only a whole hundred says 100."""
    total = succeeded + failed
    if not total:
        return "–"
    percent = 100 * succeeded / total
    if failed and percent > 99.9:
        return "99.9%"
    return f"{percent:.0f}%" if percent == int(percent) else f"{percent:.1f}%"


def sparkline(hours: Sequence[tuple[int, int]]) -> list[Bar]:
    """A bar for each hour, oldest first. The busiest hour is as high as the drawing; one attempt is still seen."""
    most = max([sum(hour) for hour in hours], default=0) or 1
    bars: list[Bar] = []
    for index, (succeeded, failed) in enumerate(hours):
        ok, bad = _height(succeeded, most), _height(failed, most)
        title = _(
            "{hour}: {succeeded} succeeded, {failed} failed",
            hour=_ago(len(hours) - index), succeeded=succeeded, failed=failed,
        )  # fmt: skip
        bars.append(Bar(index * 5, 20 - bad - ok, ok, 20 - bad, bad, title))
    return bars


def _height(count: int, most: int) -> float:
    return round(max(2.0, 20 * count / most), 1) if count else 0.0


def _ago(hours: int) -> str:
    return _("Last hour") if hours == 1 else ngettext("{n} hour ago", "{n} hours ago", hours)


def told_sparkline(hours: Sequence[tuple[int, int]]) -> str:
    succeeded, failed = sum(hour[0] for hour in hours), sum(hour[1] for hour in hours)
    if not succeeded + failed:
        return _("No attempts in the last 24 hours")
    busiest = max(sum(hour) for hour in hours)
    return _(
        "Attempts by hour, last 24 hours: {succeeded} succeeded, {failed} failed; at most {busiest} in an hour",
        succeeded=succeeded, failed=failed, busiest=busiest,
    )  # fmt: skip


def told_waits(waits: Sequence[float]) -> str:
    """`5 s, 5 s, 5 min`"""
    return ", ".join(told_time(wait) for wait in waits) if waits else _("none: one try only")


def told_time(seconds: float) -> str:
    """What was set, unrounded: `5 min`, `2.5 s`."""
    return duration(seconds) if float(seconds).is_integer() else _("{n} s", n=f"{seconds:.10g}")


def told_schedule(settings: EndpointSettings) -> str:
    name = SCHEDULE_LABELS[settings.schedule] if settings.schedule in SCHEDULES else say("Own")
    return f"{_(name)}: {told_waits(settings.waits)}"


def told_settings(settings: EndpointSettings, titles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Label and value of each setting. Of custom headers only the names; of the key only that there is one."""
    events = [_(EVENT_LABELS.get(name, name)) for name in settings.event_types]
    datasets = [titles.get(name, name) for name in settings.datasets]
    return [
        (_("Events"), ", ".join(events) or say("All of exports")),
        (_("Datasets"), ", ".join(datasets) or say("All")),
        (_("Retries after"), told_schedule(settings)),
        (_("Time limit"), told_time(settings.time_limit)),
        (_("At most"), told_pace(settings)),
        (_("Custom headers"), ", ".join(name for name, _value in settings.headers) or say("None")),
        (_("Encryption"), say("On: data is a JWE") if settings.encryption_key else say("Off")),
    ]


def told_pace(settings: EndpointSettings) -> str:
    return ngettext(
        "{n} request a second, {most} at once", "{n} requests a second, {most} at once",
        settings.rate, most=settings.max_in_flight,
    )  # fmt: skip


def shown_headers(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of a request: the values of custom headers are secrets, and hidden."""
    return [(name, value if OPEN_HEADERS.fullmatch(name.lower()) else KEPT_SEALED) for name, value in headers]


def shown_text(text: str) -> str:
    """What came from outside, made harmless to look at: no control character and no turn of direction is obeyed."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown_body(text: str) -> str:
    """JSON is set in lines; everything else stays as it came."""
    return shown_text(pretty(text))
