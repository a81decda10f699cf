"""The outbox: an event and the deliveries it owes are there together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from factories import history, new_export
from sqlalchemy import func, select, update

from webapp.actions import outbox
from webapp.domain.access import Viewer
from webapp.domain.callbacks import Delivery, DeliveryState, Endpoint, EndpointSettings, Secret
from webapp.domain.exports import Export, Status
from webapp.domain.ids import new_id
from webapp.domain.signing import new_secret
from webapp.resources import Resources
from webapp.store import deliveries, endpoints, events, exports, tables


async def register(resources: Resources, *, export_id: str | None = None, **chosen: Any) -> Endpoint:
    now = await resources.store.now()
    settings = EndpointSettings("https://example.com/hook", **chosen)
    endpoint = Endpoint(new_id("end"), settings, (Secret(new_secret(), now),), "usr_1", now, now, export_id=export_id)
    async with resources.store.transaction():
        await endpoints.add(resources.store, endpoint, resources.sealer)
    return endpoint


async def mark(resources: Resources, endpoint: Endpoint, **values: Any) -> None:
    query = update(tables.endpoints).where(tables.endpoints.c.id == endpoint.id).values(**values)
    await resources.store.execute(query)


async def ordered(resources: Resources, writer: Viewer, **changes: Any) -> Export:
    """A new order, with its event and whatever that owes."""
    now = await resources.store.now()
    export = new_export(writer.id, now, **changes)
    async with resources.store.transaction():
        await exports.insert(resources.store, export)
        await outbox.record(resources, export, at=now)
    return export


async def finished(resources: Resources, export: Export, status: Status) -> Export:
    """With an event for each step on the way."""
    now = await resources.store.now()
    before, *steps = history(export, status, now)
    for step in steps:
        async with resources.store.transaction():
            assert await exports.compare_and_set(resources.store, before, step)
            await outbox.record(resources, step, at=now)
        before = step
    return before


async def owed(resources: Resources) -> Sequence[Delivery]:
    table = tables.deliveries
    rows = await resources.store.fetch_all(select(table).order_by(table.c.created_at, table.c.id))
    return [deliveries.from_row(row) for row in rows]


async def receivers(resources: Resources) -> list[str]:
    return sorted(delivery.endpoint_id for delivery in await owed(resources))


async def test_every_event_is_owed_to_every_endpoint_at_once(each_resources: Resources, writer: Viewer) -> None:
    both = [await register(each_resources) for _ in range(2)]
    export = await ordered(each_resources, writer)
    (event,) = await events.page(each_resources.store)
    found = await owed(each_resources)
    assert [delivery.endpoint_id for delivery in sorted(found, key=lambda one: one.endpoint_id)] == sorted(
        endpoint.id for endpoint in both
    )
    for delivery in found:
        assert (delivery.event_id, delivery.event_type) == (event.id, "export.created")
        assert (delivery.export_id, delivery.state) == (export.id, DeliveryState.PENDING)
        assert (delivery.next_attempt_at, delivery.created_at) == (event.timestamp, event.timestamp)
        assert (delivery.attempts, delivery.failures, delivery.lease_until) == (0, 0, None)


async def test_each_change_is_owed(each_resources: Resources, writer: Viewer) -> None:
    await register(each_resources)
    await finished(each_resources, await ordered(each_resources, writer), Status.SUCCESS)
    types = {delivery.event_type for delivery in await owed(each_resources)}
    assert types == {"export.created", "export.queued", "export.started", "export.succeeded"}
    assert len(await owed(each_resources)) == 4


async def test_without_endpoints_nothing_is_owed(each_resources: Resources, writer: Viewer) -> None:
    await ordered(each_resources, writer)
    assert (len(await events.page(each_resources.store)), await owed(each_resources)) == (1, [])


async def test_what_is_rolled_back_owes_nothing(each_resources: Resources, writer: Viewer) -> None:
    await register(each_resources)
    now = await each_resources.store.now()
    export = new_export(writer.id, now)

    async def fails_at_the_end() -> None:
        async with each_resources.store.transaction():
            await exports.insert(each_resources.store, export)
            await outbox.record(each_resources, export, at=now)
            assert len(await owed(each_resources)) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails_at_the_end()
    assert await owed(each_resources) == []
    assert await events.page(each_resources.store) == []
    assert await exports.get(each_resources.store, export.id) is None


@pytest.mark.parametrize(
    ("chosen", "types"),
    [
        ({}, {"export.created", "export.queued", "export.started", "export.failed"}),
        ({"event_types": ("export.failed", "export.succeeded")}, {"export.failed"}),
        ({"event_types": ("export.succeeded",)}, set()),
        ({"datasets": ("things",), "event_types": ("export.created",)}, {"export.created"}),
        ({"datasets": ("others", "slow")}, set()),
        ({"datasets": ("others",), "event_types": ("export.created",)}, set()),
    ],
)
async def test_an_endpoint_hears_of_what_it_asked_for(
    each_resources: Resources, writer: Viewer, chosen: dict[str, Any], types: set[str]
) -> None:
    await register(each_resources, **chosen)
    await finished(each_resources, await ordered(each_resources, writer), Status.FAILED)
    assert {delivery.event_type for delivery in await owed(each_resources)} == types


async def test_an_endpoint_of_one_export_hears_of_that_alone(each_resources: Resources, writer: Viewer) -> None:
    export_id = new_id("exp")
    own = await register(each_resources, export_id=export_id)
    everything = await register(each_resources)
    await ordered(each_resources, writer)
    assert await receivers(each_resources) == [everything.id]
    await ordered(each_resources, writer, id=export_id)
    assert await receivers(each_resources) == sorted([everything.id, everything.id, own.id])


async def test_what_is_paused_or_disabled_is_owed_its_own_and_what_is_deleted_is_not(
    each_resources: Resources, writer: Viewer
) -> None:
    paused, disabled, deleted = [await register(each_resources) for _ in range(3)]
    now = await each_resources.store.now()
    await mark(each_resources, paused, paused_at=now)
    await mark(each_resources, disabled, disabled_at=now, disabled_reason="GONE")
    await mark(each_resources, deleted, deleted_at=now)
    await ordered(each_resources, writer)
    assert await receivers(each_resources) == sorted([paused.id, disabled.id])


async def test_an_event_is_owed_to_an_endpoint_once(each_resources: Resources, writer: Viewer) -> None:
    endpoint = await register(each_resources)
    await ordered(each_resources, writer)
    (event,) = await events.page(each_resources.store)
    before = await owed(each_resources)
    async with each_resources.store.transaction():
        await deliveries.add(each_resources.store, [endpoint.id], event, at=event.timestamp + timedelta(hours=1))
    assert await owed(each_resources) == before


async def test_many_endpoints_are_owed_by_one_statement(each_resources: Resources, writer: Viewer) -> None:
    made = [await register(each_resources) for _ in range(60)]
    await ordered(each_resources, writer)
    assert await receivers(each_resources) == sorted(endpoint.id for endpoint in made)


async def test_old_events_go_with_their_deliveries_but_not_while_they_are_owed(
    each_resources: Resources, writer: Viewer
) -> None:
    await register(each_resources, event_types=("export.created", "export.queued"))
    await finished(each_resources, await ordered(each_resources, writer), Status.FAILED)
    created, queued = sorted(await owed(each_resources), key=lambda delivery: delivery.event_type)
    table = tables.deliveries
    done = update(table).where(table.c.id == queued.id).values(state="dead", completed_at=queued.created_at)
    await each_resources.store.execute(done)
    after = created.created_at + timedelta(seconds=1)

    async def purge() -> int:
        async with each_resources.store.transaction():
            return await events.purge(each_resources.store, before=after, limit=100)

    assert await purge() == 3
    assert [event.type for event in await events.page(each_resources.store)] == ["export.created"]
    assert await owed(each_resources) == [created]
    await each_resources.store.execute(update(table).where(table.c.id == created.id).values(state="cancelled"))
    assert await purge() == 1
    assert await each_resources.store.fetch_val(select(func.count()).select_from(table)) == 0


async def test_an_owed_event_holds_no_place_in_the_purges_batch(each_resources: Resources, writer: Viewer) -> None:
    """Else a receiver that is down for long would keep everything."""
    await register(each_resources, event_types=("export.created",))
    await finished(each_resources, await ordered(each_resources, writer), Status.FAILED)
    after = await each_resources.store.now() + timedelta(seconds=1)
    async with each_resources.store.transaction():
        assert await events.purge(each_resources.store, before=after, limit=1) == 1
    assert (await events.page(each_resources.store))[0].type == "export.created"
