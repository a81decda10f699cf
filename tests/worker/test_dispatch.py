"""The dispatcher over a real store, a real broker and real receivers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import receivers
import standardwebhooks
from dispatching import all_are, dispatching, reaching_loopback, until
from fresh_stores import database_kind, each_resources, each_settings, migrated_postgres
from owing import all_attempts, all_deliveries, endpoint_now, owe, register
from patience import PATIENCE
from receivers import Received, answer, in_turn, receiver

from webapp import bus, queue
from webapp.actions import sending
from webapp.actions.sending import Ended
from webapp.domain.callbacks import Answer, DeliveryState, ErrorClass
from webapp.domain.tallies import Metric
from webapp.resources import Resources, open_resources
from webapp.store import tallies
from webapp.store.plain import PlainSQL
from worker import dispatch

__all__ = ["database_kind", "each_resources", "each_settings", "migrated_postgres"]


@pytest.fixture
def ours(resources: Resources) -> Resources:
    return reaching_loopback(resources)


async def test_what_is_owed_is_sent_signed_and_recorded(ours: Resources) -> None:
    async with receiver(answer(200, b"thanks")) as made, dispatching(ours):
        endpoint = await register(ours, made.url)
        await owe(ours, endpoint, 3)
        await until(ours, all_are("succeeded"))
    secret = endpoint.secrets[0].value
    for arrived in made.requests:
        assert (
            standardwebhooks.Webhook(secret).verify(arrived.body, dict(arrived.headers))["data"]["status"] == "SUCCESS"
        )
    deliveries = await all_deliveries(ours)
    assert sorted(one.id for one in made.requests) == sorted(one.event_id for one in deliveries)
    for attempt in await all_attempts(ours):
        assert attempt.finished_at is not None
        assert attempt.answer is not None
        assert (attempt.answer.status, attempt.answer.body, attempt.number) == (200, "thanks", 1)
    after = await endpoint_now(ours, endpoint)
    assert after.last_success_at is not None
    assert (await all_deliveries(ours))[0].lease_until is None


async def test_a_wake_up_makes_it_look_and_open_pages_are_told(
    ours: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "LOOK_EVERY", 3600)
    async with receiver() as made, dispatching(ours), bus.listen(ours.redis, bus.CHANNEL) as heard:
        endpoint = await register(ours, made.url)
        await asyncio.sleep(0.3)
        for number in range(1, 6):
            await owe(ours, endpoint)
            await queue.wake(ours.redis, queue.QueueName.CALLBACKS)
            await made.until(number)
            await asyncio.sleep(0.1)
        hints = [bus.decode(message) for _ in range(9) if (message := await heard.get_message(timeout=0.2))]
    assert bus.Hint(endpoint.id, bus.CALLBACKS, 0) in hints


async def test_without_a_broker_it_looks_by_itself(ours: Resources) -> None:
    redis = queue.connect("unix:///nowhere/redis.sock")
    alone = replace(ours, redis=redis)
    async with receiver() as made, dispatching(alone):
        await asyncio.sleep(0.2)
        await owe(alone, await register(alone, made.url))
        await until(alone, all_are("succeeded"))
    await redis.aclose(close_connection_pool=True)


async def test_a_broker_that_comes_back_is_heard_again(ours: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LOOK_EVERY", 0.1)
    async with receiver() as made, dispatching(ours):
        endpoint = await register(ours, made.url)
        await asyncio.sleep(0.3)
        await ours.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await asyncio.sleep(0.5)
        monkeypatch.setattr(dispatch, "LOOK_EVERY", 3600)
        await asyncio.sleep(0.2)
        await owe(ours, endpoint)
        await queue.wake(ours.redis, queue.QueueName.CALLBACKS)
        await made.until(1)
        await until(ours, all_are("succeeded"))


async def test_a_failure_is_tried_again_when_it_is_due_under_the_same_id(ours: Resources) -> None:
    async with receiver(in_turn(answer(500, b"no"), answer(503), answer(204))) as made, dispatching(ours):
        await owe(ours, await register(ours, made.url, waits=(0.3, 0.3, 5.0)))
        (delivery,) = await until(ours, all_are("succeeded"))
    assert len({one.id for one in made.requests}) == 1
    waits = [later.at - earlier.at for earlier, later in zip(made.requests, made.requests[1:], strict=False)]
    assert all(0.29 <= wait < 5 for wait in waits)
    assert (delivery.attempts, delivery.failures) == (3, 0)
    assert [one.answer and one.answer.status for one in await all_attempts(ours)] == [500, 503, 204]


async def test_each_endpoint_has_its_limits(ours: Resources) -> None:
    async with receiver(answer(204, after=0.05)) as narrow, receiver(answer(204)) as slow, dispatching(ours):
        await owe(ours, await register(ours, narrow.url, max_in_flight=3, rate=500), 20)
        often = await register(ours, slow.url, max_in_flight=50, rate=5)
        await owe(ours, often, 12)
        await until(ours, all_are("succeeded"))
        slowly = {one.id for one in await all_deliveries(ours, often)}
    assert narrow.most_at_once == 3
    times = [one.started_at for one in await all_attempts(ours) if one.delivery_id in slowly]
    second = timedelta(seconds=0.9)
    assert max(sum(1 for other in times if at <= other < at + second) for at in times) <= 5


async def test_endpoints_that_hang_delay_nobody(ours: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "STOP_SECONDS", 0.3)
    async with receiver(receivers.hang) as bad, receiver() as good, dispatching(ours):
        for _ in range(10):
            await owe(ours, await register(ours, bad.url, time_limit=PATIENCE), 20)
        await bad.until(50)
        fine = await register(ours, good.url, max_in_flight=50, rate=500)
        await owe(ours, fine, 100)
        await queue.wake(ours.redis, queue.QueueName.CALLBACKS)
        await until(ours, lambda found: sum(one.state == "succeeded" for one in found) == 100)
        assert not any(one.failures for one in await all_deliveries(ours)), "what hangs has not come to its end"
        assert bad.most_at_once == 50


async def test_no_more_are_in_flight_in_all_than_may_be(ours: Resources) -> None:
    async with receiver(answer(204, after=0.02)) as made, dispatching(ours, most=7):
        for _ in range(4):
            await owe(ours, await register(ours, made.url), 10)
        await until(ours, all_are("succeeded"))
    assert made.most_at_once == 7


async def test_told_to_stop_it_waits_for_what_is_nearly_done(ours: Resources) -> None:
    async with receiver(answer(204, after=0.5)) as made:
        async with dispatching(ours):
            await owe(ours, await register(ours, made.url))
            await made.until(1)
        (delivery,) = await all_deliveries(ours)
    assert delivery.state is DeliveryState.SUCCEEDED


async def test_told_to_stop_it_breaks_off_what_hangs_and_leaves_it_owed(
    ours: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "STOP_SECONDS", 0.3)
    async with receiver(in_turn(receivers.hang, answer(204))) as made:
        async with dispatching(ours):
            endpoint = await register(ours, made.url)
            await owe(ours, endpoint)
            await made.until(1)
        (delivery,) = await all_deliveries(ours)
        (attempt,) = await all_attempts(ours)
        assert (delivery.state, delivery.lease_until, delivery.failures) == (DeliveryState.PENDING, None, 0)
        assert attempt.answer == Answer(ErrorClass.INTERRUPTED)
        assert (await endpoint_now(ours, endpoint)).failures_in_row == 0
        async with dispatching(ours):
            (delivery,) = await until(ours, all_are("succeeded"))
    assert delivery.attempts == 2


async def test_told_to_stop_while_it_claims_it_puts_back(ours: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    claim, claimed = sending.claim, asyncio.Event()

    async def slowly(*arguments: Any, **options: Any) -> Any:
        work = await claim(*arguments, **options)
        claimed.set()
        await asyncio.sleep(0.3)
        return work

    monkeypatch.setattr(sending, "claim", slowly)
    async with receiver() as made:
        await owe(ours, await register(ours, made.url), 3)
        async with dispatching(ours):
            await claimed.wait()
        assert made.connections == 0
    assert {(one.attempts, one.lease_until) for one in await all_deliveries(ours)} == {(0, None)}
    assert await all_attempts(ours) == []


async def test_told_to_stop_while_it_records_and_claims_it_counts_once_and_puts_back(
    ours: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, claimed = sending.claim, asyncio.Event()

    async def slowly(*arguments: Any, **options: Any) -> Any:
        work = await claim(*arguments, **options)
        if options.get("ended"):
            claimed.set()
            await asyncio.sleep(0.3)
        return work

    monkeypatch.setattr(sending, "claim", slowly)
    async with receiver() as made:
        endpoint = await register(ours, made.url, max_in_flight=1)
        await owe(ours, endpoint, 2)
        async with dispatching(ours):
            await claimed.wait()
        assert made.connections == 1
    left, sent = sorted(await all_deliveries(ours), key=lambda one: one.state)
    assert (sent.state, sent.attempts) == (DeliveryState.SUCCEEDED, 1)
    assert (left.state, left.attempts, left.lease_until) == (DeliveryState.PENDING, 0, None)
    (attempt,) = await all_attempts(ours)
    assert attempt.answer is not None
    counted = {series.metric: series for series in await tallies.totals(ours.store)}
    assert sum(counted[Metric.DELIVERIES].counts.values()) == 1


def failing_first(times: int, works: Callable[..., Any]) -> Callable[..., Any]:
    left = iter(range(times))

    async def step(*arguments: Any, **options: Any) -> Any:
        if next(left, None) is not None:
            raise ConnectionError("the database is away")
        return await works(*arguments, **options)

    return step


async def test_results_wait_for_a_database_that_is_away(ours: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are to be recorded together with the next claim, or alone."""
    monkeypatch.setattr(dispatch, "TRY_AGAIN", 0.05)
    monkeypatch.setattr(sending, "_record", failing_first(3, sending._record))
    async with receiver() as made, dispatching(ours):
        await owe(ours, await register(ours, made.url), 5)
        await until(ours, all_are("succeeded"))
    assert len(made.requests) == 5


