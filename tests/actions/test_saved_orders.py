"""Orders that are kept: what is kept of them, who sees them, and taking a deletion back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from webapp.actions import saved_orders
from webapp.actions.exports import Order
from webapp.actions.sweep import sweep
from webapp.datasets.relative import resolve_date
from webapp.domain import limits
from webapp.domain.access import NotFound, Viewer
from webapp.domain.errors import Invalid
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.saved_orders import SavedOrder
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import saved_orders as rows

DAYS = """
[datasets.days]
title = "Days"
source = "shop"
sql = "SELECT id FROM things WHERE made >= :since AND (:until IS NULL OR made <= :until) AND (:search IS NULL OR 1)"

[datasets.days.parameters.since]
type = "date"
label = "Since"
default = "today - 30d"

[datasets.days.parameters.until]
type = "date"
label = "Until"
required = false

[datasets.days.parameters.search]
type = "string"
label = "Search"
required = false
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    assert settings.config is not None
    settings.config.write_text(settings.config.read_text(encoding="utf-8") + DAYS, encoding="utf-8")
    return settings


async def save(
    resources: Resources, viewer: Viewer, name: object = "Monthly", dataset: str = "days", **params: Any
) -> SavedOrder:
    wanted = Order(dataset, params, "csv", {}, zone="Asia/Tokyo")
    return await saved_orders.save(resources, viewer, name, wanted, defaults=API_DEFAULTS)


async def names(resources: Resources, viewer: Viewer) -> list[str]:
    return [saved.name for saved in await saved_orders.list_own(resources, viewer)]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({}, {}),
        ({"since": "", "until": None}, {}),
        ({"since": " start of last month "}, {"since": "start of last month"}),
        ({"since": "2026-01-31", "until": "today - 1d"}, {"since": "2026-01-31", "until": "today - 1d"}),
        ({"search": "today"}, {"search": "today"}),
    ],
)
async def test_words_stay_words_and_what_is_left_out_stays_out(
    resources: Resources, user: Viewer, sent: Mapping[str, Any], kept: Mapping[str, Any]
) -> None:
    saved = await save(resources, user, **sent)
    assert await saved_orders.get(resources, user, saved.id) == saved
    assert saved.params == kept
    assert (saved.zone, saved.options["compression"], saved.name) == ("Asia/Tokyo", "none", "Monthly")


async def test_it_is_ordered_with_the_days_of_today(resources: Resources, user: Viewer) -> None:
    saved = await save(resources, user, since="start of last month", until="end of last month")
    export, is_new = await saved_orders.order(resources, user, saved.id)
    today = (await resources.store.now() + timedelta(hours=9)).date()
    since, until = (resolve_date(words, today) for words in ("start of last month", "end of last month"))
    assert is_new
    assert export.params == {"since": since.isoformat(), "until": until.isoformat(), "search": None}
    assert (since.day, (until + timedelta(days=1)).day, since.month) == (1, 1, until.month)
    assert export.name == "Monthly"
    noted = await saved_orders.get(resources, user, saved.id)
    assert noted.export_id == export.id
    assert noted.ordered_at is not None
    assert await saved_orders.order(resources, user, saved.id) == (export, False)


@pytest.mark.parametrize(
    ("name", "dataset", "params", "fields"),
    [
        ("", "days", {}, ["name"]),
        (None, "days", {}, ["name"]),
        ("x" * 121, "days", {"since": "someday", "no": 1}, ["name", "params.no", "params.since"]),
        ("x", "secret", {}, ["dataset"]),
        ("x", "days", {"since": "now"}, ["params.since"]),
        ("x", "days", {"since": "start of year - 99999d", "until": "today + 99999d"}, []),
    ],
)
async def test_every_mistake_is_named(
    resources: Resources, user: Viewer, name: object, dataset: str, params: dict[str, Any], fields: list[str]
) -> None:
    found: list[str] = []
    try:
        await save(resources, user, name, dataset, **params)
    except Invalid as invalid:
        found = [error.field for error in invalid.errors]
    assert found == fields


