"""Doing one thing to all exports that match the list's filters: counted first, then done to those that were there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from factories import changed
from pages.dom import nodes, parsed, text, texts

from webapp.actions import exports as actions
from webapp.actions import matching
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Status
from webapp.pages import selection
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import ListFilter

ExportMaker = Callable[..., Awaitable[Export]]


async def ask(client: httpx.AsyncClient, deed: str, back: str = "") -> httpx.Response:
    return await client.post("/exports/selection", data={"matching": deed, "back": back})


async def confirm(client: httpx.AsyncClient, question: httpx.Response) -> list[str]:
    """Sends the question's own form; the messages of the list that follows."""
    fields = {f.attributes["name"]: f.attributes["value"] for f in parsed(question).css("main form input")}
    answer = await client.post("/exports/selection", data=fields)
    assert answer.status_code == 303
    return texts(await client.get(answer.headers["location"]), "[role=status] .flash")


async def statuses(resources: Resources, *made: Export) -> list[Status | None]:
    found = {export.id: export.status for export in await rows.any_of(resources.store, [one.id for one in made])}
    return [found.get(export.id) for export in made]


async def test_the_list_offers_it_without_scripts(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    await make_export(Status.FAILED)
    assert text(await client.get("/exports"), ".matching summary") == "All of them…"
    page = await client.get("/exports?status=failed")
    assert text(page, ".matching summary") == "All that match…"
    buttons = nodes(page, ".list .matching button[name=matching]")
    assert [button.attributes["value"] for button in buttons] == ["cancel", "retry", "delete"]


@pytest.mark.parametrize(
    ("deed", "heading", "left"),
    [
        ("cancel", "Cancel 2 exports?", ["1 export: the status is failed", "3 exports: the status is ready"]),
        (
            "retry",
            "Try 1 export again?",
            ["1 export: the status is queued", "1 export: the status is running", "3 exports: the status is ready"],
        ),
        ("delete", "Delete 4 exports?", ["1 export: the status is queued", "1 export: the status is running"]),
    ],
)
async def test_it_counts_first_and_says_why_some_are_left(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, deed: str, heading: str, left: list[str]
) -> None:
    made = [await make_export(s) for s in (Status.QUEUED, Status.PROCESSING, Status.FAILED, *[Status.SUCCESS] * 3)]
    question = await ask(client, deed)
    assert (question.status_code, text(question, "h1")) == (200, heading)
    assert sorted(texts(question, ".left-reasons li")) == left
    assert await statuses(resources, *made) == [export.status for export in made], "nothing is done yet"


async def test_deleting_goes_by_the_filters_past_the_first_page(
    client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer, resources: Resources,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(matching, "BATCH", 2)
    made = [await make_export(Status.FAILED) for _ in range(5)]
    kept = [await make_export(Status.SUCCESS), await make_export(Status.FAILED, owner=other)]
    question = await ask(client, "delete", f"status=failed&all=1&cursor=5-{made[0].id}")
    assert await confirm(client, question) == ["5 exports deleted."]
    assert await statuses(resources, *made) == [None] * 5
    assert await statuses(resources, *kept) == [Status.SUCCESS, Status.FAILED]


async def test_cancelling_all(client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources) -> None:
    made = [await make_export(s) for s in (Status.PENDING, Status.QUEUED, Status.PROCESSING)]
    assert await confirm(client, await ask(client, "cancel")) == ["3 exports cancelled."]
    assert await statuses(resources, *made) == [Status.CANCELLED] * 3


async def test_retrying_minds_repeated_orders_the_quota_and_what_timed_out(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    object.__setattr__(resources, "settings", replace(resources.settings, max_active_per_user=3))
    await make_export(Status.QUEUED, order_key="busy")
    now = await resources.store.now()
    for age, key in enumerate(("b", "a", "a", "busy"), start=1):
        await make_export(Status.FAILED, order_key=key, created_at=now - timedelta(minutes=age))
    expired = await make_export(Status.EXPIRED, order_key="c")
    timeout = export_error(ErrorCode.TIMEOUT, limit="30 min")
    await changed(resources, expired, completed_at=None, error=timeout)
    await make_export(order_key="old", aged_out=True)
    question = await ask(client, "retry")
    assert text(question, "h1") == "Try 2 exports again?"
    assert sorted(texts(question, ".left-reasons li")) == [
        "1 export: no more may be waiting or running at once",
        "1 export: the status is expired",
        "1 export: the status is queued",
        "2 exports: the same order is waiting or running, or is tried again already",
    ]
    assert await confirm(client, question) == [
        "2 exports put back in the queue.",
        "2 exports left as before: you have as many exports waiting or running as you may have.",
        "1 export left as before: the same order is already waiting or running.",
    ]


async def test_what_came_or_ended_after_the_question_is_left(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    ready, running = await make_export(Status.SUCCESS), await make_export(Status.PROCESSING)
    question = await ask(client, "delete")
    later = await resources.store.now() + timedelta(seconds=1)
    await changed(resources, running, status=Status.FAILED, completed_at=later)
    new = await make_export(Status.SUCCESS, created_at=later)
    assert await confirm(client, question) == [
        "1 export deleted.",
        "1 export left as before: ended only after you were asked.",
    ]
    assert await statuses(resources, ready, running, new) == [None, Status.FAILED, Status.SUCCESS]


async def test_when_the_time_is_up_it_says_how_many_are_left(
    client: httpx.AsyncClient, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "SECONDS", 0.0)
    for _ in range(3):
        await make_export(Status.CANCELLED)
    assert await confirm(client, await ask(client, "delete")) == [
        "1 export deleted.",
        "That took long enough for one go: 2 exports left for the next. Do it once more.",
    ]


async def test_nothing_is_held_while_one_is_at_work(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first is deleted, somebody else writes."""
    made = [await make_export(Status.FAILED) for _ in range(2)]
    written: list[bool] = []

    async def delete(desk: Any, who: Viewer, export_id: str) -> None:
        async with resources.store.transaction():
            written.append(await rows.exists_any(resources.store, who.id))
        await actions.delete(desk, who, export_id)

    monkeypatch.setattr(selection, "ACTS", {**selection.ACTS, matching.Deed.DELETE: delete})
    assert await confirm(client, await ask(client, "delete")) == ["2 exports deleted."]
    assert len(written) == len(made)


async def test_an_admin_is_told_that_everybodys_are_meant(
    admin_client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer, resources: Resources
) -> None:
    theirs = await make_export(Status.QUEUED, owner=other)
    assert text(await ask(admin_client, "cancel"), "h1") == "Nothing can be done"
    question = await ask(admin_client, "cancel", "all=1")
    assert text(question, "form strong") == "Everybody’s are among them, not only yours."
    assert await confirm(admin_client, question) == ["1 export cancelled."]
    assert await statuses(resources, theirs) == [Status.CANCELLED]


async def test_what_means_nothing(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS)
    assert (await ask(client, "explode")).status_code == 422
    fields = {"matching": "delete", "confirmed": "1", "before": "soon"}
    unsure = await client.post("/exports/selection", data=fields)
    assert text(unsure, "h1") == "Delete 1 export?"
    empty = await ask(client, "delete", "status=failed")
    assert (text(empty, "h1"), nodes(empty, "main form button")) == ("Nothing can be done", [])
    assert (await client.get(f"/exports/{export.id}")).status_code == 200


@pytest.mark.parametrize("deed", list(matching.Deed))
async def test_counting_and_doing_agree(make_export: ExportMaker, resources: Resources, deed: matching.Deed) -> None:
    for status in Status:
        await make_export(status)
    before = (await resources.store.now() + timedelta(seconds=1), selection.LAST_ID)
    tally = await matching.count(resources, ListFilter(), deed, before=before)
    found = [export async for export in matching.walk(resources, ListFilter(), deed, before=before)]
    assert tally.can == len(found)
    assert tally.can + sum(tally.by_status.values()) == len(Status)
