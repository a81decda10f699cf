"""What an export's page says of its attempts, of the next one, and of its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

import httpx
from pages.dom import node, nodes, text, texts

from webapp.actions import attempts
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.web.words import exact

ExportMaker = Callable[..., Awaitable[Export]]
LOST = export_error(ErrorCode.WORKER_LOST)


async def page(client: httpx.AsyncClient, export: Export) -> httpx.Response:
    response = await client.get(f"/exports/{export.id}")
    assert response.status_code == 200
    return response


async def claimed(resources: Resources) -> Export:
    export = await attempts.claim(resources)
    assert export is not None
    return export


async def test_attempts_are_told_once_one_has_failed(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    await attempts.hand_back(resources, await claimed(resources))
    await attempts.fail(resources, await claimed(resources), LOST)
    shown = await page(client, export)
    assert texts(shown, ".attempts .badge") == ["Handed back", "Failed"]
    first, second = texts(shown, ".attempts .latest-what")
    assert first.startswith("Attempt 1 · Its worker was stopped")
    assert second.startswith(f"Attempt 2 · {LOST.message} worker ")


async def test_a_first_attempt_that_goes_well_is_not_told_twice(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    await make_export(Status.QUEUED)
    export = await claimed(resources)
    assert nodes(await page(client, export), ".attempts") == []


async def test_the_next_attempt_is_a_time_that_counts_down_where_it_can(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    """Without JavaScript it says when, which stays right; app.js makes relative times count."""
    await make_export(Status.QUEUED)
    export = await attempts.fail(resources, await claimed(resources), LOST)
    assert export is not None
    assert export.retry_at is not None
    shown = node(await page(client, export), ".retry-note time")
    assert shown.attributes["data-time"] == "relative"
    away = datetime.fromisoformat(shown.attributes["datetime"] or "") - export.retry_at
    assert abs(away.total_seconds()) <= 0.001
    assert shown.text() == exact(export.retry_at)


async def test_the_turn_is_told_and_when_it_comes(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, other: Viewer
) -> None:
    first = await make_export(Status.QUEUED)
    shown = await page(client, first)
    assert text(shown, "#headline") == "Next in the queue."
    assert nodes(shown, "#starts") == []  # there is a slot for it
    second = await make_export(Status.QUEUED)
    theirs = await make_export(Status.QUEUED, owner=other)
    assert text(await page(client, second), "#headline") == "3rd in the queue."
    for _ in range(2):
        await claimed(resources)
    assert theirs.queued_at is not None
    shown = await page(client, second)
    assert text(shown, "#headline") == "Next in the queue."
    assert nodes(shown, "#starts") == []  # nobody knows how long the running ones take
