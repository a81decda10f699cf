"""When a delivery is tried again, when it is given up, and when its endpoint is switched off."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.domain import callbacks
from webapp.domain.callbacks import (
    QUICK,
    SENTENCES,
    STANDARD,
    Answer,
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointSettings,
    EndpointState,
    ErrorClass,
    Secret,
    after_answer,
    after_attempt,
    error_of_status,
    wait_before,
    wants,
)

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OK = Answer(None, 200)
FAILED = Answer(ErrorClass.HTTP_5XX, 500)
GONE = Answer(ErrorClass.GONE, 410)


class Middle(random.Random):
    """Dice that always fall in the middle: no jitter."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def delivery(**changes: Any) -> Delivery:
    fields = {"id": "dlv_1", "event_id": "evt_1", "event_type": "export.created", "export_id": "exp_1"}
    made = Delivery(**fields, endpoint_id="end_1", state=DeliveryState.PENDING, created_at=AT, next_attempt_at=AT)
    return made._replace(**changes)


def endpoint(**changes: Any) -> Endpoint:
    made = Endpoint("end_1", EndpointSettings("https://example.com/"), (), "usr_1", AT, AT)
    return replace(made, **changes)


def failing(count: int, hours: float) -> Endpoint:
    """With a row of so many failures that began so long ago."""
    return endpoint(failures_in_row=count, failing_since=AT - timedelta(hours=hours))


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 5), (2, 5), (3, 5), (4, 300), (5, 1800), (6, 7200), (7, 18_000), (8, 36_000), (9, None), (50, None)],
)
def test_the_standard_schedule(failures: int, seconds: float | None) -> None:
    assert wait_before(STANDARD, failures, dice=Middle()) == seconds


@pytest.mark.parametrize(("failures", "seconds"), [(1, 5), (2, 5), (3, 5), (4, None)])
def test_the_quick_schedule(failures: int, seconds: float | None) -> None:
    assert wait_before(QUICK, failures, dice=Middle()) == seconds


def test_a_schedule_without_waits_gives_up_at_once() -> None:
    assert wait_before((), 1, dice=Middle()) is None


@given(st.integers(1, 8), st.randoms(use_true_random=False))
def test_waits_vary_by_a_fifth_past_the_third_and_not_before(failures: int, dice: random.Random) -> None:
    wait, exact = wait_before(STANDARD, failures, dice=dice), STANDARD[failures - 1]
    assert wait is not None
    if failures <= 3:
        assert wait == exact
    else:
        assert 0.8 * exact <= wait <= 1.2 * exact


def test_waits_really_vary() -> None:
    dice = random.Random(1)
    waits = {wait_before(STANDARD, 5, dice=dice) for _ in range(200)}
    assert len(waits) > 190
    assert min(filter(None, waits)) < 1500
    assert max(filter(None, waits)) > 2100


@pytest.mark.parametrize(
    ("failures", "retry_after", "seconds"),
    [(1, 60, 60), (1, 2, 5), (1, 0, 5), (1, -5, 5), (1, 3600, 3600), (1, 86_400, 3600), (6, 60, 7200), (9, 60, None)],
)
def test_the_longer_of_schedule_and_retry_after_counts_up_to_an_hour(
    failures: int, retry_after: float, seconds: float | None
) -> None:
    assert wait_before(STANDARD, failures, retry_after=retry_after, dice=Middle()) == seconds


def test_a_success_ends_the_delivery() -> None:
    before = delivery(attempts=3, failures=2, lease_until=AT)
    after = after_attempt(before, OK, STANDARD, at=AT, dice=Middle())
    expected = before._replace(state=DeliveryState.SUCCEEDED, completed_at=AT, failures=0, lease_until=None)
    assert after == expected._replace(next_attempt_at=None, last_status=200)


def test_a_failure_is_tried_again_and_says_why() -> None:
    after = after_attempt(delivery(attempts=1, lease_until=AT), FAILED, STANDARD, at=AT, dice=Middle())
    assert (after.state, after.failures, after.completed_at) == (DeliveryState.PENDING, 1, None)
    assert after.next_attempt_at == AT + timedelta(seconds=5)
    assert (after.last_status, after.last_error, after.lease_until) == (500, ErrorClass.HTTP_5XX, None)


