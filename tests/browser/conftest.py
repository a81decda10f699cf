"""A real server on a free port, a real Chromium, and the server's own request log."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from browser.sign_ins import signed_in
from needed import missing
from patience import PATIENCE
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.settings import Settings

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

expect.set_options(timeout=1000 * PATIENCE)


class RequestLog:
    """Every request in the order of arrival: a stream is counted while it is open."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            query = scope["query_string"].decode()
            self.seen.append(f"{scope['method']} {scope['path']}" + (f"?{query}" if query else ""))
        await self.app(scope, receive, send)

    def count(self, path: str, having: str = "") -> int:
        return sum(1 for line in self.seen if line.split(" ")[1].split("?")[0] == path and having in line)


class Server:
    """The application behind uvicorn, in this test's own event loop."""

    def __init__(self, url: str, log: RequestLog) -> None:
        self.url = url
        self.log = log


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def server(app: Any, settings: Settings) -> AsyncIterator[Server]:
    """On the port of `base_url`, where it names one: then the links that the application writes lead here."""
    port, counted = urlsplit(settings.base_url).port or free_port(), RequestLog(app)
    config = uvicorn.Config(
        counted, host="127.0.0.1", port=port, lifespan="off", log_level="error", timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)
    running.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    task = asyncio.create_task(running.serve())
    while not running.started:
        await asyncio.sleep(0.02)
    yield Server(f"http://127.0.0.1:{port}", counted)
    running.should_exit = True
    await asyncio.wait_for(task, PATIENCE)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        missing("Chromium")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        await launched.close()


@pytest.fixture
async def context(
    browser: Browser, server: Server, resources: Resources, user: Viewer
) -> AsyncIterator[BrowserContext]:
    """A browser in which `user` is signed in."""
    opened = await signed_in(browser, server, resources, user, viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(1000 * PATIENCE)
    yield opened
    await opened.close()


@pytest.fixture
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A page whose script errors fail the test."""
    problems: list[str] = []
    opened = await context.new_page()
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    assert problems == []
