"""The store's side of sending, on both databases: what is claimed, what is kept out, and what is written of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from callback_rows import audited, put, put_endpoint
from fresh_stores import Clock
from owing import all_attempts, all_deliveries, endpoint_now, owe, register

from webapp.actions import sending
from webapp.actions.sending import Ended, Work, claim, record
from webapp.domain.callbacks import Answer, DeliveryState, EndpointState, ErrorClass
from webapp.resources import Resources, open_resources
from webapp.sealing import Sealer
from webapp.store import endpoints, leases
from webapp.store.leases import Room

URL = "https://receiver.example/hook"
OK = Answer(None, 200, (("Content-Type", "text/plain"),), "thanks", seconds=0.25)
FAILED = Answer(ErrorClass.HTTP_5XX, 500)


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


def all_ended(work: Sequence[Work], answer: Answer) -> list[Ended]:
    return [Ended(one, answer) for one in work]


async def test_what_is_owed_is_claimed_once_with_its_event_and_its_attempt(
    each_resources: Resources, clock: Clock
) -> None:
    endpoint = await register(each_resources, URL, headers=(("Authorization", "Bearer hidden"),))
    (delivery_id,) = await owe(each_resources, endpoint)
    (work,) = await claim(each_resources, "me", limit=10)
    assert await claim(each_resources, "other", limit=10) == []
    (stored,) = await all_deliveries(each_resources)
    (attempt,) = await all_attempts(each_resources)
    assert (work.delivery.id, work.attempt.id, work.endpoint) == (delivery_id, attempt.id, endpoint)
    assert (stored.state, stored.attempts, stored.last_attempt_at) == (DeliveryState.PENDING, 1, clock.at)
    assert stored.lease_until == clock.at + timedelta(seconds=45)
    assert (attempt.number, attempt.started_at, attempt.finished_at) == (1, clock.at, None)
    assert attempt.request_body.encode() == work.outgoing.body
    assert json.loads(attempt.request_body)["data"] == json.loads(bytes(work.message.data))
    assert (attempt.url, work.message.id) == (URL, stored.event_id)
    assert ("webhook-id", stored.event_id) in attempt.request_headers
    assert ("Authorization", "(kept sealed)") in attempt.request_headers
    assert ("Authorization", "Bearer hidden") in work.outgoing.headers


async def test_what_has_ended_is_recorded_in_the_transaction_of_the_next_claim(
    each_resources: Resources, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the place that it had at its endpoint is free again, and neither is done when one cannot be."""
    endpoint = await register(each_resources, URL, max_in_flight=1)
    await owe(each_resources, endpoint, 2)
    known: sending.Known = {}
    first = await claim(each_resources, "me", limit=10, known=known)
    with monkeypatch.context() as broken:
        broken.setattr(leases, "begin", mistaken)
        with pytest.raises(RuntimeError):
            await claim(each_resources, "me", limit=10, known=known, ended=all_ended(first, OK))
    assert {one.state for one in await all_deliveries(each_resources)} == {DeliveryState.PENDING}
    (second,) = await claim(each_resources, "me", limit=10, known=known, ended=all_ended(first, OK))
    states = {one.id: one.state for one in await all_deliveries(each_resources)}
    assert states == {first[0].delivery.id: DeliveryState.SUCCEEDED, second.delivery.id: DeliveryState.PENDING}


async def mistaken(*_: object) -> None:
    raise RuntimeError("a mistake")


async def test_nothing_is_claimed_for_endpoints_that_are_paused_disabled_or_deleted(
    each_resources: Resources, clock: Clock
) -> None:
    for change in ("paused_at", "disabled_at", "deleted_at"):
        endpoint = await register(each_resources, URL)
        await owe(each_resources, endpoint)
        await put_endpoint(each_resources, endpoint.id, **{change: clock.at})
    assert await claim(each_resources, "me", limit=10) == []
    assert await sending.seconds_until_owed(each_resources) is None


async def test_what_is_owed_later_is_claimed_later(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL)
    await owe(each_resources, endpoint, at=clock.at + timedelta(seconds=5))
    assert await claim(each_resources, "me", limit=10) == []
    assert await sending.seconds_until_owed(each_resources) == 5
    clock.move(5)
    assert await sending.seconds_until_owed(each_resources) == 0
    assert len(await claim(each_resources, "me", limit=10)) == 1


async def test_no_more_are_in_flight_than_the_endpoint_takes(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL, max_in_flight=3)
    await owe(each_resources, endpoint, 10)
    work = await claim(each_resources, "me", limit=100)
    assert len(work) == 3
    clock.move(2)
    assert await claim(each_resources, "other", limit=100) == []
    assert await sending.seconds_until_owed(each_resources) is None
    await record(each_resources, all_ended(work[:2], OK))
    assert len(await claim(each_resources, "other", limit=100)) == 2


