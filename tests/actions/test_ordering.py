"""Ordering: the same order is one export, keys, quotas, mistakes, and a broker that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from factories import changed
from fresh_stores import Clock, person
from sqlalchemy import func, select

from webapp import queue
from webapp.actions import attempts, sweep
from webapp.actions import exports as actions
from webapp.actions.exports import KeyReused, Order, order_key
from webapp.datasets.declaration import Parameter, ParameterType
from webapp.domain.access import NotFound, QuotaExceeded, Role, Viewer
from webapp.domain.errors import Invalid
from webapp.domain.exports import Export, Status
from webapp.domain.formats import API_DEFAULTS, PERSON_DEFAULTS
from webapp.resources import Resources, open_catalog, open_resources
from webapp.store import events, tables
from webapp.store import exports as rows

DAY = 24 * 3600


def things(dataset: str = "things", /, *, format: str = "csv", options: Mapping[str, Any] = {}, **params: Any) -> Order:
    return Order(dataset, params, format, options)


async def order(resources: Resources, viewer: Viewer, wanted: Order, *, key: str | None = None) -> tuple[Export, bool]:
    return await actions.order(resources, viewer, wanted, defaults=API_DEFAULTS, idempotency_key=key)


async def count(resources: Resources, table: Any) -> int:
    return int(await resources.store.fetch_val(select(func.count()).select_from(table)))


async def event_types(resources: Resources, export: Export) -> list[str]:
    return [event.type for event in await events.page(resources.store, export_id=export.id)]


@asynccontextmanager
async def without_broker(resources: Resources) -> AsyncIterator[Resources]:
    redis = queue.connect("unix:///nowhere/redis.sock")
    yield replace(resources, redis=redis)
    await redis.aclose(close_connection_pool=True)


async def test_an_order_is_written_queued_and_handed_to_a_worker(each_resources: Resources, writer: Viewer):
    export, is_new = await order(each_resources, writer, things(search="é"))
    assert is_new
    assert (export.status, export.version, export.owner) == (Status.QUEUED, 2, writer.id)
    assert export.params == {"search": "é", "most": None}
    assert export.options == {"bom": False, "csv_text": "raw", "delimiter": ",", "compression": "none"}
    assert await rows.get(each_resources.store, export.id) == export
    assert await event_types(each_resources, export) == ["export.created", "export.queued"]
    assert await each_resources.redis.exists(f"arq:job:{queue.job_id(export)}")


async def test_a_persons_defaults_are_part_of_the_order(each_resources: Resources, writer: Viewer):
    export, _ = await actions.order(each_resources, writer, things(), defaults=PERSON_DEFAULTS)
    assert (export.options["bom"], export.options["csv_text"]) == (True, "safe")


# Idempotence


async def test_the_same_order_twice_is_one_export(each_resources: Resources, writer: Viewer):
    first, _ = await order(each_resources, writer, things(search="a", most=5))
    again, is_new = await order(each_resources, writer, things(most="5", search="a"))
    assert (again.id, is_new) == (first.id, False)
    assert await count(each_resources, tables.exports) == 1
    assert await count(each_resources, tables.events) == 2


@pytest.mark.parametrize(
    "different", [things(search="b"), things(format="jsonl"), things(options={"bom": True}), things("slow")]
)
async def test_a_different_order_is_another_export(each_resources: Resources, writer: Viewer, different: Order):
    first, _ = await order(each_resources, writer, things())
    second, is_new = await order(each_resources, writer, different)
    assert is_new
    assert first.id != second.id


async def test_the_same_order_of_two_people_is_two_exports(each_resources: Resources, writer: Viewer):
    first, _ = await order(each_resources, writer, things())
    second, is_new = await order(each_resources, await person(each_resources, "somebody"), things())
    assert is_new
    assert first.id != second.id


@pytest.mark.parametrize("key", [None, "one-key"])
async def test_twenty_identical_orders_at_once_are_one_export(
    each_resources: Resources, writer: Viewer, key: str | None
):
    answers = await asyncio.gather(*(order(each_resources, writer, things(), key=key) for _ in range(20)))
    assert len({export.id for export, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1
    assert await count(each_resources, tables.exports) == 1
    assert await event_types(each_resources, answers[0][0]) == ["export.created", "export.queued"]


async def test_once_it_has_ended_the_same_order_is_a_new_export(each_resources: Resources, writer: Viewer):
    first, _ = await order(each_resources, writer, things())
    await actions.cancel(each_resources, writer, first.id)
    second, is_new = await order(each_resources, writer, things())
    assert is_new
    assert second.id != first.id


def test_the_order_key_does_not_depend_on_the_order_of_names():
    one = order_key("usr_1", "things", {"a": 1, "b": {"c": 2, "d": 3}}, "csv", {"x": 1, "y": 2})
    assert one == order_key("usr_1", "things", {"b": {"d": 3, "c": 2}, "a": 1}, "csv", {"y": 2, "x": 1})
    assert one != order_key("usr_2", "things", {"a": 1, "b": {"c": 2, "d": 3}}, "csv", {"x": 1, "y": 2})


# Idempotency-Key


async def test_the_same_key_and_body_give_the_same_export_even_when_it_has_ended(
    each_resources: Resources, writer: Viewer
):
    first, _ = await order(each_resources, writer, things(), key="k")
    await actions.cancel(each_resources, writer, first.id)
    again, is_new = await order(each_resources, writer, things(), key="k")
    assert (again.id, again.status, is_new) == (first.id, Status.CANCELLED, False)


async def test_the_same_key_and_a_different_body_is_refused_and_nothing_written(
    each_resources: Resources, writer: Viewer
):
    await order(each_resources, writer, things(), key="k")
    with pytest.raises(KeyReused):
        await order(each_resources, writer, things(search="other"), key="k")
    assert await count(each_resources, tables.exports) == 1


async def test_a_key_is_forgotten_after_a_day(each_resources: Resources, writer: Viewer):
    clock = await Clock.of(each_resources.store)
    first, _ = await order(each_resources, writer, things(), key="k")
    clock.move(DAY)
    with pytest.raises(KeyReused):
        await order(each_resources, writer, things(search="other"), key="k")
    clock.move(0.001)
    second, is_new = await order(each_resources, writer, things(search="other"), key="k")
    assert is_new
    assert second.id != first.id
    assert (await order(each_resources, writer, things(search="other"), key="k"))[0].id == second.id


async def test_two_keys_on_one_order_give_one_export(each_resources: Resources, writer: Viewer):
    first, _ = await order(each_resources, writer, things(), key="k1")
    second, is_new = await order(each_resources, writer, things(), key="k2")
    third, _ = await order(each_resources, writer, things())
    assert (first.id, is_new) == (second.id, False)
    assert third.id == first.id
    with pytest.raises(KeyReused):
        await order(each_resources, writer, things(search="other"), key="k2")


async def test_the_same_order_written_differently_is_no_reuse(each_resources: Resources, writer: Viewer):
    first, _ = await order(each_resources, writer, things(most=5), key="k")
    again, _ = await order(each_resources, writer, things(most="5", search=None, options={"bom": False}), key="k")
    assert again.id == first.id


async def test_keys_of_two_people_have_nothing_to_do_with_each_other(each_resources: Resources, writer: Viewer):
    somebody = await person(each_resources, "somebody")
    await order(each_resources, writer, things(), key="k")
    _, is_new = await order(each_resources, somebody, things(search="other"), key="k")
    assert is_new


async def test_a_key_whose_export_was_deleted_gives_a_new_export(each_resources: Resources, writer: Viewer):
    first, _ = await order(each_resources, writer, things(), key="k")
    await actions.cancel(each_resources, writer, first.id)
    await actions.delete(each_resources, writer, first.id)
    second, is_new = await order(each_resources, writer, things(), key="k")
    assert is_new
    assert second.id != first.id


async def test_a_key_holds_for_the_same_body_although_now_has_moved(each_resources: Resources, writer: Viewer):
    """A default such as `now - 1h` means another moment a second later; the client sent the same body."""
    catalog = open_catalog(each_resources.settings)
    since = Parameter("since", ParameterType.DATETIME, "Since", required=False, default="now - 1h")
    dataset = catalog.datasets["things"]
    moving = replace(dataset, parameters=(*dataset.parameters, since))
    resources = each_resources.with_catalog(replace(catalog, datasets={"things": moving}))
    clock = await Clock.of(resources.store)
    first, _ = await order(resources, writer, things(), key="k")
    assert first.params["since"] is not None
    clock.move(5)
    again, is_new = await order(resources, writer, things(), key="k")
    assert (again.id, is_new) == (first.id, False)


# Quotas


def with_limits(resources: Resources, **limits: int) -> Resources:
    return replace(resources, settings=replace(resources.settings, **limits))


async def test_over_the_quota_is_refused_with_when_to_try_again(each_resources: Resources, writer: Viewer):
    resources = with_limits(each_resources, max_active_per_user=2)
    first, _ = await order(resources, writer, things(search="1"))
    await order(resources, writer, things(search="2"), key="k")
    with pytest.raises(QuotaExceeded, match="2 exports waiting or running; the limit is 2") as refused:
        await order(resources, writer, things(search="3"))
    assert refused.value.retry_after > 0
    assert await count(resources, tables.exports) == 2
    assert not (await order(resources, writer, things(search="2"), key="k"))[1]
    assert not (await order(resources, writer, things(search="1")))[1]
    await order(resources, await person(resources, "somebody"), things(search="3"))
    await actions.cancel(resources, writer, first.id)
    assert (await order(resources, writer, things(search="3")))[1]


async def test_the_quota_holds_against_many_orders_at_once(each_resources: Resources, writer: Viewer):
    resources = with_limits(each_resources, max_active_per_user=3)
    answers = await asyncio.gather(
        *(order(resources, writer, things(search=str(n))) for n in range(12)), return_exceptions=True
    )
    assert sum(isinstance(answer, QuotaExceeded) for answer in answers) == 9
    assert await count(resources, tables.exports) == 3


async def test_a_retry_counts_towards_the_quota(each_resources: Resources, writer: Viewer):
    resources = with_limits(each_resources, max_active_per_user=1)
    export, _ = await order(resources, writer, things())
    await changed(resources, export, status=Status.FAILED, version=export.version + 1)
    await order(resources, writer, things(search="other"))
    with pytest.raises(QuotaExceeded):
        await actions.retry(resources, writer, export.id)


# Mistakes


async def test_all_mistakes_are_told_at_once_and_nothing_is_written(each_resources: Resources, writer: Viewer):
    wrong = things(options={"bom": "perhaps", "nothing": 1}, most="many", unknown=1)
    with pytest.raises(Invalid) as refused:
        await order(each_resources, writer, wrong)
    found = {error.field for error in refused.value.errors}
    assert found == {"params.most", "params.unknown", "options.bom", "options.nothing"}
    assert all(error.message for error in refused.value.errors)
    assert await count(each_resources, tables.exports) == await count(each_resources, tables.events) == 0


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (things("nothing"), "dataset"),
        (things("x" * 10_000), "dataset"),
        (things("secret"), "dataset"),
        (things(format="pdf"), "format"),
        (things(most=0), "params.most"),
        (things(most=1001), "params.most"),
        (things(most=1.5), "params.most"),
        (things(search=["a"]), "params.search"),
    ],
)
async def test_each_mistake_is_told_by_its_field(each_resources: Resources, writer: Viewer, wrong: Order, field: str):
    with pytest.raises(Invalid) as refused:
        await order(each_resources, writer, wrong)
    assert [error.field for error in refused.value.errors] == [field]
    assert len(refused.value.errors[0].message) < 500
    assert await count(each_resources, tables.exports) == 0


async def test_a_dataset_for_admins_looks_like_none_to_others(each_resources: Resources, writer: Viewer):
    boss = await person(each_resources, "boss", Role.ADMIN)
    assert (await order(each_resources, boss, things("secret")))[1]
    messages = []
    for name in ("secret", "nosuch"):
        with pytest.raises(Invalid) as refused:
            await order(each_resources, writer, things(name))
        messages.append(refused.value.errors[0].message.replace(name, "…"))
    assert messages[0] == messages[1]


# Handing over, and a broker that is away


async def test_handing_over_twice_is_once(each_resources: Resources, writer: Viewer):
    export, _ = await order(each_resources, writer, things())
    assert await actions.hand_over(each_resources, export.id) == export
    with pytest.raises(NotFound):
        await actions.hand_over(each_resources, "exp_nothing")


async def test_handing_over_does_not_wake_what_was_cancelled(each_resources: Resources, writer: Viewer):
    export, _ = await order(each_resources, writer, things())
    cancelled = await actions.cancel(each_resources, writer, export.id)
    assert await actions.hand_over(each_resources, export.id) == cancelled


async def test_without_a_broker_the_order_is_taken_and_the_sweep_wakes_a_worker_later(
    each_resources: Resources, writer: Viewer
):
    clock = await Clock.of(each_resources.store)
    async with without_broker(each_resources) as resources:
        export, is_new = await order(resources, writer, things())
        assert (export.status, is_new) == (Status.QUEUED, True)
        clock.move(60)
        assert (await sweep.sweep(resources))["woken"] == 0
    assert not await each_resources.redis.keys("arq:job:*")
    assert (await sweep.sweep(each_resources))["woken"] == 1
    assert await each_resources.redis.keys(f"arq:job:export:{export.id}:1*")
    claimed = await attempts.claim(each_resources)
    assert claimed is not None
    assert claimed.id == export.id


async def test_an_order_is_durable_when_the_process_dies_right_after_it(
    each_resources: Resources, writer: Viewer, monkeypatch: pytest.MonkeyPatch
):
    async def die(*_: Any) -> Export:
        raise SystemExit

    monkeypatch.setattr(actions, "hand_over", die)
    with pytest.raises(SystemExit):
        await order(each_resources, writer, things())
    monkeypatch.undo()
    async with open_resources(each_resources.settings) as reopened:
        (export,) = await rows.list_page(reopened.store, rows.ListFilter(), limit=9, after=None)
        assert export.status is Status.PENDING
        clock = await Clock.of(reopened.store)
        clock.move(6)
        assert (await sweep.sweep(reopened))["queued"] == 1
        assert await event_types(reopened, export) == ["export.created", "export.queued"]
