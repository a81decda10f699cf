"""The inspector's page in a real browser: what arrives shows up by itself, and fits on a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from webapp.actions import inspectors, people
from webapp.domain.access import Viewer
from webapp.domain.receiving import Inspector
from webapp.resources import Resources
from webapp.web.security import SESSION_COOKIE

Send = Callable[..., Awaitable[None]]
Opener = Callable[..., Awaitable[Page]]


@pytest.fixture
async def inspector(resources: Resources, admin: Viewer) -> Inspector:
    return await inspectors.create(resources, admin)


@pytest.fixture
async def send(server: Any, inspector: Inspector) -> AsyncIterator[Send]:
    async with httpx.AsyncClient(base_url=server.url) as sender:

        async def post(event_type: str, padding: str = "") -> None:
            body = {"type": event_type, "data": {"padding": padding}}
            response = await sender.post(f"/inspect/{inspector.token}", json=body)
            assert response.status_code == 200

        yield post


@pytest.fixture
async def open_page(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, inspector: Inspector
) -> AsyncIterator[Opener]:
    """Opens the page as an admin sees it; `options` are those of the browser's context."""
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    contexts: list[Any] = []

    async def opened(path: str = "", **options: Any) -> Page:
        context = await browser.new_context(base_url=server.url, **options)
        contexts.append(context)
        await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
        page = await context.new_page()
        await page.goto(f"/inspect/{inspector.token}{path}")
        return page

    yield opened
    for context in contexts:
        await context.close()


async def test_what_arrives_shows_up_by_itself_and_what_is_being_read_stays(open_page: Opener, send: Send) -> None:
    page = await open_page()
    await expect(page.locator(".empty h2")).to_have_text("Nothing has arrived yet")
    await send("export.created")
    await expect(page.locator("#request-title")).to_have_text("export.created")
    await page.locator("a.inspect-row").first.click()
    await send("export.queued")
    await expect(page.locator("a.inspect-row")).to_have_count(2)
    await expect(page.locator("#request-title")).to_have_text("export.created")
    await page.locator(".inspect-newest").click()
    await expect(page.locator("#request-title")).to_have_text("export.queued")
    streaming = page.locator("xpath=//section[@id='live'][@*[name()='hx-sse:connect']]")
    await expect(streaming).to_have_count(1)
    await send("export.started")
    await expect(page.locator("#request-title")).to_have_text("export.started")


async def test_when_it_was_thrown_away_elsewhere_the_page_says_so(
    open_page: Opener, resources: Resources, admin: Viewer, inspector: Inspector
) -> None:
    page = await open_page()
    await inspectors.delete(resources, admin, inspector.token)
    await expect(page.locator("#live-notice")).to_have_text("This was deleted, or is no longer yours.")


async def test_without_scripts_everything_can_be_done(open_page: Opener, send: Send) -> None:
    page = await open_page(java_script_enabled=False)
    await send("export.created")
    await expect(page.locator("#request-title")).to_have_text("export.created")
    await page.get_by_role("button", name="503").click()
    await expect(page.locator(".inspect-choices [aria-current]")).to_have_text("503")
    await page.get_by_role("button", name="Clear").click()
    await expect(page.locator(".flash")).to_have_text("What had arrived is cleared.")
    await page.get_by_role("button", name="Throw away").click()
    await expect(page.locator("h1")).to_have_text("Inspectors")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "/settings"])
async def test_it_fits_on_a_phone(open_page: Opener, send: Send, scheme: str, path: str) -> None:
    await send("export.created", "x" * 500)
    await send("export.with_a_name_that_is_much_longer_than_any_line", "long words " * 50)
    page = await open_page(path, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
