"""Events over HTTP: pages of JSON by `after`, or a stream of the same events under the same ids."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import msgspec
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports
from webapp.api.exports import json_response
from webapp.api.requests import query_limit
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import Event, event_json
from webapp.domain.ids import is_id
from webapp.live.stream import END, SIGNED_OUT, event_stream, follow, retry_hint
from webapp.store import events
from webapp.store import exports as rows
from webapp.store.database import Store
from webapp.web.context import export_id, resources, viewer

OVERLAP = 100
"""How many events before the newest one told are read again: a transaction may commit after one that drew a later
number."""
LATE = timedelta(seconds=10)
"""How much older than the cursor's event one that was committed after it may be. A reader who resumes is told such
events again, since nobody knows which of them it saw; it drops the ids that it knows."""
BATCH = 500
REMEMBERED = 5_000


async def of_export(request: Request) -> Response:
    """The events of one export; its owner is checked first. The stream ends with the export."""
    export = await exports.get(resources(request), viewer(request), export_id(request))
    if _wants_stream(request):
        replay = await _replay_from(request, export.owner, export.id)
        return event_stream(request, _stream(request, replay, owner=export.owner, export=export.id))
    return await _page(request, owner=None, export=export.id)


async def index(request: Request) -> Response:
    """One person's events, or (an admin with `all=1`) everybody's."""
    who = viewer(request)
    owner = None if who.is_admin and request.query_params.get("all") == "1" else who.id
    if _wants_stream(request):
        replay = await _replay_from(request, owner, None)
        return event_stream(request, _stream(request, replay, owner=owner, export=None))
    return await _page(request, owner=owner, export=None)


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


async def _page(request: Request, *, owner: str | None, export: str | None) -> Response:
    limit, store = query_limit(request), resources(request).store
    async with store.connection():
        after = await _position(request, request.query_params.get("after") or request.query_params.get("cursor"))
        found = await events.page(store, owner=owner, export_id=export, after=after or 0, limit=limit + 1)
    items = found[:limit]
    next_cursor = items[-1].id if len(found) > limit else None
    return json_response({"items": [event_json(event) for event in items], "next_cursor": next_cursor})


async def _position(request: Request, text: str | None) -> int | None:
    """The number of the event with this id (or this number); None when that event is no longer kept."""
    if not text:
        return 0
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    if not is_id(text, "evt"):
        raise Invalid([FieldError("after", "Must be the id of an event.")])
    event = await events.get(resources(request).store, text)
    return event.seq if event else None


async def _stream(
    request: Request, replay: Replay, *, owner: str | None, export: str | None
) -> AsyncIterator[ServerSentEvent]:
    """Subscribed first, then replayed from the cursor, then as things happen; known ids are not sent twice."""
    if replay.is_reset:
        yield ServerSentEvent(event="reset", data="The event you know is no longer kept. Read the exports again.")
    async for changes in follow(request, owner=owner, ids=frozenset({export}) if export else None):
        if changes is None:
            yield SIGNED_OUT
            return
        is_over = export is not None and await _is_over(request, export)  # before its events: the last is among them
        async for batch in replay.news():
            for event in batch:
                data = msgspec.json.encode(event_json(event)).decode()
                yield ServerSentEvent(id=event.id, event=event.type, data=data, retry=retry_hint())
        if is_over:
            yield END
            return


async def _replay_from(request: Request, owner: str | None, export: str | None) -> Replay:
    """From `Last-Event-ID` or `after`; without either, from the start of one export, or from now on for all.

    Raises Invalid, so it is asked before the stream begins: one that breaks off is asked for again for ever.
    """
    store, given = resources(request).store, request.headers.get("last-event-id") or request.query_params.get("after")
    replay = Replay(store, owner=None if export else owner, export=export)
    async with store.connection():
        position = await _position(request, given)
        if given is None and export is None:
            position = await events.latest_seq(store)
        replay.is_reset = position is None
        await replay.begin_at(position or 0, is_resumed=given is not None)
    return replay


class Replay:
    """What one reader was told already, so that a late commit is told too and nothing is told twice."""

    def __init__(self, store: Store, *, owner: str | None, export: str | None) -> None:
        self.seq = 0
        self.is_reset = False
        self._store, self._owner, self._export = store, owner, export
        self._told: deque[str] = deque(maxlen=REMEMBERED)

    async def begin_at(self, position: int, *, is_resumed: bool) -> None:
        """SQLite draws and commits the numbers in one order, so that nothing comes late there."""
        self.seq = position
        before = [event for event in await self._page(max(0, position - OVERLAP), OVERLAP) if event.seq <= position]
        certain = before[-1].timestamp - LATE if before and is_resumed and not self._store.is_sqlite else None
        self._told += [
            event.id for event in before if certain is None or event.seq == position or event.timestamp < certain
        ]

    async def news(self) -> AsyncIterator[list[Event]]:
        """Events after the last one told, and those just before it that were committed later; a batch at a time."""
        start = max(0, self.seq - OVERLAP)
        while True:
            async with self._store.connection():
                batch = await self._page(start, BATCH)
            told = set(self._told)
            fresh = [event for event in batch if event.id not in told]
            self._told += [event.id for event in fresh]
            self.seq = max([self.seq, *(event.seq for event in fresh)])
            yield fresh
            if len(batch) < BATCH:
                return
            start = batch[-1].seq

    async def _page(self, after: int, limit: int) -> Sequence[Event]:
        return await events.page(self._store, owner=self._owner, export_id=self._export, after=after, limit=limit)


async def _is_over(request: Request, export: str) -> bool:
    store = resources(request).store
    async with store.connection():
        found = await rows.get(store, export)
    return found is None or not found.is_active
