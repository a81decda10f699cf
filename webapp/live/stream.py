"""Server-sent events: who is told what, for how long, and how a stream ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator

import anyio
from sse_starlette import ServerSentEvent
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from webapp.domain.access import Viewer
from webapp.ending import end
from webapp.live.direct import Direct
from webapp.live.eager import begin
from webapp.live.hub import EVERYBODY, Changes, Hub
from webapp.live.identity import Identity
from webapp.live.replay import Replay
from webapp.store.database import DATABASE_ERRORS
from webapp.web.context import hub, resources, viewer
from webapp.web.proxies import PROXY_USER
from webapp.web.security import SESSION_COOKIE, identify

SEND_SECONDS = 20.0
"""How long a reader may not read. A stream notices at its next heartbeat."""
GRACE_SECONDS = 2.0
RETRY_MILLISECONDS = (500, 3000)
RETURNS_PER_SECOND = 100
"""When the server stops, its readers are asked to come back at about this rate."""
LONGEST_RETRY_MILLISECONDS = 20_000
HEADERS = {"Cache-Control": "no-store", "Connection": "keep-alive", "X-Accel-Buffering": "no"}
END = ServerSentEvent(event="end", data="end")
SIGNED_OUT = ServerSentEvent(event="signed-out", data="signed-out")

Chunk = ServerSentEvent | bytes
"""Bytes are whole events, already encoded."""

log = logging.getLogger(__name__)
_spread = random.SystemRandom()


class EventStream(Response):
    """Tells events, and a named heartbeat meanwhile. It ends with its events, with its reader, with the server, and
    when its reader does not read."""

    def __init__(
        self, events: AsyncGenerator[Chunk], *, live: Hub, heartbeat: float, direct: Direct | None = None
    ) -> None:
        self.status_code = 200
        self.media_type = "text/event-stream"
        self.background = None
        self.init_headers(HEADERS)
        self._events = events
        self._live = live
        self._heartbeat = heartbeat
        self._heart = ServerSentEvent(event="heartbeat", data=f"{heartbeat:g}", sep="\n").encode()
        self._beaten_at = 0.0
        self._scope = anyio.CancelScope()
        self._beating: asyncio.Task[None] | None = None
        self._direct = direct
        self._leaving: asyncio.Task[None] | None = None
        self._is_read = True
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send: Send = scope["exportdesk.send"]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await self._tell(b"", is_last=True)
            return
        if self._direct is not None:
            self._direct.send = self._tell_soon
        telling = asyncio.create_task(self._tell_all())
        telling.add_done_callback(lambda _: self._scope.cancel())
        self._beat_later()
        try:
            with self._live.stream(self._end), self._scope:
                while (await receive())["type"] != "http.disconnect":
                    pass
                self._is_read = False
        finally:
            self._is_over = True
            self._timer.cancel()
            if self._beating is not None:
                self._beating.cancel()
            await end(telling, *filter(None, [self._leaving]))
        if not telling.cancelled():
            telling.result()
        if self._is_read:
            with anyio.move_on_after(GRACE_SECONDS):
                await self._tell(farewell(self._live.ending) if self._live.is_stopping else b"", is_last=True)

    async def _tell_all(self) -> None:
        await self._tell(ServerSentEvent(retry=retry_hint(), sep="\n").encode())
        async with contextlib.aclosing(self._events) as events:
            try:
                async for chunk in events:
                    await self._tell(chunk if isinstance(chunk, bytes) else chunk.encode())
            except DATABASE_ERRORS as error:
                log.warning("a stream ended, the database did not answer (%s)", type(error).__name__)

    async def _tell(self, body: bytes, *, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})

    def _tell_soon(self, body: bytes) -> bool:
        """Not while what was told before has not left yet: then the stream waits for its reader. All streams that are
        told the same write one right after the other: a write that wakes who reads takes twice as long."""
        if self._leaving is not None and not self._leaving.done():
            return False
        asyncio.get_running_loop().call_soon(self._tell_now, body)
        return True

    def _tell_now(self, body: bytes) -> None:
        if not self._is_over:
            self._leaving = begin(self._tell(body))

    def _beat_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat, self._beat)

    def _beat(self) -> None:
        """Never a second heartbeat behind one that has not left: what waits for a slow reader is bounded."""
        self._beat_later()
        now = time.monotonic()
        if self._beating is None or self._beating.done():
            self._beating, self._beaten_at = asyncio.create_task(self._tell(self._heart)), now
        elif now - self._beaten_at > SEND_SECONDS:
            log.info("a stream ended, its reader did not read for %g seconds", now - self._beaten_at)
            self._is_read = False
            self._scope.cancel()

    def _end(self) -> None:
        """The events end by themselves, but for those that wait for something else just now."""
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._scope.cancel)


def event_stream(request: Request, events: AsyncGenerator[Chunk], *, direct: Direct | None = None) -> Response:
    """A stream that is begun before its events are read; what comes while it waits may be told by way of `direct`."""
    heartbeat = resources(request).settings.stream_heartbeat.total_seconds()
    return EventStream(events, live=hub(request), heartbeat=heartbeat, direct=direct)


async def beside(
    events: AsyncGenerator[ServerSentEvent], others: AsyncGenerator[ServerSentEvent]
) -> AsyncGenerator[ServerSentEvent]:
    """Both, as they come. It ends with the first, or with what goes wrong in either."""
    told: asyncio.Queue[ServerSentEvent | Exception | None] = asyncio.Queue(1)

    async def tell(source: AsyncGenerator[ServerSentEvent], *, is_first: bool) -> None:
        try:
            async with contextlib.aclosing(source):
                async for event in source:
                    await told.put(event)
        except Exception as error:
            await told.put(error)
        else:
            if is_first:
                await told.put(None)

    telling = [asyncio.create_task(tell(events, is_first=True)), asyncio.create_task(tell(others, is_first=False))]
    try:
        while (event := await told.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event
    finally:
        await end(*telling)


def farewell(streams: int) -> bytes:
    """Before the server stops: when to come back, if so many do. It has data since htmx hears of nothing else."""
    low, high = RETRY_MILLISECONDS
    longest = min(max(high, streams * 1000 // RETURNS_PER_SECOND), LONGEST_RETRY_MILLISECONDS)
    return ServerSentEvent(event="restart", data="restart", retry=_spread.randint(low, longest), sep="\n").encode()


def retry_hint() -> int:
    """Milliseconds to wait before reconnecting: different for each reader, so that they come back spread out."""
    return _spread.randint(*RETRY_MILLISECONDS)


def identity_of(connection: HTTPConnection, who: Viewer) -> Identity:
    credential = (
        connection.headers.get("authorization"),
        connection.scope.get(PROXY_USER),
        connection.cookies.get(SESSION_COOKIE),
    )
    return hub(connection).identities.of(credential, who, lambda: identify(connection))


async def follow(
    request: Request,
    *,
    owner: str | None,
    ids: frozenset[str] | None = None,
    replay: Replay | None = None,
    subject: str | None = None,
    direct: Direct | None = None,
) -> AsyncGenerator[Changes | None]:
    """First "everything", at once: the caller reads the store when it is subscribed already. Then whatever changes.

    Without news the store is read again at every heartbeat. Ends when the viewer signed out, with a last None, when
    the viewer may see something else than before, and when the server stops.
    """
    live, heartbeat, who = hub(request), resources(request).settings.stream_heartbeat.total_seconds(), viewer(request)
    identity, changes = identity_of(request, who), Changes(frozenset({EVERYBODY}), everything=True)
    with live.reader(owner=owner, ids=ids, viewer=who.id, replay=replay, subject=subject, direct=direct) as reader:
        while not live.is_stopping:
            if EVERYBODY in changes.ids or identity.is_old:
                await live.together.do(identity, identity.look)
            if identity.viewer is None:
                yield None
            if identity.viewer != who:
                return
            yield changes
            changes = await reader.changes(live.patience(heartbeat)) or Changes(everything=True)
