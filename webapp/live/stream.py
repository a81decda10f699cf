"""Server-sent events: who is told what, for how long, and how a stream ends."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncIterator

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from webapp.live.hub import Changes, Reader
from webapp.store.database import DATABASE_ERRORS
from webapp.web.context import hub, resources, viewer
from webapp.web.security import identify

SEND_SECONDS = 20.0
GRACE_SECONDS = 2.0
RETRY_MILLISECONDS = (500, 3000)
IDENTITY_SECONDS = 5.0
END = ServerSentEvent(event="end", data="end")
SIGNED_OUT = ServerSentEvent(event="signed-out", data="signed-out")

log = logging.getLogger(__name__)
_spread = random.SystemRandom()


class Stopping(anyio.Event):
    """Set when the server is about to stop: wakes the stream's reader, so that the stream ends in good order."""

    def __init__(self) -> None:
        self.is_near = False
        self.reader: Reader | None = None

    def __new__(cls) -> Stopping:
        return object.__new__(cls)

    def set(self) -> None:
        self.is_near = True
        if self.reader is not None:
            self.reader.tell_everything()


def event_stream(request: Request, events: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
    """A stream with a named heartbeat, that gives up on a reader who does not read."""
    seconds = resources(request).settings.stream_heartbeat.total_seconds()
    request.state.stopping = stopping = Stopping()
    return EventSourceResponse(
        _while_the_database_answers(events),
        ping=seconds,
        ping_message_factory=lambda: ServerSentEvent(event="heartbeat", data=f"{seconds:g}"),
        send_timeout=SEND_SECONDS,
        shutdown_event=stopping,
        shutdown_grace_period=GRACE_SECONDS,
        sep="\n",
    )


async def _while_the_database_answers(events: AsyncIterator[ServerSentEvent]) -> AsyncIterator[ServerSentEvent]:
    """A stream whose database is gone just ends: its reader comes back, and says where it was."""
    try:
        async for event in events:
            yield event
    except DATABASE_ERRORS as error:
        log.warning("a stream ended, the database did not answer (%s)", type(error).__name__)


def retry_hint() -> int:
    """Milliseconds to wait before reconnecting: different for each reader, so that they come back spread out."""
    return _spread.randint(*RETRY_MILLISECONDS)


async def follow(
    request: Request, *, owner: str | None, ids: frozenset[str] | None = None
) -> AsyncIterator[Changes | None]:
    """First "everything", at once: the caller reads the store when it is subscribed already. Then whatever changes.

    Without news the store is read again at every heartbeat. Ends when the viewer signed out, with a last None, and
    when the server stops.
    """
    live, heartbeat = hub(request), resources(request).settings.stream_heartbeat.total_seconds()
    checked, changes = 0.0, Changes(everything=True)
    stopping: Stopping = request.state.stopping
    with live.reader(owner=owner, ids=ids, viewer=viewer(request).id) as reader:
        stopping.reader = reader
        while not stopping.is_near:
            if "" in changes.ids or time.monotonic() - checked >= IDENTITY_SECONDS:
                if await identify(request) is None:
                    yield None
                    return
                checked = time.monotonic()
            yield changes
            changes = await reader.changes(live.patience(heartbeat)) or Changes(everything=True)