async def test_no_more_are_begun_in_a_second_than_the_endpoint_takes(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL, max_in_flight=50, rate=4)
    await owe(each_resources, endpoint, 10)
    first = await claim(each_resources, "me", limit=100)
    await record(each_resources, all_ended(first, OK))
    assert await claim(each_resources, "me", limit=100) == []
    wait = await sending.seconds_until_owed(each_resources)
    assert wait is not None
    assert 0 < wait < 1
    clock.move(0.5)
    assert await claim(each_resources, "other", limit=100) == []
    clock.move(0.5)
    assert (len(first), len(await claim(each_resources, "other", limit=100))) == (4, 4)


async def test_the_limit_is_shared_in_turns(each_resources: Resources, clock: Clock) -> None:
    busy, quiet, small = [await register(each_resources, URL) for _ in "abc"]
    await owe(each_resources, busy, 50, at=clock.at - timedelta(hours=1))
    await owe(each_resources, quiet, 50)
    await owe(each_resources, small, 1)
    work = await claim(each_resources, "me", limit=8)
    counts = Counter(one.endpoint.id for one in work)
    assert sorted(counts.values()) == [1, 3, 3]
    assert counts[small.id] == 1


async def test_an_endpoint_that_is_known_is_opened_again_once_it_changed(each_resources: Resources) -> None:
    endpoint = await register(each_resources, "https://hooks.example/first", max_in_flight=1)
    await owe(each_resources, endpoint, 3)
    known: sending.Known = {}
    urls, secrets = list[str](), set[str]()
    for _ in range(3):
        [work] = await claim(each_resources, "me", limit=8, known=known)
        urls.append(work.outgoing.url)
        secrets |= {secret.value for secret in work.endpoint.secrets}
        await record(each_resources, [Ended(work, OK)])
        if len(urls) == 2:
            after = replace(known[endpoint.id], settings=replace(endpoint.settings, url="https://hooks.example/second"))
            async with each_resources.store.transaction():
                assert await endpoints.compare_and_set(
                    each_resources.store, known[endpoint.id], after, each_resources.sealer
                )
    assert urls == ["https://hooks.example/first"] * 2 + ["https://hooks.example/second"]
    assert len(secrets) == 1


def test_who_has_least_in_flight_comes_first() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rooms = [Room("full", 1, at, 4, 1, False), Room("empty", 1, at, 0, 5, False), Room("none", 1, at, 5, 0, True)]
    assert sending.shares(rooms, 1) == {"empty": 1}
    assert sending.shares(rooms, 10) == {"empty": 5, "full": 1}
    assert sending.shares(rooms, 0) == {}


async def test_the_oldest_is_sent_first(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL, max_in_flight=2)
    newer = await owe(each_resources, endpoint, 2)
    older = await owe(each_resources, endpoint, 2, at=clock.at - timedelta(minutes=1))
    assert {one.delivery.id for one in await claim(each_resources, "me", limit=9)} == set(older)
    assert newer


async def test_success_is_recorded(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL, failures_in_row=7, failing_since=clock.at)
    await owe(each_resources, endpoint)
    work = await claim(each_resources, "me", limit=10)
    clock.move(1)
    assert await record(each_resources, all_ended(work, OK)) == 1
    (delivery,) = await all_deliveries(each_resources)
    (attempt,) = await all_attempts(each_resources)
    after = await endpoint_now(each_resources, endpoint)
    assert (delivery.state, delivery.completed_at) == (DeliveryState.SUCCEEDED, clock.at)
    assert (delivery.lease_until, delivery.next_attempt_at, delivery.last_status) == (None, None, 200)
    assert (attempt.finished_at, attempt.answer) == (clock.at, OK)
    assert (after.failures_in_row, after.failing_since, after.last_success_at) == (0, None, clock.at)


async def test_the_schedule_is_kept_to_the_dead_letter(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL, schedule="quick", waits=(5.0, 5.0, 5.0))
    (delivery_id,) = await owe(each_resources, endpoint)
    ids: set[str] = set()
    for number in range(1, 5):
        (work,) = await claim(each_resources, "me", limit=10)
        ids.add(dict(work.outgoing.headers)["webhook-id"])
        await record(each_resources, all_ended([work], FAILED))
        (delivery,) = await all_deliveries(each_resources)
        assert (delivery.attempts, delivery.failures, delivery.last_error) == (number, number, ErrorClass.HTTP_5XX)
        assert await sending.seconds_until_owed(each_resources) == (5 if number < 4 else None)
        clock.move(5)
    assert (delivery.state, delivery.completed_at) == (DeliveryState.DEAD, clock.at - timedelta(seconds=5))
    assert [one.number for one in await all_attempts(each_resources, delivery_id)] == [1, 2, 3, 4]
    assert ids == {delivery.event_id}
    assert (await endpoint_now(each_resources, endpoint)).failures_in_row == 4


