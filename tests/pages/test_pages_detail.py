"""One export: what its page says in every status, and what can be done there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import httpx
import pytest
from factories import changed
from pages.dom import facts, node, nodes, text, texts
from sqlalchemy import delete

from webapp.actions.sweep import sweep
from webapp.domain.access import Viewer
from webapp.domain.errors import FILE_LOST, ErrorCode, export_error
from webapp.domain.exports import Export, FormatWarning, Phase, Status
from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.tables import events
from worker.formats.writer import WARNINGS

ExportMaker = Callable[..., Awaitable[Export]]


async def page(client: httpx.AsyncClient, export: Export) -> httpx.Response:
    response = await client.get(f"/exports/{export.id}")
    assert response.status_code == 200
    return response


async def stored(resources: Resources, export: Export) -> Export | None:
    async with resources.store.connection():
        return await rows.get(resources.store, export.id)


async def test_a_running_export_says_how_far_and_how_fast(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.PROCESSING)
    started = await resources.store.now() - timedelta(seconds=10)
    await changed(
        resources, export, rows_done=2_500, rows_total=10_000, bytes=21_300_000, started_at=started, phase=Phase.READING
    )
    shown = await page(client, export)
    assert text(shown, ".badge") == "Running"
    bar = node(shown, "progress.bar")
    assert (bar.attributes["value"], bar.attributes["max"]) == ("25", "100")
    told = facts(shown, "dl.figures")
    assert told["Rows"] == "2,500 of 10,000"
    assert 200 <= int(told["Rows per second"].replace(",", "")) <= 250
    assert told["Time left"].startswith("about ")
    assert told["File so far"] == "21.3 MB"
    assert len(nodes(shown, f"form[action='/exports/{export.id}/cancellation']")) == 1


async def test_a_total_that_is_not_known_leaves_the_bar_open(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    shown = await page(client, await make_export(Status.PROCESSING))
    assert "value" not in node(shown, "progress.bar").attributes
    assert text(shown, "[data-percent]") == ""


async def test_a_queued_export_says_its_place(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    now = await resources.store.now()
    waiting = [await make_export(Status.QUEUED, created_at=now - timedelta(seconds=9 - n)) for n in range(3)]
    assert text(await page(client, waiting[0]), "#headline") == "Next in the queue."
    assert text(await page(client, waiting[2]), "#headline") == "3rd in the queue."


async def test_a_retry_says_why_and_when(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    at = await resources.store.now() + timedelta(seconds=50)
    error = export_error(ErrorCode.SOURCE_UNREACHABLE)
    await changed(resources, export, attempt=1, failures=1, retry_at=at, error=error)
    shown = await page(client, export)
    note = text(shown, ".retry-note")
    assert note.startswith("Attempt 1 failed: The data source could not be reached.")
    assert node(shown, ".retry-note time").attributes["datetime"].startswith(at.isoformat()[:19])  # type: ignore[union-attr]


async def test_a_finished_export_hands_over_its_file(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.SUCCESS)
    await changed(resources, export, warnings=(FormatWarning("NUL_REMOVED", WARNINGS["NUL_REMOVED"], 3),))
    shown = await page(client, export)
    assert export.file is not None
    link = node(shown, ".download a")
    assert (link.attributes["href"], link.attributes.get("target")) == (f"/api/v1/exports/{export.id}/file", None)
    assert text(shown, ".download-name strong") == "Things.csv"
    assert text(shown, "#sha256") == export.file.sha256
    assert facts(shown, "dl.figures")["Rows"] == "1"
    assert text(shown, ".message.tone-warn") == (
        "3 cells with NUL characters, which CSV readers stop at; the NULs were removed."
    )
    assert texts(shown, ".timeline strong") == ["Order taken", "Queued", "Started", "Ready"]
    assert nodes(shown, "form[action$=cancellation], form[action$=retry]") == []


@pytest.mark.parametrize(
    ("status", "headline", "can_retry"),
    [
        (Status.FAILED, "The data source refused the query: no such table: things. Tell the person who runs", True),
        (Status.EXPIRED, "The export ran longer than its time limit of 30 minutes.", True),
        (Status.CANCELLED, "This export was cancelled.", False),
    ],
)
async def test_an_ended_export_says_why_and_what_next(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status, headline: str, can_retry: bool
) -> None:
    export = await make_export(status)
    shown = await page(client, export)
    assert text(shown, "#headline").startswith(headline)
    assert len(nodes(shown, f"form[action='/exports/{export.id}/retry']")) == can_retry
    assert len(nodes(shown, f"a[href='/exports/new?from={export.id}']")) == 1
    assert nodes(shown, ".download") == []


async def test_an_export_past_its_retention_offers_to_order_again(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    shown = await page(client, await make_export(aged_out=True))
    assert text(shown, ".badge") == "Expired"
    assert nodes(shown, "form[action$=retry], .download") == []
    assert texts(shown, ".timeline strong")[-1] == "File removed"


@pytest.mark.parametrize("kept_from", [1, 5, 9])
async def test_what_happened_is_told_when_its_events_are_no_longer_kept(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, kept_from: int
) -> None:
    """Those of an export outlive each other, as they are purged by their age."""
    export = await make_export(aged_out=True)
    now = await resources.store.now()
    names = ("created_at", "queued_at", "started_at", "completed_at")
    await changed(resources, export, **{name: now - timedelta(days=40 - n) for n, name in enumerate(names)})
    async with resources.store.transaction():
        await resources.store.execute(
            delete(events).where(events.c.export_id == export.id, events.c.version < kept_from)
        )
    shown = await page(client, export)
    assert texts(shown, ".timeline strong") == ["Order taken", "Queued", "Started", "Ready", "File removed"]
    assert len(nodes(shown, "form.reminder")) == (kept_from < 9)


async def test_an_export_whose_file_was_lost_says_so_and_offers_to_order_again(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.SUCCESS)
    assert export.file is not None
    resources.storage.path(export.file.key).unlink()
    await sweep(resources)
    shown = await page(client, export)
    assert (text(shown, ".badge"), text(shown, "#headline")) == ("File lost", FILE_LOST.message)
    assert nodes(shown, ".download") == []
    assert texts(shown, ".actions a") == ["Order again", "Save this order"]
    assert FILE_LOST.message in texts(shown, ".timeline-what")[-1]


async def test_the_order_is_told_in_words(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(params={"search": "<i>tea</i>", "most": None})
    shown = await page(client, export)
    told = facts(shown)
    assert (told["Name contains"], told["At most"]) == ("<i>tea</i>", "Any")
    assert told["Between the columns"] == "Comma"
    assert text(shown, "#export-id") == export.id
    assert nodes(shown, ".facts i") == []


async def test_a_dataset_that_is_gone_leaves_its_exports_readable(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    shown = await page(client, await make_export(Status.SUCCESS, dataset="gone", params={"old": [1, 2]}))
    assert facts(shown)["old"] == "1, 2"
    assert nodes(shown, "a[href^='/exports/new?from=']") == []


async def test_an_admin_sees_whose_export_it_is(
    admin_client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer
) -> None:
    shown = await page(admin_client, await make_export(owner=other))
    assert text(shown, ".head p.quiet").endswith("by other")


async def test_somebody_elses_export_and_none_at_all_look_the_same(
    client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer
) -> None:
    theirs = await make_export(owner=other)
    answers = [await client.get(f"/exports/{name}") for name in (theirs.id, new_id("exp"), "exp_x")]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert len({text(answer, "main") for answer in answers}) == 1
    assert (await client.post(f"/exports/{theirs.id}/cancellation")).status_code == 404


async def test_cancelling_and_trying_again(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    running, failed = await make_export(Status.PROCESSING), await make_export(Status.FAILED)
    for export, action, status in ((running, "cancellation", Status.CANCELLED), (failed, "retry", Status.QUEUED)):
        response = await client.post(f"/exports/{export.id}/{action}")
        assert (response.status_code, response.headers["location"]) == (303, f"/exports/{export.id}")
        after = await stored(resources, export)
        assert after is not None
        assert after.status is status


async def test_what_the_status_forbids_is_told_with_the_status(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    response = await client.post(f"/exports/{export.id}/cancellation")
    assert (response.status_code, response.headers["location"]) == (303, f"/exports/{export.id}")
    shown = await page(client, export)
    assert texts(shown, "[role=status] .flash") == ["This export is ready, so this cannot be done any more."]


async def test_retrying_an_order_that_runs_already_leads_to_it(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    failed = await make_export(Status.FAILED, order_key="same")
    running = await make_export(Status.PROCESSING, order_key="same")
    response = await client.post(f"/exports/{failed.id}/retry")
    assert response.headers["location"] == f"/exports/{running.id}"


async def test_deleting_removes_the_export_and_its_file(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.SUCCESS)
    assert export.file is not None
    response = await client.post(f"/exports/{export.id}/deletion")
    assert (response.status_code, response.headers["location"]) == (303, "/exports")
    assert await stored(resources, export) is None
    assert not resources.storage.path(export.file.key).exists()
    assert texts(await client.get("/exports"), ".flash") == ["1 export deleted."]


async def test_an_active_export_is_not_deleted(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    await client.post(f"/exports/{export.id}/deletion")
    assert await stored(resources, export) == export


async def test_an_active_page_refreshes_itself_without_javascript_and_an_ended_one_does_not(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    active = await page(client, await make_export(Status.QUEUED))
    assert node(active, "noscript meta[http-equiv=refresh]").attributes["content"].startswith("1;")  # type: ignore[union-attr]
    assert nodes(await page(client, await make_export(Status.SUCCESS)), "meta[http-equiv=refresh]") == []