async def test_a_name_is_had_once_by_each_person(resources: Resources, user: Viewer, other: Viewer) -> None:
    saved = await save(resources, user)
    await save(resources, other)
    with pytest.raises(Invalid):
        await save(resources, user, " Monthly ")
    second = await save(resources, user, "Weekly")
    with pytest.raises(Invalid):
        await saved_orders.rename(resources, user, second.id, "Monthly")
    assert (await saved_orders.rename(resources, user, saved.id, "Monthly")).name == "Monthly"
    assert await names(resources, user) == ["Monthly", "Weekly"]


async def test_a_deleted_one_comes_back(resources: Resources, user: Viewer) -> None:
    saved = await save(resources, user)
    await saved_orders.delete(resources, user, saved.id)
    assert await names(resources, user) == []
    for act in (saved_orders.get, saved_orders.delete, saved_orders.order):
        with pytest.raises(NotFound):
            await act(resources, user, saved.id)
    assert (await saved_orders.restore(resources, user, saved.id)).id == saved.id
    assert await names(resources, user) == ["Monthly"]
    with pytest.raises(NotFound):
        await saved_orders.restore(resources, user, saved.id)


async def test_it_does_not_come_back_over_a_namesake(resources: Resources, user: Viewer) -> None:
    saved = await save(resources, user)
    await saved_orders.delete(resources, user, saved.id)
    await save(resources, user)
    with pytest.raises(Invalid):
        await saved_orders.restore(resources, user, saved.id)


async def test_after_a_day_it_is_gone_for_good(resources: Resources, user: Viewer) -> None:
    old, new = await save(resources, user, "Old"), await save(resources, user, "New")
    for saved in (old, new):
        await saved_orders.delete(resources, user, saved.id)
    async with resources.store.transaction():
        row = await rows.get(resources.store, old.id)
        assert row is not None
        assert row.deleted_at is not None
        earlier = row.deleted_at - timedelta(seconds=limits.SAVED_ORDER_RESTORABLE + 1)
        await rows.write(resources.store, replace(row, deleted_at=earlier))
    await sweep(resources)
    async with resources.store.connection():
        assert await rows.get(resources.store, old.id) is None
        assert await rows.get(resources.store, new.id) is not None


async def test_there_are_only_so_many(resources: Resources, user: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SAVED_ORDERS_MOST", 2)
    for name in ("a", "b"):
        await save(resources, user, name)
    with pytest.raises(Invalid) as refused:
        await save(resources, user, "c")
    assert refused.value.errors[0].message == saved_orders.FULL


async def test_somebody_elses_is_not_there(resources: Resources, user: Viewer, other: Viewer) -> None:
    saved = await save(resources, user)
    for act in (saved_orders.get, saved_orders.delete, saved_orders.order):
        with pytest.raises(NotFound):
            await act(resources, other, saved.id)
    assert await names(resources, user) == ["Monthly"]


async def test_a_change_keeps_what_was_ordered(resources: Resources, user: Viewer) -> None:
    saved = await save(resources, user, since="today")
    export, _ = await saved_orders.order(resources, user, saved.id)
    wanted = Order("days", {"since": "today - 7d"}, "jsonl", {}, zone="UTC")
    await saved_orders.edit(resources, user, saved.id, "Weekly", wanted, defaults=API_DEFAULTS)
    after = await saved_orders.get(resources, user, saved.id)
    assert (after.name, after.params, after.format, after.zone) == ("Weekly", {"since": "today - 7d"}, "jsonl", "UTC")
    assert (after.export_id, after.created_at) == (export.id, saved.created_at)


async def test_none_comes_back_where_there_is_no_room(
    resources: Resources, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SAVED_ORDERS_MOST", 1)
    deleted = await saved_orders.delete(resources, user, (await save(resources, user, "One")).id)
    await save(resources, user, "Two")
    with pytest.raises(Invalid) as refused:
        await saved_orders.restore(resources, user, deleted.id)
    assert refused.value.errors[0].message == saved_orders.FULL
    assert [saved.name for saved in await saved_orders.list_own(resources, user)] == ["Two"]


async def test_an_admin_who_orders_it_leaves_no_link_to_an_export_of_another(
    resources: Resources, user: Viewer, admin: Viewer
) -> None:
    saved = await save(resources, user)
    export, _ = await saved_orders.order(resources, admin, saved.id)
    assert export.owner == admin.id
    assert (await saved_orders.get(resources, user, saved.id)).export_id is None
