"""What the benches in Chromium have in common: a desk of their own, somebody who uses it, and the browser."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from cli.command_line import environment, free_port
from playwright.async_api import Browser, BrowserContext, async_playwright

from webapp.actions import people
from webapp.domain.access import Role, Viewer
from webapp.resources import Resources, open_resources
from webapp.settings import Settings, read_settings
from webapp.store.schema import migrate
from webapp.web.security import SESSION_COOKIE

NAME, PASSWORD = "bench", "bench has a password"


@dataclass(frozen=True, slots=True)
class Desk:
    """Its web process is started by who uses it, with `settings` or, to the same effect, `environ`."""

    resources: Resources
    settings: Settings
    environ: dict[str, str]
    admin: Viewer


@contextlib.asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    """On a free port, over SQLite in the folder and the broker that `far_end.broker` starts there."""
    port = free_port()
    environ = environment(folder / "data", PORT=str(port), REDIS_URL=f"unix://{folder}/redis.sock")
    settings = replace(read_settings(environ), base_url=f"http://127.0.0.1:{port}")
    await migrate(settings.database_url)
    async with open_resources(settings) as resources:
        user = await people.add_user(resources, NAME, Role.ADMIN, actor=NAME, password=PASSWORD)
        yield Desk(resources, settings, environ, Viewer(user.id, user.name, user.role))


@contextlib.asynccontextmanager
async def chromium(path: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


@contextlib.asynccontextmanager
async def visitor(
    browser: Browser, desk: Desk, *, signed_in: bool = True, locale: str | None = None
) -> AsyncIterator[BrowserContext]:
    """A browser of somebody who comes for the first time, with nothing in the cache."""
    context = await browser.new_context(base_url=desk.settings.base_url, locale=locale)
    if signed_in:
        session = await people.sign_in(desk.resources, NAME, PASSWORD)
        assert session
        await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": desk.settings.base_url}])
    yield context
    await context.close()
