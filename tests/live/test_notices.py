"""The news of one person: what changed, what has ended, and when the stream is over."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from factories import stored_export
from live.sse_reading import opened

from webapp.actions import attempts, exports
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.settings import LiveStrategy
from webapp.store import events

ExportMaker = Callable[..., Awaitable[Export]]
URL = "/notices/stream"


async def test_the_stream_tells_what_ended_and_ends_with_the_last_one(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    first, second = await make_export(Status.QUEUED), await make_export(Status.QUEUED)
    async with opened(client, URL) as stream:
        active, changed = await stream.next(), await stream.next()
        assert (active.event, sorted(json.loads(active.data))) == ("active", sorted([first.id, second.id]))
        assert (changed.event, json.loads(changed.data)) == ("changed", [])
        await exports.cancel(resources, user, first.id)
        *_, ended = await stream.until("ended")
        told = json.loads(ended.data)
        assert (told["export"], told["text"], told["tone"]) == (first.id, "Things was cancelled.", "quiet")
        assert told["id"] == ended.id
        *between, changed = await stream.until("changed")
        assert [json.loads(message.data) for message in between] == [[second.id]]
        assert first.id in json.loads(changed.data), "and whose place in the queue has changed"
        await exports.cancel(resources, user, second.id)
        assert [message.event for message in await stream.rest()] == ["ended", "active", "changed", "end"]


async def test_a_stream_that_comes_later_tells_what_ended_meanwhile(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    async with resources.store.connection():
        cursor = await events.latest_seq(resources.store)
    await exports.cancel(resources, user, export.id)
    async with opened(client, f"{URL}?after={cursor}") as stream:
        assert [message.event for message in await stream.rest()] == ["ended", "active", "changed", "end"]
    async with opened(client, URL) as stream:
        assert [message.event for message in await stream.rest()] == ["active", "changed", "end"]


async def test_what_failed_and_is_tried_again_has_not_ended(
    client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker
) -> None:
    export = await make_export(Status.PROCESSING)
    async with opened(client, URL) as stream:
        await stream.until("changed")
        await attempts.hand_back(resources, export)
        [changed] = await stream.until("changed")
        assert export.id in json.loads(changed.data)
        again = await attempts.claim(resources)
        assert again is not None
        await attempts.fail(resources, again, export_error(ErrorCode.QUERY_ERROR, detail="no such table"))
        *_, ended = await stream.until("ended")
        assert json.loads(ended.data)["text"] == "Things failed."
        assert [message.event for message in await stream.rest()] == ["active", "changed", "end"]


async def test_nobody_hears_of_somebody_else(
    client: httpx.AsyncClient,
    other_client: httpx.AsyncClient,
    admin_client: httpx.AsyncClient,
    resources: Resources,
    user: Viewer,
    other: Viewer,
    make_export: ExportMaker,
) -> None:
    """An admin, who may look at any export, hears that it changed, and no end but those of his own."""
    theirs = await make_export(Status.QUEUED)
    await stored_export(resources, other, Status.QUEUED)
    async with opened(other_client, URL) as stream, opened(admin_client, URL) as admins:
        await stream.until("changed")
        await admins.until("changed")
        await exports.cancel(resources, user, theirs.id)
        [changed] = await admins.until("changed")
        assert theirs.id in json.loads(changed.data)
        changed = await stream.next()
        assert theirs.id not in changed.data, "their own place in the queue has changed"
        assert await stream.quiet(0.8)


@pytest.mark.parametrize("strategy", [LiveStrategy.POLL_ONLY, LiveStrategy.PUSH_THEN_POLL])
async def test_where_connections_are_dear_it_is_a_poll(
    app: Any, client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker, strategy: LiveStrategy
) -> None:
    app.state.resources = replace(resources, settings=replace(resources.settings, live_strategy=strategy))
    await make_export(Status.QUEUED)
    async with opened(client, URL) as stream:
        assert [message.event for message in await stream.rest()] == ["active", "changed"]


async def test_what_is_no_cursor_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{URL}?after=nonsense")).status_code == 422
