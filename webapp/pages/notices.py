"""The news of one person for all tabs of a browser: what changed, and which exports have ended.

One tab holds a stream and passes on what it hears: the stream of the element that it shows, which brings the news too,
or else this one, which carries no page. A tab that shows what changed asks for its own element, and the ends are told
wherever the person is. What did not arrive somewhere can be told again by hand.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import reminders, shares
from webapp.domain.access import may_hear
from webapp.domain.events import TERMINAL_TYPES, Event
from webapp.domain.exports import ACTIVE
from webapp.domain.sentences import say
from webapp.domain.shares import Received
from webapp.language import gettext as _
from webapp.live.hub import Changes
from webapp.live.replay import Replay, replay_from
from webapp.live.stream import END, SIGNED_OUT, beside, event_stream, follow, retry_hint
from webapp.pages.context import received_title
from webapp.settings import LiveStrategy
from webapp.store import exports as rows
from webapp.store.exports import ListFilter
from webapp.store.types import to_milliseconds
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
    "export.succeeded": ("good", say("{title} is ready.")),
    "export.failed": ("bad", say("{title} failed.")),
    "export.timed_out": ("bad", say("{title} took too long.")),
    "export.cancelled": ("quiet", say("{title} was cancelled.")),
}


@dataclass(frozen=True, slots=True)
class Message:
    """One piece of news; `event_id` where it is an event."""

    name: str
    content: object
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class News:
    """What is told at once. `is_last`: nothing was active any more before it was looked for, so that no end is left."""

    messages: Sequence[Message]
    is_last: bool


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
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    return event_stream(request, _until_nothing_is_active(request, await _replay(request, given)))


async def with_news(request: Request, element: AsyncGenerator[ServerSentEvent]) -> AsyncGenerator[ServerSentEvent]:
    """The stream of an element, and with `?news=` (the cursor, or nothing) the same news as long as it lasts.

    Their names begin with `news-` and they have no ids, which are those of the element.
    """
    given = request.query_params.get("news")
    if given is None:
        return element
    return beside(element, _named_news(request, await _replay(request, given)))


async def _replay(request: Request, given: str | None) -> Replay:
    return await replay_from(resources(request).store, given, owner=viewer(request).id)


async def _until_nothing_is_active(request: Request, replay: Replay) -> AsyncGenerator[ServerSentEvent]:
    is_short = resources(request).settings.live_strategy is not LiveStrategy.POLL_THEN_SSE
    retry = POLL_MILLISECONDS if is_short else retry_hint()
    async with contextlib.aclosing(_news(request, replay)) as news:
        async for found in news:
            if found is None:
                yield SIGNED_OUT
                return
            for message in found.messages:
                yield _sent(message.name, message, retry, message.event_id)
            if found.is_last:
                yield END
                return
            if is_short:
                return


async def _named_news(request: Request, replay: Replay) -> AsyncGenerator[ServerSentEvent]:
    """That the viewer signed out is told by the element's stream."""
    async with contextlib.aclosing(_news(request, replay)) as news:
        async for found in news:
            for message in found.messages if found else ():
                yield _sent(f"news-{message.name}", message, retry_hint())


async def _news(request: Request, replay: Replay) -> AsyncGenerator[News | None]:
    """`ended`, `shared`, then `active` with the ids of the person's active exports, then `changed` with those of any
    that did. Looks for what was shared with the person only when something changed that is not theirs.

    None, at last, when the viewer signed out.
    """
    who, known, shared = viewer(request), None, set[str]()
    async for changes in follow(request, owner=None if who.is_admin else who.id):
        if changes is None:
            yield None
            return
        was_active = await _active(request, who.id)  # read first: what ends between is among the ends
        is_last = not (await _active(request, None) if who.is_admin else was_active)
        ended = [event async for batch in replay.news() for event in await _ends(request, batch)]
        messages = [Message("ended", _told(request, event), event.id) for event in ended]
        over = {event.export_id for event in ended}
        active = [id for id in was_active if id not in over]
        theirs = {*active, *(known or ()), *over}
        if changes.everything or not changes.ids <= theirs:
            messages += await _shared(request, shared)
        if active != known:
            known = active
            messages.append(Message("active", active))
        yield News([*messages, Message("changed", _ids(changes))], is_last)
        await anyio.sleep(REST_SECONDS)


async def _ends(request: Request, batch: Sequence[Event]) -> Sequence[Event]:
    """Those that still hold: what failed and is tried again has not ended."""
    who = viewer(request)
    ends = [event for event in batch if event.type in TERMINAL_TYPES and may_hear(who, event.data)]
    if not ends:
        return ends
    store = resources(request).store
    async with store.connection():
        versions = {export.id: export.version for export in await rows.any_of(store, [end.export_id for end in ends])}
    return [end for end in ends if versions.get(end.export_id, end.version) == end.version]


async def _shared(request: Request, known: set[str]) -> Sequence[Message]:
    """What others have shared with the person and was not opened yet, each once in a stream: `known` are those."""
    found = [each for each in await shares.unseen(resources(request), viewer(request)) if each.export_id not in known]
    known |= {each.export_id for each in found}
    return [Message("shared", _told_share(request, each)) for each in reversed(found)]


def _told_share(request: Request, received: Received) -> dict[str, Any]:
    by, title = received.shared_by, received_title(resources(request), received)
    text = _("{name} shared {export} with you.", name=by, export=title) if by else None
    return {
        "id": f"share-{received.export_id}-{to_milliseconds(received.created_at)}",
        "export": received.export_id,
        "tone": "note",
        "text": text or _("{export} was shared with you.", export=title),
    }


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
    title = event.data.get("name") or (dataset.title if dataset else name)
    tone, sentence = SENTENCES[event.type]
    return {
        "id": event.id,
        "seq": event.seq,
        "export": event.export_id,
        "tone": tone,
        "text": _(sentence, title=title or _("An export")),
    }


def _sent(name: str, message: Message, retry: int, event_id: str | None = None) -> ServerSentEvent:
    data = msgspec.json.encode(message.content).decode()
    return ServerSentEvent(event=name, data=data, id=event_id, retry=retry)
