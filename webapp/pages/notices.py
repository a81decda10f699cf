"""The news of one person for all tabs of a browser: what changed, and which exports have ended.

One tab holds this stream and passes on what it hears. It carries no page: a tab that shows what changed asks for its
own element, and the ends are told wherever the person is. What did not arrive somewhere can be told again by hand.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio
import msgspec
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import reminders
from webapp.domain.events import TERMINAL_TYPES, Event
from webapp.domain.exports import ACTIVE
from webapp.live.hub import Changes
from webapp.live.replay import Replay, replay_from
from webapp.live.stream import END, SIGNED_OUT, event_stream, follow, retry_hint
from webapp.settings import LiveStrategy
from webapp.store import exports as rows
from webapp.store.exports import ListFilter
from webapp.web.context import export_id, resources, viewer
from webapp.web.flash import flash, redirect
from webapp.web.forms import read_form

MOST_ACTIVE = 200
MOST_CHANGED = 100
REST_SECONDS = 0.4
"""What changes within so long is told at once: progress comes often, and each piece of news costs each tab a poll."""
POLL_MILLISECONDS = 5000
"""Where long connections are dear or impossible the stream ends at once, and the browser comes again by itself."""
SENTENCES = {
    "export.succeeded": ("good", "{title} is ready."),
    "export.failed": ("bad", "{title} failed."),
    "export.timed_out": ("bad", "{title} took too long."),
    "export.cancelled": ("quiet", "{title} was cancelled."),
}


async def remind(request: Request) -> Response:
    """Tells the newest event of an export again, to whom the form names, and says so."""
    export, who = export_id(request), viewer(request)
    to = (await read_form(request)).text("to") or reminders.ALL
    told = await reminders.remind(resources(request), who, export, to=to)
    if told is None:
        message = flash("nothing-to-remind")
    elif to not in {reminders.ALL, reminders.READERS}:
        message = flash("redelivered", n=told.deliveries)
    elif told.deliveries:
        message = flash("reminded-callbacks", n=told.deliveries)
    else:
        message = flash("reminded")
    return redirect(request, f"/exports/{export}", message)


async def stream(request: Request) -> Response:
    """Ends when nothing is active any more: of the person, or for an admin, who may look at any export, of anybody."""
    who = viewer(request)
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    replay = await replay_from(resources(request).store, given, owner=who.id)
    return event_stream(request, _news(request, replay))


async def _news(request: Request, replay: Replay) -> AsyncGenerator[ServerSentEvent]:
    """`ended`, then `active` with the ids of the person's active exports, then `changed` with those of any that did."""
    who, known = viewer(request), None
    is_short = resources(request).settings.live_strategy is not LiveStrategy.POLL_THEN_SSE
    retry = POLL_MILLISECONDS if is_short else retry_hint()
    async for changes in follow(request, owner=None if who.is_admin else who.id):
        if changes is None:
            yield SIGNED_OUT
            return
        async for batch in replay.news():
            for event in await _ends(request, batch):
                yield _message("ended", _told(request, event), retry, event.id)
        active = await _active(request, who.id)
        if active != known:
            known = active
            yield _message("active", active, retry)
        yield _message("changed", _ids(changes), retry)
        if not active and not (who.is_admin and await _active(request, None)):
            yield END
            return
        if is_short:
            return
        await anyio.sleep(REST_SECONDS)


async def _ends(request: Request, batch: Sequence[Event]) -> Sequence[Event]:
    """Those that still hold: what failed and is tried again has not ended."""
    ends = [event for event in batch if event.type in TERMINAL_TYPES]
    if not ends:
        return ends
    store = resources(request).store
    async with store.connection():
        versions = {export.id: export.version for export in await rows.any_of(store, [end.export_id for end in ends])}
    return [end for end in ends if versions.get(end.export_id, end.version) == end.version]


async def _active(request: Request, owner: str | None) -> Sequence[str]:
    store, limit = resources(request).store, MOST_ACTIVE if owner else 1
    async with store.connection():
        found = await rows.list_page(store, ListFilter(owner=owner, statuses=tuple(ACTIVE)), limit=limit, after=None)
    return [export.id for export in found]


def _ids(changes: Changes) -> Sequence[str]:
    """An empty list means everything."""
    is_all = changes.everything or len(changes.ids) > MOST_CHANGED
    return [] if is_all else sorted(changes.ids - {""})


def _told(request: Request, event: Event) -> dict[str, Any]:
    name = str(event.data.get("dataset", ""))
    dataset = resources(request).catalog.datasets.get(name)
    title = dataset.title if dataset else name
    tone, sentence = SENTENCES[event.type]
    return {
        "id": event.id,
        "seq": event.seq,
        "export": event.export_id,
        "tone": tone,
        "text": sentence.format(title=title or "An export"),
    }


def _message(name: str, content: object, retry: int, event_id: str | None = None) -> ServerSentEvent:
    return ServerSentEvent(event=name, data=msgspec.json.encode(content).decode(), id=event_id, retry=retry)
