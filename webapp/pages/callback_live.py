"""How the callback pages keep themselves true: the same rhythm as everywhere, told by hints about endpoints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp import bus
from webapp.live.stream import event_stream
from webapp.pages.live import Live, Place, live_element, snapshots

PACE = 0.3
"""Seconds between two readings for one stream: a busy endpoint hints far more often than anybody can read."""

Context = dict[str, Any]


def callback_element(
    request: Request, *, partial: str, path: str, query: str = "", now: datetime, active: bool, place: Place | None
) -> Live:
    """`now` was read before what is shown: nothing numbers what happens to endpoints, so time does.

    Without JavaScript these pages do not reload by themselves: there are forms on them.
    """
    element = live_element(
        request,
        partial=partial,
        path=path,
        query=query,
        cursor=round(now.timestamp() * 1000),
        moved=0,
        active=active,
        place=place or Place(),
    )
    return replace(element, refresh=None)


def callback_stream(
    request: Request, read: Callable[[], Awaitable[Context]], *, ids: frozenset[str] | None = None
) -> Response:
    """`ids` are endpoints; None is all of them."""
    return event_stream(request, snapshots(request, _paced(read), owner=bus.CALLBACKS, ids=ids))


def _paced(read: Callable[[], Awaitable[Context]]) -> Callable[[], Awaitable[Context]]:
    last = 0.0

    async def when_it_is_time() -> Context:
        nonlocal last
        await asyncio.sleep(max(0.0, last + PACE - time.monotonic()))
        last = time.monotonic()
        return await read()

    return when_it_is_time
