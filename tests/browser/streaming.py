"""Waiting until a page streams, by asking again: the pages' content policy lets no waiting script be evaluated."""

from __future__ import annotations

import asyncio
import time

from patience import PATIENCE
from playwright.async_api import Page


async def until_it_streams(page: Page, seconds: float = PATIENCE) -> None:
    ends = time.monotonic() + seconds
    while not await page.evaluate("!!document.getElementById('live')._htmx?.sse?.reader"):
        assert time.monotonic() < ends, "the page opened no stream in time"
        await asyncio.sleep(0.02)
