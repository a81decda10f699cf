"""Deliveries and their attempts as told to people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from webapp.domain.callbacks import Delivery, DeliveryAttempt, DeliveryState, ErrorClass
from webapp.pages import callback_wording as wording
from webapp.pages.wording import Badge


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One line of the log. `cause` is what came of the last request, `sentence` what that means."""

    delivery: Delivery
    event: str
    badge: Badge
    cause: str
    sentence: str
    endpoint: str

    @property
    def code(self) -> str:
        """For `data-status`: the state, or `sending`."""
        return "sending" if self.badge is wording.SENDING else self.delivery.state.value

    @property
    def can_redeliver(self) -> bool:
        return self.delivery.state is not DeliveryState.CANCELLED


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One request of a delivery with everything that was sent and came back, harmless to look at."""

    attempt: DeliveryAttempt
    badge: Badge
    code: str
    cause: str
    sentence: str
    url: str
    request_headers: Sequence[tuple[str, str]]
    request_body: str
    answer_headers: Sequence[tuple[str, str]]
    answer_body: str


def delivery_row(delivery: Delivery, now: datetime, endpoints: Mapping[str, str] | None = None) -> DeliveryRow:
    """`endpoints` are their titles by id, where the list is of more than one."""
    return DeliveryRow(
        delivery=delivery,
        event=wording.EVENT_LABELS.get(delivery.event_type, delivery.event_type),
        badge=wording.delivery_badge(delivery, now),
        cause=wording.cause(delivery.last_error, delivery.last_status),
        sentence=wording.sentence(delivery.last_error),
        endpoint=(endpoints or {}).get(delivery.endpoint_id, ""),
    )


def delivery_rows(
    found: Sequence[Delivery], now: datetime, endpoints: Mapping[str, str] | None = None
) -> list[DeliveryRow]:
    return [delivery_row(delivery, now, endpoints) for delivery in found]


def owners_row(delivery: Delivery, now: datetime) -> DeliveryRow:
    """For somebody who is no admin: why a host was not reached is nobody's business."""
    is_hidden = delivery.last_error in wording.NOT_REACHED
    row = delivery_row(delivery, now)
    return DeliveryRow(
        delivery=row.delivery,
        event=row.event,
        badge=row.badge,
        cause=wording.owners_cause(delivery.last_error, delivery.last_status),
        sentence=wording.NOT_REACHED_SENTENCE if is_hidden else row.sentence,
        endpoint="",
    )


SUCCEEDED = Badge("Delivered", "check", "good")
FAILED = Badge("Failed", "alert", "bad")
UNDER_WAY = Badge("Under way", "running", "accent")
LOST = Badge("Not finished", "alert", "warn")


def attempt_view(attempt: DeliveryAttempt, *, is_last: bool, delivery: Delivery, now: datetime) -> AttemptView:
    answer = attempt.answer
    is_leased = delivery.lease_until is not None and delivery.lease_until > now
    if answer is None:
        badge = UNDER_WAY if is_last and is_leased else LOST
        error, status = (None if badge is UNDER_WAY else ErrorClass.INTERRUPTED), None
    else:
        badge, error, status = (FAILED if answer.error else SUCCEEDED), answer.error, answer.status
    return AttemptView(
        attempt=attempt,
        badge=badge,
        code=badge.label.lower().replace(" ", "-"),
        cause=wording.cause(error, status),
        sentence=wording.sentence(error),
        url=wording.shown_text(attempt.url),
        request_headers=wording.shown_headers(attempt.request_headers),
        request_body=wording.shown_body(attempt.request_body),
        answer_headers=[(wording.shown_text(n), wording.shown_text(v)) for n, v in answer.headers] if answer else [],
        answer_body=wording.shown_body(answer.body) if answer else "",
    )


STATE_LABELS: Mapping[DeliveryState, str] = {
    DeliveryState.PENDING: "Waiting",
    DeliveryState.SUCCEEDED: "Delivered",
    DeliveryState.DEAD: "Dead letters",
    DeliveryState.CANCELLED: "Cancelled",
}
