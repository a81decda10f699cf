"""How SQLite finds what lists and sweeps ask for: by an index, in its order, however many rows there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from webapp.domain.callbacks import DeliveryState
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.store import deliveries, delivery_counts, endpoints, events, exports, overview
from webapp.store.deliveries import DeliveryFilter
from webapp.store.exports import ListFilter

AT = datetime(2026, 1, 31, tzinfo=UTC)
FILTERS: dict[str, dict[str, Any]] = {
    "": {},
    "status": {"statuses": (Status.FAILED,)},
    "statuses": {"statuses": (Status.FAILED, Status.CANCELLED)},
    "dataset": {"dataset": "things"},
    "format": {"format": "csv"},
    "since": {"since": AT},
    "dataset, since": {"dataset": "things", "since": AT},
    "status, dataset, format": {"statuses": (Status.FAILED,), "dataset": "things", "format": "csv"},
}


@pytest.fixture
def plans(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The steps of what was asked since, but for the sorting of the few that each of several parts gave."""
    asked: list[str] = []
    run = resources.store._run

    async def note(method: str, query: Any) -> Any:
        asked.append(str(query.compile(dialect=resources.store.database._backend._dialect, compile_kwargs=LITERALLY)))
        return await run(method, query)

    monkeypatch.setattr(resources.store, "_run", note)

    def steps() -> list[str]:
        with sqlite3.connect(resources.store.database.url.database) as connection:
            found = [list(connection.execute(f"EXPLAIN QUERY PLAN {query}")) for query in asked]
        connection.close()
        merged = {(n, parent) for n, rows in enumerate(found) for _, parent, _, step in rows if "SCAN anon" in step}
        return [
            step
            for n, rows in enumerate(found)
            for _, parent, _, step in rows
            if step != "USE TEMP B-TREE FOR ORDER BY" or (n, parent) not in merged
        ]

    return steps


LITERALLY = {"literal_binds": True}


@pytest.mark.parametrize("after", [None, (AT, "exp_1")], ids=["first", "next"])
@pytest.mark.parametrize("owner", ["usr_1", None], ids=["own", "all"])
@pytest.mark.parametrize("chosen", FILTERS.values(), ids=FILTERS)
async def test_a_page_of_the_list_reads_an_index_in_its_order(
    resources: Resources, plans: Callable[[], list[str]], chosen: dict[str, Any], owner: str | None, after: Any
) -> None:
    await exports.list_page(resources.store, ListFilter(owner=owner, **chosen), limit=26, after=after)
    steps = plans()
    assert any("USING INDEX ix_exports_" in step for step in steps)
    assert [step for step in steps if "TEMP B-TREE" in step] == []
    if "dataset" in chosen or "format" in chosen or "statuses" in chosen:
        assert [step for step in steps if "ix_exports_created" in step or "ix_exports_owner_created" in step] == []


@pytest.mark.parametrize("after", [None, (AT, "exp_1")], ids=["first", "next"])
@pytest.mark.parametrize("owner", ["usr_1", None], ids=["own", "all"])
@pytest.mark.parametrize("chosen", FILTERS.values(), ids=FILTERS)
async def test_where_a_page_of_a_search_ends_is_read_from_an_index_alone(
    resources: Resources, plans: Callable[[], list[str]], chosen: dict[str, Any], owner: str | None, after: Any
) -> None:
    await exports.search_end(resources.store, ListFilter(owner=owner, text="x", **chosen), after=after)
    steps = plans()
    assert [step for step in steps if "exports" in step and "USING COVERING INDEX ix_exports_" not in step] == []
    assert [step for step in steps if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda store: exports.past_retention(store, now=AT, limit=200), "ix_exports_file_expires"),
        (lambda store: events.purge(store, before=AT, limit=200), "ix_events_timestamp"),
        (lambda store: events.purge(store, before=AT, limit=200, up_to=7), "ix_events_timestamp"),
    ],
    ids=["files", "events", "events that were sent"],
)
async def test_the_sweep_finds_what_is_past_its_time_by_its_time(
    resources: Resources, plans: Callable[[], list[str]], ask: Callable[[Any], Awaitable[Any]], index: str
) -> None:
    await ask(resources.store)
    steps = plans()
    assert [step for step in steps if index in step]
    assert [step for step in steps if "SCAN exports" in step or "SCAN events" in step] == []
    assert [step for step in steps if "deliveries" in step and "state" in step] == []


BY_STATE = "ix_deliveries_state_created"
BY_ENDPOINT = "ix_deliveries_endpoint_created"
BY_ENDPOINT_AND_STATE = "ix_deliveries_endpoint_state_created"
DEAD, SUCCEEDED = (DeliveryState.DEAD,), (DeliveryState.SUCCEEDED,)


@pytest.mark.parametrize("after", [None, (AT, "dlv_1")], ids=["first", "next"])
@pytest.mark.parametrize(
    ("chosen", "index"),
    [
        (DeliveryFilter(states=DEAD), BY_STATE),
        (DeliveryFilter(states=SUCCEEDED), "ix_deliveries_created"),
        (DeliveryFilter("ep_1"), BY_ENDPOINT),
        (DeliveryFilter("ep_1", states=DEAD), BY_ENDPOINT_AND_STATE),
        (DeliveryFilter("ep_1", states=SUCCEEDED), BY_ENDPOINT),
        (DeliveryFilter("ep_1", states=DEAD, since=AT), BY_ENDPOINT_AND_STATE),
        (DeliveryFilter(export_id="exp_1"), "ix_deliveries_export_created"),
    ],
)
async def test_a_page_of_deliveries_is_read_in_the_order_of_an_index(
    resources: Resources, plans: Callable[[], list[str]], chosen: DeliveryFilter, index: str, after: Any
) -> None:
    await deliveries.list_page(resources.store, chosen, limit=50, after=after)
    [step] = plans()
    assert f"USING INDEX {index} " in f"{step} "


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: delivery_counts.loads_of(store, ["ep_1", "ep_2"]),
        lambda store: deliveries.count(store, DeliveryFilter("ep_1"), at=AT, failing=True),
        lambda store: endpoints.remove_unused(store, limit=100),
    ],
    ids=["loads", "what fails", "unused endpoints"],
)
async def test_what_did_not_succeed_is_counted_without_looking_at_what_did(
    resources: Resources, plans: Callable[[], list[str]], ask: Callable[[Any], Awaitable[Any]]
) -> None:
    await ask(resources.store)
    assert [step for step in plans() if BY_ENDPOINT_AND_STATE in step]


async def test_dead_letters_are_counted_in_an_index_alone(resources: Resources) -> None:
    steps = await resources.store.plain(f"EXPLAIN QUERY PLAN {overview.DEAD_LETTERS}")
    assert [step for *_, step in steps] == [f"SEARCH deliveries USING COVERING INDEX {BY_STATE} (state=?)"]
