"""How a page keeps itself true: three polls, then one stream, then silence; and polls again when the stream fails.

Every answer, poll or stream, is the same element from the same template, so a page never knows two truths.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import exports
from webapp.domain.access import NotFound
from webapp.domain.exports import Export, eta_seconds
from webapp.live.replay import certain
from webapp.live.stream import END, SIGNED_OUT, event_stream, follow, retry_hint
from webapp.pages.context import ListQuery, detail_context, list_context, list_query
from webapp.pages.notices import with_news
from webapp.settings import LiveStrategy
from webapp.store import acks, events
from webapp.web.context import export_id, resources, viewer
from webapp.web.render import fragment, render

POLLS = 3
FALLBACK_LONGEST = 30
STREAM_AGAIN_EVERY = 5
"""While polling as a fallback, every so many polls the stream is tried again."""
PUSH_SECONDS = 30.0
REST_SECONDS = 5
"""With `push-then-poll` a stream ends after so long, and the page polls at this rhythm until the end is near."""
NEAR_SECONDS = 15
ROW_PACE = 0.005
"""Seconds between two snapshots of the list, for each of its rows that is active: the more move, the more a snapshot
costs the page, and the less one of them counts."""
REST = ServerSentEvent(event="rest", data="rest")

Context = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Live:
    """The live element: what it shows and how it goes on. Exactly one of `poll` and `stream` is set while active."""

    partial: str
    cursor: int
    moved: int
    poll: str | None = None
    delay: int = 0
    stream: str | None = None
    fallback: str | None = None
    tries: int = 0
    heartbeat: float = 0
    is_near: bool = False
    refresh: int | None = None
    refresh_url: str = ""
    events: Sequence[str] = ()
    """Ids of the events that it shows and the answer before it did not, which the page confirms."""
    own: Sequence[str] | None = None
    """Ids of the viewer's own active exports that it shows; None where it shows no exports."""

    @property
    def stamp(self) -> str:
        return f"{self.cursor}.{self.moved}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the rhythm a page is: `poll` counts answers of the first three, `fallback` those after a failure, `rest`
    those after a stream that was ended on purpose."""

    poll: int = 0
    fallback: int = 0
    rest: int = 0

    @classmethod
    def of(cls, request: Request) -> Place:
        return cls(_count(request, "poll"), _count(request, "fallback"), _count(request, "rest"))


def _count(request: Request, name: str) -> int:
    """Beyond 1000 the last few numbers come again, so that a page that polls for days still tries its stream."""
    text = request.query_params.get(name, "0")
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    return count if count <= 1000 else 1000 - STREAM_AGAIN_EVERY + count % STREAM_AGAIN_EVERY


def live_element(
    request: Request,
    *,
    partial: str,
    path: str,
    query: str,
    cursor: int,
    moved: int,
    active: bool,
    place: Place,
    is_near: bool = False,
    events: Sequence[str] = (),
    own: Sequence[str] | None = None,
) -> Live:
    """`path` is the page's own; its polls are at `path/live` and its stream at `path/stream`. `is_near`: the end is
    expected within `NEAR_SECONDS`."""
    settings = resources(request).settings
    if not active:
        return Live(partial, cursor, moved, events=events, own=own)
    joined = f"&{query}" if query else ""
    common: dict[str, Any] = {
        "fallback": f"{path}/live?after={cursor}{joined}",
        "heartbeat": settings.stream_heartbeat.total_seconds(),
        "tries": place.fallback,
        "is_near": is_near,
        "events": events,
        "own": own,
    }
    if may_stream(settings.live_strategy, place, is_near=is_near):
        stream = f"{path}/stream?after={cursor}{joined}"
        return Live(partial, cursor, moved, stream=stream, **common)
    if place.rest:
        following, delay = f"rest={place.rest + 1}", REST_SECONDS
    elif place.fallback or place.poll >= POLLS:
        following = f"fallback={place.fallback + 1}"
        delay = min(2**place.fallback, FALLBACK_LONGEST)
    else:
        following, delay = f"poll={place.poll + 1}", place.poll + 1
    refresh = _count(request, "refresh")
    return Live(
        partial,
        cursor,
        moved,
        poll=f"{path}/live?{following}&after={cursor}{joined}",
        delay=delay,
        refresh=min(refresh + 1, 5),
        refresh_url=f"{path}?refresh={refresh + 1}{joined}",
        **common,
    )


def may_stream(strategy: LiveStrategy, place: Place, *, is_near: bool = False) -> bool:
    if strategy is LiveStrategy.POLL_ONLY:
        return False
    if place.rest:
        return is_near
    if place.fallback:
        return place.fallback % STREAM_AGAIN_EVERY == 0
    return place.poll >= POLLS or strategy is LiveStrategy.PUSH_THEN_POLL


async def detail_live(
    request: Request, export_id: str, place: Place | None = None, *, after: int | None = None
) -> dict[str, Any]:
    """The context of the detail page's live element, with the events behind the number `after`, or else those since it
    is read. Raises NotFound."""
    cursor = await _cursor(request)
    export = await exports.read(resources(request), viewer(request), export_id)
    context = await detail_context(request, export)
    live = live_element(
        request,
        partial="exports/_export.html",
        path=f"/exports/{export.id}",
        query="",
        cursor=cursor,
        moved=export.rows_done,
        active=export.is_active,
        place=place or Place(),
        is_near=is_near_its_end(context["eta"]),
        events=await _shown_events(request, [export], cursor if after is None else after),
        own=_own_active(request, [export]),
    )
    return {**context, "live": live}


async def list_live(
    request: Request, query: ListQuery, place: Place | None = None, *, after: int | None = None
) -> dict[str, Any]:
    """The same of the list page, which is live while anything on it is active."""
    cursor = await _cursor(request)
    context = await list_context(request, query)
    shown: list[Export] = context["exports"]
    live = live_element(
        request,
        partial="exports/_list.html",
        path="/exports",
        query=query.query_string(),
        cursor=cursor,
        moved=sum(export.rows_done for export in shown if export.is_active),  # others may go, and leave no event
        active=any(export.is_active for export in shown),
        place=place or Place(),
        is_near=any(is_near_its_end(eta_seconds(export, context["now"])) for export in shown),
        events=await _shown_events(request, shown, cursor if after is None else after),
        own=_own_active(request, shown),
    )
    return {**context, "live": live}


def is_near_its_end(eta: int | None) -> bool:
    return eta is not None and eta <= NEAR_SECONDS


async def _cursor(request: Request) -> int:
    """Read before the exports are, so that what is shown is never older than the cursor says."""
    store = resources(request).store
    async with store.connection():
        return await events.latest_seq(store)


async def _shown_events(request: Request, shown: Sequence[Export], after: int) -> Sequence[str]:
    store = resources(request).store
    async with store.connection():
        start = await certain(store, after)
        return await acks.shown(store, {export.id: export.version for export in shown}, after=start)


def _after(request: Request) -> int | None:
    """The cursor of what the page shows."""
    text = request.query_params.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _own_active(request: Request, shown: Sequence[Export]) -> Sequence[str]:
    return [export.id for export in shown if export.is_active and export.owner == viewer(request).id]


async def detail_poll(request: Request) -> Response:
    viewer(request)
    context = await detail_live(request, export_id(request), Place.of(request), after=_after(request))
    return fragment("exports/_live.html", **context)


async def list_poll(request: Request) -> Response:
    viewer(request)
    context = await list_live(request, list_query(request), Place.of(request), after=_after(request))
    return fragment("exports/_live.html", **context)


async def detail_stream(request: Request) -> Response:
    """Ends with `end` when the export is over, and with `gone` when it was deleted."""
    export = await exports.read(resources(request), viewer(request), export_id(request))

    def read(after: int | None) -> Awaitable[Context]:
        return detail_live(request, export.id, after=after)

    return await element_stream(request, following(request, read), owner=export.owner, ids=frozenset({export.id}))


async def list_stream(request: Request) -> Response:
    query = list_query(request)
    owner = None if query.everybody and viewer(request).is_admin else viewer(request).id

    def read(after: int | None) -> Awaitable[Context]:
        return list_live(request, query, after=after)

    return await element_stream(request, paced(following(request, read), list_pace), owner=owner)


def following(request: Request, read: Callable[[int | None], Awaitable[Context]]) -> Callable[[], Awaitable[Context]]:
    """Each reading begins where the one before it ended, and the first where the page is."""
    after = _after(request)

    async def next_context() -> Context:
        nonlocal after
        context = await read(after)
        live: Live = context["live"]
        after = live.cursor
        return context

    return next_context


def list_pace(context: Context) -> float:
    shown: list[Export] = context["exports"]
    return ROW_PACE * sum(export.is_active for export in shown)


async def element_stream(
    request: Request,
    read: Callable[[], Awaitable[Context]],
    *,
    owner: str | None,
    ids: frozenset[str] | None = None,
    subject: str | None = None,
) -> Response:
    """`read` gives the element's context, whose `ids` change; None is all of the owner's. Raises Refused."""
    snapshots = _snapshots(request, read, owner=owner, ids=ids, subject=subject)
    return event_stream(request, await with_news(request, snapshots))


def paced(
    read: Callable[[], Awaitable[Context]], pace: float | Callable[[Context], float]
) -> Callable[[], Awaitable[Context]]:
    """Reads at most once in so many seconds, which what was read may tell: what is busy hints far more often than
    anybody can read."""
    due = 0.0

    async def when_it_is_time() -> Context:
        nonlocal due
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        context = await read()
        due = began + (pace(context) if callable(pace) else pace)
        return context

    return when_it_is_time


async def _snapshots(
    request: Request,
    read: Callable[[], Awaitable[Context]],
    *,
    owner: str | None,
    ids: frozenset[str] | None,
    subject: str | None,
) -> AsyncGenerator[ServerSentEvent]:
    """A snapshot at once, then one whenever what it shows has changed."""
    shown, rests_at = "", _rests_at(request)
    async for changes in follow(request, owner=owner, ids=ids, subject=subject):
        if changes is None:
            yield SIGNED_OUT
            return
        try:
            context = await read()
        except NotFound:
            yield ServerSentEvent(event="gone", data="gone")
            return
        live: Live = context["live"]
        html = render("exports/_live_content.html", context)
        if html != shown:
            shown = html
            yield ServerSentEvent(data=html, id=live.stamp, retry=retry_hint())
        if live.poll is None and live.stream is None:
            yield END
            return
        if time.monotonic() >= rests_at and not live.is_near:
            yield REST
            return


def _rests_at(request: Request) -> float:
    """When a stream is to make way for polls, by the monotonic clock."""
    pushes_first = resources(request).settings.live_strategy is LiveStrategy.PUSH_THEN_POLL
    return time.monotonic() + PUSH_SECONDS if pushes_first else math.inf
