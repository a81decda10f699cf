"""The list: rows, filters, paging, and doing one thing to several exports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from factories import changed
from pages.dom import node, nodes, parsed, plain, text, texts
from pages.zones import FIRST, LAST, day_in, in_zone

from webapp.actions import exports as actions
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.limits import PAGE_SIZE
from webapp.resources import Resources
from webapp.store import exports as rows

ExportMaker = Callable[..., Awaitable[Export]]


def shown(response: httpx.Response) -> list[str]:
    return [row.attributes["id"] or "" for row in nodes(response, "table.exports tbody tr")]


def row_ids(*exports: Export) -> list[str]:
    return [f"row-{export.id}" for export in exports]


async def test_an_empty_list_invites_to_the_first_order(client: httpx.AsyncClient) -> None:
    response = await client.get("/exports")
    assert text(response, ".empty h2") == "Order your first export"
    assert node(response, ".empty a.button").attributes["href"] == "/exports/new"
    assert nodes(response, "form.filters, table") == []


async def test_a_row_says_what_and_how_far(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    running = await make_export(Status.PROCESSING, params={"search": "東京", "most": None})
    await changed(resources, running, rows_done=250, rows_total=1000)
    response = await client.get("/exports")
    row = f"#row-{running.id}"
    assert text(response, f"{row} .row-title") == "Things"
    assert text(response, f"{row} .row-params") == "Name contains: 東京"
    assert text(response, f"{row} [data-status=PROCESSING]") == "Running"
    assert node(response, f"{row} progress").attributes["value"] == "25"
    assert nodes(response, f"{row} .cell-file a") == []


async def test_a_finished_row_can_be_downloaded(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS)
    response = await client.get("/exports")
    link = node(response, f"#row-{export.id} .cell-file a")
    assert link.attributes["href"] == f"/api/v1/exports/{export.id}/file"
    assert (await client.get(link.attributes["href"] or "")).status_code == 200


@pytest.mark.parametrize("status", list(Status))
async def test_every_status_has_a_word_and_a_drawing(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    export = await make_export(status)
    badge = node(await client.get("/exports"), f"#row-{export.id} .badge")
    assert badge.attributes["data-status"] == status
    assert plain(badge)
    assert len(badge.css("svg use")) == 1


async def test_filters_are_in_the_address_and_in_the_form(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    ready = await make_export(Status.SUCCESS)
    failed = await make_export(Status.FAILED, format="xlsx", options={"timezone": "UTC"})
    await make_export(Status.CANCELLED)
    both = await client.get("/exports?status=success&status=failed")
    assert shown(both) == row_ids(failed, ready)
    kept = [field.attributes["value"] for field in nodes(both, "form.filters input[name=status]")]
    assert kept == ["success", "failed"]
    assert sorted(texts(both, ".chip[aria-current]")) == ["Failed", "Ready"]
    assert shown(await client.get("/exports?format=xlsx")) == row_ids(failed)
    assert shown(await client.get(f"/exports?q={ready.id}")) == row_ids(ready)
    assert shown(await client.get("/exports?dataset=slow")) == []


async def test_since_leaves_out_what_is_older(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    now = await resources.store.now()
    new, old = await make_export(created_at=now), await make_export(created_at=now - timedelta(days=9))
    since = (now - timedelta(days=2)).date().isoformat()
    assert shown(await client.get(f"/exports?since={since}")) == row_ids(new)
    assert shown(await client.get("/exports?since=someday")) == row_ids(new, old)


@pytest.mark.parametrize("zone", [FIRST, LAST])
async def test_since_is_a_day_of_the_person(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, zone: str
) -> None:
    now = await resources.store.now()
    export, today = await make_export(Status.FAILED, created_at=now), day_in(zone, now)
    for since, found in ((today, [export]), (today + timedelta(days=1), [])):
        listed = await client.get(f"/exports?since={since}", headers=in_zone(client, zone))
        assert shown(listed) == row_ids(*found)
        back = {"matching": "delete", "back": f"since={since}"}
        question = await client.post("/exports/selection", data=back, headers=in_zone(client, zone))
        assert ("Delete 1 export?" in question.text) == bool(found)


async def test_a_search_goes_on_where_it_stopped(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "SEARCHED_AT_ONCE", 2)
    now = await resources.store.now()
    oldest, _, newest, _ = [
        await make_export(
            Status.FAILED, created_at=now - timedelta(minutes=9 - n), params={"search": name, "most": None}
        )
        for n, name in enumerate(["needle", "hay", "needle", "hay"])
    ]
    first = await client.get("/exports?q=needle")
    assert shown(first) == row_ids(newest)
    assert text(first, ".searched") == "The oldest export searched so far was ordered 7 minutes ago."
    older = node(first, ".paging a[rel=next]")
    assert plain(older) == "Search older"
    rest = await client.get(older.attributes["href"] or "")
    assert (shown(rest), nodes(rest, ".searched, .paging a[rel=next]")) == (row_ids(oldest), [])
    nothing = await client.get("/exports?q=nowhere")
    assert text(nothing, ".empty h2 + p").startswith("No export that was searched so far fits")
    last = await client.get(node(nothing, ".empty a[rel=next]").attributes["href"] or "")
    assert texts(last, ".empty h2, .empty h2 + p") == ["Nothing older", "No older export fits what you filtered for."]
    assert nodes(last, ".empty a[rel=next]") == []
    assert node(last, ".empty a[rel=prev]").attributes["href"] == "/exports?q=nowhere"


async def test_no_match_offers_to_clear_the_filters(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    await make_export(Status.SUCCESS)
    response = await client.get("/exports?status=failed&q=100%25_nothing&all=1")
    assert text(response, ".empty h2") == "Nothing matches"
    assert node(response, ".empty a.button").attributes["href"] == "/exports"


@pytest.mark.parametrize(
    "query",
    [
        "status=NONSENSE",
        "cursor=1-exp_x",
        "format=exe",
        "since=0000-00-00",
        "since=0001-01-01",
        "since=9999-12-31",
        "q=%00",
        "all=x",
    ],
)
async def test_an_address_that_means_nothing_still_shows_the_list(
    client: httpx.AsyncClient, make_export: ExportMaker, query: str
) -> None:
    export = await make_export(Status.SUCCESS)
    response = await client.get(f"/exports?{query}")
    assert (response.status_code, shown(response)) == (200, row_ids(export))


async def test_paging_shows_each_export_once(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    now = await resources.store.now()
    made = [await make_export(Status.SUCCESS, created_at=now - timedelta(seconds=n // 2)) for n in range(PAGE_SIZE + 3)]
    first = await client.get("/exports?status=success")
    older = node(first, "a[rel=next]").attributes["href"] or ""
    second = await client.get(older)
    assert len(shown(first)) == PAGE_SIZE
    assert sorted(shown(first) + shown(second)) == sorted(row_ids(*made))
    assert nodes(second, "a[rel=next]") == []
    assert node(second, "a[rel=prev]").attributes["href"] == "/exports?status=success"


async def test_people_see_their_own_and_admins_everybodys_when_they_ask(
    admin_client: httpx.AsyncClient, client: httpx.AsyncClient, make_export: ExportMaker, admin: Viewer, other: Viewer
) -> None:
    mine, theirs = await make_export(owner=admin), await make_export(owner=other)
    assert shown(await client.get("/exports?all=1")) == []
    assert shown(await admin_client.get("/exports")) == row_ids(mine)
    everybody = await admin_client.get("/exports?all=1")
    assert shown(everybody) == row_ids(theirs, mine)
    assert text(everybody, f"#row-{theirs.id} .row-owner") == "· other"


async def select(client: httpx.AsyncClient, action: str, *exports: Export, **fields: Any) -> httpx.Response:
    return await client.post(
        "/exports/selection", data={"action": action, "ids": [export.id for export in exports], **fields}
    )


async def test_cancelling_a_selection_says_what_was_done_and_what_was_not(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    waiting, running, ready = [await make_export(s) for s in (Status.QUEUED, Status.PROCESSING, Status.SUCCESS)]
    response = await select(client, "cancel", waiting, running, ready, back="status=success&cursor=5-x")
    assert (response.status_code, response.headers["location"]) == (303, "/exports?status=success")
    page = await client.get("/exports")
    assert texts(page, "[role=status] .flash") == [
        "2 exports cancelled.",
        "1 export left as before, because the status is ready.",
    ]
    found = await rows.any_of(resources.store, [waiting.id, running.id, ready.id])
    assert sorted(export.status for export in found) == [Status.CANCELLED, Status.CANCELLED, Status.SUCCESS]


async def test_deleting_a_selection_asks_first(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    ready, active = await make_export(Status.SUCCESS), await make_export(Status.QUEUED)
    question = await select(client, "delete", ready, active)
    assert (question.status_code, text(question, "h1")) == (200, "Delete 2 exports?")
    assert len(await rows.any_of(resources.store, [ready.id, active.id])) == 2
    fields = {f.attributes["name"]: f.attributes["value"] for f in parsed(question).css("main form input")}
    assert fields["confirmed"] == "1"
    await select(client, "delete", ready, active, confirmed="1")
    assert [export.id for export in await rows.any_of(resources.store, [ready.id, active.id])] == [active.id]


async def test_retrying_a_selection_puts_failed_ones_back(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    failed, cancelled = await make_export(Status.FAILED), await make_export(Status.CANCELLED)
    await select(client, "retry", failed, cancelled)
    page = await client.get("/exports")
    assert text(page, f"#row-{failed.id} .badge") == "Queued"
    assert texts(page, ".flash") == [
        "1 export put back in the queue.",
        "1 export left as before, because the status is cancelled.",
    ]


async def test_other_peoples_exports_are_not_there_to_select(
    client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer, resources: Resources
) -> None:
    theirs = await make_export(Status.SUCCESS, owner=other)
    await select(client, "delete", theirs, confirmed="1")
    assert await actions.get(resources, other, theirs.id) == theirs
    assert texts(await client.get("/exports"), ".flash") == ["1 export left out: not there any more."]


async def test_an_empty_selection_and_an_unknown_action(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    assert (await select(client, "cancel")).status_code == 303
    assert len(texts(await client.get("/exports"), ".flash")) == 1
    assert (await select(client, "explode", await make_export())).status_code == 422