def test_a_receiver_that_asks_for_time_gets_it() -> None:
    busy = Answer(ErrorClass.HTTP_4XX, 429, retry_after=90)
    after = after_attempt(delivery(), busy, STANDARD, at=AT, dice=Middle())
    assert after.next_attempt_at == AT + timedelta(seconds=90)


@pytest.mark.parametrize(("waits", "requests"), [(STANDARD, 9), (QUICK, 4), ((1.0,), 2), ((), 1)])
def test_a_delivery_that_always_fails_becomes_a_dead_letter(waits: tuple[float, ...], requests: int) -> None:
    current, sent = delivery(), 0
    while current.state is DeliveryState.PENDING:
        sent += 1
        current = after_attempt(current, FAILED, waits, at=AT, dice=Middle())
    assert sent == requests
    assert (current.state, current.next_attempt_at, current.completed_at) == (DeliveryState.DEAD, None, AT)
    assert current.last_error is ErrorClass.HTTP_5XX


def test_410_is_a_dead_letter_at_once() -> None:
    after = after_attempt(delivery(), GONE, STANDARD, at=AT, dice=Middle())
    assert (after.state, after.failures, after.next_attempt_at) == (DeliveryState.DEAD, 1, None)


ANSWERS = st.builds(
    Answer,
    error=st.one_of(st.none(), st.sampled_from(ErrorClass)),
    status=st.one_of(st.none(), st.integers(100, 599)),
    retry_after=st.one_of(st.none(), st.floats(-10, 1e9)),
)
WAITS = st.lists(st.floats(1, callbacks.LONGEST_WAIT), max_size=callbacks.MOST_RETRIES).map(tuple)


@given(WAITS, st.lists(ANSWERS, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_a_delivery_is_owed_or_over_and_never_both(
    waits: tuple[float, ...], answers: list[Answer], dice: random.Random
) -> None:
    current, longest = delivery(), max(1.2 * max(waits, default=0), callbacks.LONGEST_RETRY_AFTER)
    for sent, answer in enumerate(answers, 1):
        current = after_attempt(current, answer, waits, at=AT, dice=dice)
        assert (current.next_attempt_at is None) == (current.completed_at is not None)
        assert (current.state is DeliveryState.SUCCEEDED) == (answer.error is None)
        if current.next_attempt_at is None:
            break
        assert timedelta(seconds=1) <= current.next_attempt_at - AT <= timedelta(seconds=longest + 1)
        assert current.failures == sent <= len(waits)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, None),
        (204, None),
        (299, None),
        (101, ErrorClass.BAD_ANSWER),
        (199, ErrorClass.BAD_ANSWER),
        (300, ErrorClass.REDIRECT),
        (302, ErrorClass.REDIRECT),
        (399, ErrorClass.REDIRECT),
        (400, ErrorClass.HTTP_4XX),
        (429, ErrorClass.HTTP_4XX),
        (410, ErrorClass.GONE),
        (499, ErrorClass.HTTP_4XX),
        (500, ErrorClass.HTTP_5XX),
        (599, ErrorClass.HTTP_5XX),
        (600, ErrorClass.BAD_ANSWER),
        (999, ErrorClass.BAD_ANSWER),
        (0, ErrorClass.BAD_ANSWER),
    ],
)
def test_only_2xx_is_success(status: int, error: ErrorClass | None) -> None:
    assert error_of_status(status) is error


def test_every_error_has_a_sentence_and_two_tell_nothing_of_the_inside() -> None:
    assert set(SENTENCES) == set(ErrorClass)
    assert SENTENCES[ErrorClass.DNS] == SENTENCES[ErrorClass.ADDRESS_FORBIDDEN]
    assert all(sentence.endswith((".", "?")) for sentence in SENTENCES.values())


def test_a_success_ends_the_row_of_failures() -> None:
    after = after_answer(failing(99, 48), OK, at=AT)
    assert (after.failures_in_row, after.failing_since, after.last_success_at) == (0, None, AT)
    assert (after.state, after.disables_at) == (EndpointState.ACTIVE, None)


