"""`GET /exports/{id}/attempts`, and what an export's JSON says of its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import httpx
from factories import changed, export_file

from webapp.actions import attempts
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Lane, Status
from webapp.resources import Resources

ExportMaker = Callable[..., Awaitable[Export]]
URL = "/api/v1/exports"


async def claimed(resources: Resources) -> Export:
    export = await attempts.claim(resources)
    assert export is not None
    return export


async def test_attempts_are_listed_oldest_first(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    await make_export(Status.QUEUED)
    await attempts.hand_back(resources, await claimed(resources))
    export = await claimed(resources)
    answer = (await client.get(f"{URL}/{export.id}/attempts")).json()
    assert answer["next_cursor"] is None
    first, second = answer["items"]
    assert list(first) == ["number", "started_at", "ended_at", "outcome", "error", "rows", "worker"]
    assert (first["number"], first["outcome"], first["error"]["code"]) == (1, "handed_back", "WORKER_LOST")
    assert (second["number"], second["outcome"], second["ended_at"], second["rows"]) == (2, None, None, None)
    assert second["started_at"].endswith("Z")


async def test_attempts_of_somebody_elses_export_are_not_there(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    assert (await client.get(f"{URL}/{export.id}/attempts")).json() == {"items": [], "next_cursor": None}
    assert (await other_client.get(f"{URL}/{export.id}/attempts")).status_code == 404


async def test_the_expected_start_is_that_after_those_before_it(
    client: httpx.AsyncClient,
    other_client: httpx.AsyncClient,
    other: Viewer,
    make_export: ExportMaker,
    resources: Resources,
) -> None:
    """Two large ones run, of the three slots one is for small ones, and the last run of such a one took 100 seconds."""
    now = await resources.store.now()
    past = await make_export(Status.SUCCESS)
    assert past.file is not None
    await changed(resources, past, rows_done=10**6, started_at=now - timedelta(seconds=200),
                  completed_at=now - timedelta(seconds=100))  # fmt: skip
    for age in (40, 10):
        running = await make_export(Status.PROCESSING)
        await changed(resources, running, lane=Lane.LARGE, started_at=now - timedelta(seconds=age))
    waiting = await make_export(Status.QUEUED)
    await changed(resources, waiting, lane=Lane.LARGE)
    small = await make_export(Status.QUEUED, owner=other)
    await changed(resources, small, lane=Lane.SMALL)
    told = (await client.get(f"{URL}/{waiting.id}")).json()
    assert told["queue_position"] == 2
    seconds = (datetime.fromisoformat(told["expected_start_at"]) - now).total_seconds()
    assert 58 <= seconds <= 62
    assert (await other_client.get(f"{URL}/{small.id}")).json()["queue_position"] == 1
    assert (await client.get(f"{URL}/{past.id}")).json()["expected_start_at"] is None


async def test_what_waits_for_its_next_attempt_has_no_place(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    await make_export(Status.QUEUED)
    export = await attempts.fail(resources, await claimed(resources), export_error(ErrorCode.WORKER_LOST))
    assert export is not None
    behind = await make_export(Status.QUEUED)
    told = (await client.get(f"{URL}/{export.id}")).json()
    assert (told["queue_position"], told["expected_start_at"]) == (None, None)
    assert (await client.get(f"{URL}/{behind.id}")).json()["queue_position"] == 1


async def test_a_finished_attempt_tells_its_rows(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    await make_export(Status.QUEUED)
    export = await claimed(resources)
    await attempts.finish(resources, export, export_file(export, export.created_at), ())
    [attempt] = (await client.get(f"{URL}/{export.id}/attempts")).json()["items"]
    assert (attempt["outcome"], attempt["rows"], attempt["error"]) == ("succeeded", 1, None)
