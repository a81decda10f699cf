"""What one stream does with its reader and its server, and how readers share what they read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from live.far_ends import Far
from patience import PATIENCE

from webapp import bus
from webapp.actions import exports
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.live import hub as hub_module
from webapp.live.hub import Changes, Hub
from webapp.live.replay import Replay, replay_from
from webapp.live.stream import RETRY_MILLISECONDS, Chunk, EventStream, farewell
from webapp.resources import Resources
from webapp.store import events

ExportMaker = Callable[..., Awaitable[Export]]


async def for_ever(closed: list[bool]) -> AsyncGenerator[Chunk]:
    try:
        yield b"data: 1\n\n"
        await asyncio.sleep(3600)
    finally:
        closed.append(True)


async def test_a_reader_that_does_not_read_is_given_up(live: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.live.stream.SEND_SECONDS", 0.1)
    far, closed = Far(), list[bool]()
    serving = far.serve(EventStream(for_ever(closed), live=live, heartbeat=0.05))
    while not far.sent:
        await asyncio.sleep(0.01)
    far.reads.clear()
    await asyncio.wait_for(serving, PATIENCE)
    assert (closed, far.is_ended) == ([True], False)


async def test_a_reader_that_leaves_ends_its_stream(live: Hub) -> None:
    far, closed = Far(), list[bool]()
    serving = far.serve(EventStream(for_ever(closed), live=live, heartbeat=15))
    while b"data: 1\n\n" not in far.sent:
        await asyncio.sleep(0.01)
    far.gone.set()
    await asyncio.wait_for(serving, PATIENCE)
    assert (closed, far.is_ended) == ([True], False)


async def test_what_goes_wrong_in_a_stream_is_not_hidden(live: Hub) -> None:
    async def broken() -> AsyncGenerator[Chunk]:
        yield b"data: 1\n\n"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Far().serve(EventStream(broken(), live=live, heartbeat=15)), PATIENCE)


async def test_a_server_that_stops_ends_even_what_waits(live: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.live.stream.GRACE_SECONDS", 0.1)
    far, closed = Far(), list[bool]()
    serving = far.serve(EventStream(for_ever(closed), live=live, heartbeat=15))
    while b"data: 1\n\n" not in far.sent:
        await asyncio.sleep(0.01)
    monkeypatch.setattr(hub_module, "is_server_stopping", lambda: True)
    await asyncio.wait_for(serving, PATIENCE)
    assert (closed, far.is_ended) == ([True], True)
    assert far.sent[-1].startswith(b"event: restart\n")


@pytest.mark.parametrize(("streams", "longest"), [(1, 3_000), (1_000, 10_000), (100_000, 20_000)])
def test_many_readers_are_asked_to_come_back_over_a_longer_time(streams: int, longest: int) -> None:
    told = [int(farewell(streams).split(b"retry: ")[1]) for _ in range(2000)]
    assert RETRY_MILLISECONDS[0] <= min(told)
    assert longest * 0.9 < max(told) <= longest


async def news(replay: Replay) -> list[str]:
    return [event.id async for batch in replay.news() for event in batch]


async def test_readers_who_are_told_the_same_share_one_reading(
    live: Hub, resources: Resources, user: Viewer, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.QUEUED)
    replays = [await replay_from(resources.store, None, owner=user.id, together=live.together) for _ in range(50)]
    reads, numbered = list[int](), events.numbered

    async def counted(store: Any, wanted: Any) -> Any:
        reads.append(len(list(wanted)))
        return await numbered(store, wanted)

    monkeypatch.setattr(events, "numbered", counted)
    with_readers = [live.reader(owner=user.id, replay=replay) for replay in replays]
    readers = [each.__enter__() for each in with_readers]
    waiting = [asyncio.create_task(reader.changes(5)) for reader in readers]
    await asyncio.sleep(0.05)
    await exports.cancel(resources, user, export.id)
    assert await asyncio.gather(*waiting) == [Changes(frozenset({export.id}))] * 50
    told = [await news(replay) for replay in replays]
    assert reads == [1]
    assert told == [told[0]] * 50
    assert len(told[0]) == 1
    for each in with_readers:
        each.__exit__(None, None, None)


async def test_a_change_during_the_reading_is_read_too(
    live: Hub, resources: Resources, user: Viewer, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hinted at when the numbers were read already, and before the reader is awake: it has to look again."""
    export = await make_export(Status.QUEUED)
    replay = await replay_from(resources.store, None, owner=user.id, together=live.together)
    numbers, after = events.numbers, [bus.Hint("exp_late", user.id, 1)]

    async def numbers_and_then_a_hint(store: Any, **wanted: Any) -> Any:
        found = await numbers(store, **wanted)
        if after:
            live._tell(after.pop())
        return found

    with live.reader(owner=user.id, replay=replay) as reader:
        waiting = asyncio.create_task(reader.changes(5))
        await asyncio.sleep(0.05)
        monkeypatch.setattr(events, "numbers", numbers_and_then_a_hint)
        await exports.cancel(resources, user, export.id)
        assert await waiting
        assert len(await news(replay)) == 1
        assert await reader.changes(0.2)
        assert await reader.changes(0.2) is None


async def test_progress_is_no_news_for_who_follows_events(live: Hub, resources: Resources, user: Viewer) -> None:
    replay = await replay_from(resources.store, None, owner=user.id, together=live.together)
    with live.reader(owner=user.id, replay=replay) as events_only, live.reader(owner=user.id) as page:
        await bus.publish(resources.redis, bus.Hint("exp_1", user.id, 0))
        assert await page.changes(5) == Changes(frozenset({"exp_1"}))
        assert await events_only.changes(0.1) is None
