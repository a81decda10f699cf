"""Events that are told without waking the stream's task: the same, once, in their order, to who may hear them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from live.far_ends import Far
from live.sse_reading import opened
from sqlalchemy import delete

from webapp.actions import exports, people
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.live.direct import Direct
from webapp.live.hub import Hub
from webapp.live.identity import Identity
from webapp.live.replay import Page, Replay, replay_from
from webapp.live.stream import Chunk, EventStream
from webapp.resources import Resources
from webapp.store.tables import api_tokens

ExportMaker = Callable[..., Awaitable[Export]]
EVENTS = "/api/v1/events"


async def nobody() -> Viewer | None:
    return None


async def told_by_both_ways(live: Hub, who: Viewer, replay: Replay, direct: Direct) -> AsyncGenerator[Chunk]:
    with live.reader(owner=who.id, replay=replay, direct=direct) as reader:
        while True:
            async for batch in replay.news():
                if batch:
                    yield b"".join(map(live.frames.of, batch))
            await reader.changes(30)


def ids(sent: list[bytes]) -> list[str]:
    return [line[4:] for line in b"".join(sent).decode().splitlines() if line.startswith("id: ")]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_a_stream_that_waits_is_not_woken(
    client: httpx.AsyncClient,
    make_export: ExportMaker,
    resources: Resources,
    user: Viewer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [await make_export(Status.QUEUED) for _ in range(5)]
    batches, batch = list[int | None](), Replay.batch

    async def counted(self: Replay, start: int | None) -> Any:
        batches.append(start)
        return await batch(self, start)

    monkeypatch.setattr(Replay, "batch", counted)
    async with opened(client, EVENTS) as stream:
        assert await stream.quiet(0.3)
        assert len(batches) == 1
        for export in made:
            await exports.cancel(resources, user, export.id)
            assert (await stream.next()).event == "export.cancelled"
        assert len(batches) == 1
        assert await stream.quiet(0.3)


async def test_who_is_nobody_any_more_is_told_nothing_though_no_hint_came(
    anonymous: httpx.AsyncClient,
    make_export: ExportMaker,
    resources: Resources,
    user: Viewer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webapp.live.identity.IDENTITY_SECONDS", 0.2)
    export = await make_export(Status.QUEUED)
    found = await people.user_named(resources, user.name)
    _, token = await people.create_token(resources, found, "t", actor="tests")
    async with opened(anonymous, EVENTS, authorization=f"Bearer {token}") as stream:
        assert await stream.quiet(0.4)
        await resources.store.execute(delete(api_tokens))
        await exports.cancel(resources, user, export.id)
        assert [message.event for message in await stream.rest(4)] == ["signed-out"]


async def test_a_reader_that_does_not_read_is_told_all_of_it_later_and_in_order(
    live: Hub,
    resources: Resources,
    user: Viewer,
    make_export: ExportMaker,
) -> None:
    made = [await make_export(Status.QUEUED) for _ in range(8)]
    replay = await replay_from(resources.store, None, owner=user.id, together=live.together)
    direct = Direct(Identity(user, nobody), replay, live.frames)
    far, waiting = Far(), list[bytes]()
    send = far.send

    async def counted(message: Any) -> None:
        waiting.append(message.get("body", b""))
        await send(message)
        waiting.remove(message.get("body", b""))

    far.send = counted  # type: ignore[method-assign]
    serving = far.serve(
        EventStream(told_by_both_ways(live, user, replay, direct), live=live, heartbeat=30, direct=direct)
    )
    await until(lambda: len(far.sent) == 2)
    await exports.cancel(resources, user, made[0].id)
    await until(lambda: len(ids(far.sent)) == 1)
    far.reads.clear()
    for export in made[1:]:
        await exports.cancel(resources, user, export.id)
        await asyncio.sleep(0.05)
    assert len(waiting) == 2, "one that was begun, and the stream's own behind it; the rest is in the store"
    far.reads.set()
    await until(lambda: len(ids(far.sent)) == 8)
    ends = (await _all(resources, user))[-8:]
    assert [event.export_id for event in ends] == [export.id for export in made]
    assert ids(far.sent) == [event.id for event in ends]
    far.gone.set()
    await serving


async def _all(resources: Resources, user: Viewer) -> list[Any]:
    replay = Replay(resources.store, owner=user.id, export=None)
    await replay.begin_at(0, is_resumed=False)
    return [event async for batch in replay.news() for event in batch]


@pytest.mark.parametrize("why", ["not sent", "another viewer", "more behind it", "not open"])
async def test_what_cannot_be_told_so_changes_nothing(
    why: str,
    live: Hub,
    resources: Resources,
    user: Viewer,
    other: Viewer,
    make_export: ExportMaker,
) -> None:
    replay = await replay_from(resources.store, None, owner=user.id)
    before = replay.seq
    await make_export(Status.QUEUED)
    identity = Identity(user, nobody)
    direct = Direct(identity, replay, live.frames)
    sent: list[bytes] = []
    fresh = await _all(resources, user)
    page = Page(frozenset(event.seq for event in fresh), fresh[-1].seq, why != "more behind it", fresh)
    if why != "not open":
        direct.send = lambda body: bool(sent.append(body)) if why == "not sent" else True  # type: ignore[func-returns-value]
    if why == "another viewer":
        identity.is_now(other)
    assert not direct.tell(page)
    assert replay.seq == before
    assert [event.id async for batch in replay.news() for event in batch] == [event.id for event in fresh]
