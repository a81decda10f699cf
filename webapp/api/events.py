"""Events over HTTP: pages of JSON by `after`, or a stream of the same events under the same ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sse_starlette import ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports
from webapp.api.exports import json_response
from webapp.api.requests import query_all, query_limit
from webapp.domain.access import may_hear
from webapp.domain.events import event_json
from webapp.live.direct import Direct
from webapp.live.replay import Replay, late_events, position, replay_from
from webapp.live.stream import END, SIGNED_OUT, Chunk, event_stream, follow, identity_of
from webapp.store import events
from webapp.store import exports as rows
from webapp.web.context import export_id, hub, resources, viewer


async def of_export(request: Request) -> Response:
    """The events of one export, for whoever may read it. The stream ends with the export."""
    export = await exports.read(resources(request), viewer(request), export_id(request))
    if _wants_stream(request):
        replay = await _replay(request, export.owner, export.id)
        return event_stream(request, _stream(request, replay, owner=export.owner, export=export.id))
    return await _page(request, owner=None, export=export.id)


async def index(request: Request) -> Response:
    """One person's events, or (an admin with `all=1`) everybody's."""
    who, wants_all = viewer(request), query_all(request)
    owner = None if who.is_admin and wants_all else who.id
    if _wants_stream(request):
        replay = await _replay(request, owner)
        direct = Direct(identity_of(request, who), replay, hub(request).frames)
        return event_stream(request, _stream(request, replay, owner=owner, export=None, direct=direct), direct=direct)
    return await _page(request, owner=owner, export=None)


async def no_socket(request: Request) -> Response:
    """Who asks for the WebSocket as for any other address, 426."""
    viewer(request)
    raise HTTPException(426, headers={"Upgrade": "websocket"})


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


async def _page(request: Request, *, owner: str | None, export: str | None) -> Response:
    """What comes after the cursor; where numbers commit out of order, first those before it that may have come late:
    behind the page before, which was read a moment ago, they are few."""
    limit, store, cursor = query_limit(request), resources(request).store, request.query_params.get("cursor")
    async with store.connection():
        after = await position(store, cursor or request.query_params.get("after")) or 0
        found = await events.page(store, owner=owner, export_id=export, after=after, limit=limit + 1)
        told_at = await store.now() if cursor else None
        late = await late_events(store, after, owner=owner, export=export, told_at=told_at)
    items = found[:limit]
    next_cursor = items[-1].id if len(found) > limit else None
    who = viewer(request)
    told = [event_json(event) for event in (*late, *items) if may_hear(who, event.data)]
    return json_response({"items": told, "next_cursor": next_cursor})


async def _stream(
    request: Request, replay: Replay, *, owner: str | None, export: str | None, direct: Direct | None = None
) -> AsyncGenerator[Chunk]:
    """Subscribed first, then replayed from the cursor, then as things happen; known ids are not sent twice."""
    frames, who = hub(request).frames, viewer(request)
    if replay.is_reset:
        yield ServerSentEvent(event="reset", data="The event you know is no longer kept. Read the exports again.")
    ids = frozenset({export}) if export else None
    async for changes in follow(request, owner=owner, ids=ids, replay=None if export else replay, direct=direct):
        if changes is None:
            yield SIGNED_OUT
            return
        is_over = export is not None and await _is_over(request, export)  # before its events: the last is among them
        async for batch in replay.news():
            if told := [event for event in batch if may_hear(who, event.data)]:
                yield b"".join(map(frames.of, told))
        if is_over:
            yield END
            return


async def _replay(request: Request, owner: str | None, export: str | None = None) -> Replay:
    """From `Last-Event-ID` or `after`."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    store, together = resources(request).store, hub(request).together
    return await replay_from(store, given, owner=owner, export=export, together=together)


async def _is_over(request: Request, export: str) -> bool:
    store = resources(request).store
    async with store.connection():
        found = await rows.get(store, export)
    return found is None or not found.is_active
