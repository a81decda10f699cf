"""The news of one person: what changed, what has ended, and when the stream is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from factories import stored_export
from live.sse_reading import opened
from sse_starlette import ServerSentEvent

from webapp.actions import attempts, exports, shares
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Status
from webapp.live.stream import beside
from webapp.pages import notices
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


async def test_what_ends_while_the_stream_begins_is_told(
    client: httpx.AsyncClient,
    resources: Resources,
    user: Viewer,
    make_export: ExportMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Just before it looks for what is active: then it is in that no more."""
    export = await make_export(Status.QUEUED)
    look = notices._active

    async def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        await exports.cancel(resources, user, export.id)
        return await look(*arguments)

    monkeypatch.setattr(notices, "_active", overtaken)
    async with opened(client, URL) as stream:
        assert [message.event for message in await stream.rest()] == ["ended", "active", "changed", "end"]


async def test_what_ends_just_after_the_ends_were_looked_for_is_told(
    client: httpx.AsyncClient,
    resources: Resources,
    user: Viewer,
    make_export: ExportMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    export = await make_export(Status.QUEUED)

    async def overtaken(*_: Any) -> Any:
        monkeypatch.undo()
        await exports.cancel(resources, user, export.id)
        return []

    monkeypatch.setattr(notices, "_shared", overtaken)
    async with opened(client, URL) as stream:
        told = [message.event for message in await stream.rest()]
    assert told == ["active", "changed", "ended", "active", "changed", "end"]


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


async def test_what_is_shared_is_told_at_once_and_by_later_streams_until_it_was_opened(
    other_client: httpx.AsyncClient,
    resources: Resources,
    user: Viewer,
    other: Viewer,
    make_export: ExportMaker,
) -> None:
    shared = await make_export(Status.SUCCESS)
    await stored_export(resources, other, Status.QUEUED)
    async with opened(other_client, URL) as stream:
        assert (await stream.next()).event == "active"
        await shares.put(resources, user, shared.id, other.name)
        *_, told = await stream.until("shared")
        content = json.loads(told.data)
        assert (content["export"], content["text"]) == (shared.id, "user shared Things with you.")
        await shares.put(resources, user, shared.id, other.name, "another note")
        await exports.annotate(resources, user, shared.id, {"name": "Figures"})
        await stream.until("changed")
    async with opened(other_client, URL) as stream:
        again = await stream.next()
        assert (again.event, json.loads(again.data)["id"]) == ("shared", content["id"])
    await other_client.get(f"/exports/{shared.id}")
    async with opened(other_client, URL) as stream:
        assert (await stream.next()).event == "active"


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


async def test_the_stream_of_an_element_brings_the_news_too(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    shown, elsewhere = await make_export(Status.QUEUED), await make_export(Status.QUEUED)
    async with resources.store.connection():
        cursor = await events.latest_seq(resources.store)
    await exports.cancel(resources, user, elsewhere.id)
    async with opened(client, f"/exports/{shown.id}/stream?after={cursor}&news={cursor}") as stream:
        messages = {(message := await stream.next()).event: message for _ in range(4)}
        assert messages.keys() == {"message", "news-ended", "news-active", "news-changed"}
        assert json.loads(messages["news-ended"].data)["export"] == elsewhere.id
        assert json.loads(messages["news-active"].data) == [shown.id]
        await exports.cancel(resources, user, shown.id)
        assert (await stream.rest())[-1].event == "end"


async def test_the_news_end_a_stream_only_when_they_fail() -> None:
    async def told(*names: str, then: Exception | None = None) -> AsyncGenerator[ServerSentEvent]:
        for name in names:
            yield ServerSentEvent(event=name)
            await asyncio.sleep(0)
        if then:
            raise then

    async def slow() -> AsyncGenerator[ServerSentEvent]:
        await asyncio.sleep(0.05)
        yield ServerSentEvent(event="last")

    assert [each.event async for each in beside(slow(), told("one", "two"))] == ["one", "two", "last"]
    with pytest.raises(ConnectionError):
        [each async for each in beside(slow(), told("one", then=ConnectionError()))]


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
