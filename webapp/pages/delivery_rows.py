"""Deliveries and their attempts as told to people. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from webapp.domain.callbacks import Delivery, DeliveryAttempt, DeliveryState, ErrorClass
from webapp.domain.sentences import say
from webapp.pages import callback_wording as wording
from webapp.pages.wording import Badge


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One line of the log. `cause` is what came of the last request, `sentence` what that means. `next_try` is None
    when it is due or nothing more is to come; `rests`: it waits for its endpoint to be resumed."""

    delivery: Delivery
    event: str
    badge: Badge
    cause: str
    sentence: str
    endpoint: str
    next_try: datetime | None = None
    rests: bool = False

    @property
    def is_due(self) -> bool:
        is_owed = self.delivery.state is DeliveryState.PENDING and self.badge is not wording.SENDING
        return is_owed and not self.rests and self.next_try is None

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


def delivery_row(
    delivery: Delivery,
    now: datetime,
    endpoints: Mapping[str, str] | None = None,
    resting: Container[str] = frozenset(),
) -> DeliveryRow:
    """`endpoints` are their titles by id, where the list is of more than one; `resting` are those of them that are
    paused or disabled."""
    rests = delivery.state is DeliveryState.PENDING and delivery.endpoint_id in resting
    next_try = delivery.next_attempt_at if delivery.state is DeliveryState.PENDING and not rests else None
    return DeliveryRow(
        delivery=delivery,
        event=wording.EVENT_LABELS.get(delivery.event_type, delivery.event_type),
        badge=wording.delivery_badge(delivery, now),
        cause=wording.cause(delivery.last_error, delivery.last_status),
        sentence=wording.sentence(delivery.last_error),
        endpoint=(endpoints or {}).get(delivery.endpoint_id, ""),
        next_try=next_try if next_try and next_try > now else None,
        rests=rests,
    )


def delivery_rows(
    found: Sequence[Delivery],
    now: datetime,
    endpoints: Mapping[str, str] | None = None,
    resting: Container[str] = frozenset(),
) -> list[DeliveryRow]:
    return [delivery_row(delivery, now, endpoints, resting) for delivery in found]


def owners_row(
    delivery: Delivery, now: datetime, resting: Container[str] = frozenset(), *, is_mail: bool = False
) -> DeliveryRow:
    """For somebody who is no admin: why a host was not reached is nobody's business."""
    is_hidden = delivery.last_error in wording.NOT_REACHED
    row = delivery_row(delivery, now, resting=resting)
    return replace(
        row,
        cause=wording.owners_cause(delivery.last_error, delivery.last_status),
        sentence=wording.NOT_REACHED_SENTENCE if is_hidden else row.sentence,
        endpoint=say("E-mail") if is_mail else "",
    )


SUCCEEDED = Badge(say("Delivered"), "check", "good")
FAILED = Badge(say("Failed"), "alert", "bad")
UNDER_WAY = Badge(say("Under way"), "running", "accent")
LOST = Badge(say("Not finished"), "alert", "warn")


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
    DeliveryState.PENDING: say("Waiting"),
    DeliveryState.SUCCEEDED: say("Delivered"),
    DeliveryState.DEAD: say("Dead letters"),
    DeliveryState.CANCELLED: say("Cancelled"),
}
