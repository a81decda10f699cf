"""Server-sent events: who is told what, for how long, and how a stream ends."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from webapp.live.hub import Changes
from webapp.web.context import hub, resources
from webapp.web.security import identify

SEND_SECONDS = 20.0
GRACE_SECONDS = 2.0
RETRY_MILLISECONDS = (500, 3000)
IDENTITY_SECONDS = 5.0
END = ServerSentEvent(event="end", data="end")
SIGNED_OUT = ServerSentEvent(event="signed-out", data="signed-out")

_spread = random.SystemRandom()


def event_stream(request: Request, events: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
    """A stream with a named heartbeat, that gives up on a reader who does not read."""
    seconds = resources(request).settings.stream_heartbeat.total_seconds()
    return EventSourceResponse(
        events,
        ping=seconds,
        ping_message_factory=lambda: ServerSentEvent(event="heartbeat", data=f"{seconds:g}"),
        send_timeout=SEND_SECONDS,
        shutdown_event=anyio.Event(),
        shutdown_grace_period=0,
        sep="\n",
    )


def retry_hint() -> int:
    """Milliseconds to wait before reconnecting: different for each reader, so that they come back spread out."""
    return _spread.randint(*RETRY_MILLISECONDS)


async def follow(
    request: Request, *, owner: str | None, ids: frozenset[str] | None = None
) -> AsyncIterator[Changes | None]:
    """First "everything", at once: the caller reads the store when it is subscribed already. Then whatever changes.

    Without news the store is read again at every heartbeat. Ends when the viewer signed out, with a last None.
    """
    live, heartbeat = hub(request), resources(request).settings.stream_heartbeat.total_seconds()
    checked = time.monotonic()
    with live.reader(owner=owner, ids=ids) as reader:
        yield Changes(everything=True)
        while True:
            changes = await reader.changes(live.patience(heartbeat)) or Changes(everything=True)
            if "" in changes.ids or time.monotonic() - checked >= IDENTITY_SECONDS:
                if await identify(request) is None:
                    yield None
                    return
                checked = time.monotonic()
            yield changes