async def test_a_longer_retry_after_wins(each_resources: Resources, clock: Clock) -> None:
    await owe(each_resources, await register(each_resources, URL))
    work = await claim(each_resources, "me", limit=10)
    await record(each_resources, all_ended(work, Answer(ErrorClass.HTTP_4XX, 429, retry_after=120)))
    assert await sending.seconds_until_owed(each_resources) == 120


async def test_gone_disables_the_endpoint_and_the_delivery_is_dead(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL)
    await owe(each_resources, endpoint, 2)
    first, second = await claim(each_resources, "me", limit=10)
    await record(each_resources, [Ended(first, Answer(ErrorClass.GONE, 410)), Ended(second, FAILED)])
    after = await endpoint_now(each_resources, endpoint)
    assert (after.state, after.disabled_reason, after.disabled_at) == (EndpointState.DISABLED, "GONE", clock.at)
    states = {one.id: one.state for one in await all_deliveries(each_resources)}
    assert (states[first.delivery.id], states[second.delivery.id]) == (DeliveryState.DEAD, DeliveryState.PENDING)
    details = {"reason": "GONE", "failures_in_row": 2}
    assert await audited(each_resources, "endpoint.") == [("endpoint.disabled", endpoint.id, details)]
    clock.move(60)
    assert await claim(each_resources, "me", limit=10) == []


@pytest.mark.parametrize(
    ("failures", "hours", "state"), [(99, 24, "disabled"), (98, 24, "active"), (99, 23, "active"), (5000, 1, "active")]
)
async def test_a_hundred_failures_in_a_row_over_a_day_disable_it(
    each_resources: Resources, clock: Clock, failures: int, hours: int, state: str
) -> None:
    since = clock.at - timedelta(hours=hours)
    endpoint = await register(each_resources, URL, failures_in_row=failures, failing_since=since)
    await owe(each_resources, endpoint)
    await record(each_resources, all_ended(await claim(each_resources, "me", limit=10), FAILED))
    after = await endpoint_now(each_resources, endpoint)
    assert (after.state, after.failures_in_row, after.failing_since) == (state, failures + 1, since)
    assert len(await audited(each_resources, "endpoint.disabled")) == (state == "disabled")


async def test_failures_that_are_recorded_at_once_are_all_counted(each_resources: Resources, clock: Clock) -> None:
    endpoint = await register(each_resources, URL, max_in_flight=20)
    await owe(each_resources, endpoint, 20)
    work = await claim(each_resources, "me", limit=20)
    await asyncio.gather(*(record(each_resources, all_ended([one], FAILED)) for one in work))
    assert (await endpoint_now(each_resources, endpoint)).failures_in_row == 20


async def test_a_killed_workers_delivery_is_claimed_again_when_its_lease_has_run_out(
    each_resources: Resources, clock: Clock
) -> None:
    await owe(each_resources, await register(each_resources, URL))
    (lost,) = await claim(each_resources, "killed", limit=10)
    clock.move(44.9)
    assert await claim(each_resources, "next", limit=10) == []
    clock.move(0.1)
    (again,) = await claim(each_resources, "next", limit=10)
    first, second = await all_attempts(each_resources)
    assert (first.number, first.finished_at) == (1, clock.at)
    assert first.answer == Answer(ErrorClass.INTERRUPTED)
    assert (second.number, second.finished_at) == (2, None)
    assert (again.delivery.attempts, again.delivery.failures) == (2, 0)
    assert dict(again.outgoing.headers)["webhook-id"] == dict(lost.outgoing.headers)["webhook-id"]


async def test_a_worker_that_was_given_up_cannot_write_over_its_successor(
    each_resources: Resources, clock: Clock
) -> None:
    endpoint = await register(each_resources, URL)
    await owe(each_resources, endpoint)
    late = await claim(each_resources, "late", limit=10)
    clock.move(60)
    successor = await claim(each_resources, "late", limit=10)
    assert await record(each_resources, all_ended(late, Answer(ErrorClass.GONE, 410))) == 0
    (delivery,) = await all_deliveries(each_resources)
    assert (delivery.state, delivery.last_error) == (DeliveryState.PENDING, None)
    assert delivery.lease_until == clock.at + timedelta(seconds=45)
    assert (await endpoint_now(each_resources, endpoint)).failures_in_row == 0
    first, second = await all_attempts(each_resources)
    assert (first.answer, second.answer) == (Answer(ErrorClass.INTERRUPTED), None)
    assert await record(each_resources, all_ended(successor, OK)) == 1
    assert await record(each_resources, all_ended(successor, FAILED)) == 0
    (delivery,) = await all_deliveries(each_resources)
    assert delivery.state is DeliveryState.SUCCEEDED


