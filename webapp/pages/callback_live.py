"""How the callback pages keep themselves true: the same rhythm as everywhere, told by hints about endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from webapp import bus
from webapp.pages.live import Context, Live, Place, element_stream, live_element, paced

PACE = 0.3
"""Seconds between two readings for one stream: a busy endpoint hints far more often than anybody can read."""


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


async def callback_stream(
    request: Request, read: Callable[[], Awaitable[Context]], *, ids: frozenset[str] | None = None
) -> Response:
    """`ids` are endpoints; None is all of them."""
    return await element_stream(request, paced(read, PACE), owner=bus.CALLBACKS, ids=ids)