async def test_a_result_that_can_never_be_recorded_keeps_no_other_back(
    ours: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = sending._record

    async def refusing(rows: PlainSQL, ended: Sequence[Ended], at: datetime) -> int:
        if any(one.work.endpoint.id == cursed.id for one in ended):
            raise ValueError("a character that no database takes")
        return await record(rows, ended, at)

    monkeypatch.setattr(sending, "_record", refusing)
    async with receiver() as made:
        cursed, fine = await register(ours, f"{made.url}/1"), await register(ours, f"{made.url}/2")
        await owe(ours, cursed)
        await owe(ours, fine, 5)
        async with dispatching(ours):
            await until(ours, lambda found: sum(one.state == "succeeded" for one in found) == 5)
            await asyncio.sleep(1.2)
    assert len(made.requests) == 6
    (left,) = await all_deliveries(ours, cursed)
    assert (left.state, left.lease_until is None) == (DeliveryState.PENDING, False)


async def test_claims_wait_for_a_database_that_is_away(ours: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(sending, "claim", failing_first(3, sending.claim))
    async with receiver() as made, dispatching(ours):
        await owe(ours, await register(ours, made.url), 5)
        await until(ours, all_are("succeeded"))
    assert len(made.requests) == 5


async def test_results_are_recorded_when_nothing_can_be_claimed_with_them(
    ours: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = sending.claim

    async def refusing(*arguments: Any, **options: Any) -> Any:
        if options.get("ended"):
            raise TimeoutError("the database has too much to do")
        return await claim(*arguments, **options)

    monkeypatch.setattr(sending, "claim", refusing)
    async with receiver() as made, dispatching(ours):
        await owe(ours, await register(ours, made.url, max_in_flight=1), 3)
        await until(ours, all_are("succeeded"))
    assert len(made.requests) == 3


async def test_what_takes_long_stays_leased(ours: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LEASE_RENEWED_EVERY", 0.1)
    enough = asyncio.Event()

    async def take_long(received: Received, writer: asyncio.StreamWriter) -> None:
        await enough.wait()
        await answer(204)(received, writer)

    async with receiver(take_long) as made, dispatching(ours):
        await owe(ours, await register(ours, made.url, time_limit=PATIENCE))
        await made.until(1)
        leases: set[datetime | None] = set()
        while len(leases) < 3:
            (delivery,) = await all_deliveries(ours)
            leases.add(delivery.lease_until)
            await asyncio.sleep(0.05)
        assert None not in leases
        enough.set()
        await until(ours, all_are("succeeded"))


async def test_a_mistake_of_ours_is_a_failure_like_others(ours: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    async def mistaken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(dispatch, "send", mistaken)
    async with dispatching(ours):
        await owe(ours, await register(ours, "http://127.0.0.1:1/", waits=(60.0,)))
        (delivery,) = await until(ours, lambda found: found[0].failures == 1)
    assert delivery.last_error is ErrorClass.INTERRUPTED


async def test_two_dispatchers_send_each_once(ours: Resources) -> None:
    async with receiver() as made, dispatching(ours), dispatching(ours):
        for _ in range(4):
            await owe(ours, await register(ours, made.url, max_in_flight=10, rate=500), 50)
        await until(ours, all_are("succeeded"))
    assert set(Counter(one.id for one in made.requests).values()) == {1}
    assert len(made.requests) == 200


async def test_two_dispatchers_send_each_once_whichever_the_database(each_resources: Resources) -> None:
    ours = reaching_loopback(each_resources)
    async with receiver(in_turn(answer(500), answer(204))) as made:
        for _ in range(4):
            await owe(ours, await register(ours, made.url, max_in_flight=10, rate=500, waits=(0.1,)), 50)
        async with open_resources(ours.settings) as other, dispatching(ours), dispatching(other):
            found = await until(ours, all_are("succeeded"))
    sent = Counter(one.id for one in made.requests)
    assert sorted(sent.values()) == [1] * 199 + [2]
    assert sorted(one.attempts for one in found) == sorted(sent.values())