def test_the_first_failure_begins_the_row_and_the_countdown() -> None:
    after = after_answer(endpoint(), FAILED, at=AT)
    assert (after.failures_in_row, after.failing_since, after.last_failure_at) == (1, AT, AT)
    assert after.disables_at == AT + timedelta(hours=24)


@pytest.mark.parametrize(
    ("count", "hours", "is_disabled"),
    [(98, 24, False), (99, 24, True), (99, 23.99, False), (5000, 23.99, False), (98, 500, False), (5000, 500, True)],
)
def test_it_takes_100_failures_and_24_hours_to_disable(count: int, hours: float, is_disabled: bool) -> None:
    after = after_answer(failing(count, hours), FAILED, at=AT)
    assert (after.state is EndpointState.DISABLED) is is_disabled
    assert (after.disabled_at, after.disabled_reason) == ((AT, "FAILING") if is_disabled else (None, None))


def test_410_disables_at_once() -> None:
    after = after_answer(endpoint(), GONE, at=AT)
    assert (after.disabled_at, after.disabled_reason, after.failures_in_row) == (AT, "GONE", 1)


def test_an_endpoint_that_is_disabled_already_keeps_its_time_and_its_reason() -> None:
    before = replace(failing(200, 48), disabled_at=AT - timedelta(hours=1), disabled_reason="FAILING")
    for answer in (FAILED, GONE):
        after = after_answer(before, answer, at=AT)
        assert (after.disabled_at, after.disabled_reason) == (before.disabled_at, "FAILING")
    late = after_answer(before, OK, at=AT)
    assert (late.state, late.failures_in_row) == (EndpointState.DISABLED, 0)


def test_disabled_counts_before_paused() -> None:
    assert endpoint(paused_at=AT).state is EndpointState.PAUSED
    assert endpoint(paused_at=AT, disabled_at=AT).state is EndpointState.DISABLED
    assert endpoint(disabled_at=AT, failing_since=AT).disables_at is None


@given(st.lists(st.tuples(ANSWERS, st.floats(0, 100_000)), max_size=40))
def test_a_row_of_failures_has_a_beginning_while_it_lasts(happened: list[tuple[Answer, float]]) -> None:
    current, at = endpoint(), AT
    for answer, seconds in happened:
        at += timedelta(seconds=seconds)
        current = after_answer(current, answer, at=at)
        assert (current.failures_in_row == 0) == (current.failing_since is None) == (answer.error is None)
        assert (current.disabled_at is None) == (current.disabled_reason is None)


@pytest.mark.parametrize(
    ("event_types", "datasets", "is_wanted"),
    [
        ((), (), True),
        (("export.failed",), (), True),
        (("export.created",), (), False),
        ((), ("things",), True),
        ((), ("others",), False),
        (("export.failed", "export.created"), ("others", "things"), True),
        (("export.failed",), ("others",), False),
        (("export.created",), ("things",), False),
    ],
)
def test_filters(event_types: tuple[str, ...], datasets: tuple[str, ...], is_wanted: bool) -> None:
    settings = EndpointSettings("https://example.com/", event_types=event_types, datasets=datasets)
    assert wants(settings, event_type="export.failed", dataset="things") is is_wanted


def test_a_secret_signs_until_its_last_moment() -> None:
    newest, old = Secret("new", AT), Secret("old", AT, AT + timedelta(hours=1))
    both = endpoint(secrets=(newest, old))
    assert both.valid_secrets(AT + timedelta(minutes=59)) == (newest, old)
    assert both.valid_secrets(AT + timedelta(hours=1)) == (newest,)


def test_no_secret_is_shown_by_chance() -> None:
    settings = EndpointSettings("https://example.com/", headers=(("authorization", "s3cret"),), encryption_key="s3cret")
    assert "s3cret" not in repr(endpoint(settings=settings, secrets=(Secret("s3cret", AT),)))


def test_a_lease_outlives_the_longest_request() -> None:
    assert callbacks.TIME_LIMITS[1] + callbacks.CONNECT_SECONDS < callbacks.LEASE_SECONDS
    assert callbacks.LEASE_RENEWED_EVERY * 2 < callbacks.LEASE_SECONDS