async def test_a_renewed_lease_lasts_longer(each_resources: Resources, clock: Clock) -> None:
    await owe(each_resources, await register(each_resources, URL))
    work = await claim(each_resources, "me", limit=10)
    clock.move(40)
    await sending.renew(each_resources, "me", work)
    clock.move(40)
    assert await claim(each_resources, "other", limit=10) == []
    await sending.renew(each_resources, "somebody else", work)
    clock.move(5)
    assert len(await claim(each_resources, "other", limit=10)) == 1


async def test_a_delivery_that_was_cancelled_meanwhile_stays_so_but_its_attempt_is_told(
    each_resources: Resources, clock: Clock
) -> None:
    await owe(each_resources, await register(each_resources, URL))
    work = await claim(each_resources, "me", limit=10)
    await put(each_resources, work[0].delivery, state="cancelled", lease_token=None, lease_until=None)
    assert await record(each_resources, all_ended(work, OK)) == 0
    (delivery,) = await all_deliveries(each_resources)
    (attempt,) = await all_attempts(each_resources)
    assert (delivery.state, attempt.answer) == (DeliveryState.CANCELLED, OK)


async def test_a_worker_that_is_told_to_stop_leaves_its_deliveries_owed_at_once(
    each_resources: Resources, clock: Clock
) -> None:
    await owe(each_resources, await register(each_resources, URL), 2)
    begun, not_begun = await claim(each_resources, "stopped", limit=10)
    await sending.give_up(each_resources, [begun])
    await sending.put_back(each_resources, [not_begun])
    again = await claim(each_resources, "next", limit=10)
    assert {one.delivery.id: one.delivery.attempts for one in again} == {begun.delivery.id: 2, not_begun.delivery.id: 1}
    assert {one.delivery.failures for one in again} == {0}
    (interrupted, *_) = await all_attempts(each_resources, begun.delivery.id)
    assert interrupted.answer == Answer(ErrorClass.INTERRUPTED)
    assert len(await all_attempts(each_resources, not_begun.delivery.id)) == 1


async def test_an_endpoint_whose_secrets_cannot_be_opened_keeps_nobody_waiting(
    each_resources: Resources, clock: Clock
) -> None:
    other_key = replace(each_resources, sealer=Sealer("another key of sixteen characters"))
    sealed, unusable = await register(other_key, URL), await register(each_resources, URL, secrets=())
    fine = await register(each_resources, URL)
    for endpoint in (sealed, unusable, fine):
        await owe(each_resources, endpoint, 2)
    assert {one.endpoint.id for one in await claim(each_resources, "me", limit=100)} == {fine.id}
    assert {one.attempts for one in await all_deliveries(each_resources, sealed)} == {0}
    assert await claim(each_resources, "me", limit=100) == []
    assert await sending.seconds_until_owed(each_resources) == 60
    assert len(await all_attempts(each_resources)) == 2


async def test_two_workers_never_get_the_same_attempt_and_keep_the_limits_together(each_resources: Resources) -> None:
    """Two processes, as far as the database can tell."""
    endpoints = [await register(each_resources, URL, max_in_flight=5, rate=500) for _ in range(4)]
    for endpoint in endpoints:
        await owe(each_resources, endpoint, 40)
    seen: list[tuple[str, int]] = []
    live: Counter[str] = Counter()

    async def work(resources: Resources, token: str) -> None:
        idle = 0
        while idle < 20:
            got = await claim(resources, token, limit=7)
            idle = 0 if got else idle + 1
            seen.extend((one.delivery.id, one.attempt.number) for one in got)
            live.update(one.endpoint.id for one in got)
            assert max(live.values(), default=0) <= 5
            await asyncio.sleep(0.002)
            live.subtract(one.endpoint.id for one in got)
            if got:
                await record(resources, all_ended(got, OK))

    async with open_resources(each_resources.settings) as other:
        await asyncio.gather(
            *(work(each_resources, f"a{n}") for n in range(2)), *(work(other, f"b{n}") for n in range(2))
        )
    assert len(seen) == len(set(seen)) == 160
    assert {one.state for one in await all_deliveries(each_resources)} == {DeliveryState.SUCCEEDED}
    assert {one.attempts for one in await all_deliveries(each_resources)} == {1}
