"""Deliveries: the log, page by page, and owing again what was given up. On both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from callback_rows import attempt, audited, owe, put, put_endpoint, stored
from factories import stored_export
from fresh_stores import Clock, person
from sqlalchemy import select

from webapp import bus
from webapp.actions import deliveries, endpoint_secrets, endpoints
from webapp.actions.deliveries import CannotRedeliver
from webapp.actions.sweep import UNUSED_EVERY, sweep
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.callbacks import Delivery, DeliveryState, EndpointState, ErrorClass
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.store import events, tables
from webapp.store import exports as export_rows
from webapp.store.deliveries import DeliveryFilter

URL = "https://93.184.216.34/hook"
SECOND = timedelta(seconds=1)
Owe = Callable[..., Awaitable[list[Delivery]]]


@pytest.fixture
async def boss(each_resources: Resources) -> Viewer:
    return await person(each_resources, "boss", Role.ADMIN)


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


@pytest.fixture
async def endpoint_id(each_resources: Resources, boss: Viewer, clock: Clock) -> str:
    return (await endpoints.create(each_resources, boss, {"url": URL})).endpoint.id


@pytest.fixture
def some(each_resources: Resources, boss: Viewer, endpoint_id: str, clock: Clock) -> Owe:
    """Four deliveries of a new export, a second after what was before."""

    async def make(to: str = endpoint_id, **values: Any) -> list[Delivery]:
        clock.move(1)
        export = await stored_export(each_resources, boss, Status.SUCCESS, created_at=clock.at)
        return await owe(each_resources, to, export, **values)

    return make


DEAD = {"state": "dead", "failures": 9, "attempts": 9, "next_attempt_at": None, "last_error": "HTTP_5XX"}


async def ids_of(resources: Resources, chosen: DeliveryFilter, limit: int = 99) -> list[str]:
    return [delivery.id for delivery in (await deliveries.list_page(resources, chosen, limit=limit))[0]]


# The log


async def test_the_log_is_paged_by_key_newest_first(each_resources: Resources, some: Owe):
    made = [delivery for _ in range(3) for delivery in await some()]
    expected = [one.id for one in sorted(made, key=lambda one: (one.created_at, one.id), reverse=True)]
    seen: list[str] = []
    after, more = None, True
    while more:
        page, more = await deliveries.list_page(each_resources, DeliveryFilter(), limit=5, after=after)
        assert len(page) <= 5
        seen += [delivery.id for delivery in page]
        after = (page[-1].created_at, page[-1].id)
    assert seen == expected


async def test_the_log_is_filtered(each_resources: Resources, boss: Viewer, some: Owe, clock: Clock):
    other = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint.id
    first, [elsewhere, *_], late = await some(), await some(other), await some()
    await put(each_resources, first[0], state="dead", last_error="TLS")
    await put(each_resources, first[1], state="succeeded")

    async def found(**chosen: Any) -> set[str]:
        return set(await ids_of(each_resources, DeliveryFilter(**chosen)))

    def ids(*some: Delivery) -> set[str]:
        return {delivery.id for delivery in some}

    assert await found(endpoint_id=first[0].endpoint_id) == ids(*first, *late)
    assert await found(export_id=elsewhere.export_id, endpoint_id=other) >= ids(elsewhere)
    assert await found(export_id=elsewhere.export_id, endpoint_id=first[0].endpoint_id) == set()
    assert await found(states=(DeliveryState.DEAD, DeliveryState.SUCCEEDED)) == ids(*first[:2])
    assert await found(error=ErrorClass.TLS) == ids(first[0])
    assert await found(event_types=("export.created",)) == ids(first[0], elsewhere, late[0])
    assert await found(since=late[0].created_at) == ids(*late)
    assert await found(of_its_own=True) == set()
    await put_endpoint(each_resources, other, export_id=elsewhere.export_id)
    assert await found(of_its_own=True, export_id=elsewhere.export_id) >= ids(elsewhere)


async def test_a_delivery_is_shown_with_its_attempts(each_resources: Resources, some: Owe, clock: Clock):
    delivery, untried, *_ = await some()
    await attempt(each_resources, delivery, clock.at + SECOND, number=2)
    await attempt(each_resources, delivery, clock.at, number=1, error="HTTP_5XX")
    await attempt(each_resources, delivery, clock.at + 2 * SECOND, number=3, finished_at=None)
    found, attempts = await deliveries.get(each_resources, delivery.id)
    assert (found.id, [one.number for one in attempts]) == (delivery.id, [1, 2, 3])
    failed, good, under_way = (one.answer for one in attempts)
    assert failed is not None
    assert good is not None
    assert (failed.error, failed.status, good.error, good.body) == (ErrorClass.HTTP_5XX, 500, None, "ok")
    assert under_way is None
    assert (await deliveries.get(each_resources, untried.id))[1] == []


@pytest.mark.parametrize("delivery_id", ["dlv_00000000000000000000000000", "exp_x", "", "dlv_\0"])
async def test_what_is_not_there_is_not_found(each_resources: Resources, boss: Viewer, delivery_id: str):
    with pytest.raises(NotFound):
        await deliveries.get(each_resources, delivery_id)
    with pytest.raises(NotFound):
        await deliveries.redeliver(each_resources, boss, delivery_id)


# Redelivery


@pytest.mark.parametrize("state", ["dead", "succeeded", "pending"])
async def test_a_redelivery_begins_a_new_round(
    each_resources: Resources, boss: Viewer, some: Owe, clock: Clock, state: str
):
    delivery, *_ = await some(**(DEAD | {"state": state}), completed_at=clock.at)
    clock.move(60)
    after = await deliveries.redeliver(each_resources, boss, delivery.id)
    assert (after.state, after.failures, after.completed_at) == (DeliveryState.PENDING, 0, None)
    assert (after.next_attempt_at, after.attempts, after.event_id) == (clock.at, 9, delivery.event_id)
    assert await audited(each_resources, "deliveries") == [("deliveries.redelivered", delivery.id, {"count": 1})]


async def test_what_is_being_sent_is_left_alone(each_resources: Resources, boss: Viewer, some: Owe, clock: Clock):
    delivery, *_ = await some(lease_token="worker", lease_until=clock.at + timedelta(seconds=45), failures=2)
    chosen = DeliveryFilter(endpoint_id=delivery.endpoint_id)
    assert await deliveries.redeliver(each_resources, boss, delivery.id) == delivery
    assert await deliveries.count_matching(each_resources, chosen) == 0
    assert await deliveries.redeliver_matching(each_resources, boss, chosen) == 0
    assert await audited(each_resources, "deliveries.redelivered") == [
        ("deliveries.redelivered", delivery.endpoint_id, {"count": 0, "endpoint": delivery.endpoint_id})
    ]
    clock.move(45)  # its worker died
    assert (await deliveries.redeliver(each_resources, boss, delivery.id)).failures == 0


async def test_what_was_cancelled_stays_so(each_resources: Resources, boss: Viewer, some: Owe):
    delivery, finished, *_ = await some()
    await put(each_resources, finished, state="succeeded")
    await endpoints.delete(each_resources, boss, delivery.endpoint_id)
    with pytest.raises(CannotRedeliver):
        await deliveries.redeliver(each_resources, boss, delivery.id)
    chosen = DeliveryFilter(endpoint_id=delivery.endpoint_id)
    assert await deliveries.count_matching(each_resources, chosen) == 0
    assert await deliveries.redeliver_matching(each_resources, boss, chosen) == 0
    assert (await deliveries.redeliver(each_resources, boss, finished.id)).state is DeliveryState.SUCCEEDED


async def test_all_that_match_are_owed_again_batch_by_batch(
    each_resources: Resources, boss: Viewer, some: Owe, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(deliveries, "BATCH", 3)
    early, dead, fine = await some(**DEAD), [*await some(**DEAD), *await some(**DEAD)], await some(state="succeeded")
    chosen = DeliveryFilter(states=(DeliveryState.DEAD,), since=dead[0].created_at)
    assert await deliveries.count_matching(each_resources, chosen) == 8
    assert await deliveries.redeliver_matching(each_resources, boss, chosen) == 8
    assert await deliveries.count_matching(each_resources, chosen) == 0
    assert {(await stored(each_resources, one.id)).failures for one in dead} == {0}
    assert [await stored(each_resources, one.id) for one in (*early, *fine)] == [*early, *fine]
    [(_, subject, details)] = await audited(each_resources, "deliveries.redelivered")
    assert (subject, details["count"], details["states"]) == ("deliveries", 8, ["dead"])


async def test_what_is_already_pending_is_matched_once(
    each_resources: Resources, boss: Viewer, some: Owe, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(deliveries, "BATCH", 2)
    made = [*await some(), *await some()]
    assert await deliveries.redeliver_matching(each_resources, boss, DeliveryFilter()) == len(made)


async def test_selected_ones_are_owed_again(each_resources: Resources, boss: Viewer, some: Owe):
    first, second, third, _ = await some(**DEAD)
    await put(each_resources, third, state="succeeded")
    chosen, ids = DeliveryFilter(states=(DeliveryState.DEAD,)), [first.id, third.id, "dlv_nothing", first.id]
    assert await deliveries.redeliver_matching(each_resources, boss, chosen, ids=ids) == 1
    assert await deliveries.redeliver_matching(each_resources, boss, DeliveryFilter(), ids=[]) == 0
    assert (await stored(each_resources, second.id)).state is DeliveryState.DEAD


async def test_two_at_once_owe_each_once(each_resources: Resources, boss: Viewer, some: Owe):
    await some(**DEAD)
    chosen = DeliveryFilter(states=(DeliveryState.DEAD,))
    counts = await asyncio.gather(
        *(deliveries.redeliver_matching(each_resources, boss, chosen) for _ in range(3)), return_exceptions=True
    )
    assert max(count for count in counts if isinstance(count, int)) == 4
    assert await deliveries.count_matching(each_resources, DeliveryFilter(states=(DeliveryState.PENDING,))) == 4


async def test_open_pages_hear_of_each_endpoint(each_resources: Resources, boss: Viewer, some: Owe):
    other = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint.id
    [one, *_], _ = await some(), await some(other)
    async with bus.listen(each_resources.redis, bus.CHANNEL) as messages:
        await deliveries.redeliver_matching(each_resources, boss, DeliveryFilter())
        heard = [await messages.get_message(timeout=2) for _ in range(3)]
    hints = {hint.export_id for message in heard if message and (hint := bus.decode(message))}
    assert hints == {one.endpoint_id, other}


# Recovery


async def test_a_recovery_owes_anew_what_failed_since(
    each_resources: Resources, boss: Viewer, some: Owe, clock: Clock, endpoint_id: str
):
    early = await some(**DEAD)
    dead, failing, waiting, fine = (
        await some(**DEAD),
        await some(failures=2, next_attempt_at=clock.at + timedelta(hours=10)),
        await some(),
        await some(state="succeeded"),
    )
    await put_endpoint(each_resources, endpoint_id, disabled_at=clock.at, disabled_reason="FAILING", failures_in_row=99)
    since = dead[0].created_at
    assert await deliveries.count_recoverable(each_resources, endpoint_id, since=since) == 8
    assert await deliveries.recover(each_resources, boss, endpoint_id, since=since) == 8
    assert await deliveries.count_recoverable(each_resources, endpoint_id, since=since) == 0
    after = [await stored(each_resources, one.id) for one in (*dead, *failing)]
    assert {(one.state, one.failures, one.next_attempt_at) for one in after} == {(DeliveryState.PENDING, 0, clock.at)}
    others = [*early, *waiting, *fine]
    assert [await stored(each_resources, one.id) for one in others] == others
    endpoint = await endpoints.get(each_resources, endpoint_id)
    assert (endpoint.state, endpoint.failures_in_row) == (EndpointState.ACTIVE, 0)
    log = await audited(each_resources, "endpoint.re")
    assert ("endpoint.recovered", endpoint_id, {"count": 8, "since": since.isoformat()}) in log
    assert ("endpoint.resumed", endpoint_id, {}) in log


async def test_a_recovery_leaves_a_paused_one_paused(
    each_resources: Resources, boss: Viewer, some: Owe, clock: Clock, endpoint_id: str
):
    [dead, *_] = await some(**DEAD)
    await endpoints.pause(each_resources, boss, endpoint_id)
    assert await deliveries.recover(each_resources, boss, endpoint_id, since=dead.created_at) == 4
    assert (await endpoints.get(each_resources, endpoint_id)).state is EndpointState.PAUSED
    assert not any(action == "endpoint.resumed" for action, *_ in await audited(each_resources))


async def test_a_recovery_needs_an_endpoint(each_resources: Resources, boss: Viewer, clock: Clock):
    with pytest.raises(NotFound):
        await deliveries.recover(each_resources, boss, "end_00000000000000000000000000", since=clock.at)
    with pytest.raises(NotFound):
        await deliveries.count_recoverable(each_resources, "end_00000000000000000000000000", since=clock.at)


# The sweep


def to_its_turn(clock: Clock) -> None:
    clock.move(UNUSED_EVERY - clock.at.timestamp() % UNUSED_EVERY)


async def swept(resources: Resources) -> dict[str, int]:
    return {name: count for name, count in (await sweep(resources)).items() if count}


async def endpoints_left(resources: Resources) -> set[str]:
    async with resources.store.connection():
        return {row["id"] for row in await resources.store.fetch_all(select(tables.endpoints.c.id))}


async def gone_export(resources: Resources, export_id: str) -> None:
    async with resources.store.transaction():
        export = await export_rows.get(resources.store, export_id)
        assert isinstance(export, Export)
        await export_rows.remove(resources.store, export)


async def test_deliveries_go_with_their_events(each_resources: Resources, some: Owe, clock: Clock):
    await some(state="succeeded")
    owed = await some()
    clock.move(each_resources.settings.event_retention.total_seconds() + 1)
    async with each_resources.store.transaction():
        await events.purge(each_resources.store, before=clock.at, limit=99)
    assert set(await ids_of(each_resources, DeliveryFilter())) == {delivery.id for delivery in owed}


async def test_an_endpoint_of_an_export_that_is_gone_goes_when_all_is_over(
    each_resources: Resources, boss: Viewer, some: Owe, clock: Clock, endpoint_id: str
):
    own = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint.id
    made = await some(own, state="succeeded")
    await put(each_resources, made[0], state="pending")
    await put_endpoint(each_resources, own, export_id=made[0].export_id)
    to_its_turn(clock)
    assert "endpoints deleted" not in await swept(each_resources)
    await gone_export(each_resources, made[0].export_id)
    to_its_turn(clock)
    assert "endpoints deleted" not in await swept(each_resources)
    await put(each_resources, made[0], state="dead")
    to_its_turn(clock)
    assert (await swept(each_resources))["endpoints deleted"] == 1
    assert await endpoints_left(each_resources) == {endpoint_id}


async def test_the_row_of_a_deleted_endpoint_goes_with_its_last_delivery(
    each_resources: Resources, boss: Viewer, some: Owe, clock: Clock, endpoint_id: str
):
    [delivery, *_] = await some()
    await endpoints.delete(each_resources, boss, endpoint_id)
    to_its_turn(clock)
    await swept(each_resources)
    assert await endpoints_left(each_resources) == {endpoint_id}
    async with each_resources.store.transaction():
        await each_resources.store.execute(tables.events.delete())
    to_its_turn(clock)
    await swept(each_resources)
    assert await endpoints_left(each_resources) == set()
    with pytest.raises(NotFound):
        await deliveries.get(each_resources, delivery.id)


async def test_the_sweep_drops_secrets_that_ended(
    each_resources: Resources, boss: Viewer, clock: Clock, endpoint_id: str
):
    await endpoint_secrets.rotate(each_resources, boss, endpoint_id, overlap=timedelta(hours=1))
    clock.move(3600)
    to_its_turn(clock)
    assert await swept(each_resources) == {"secrets dropped": 1}
    assert len((await endpoints.get(each_resources, endpoint_id)).secrets) == 1
