"""The monitor page in a real browser: charts that follow their tables, and everything without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from factories import stored_export
from playwright.async_api import Browser, Page, expect

from webapp.actions import people
from webapp.actions.tallies import tally_events
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.web.security import SESSION_COOKIE

Opener = Callable[..., Awaitable[Page]]
LIBRARY = "/static/vendor/echarts.min.js"
LOADING = "Failed to load resource"
PIXELS = """card => {
    const canvas = document.querySelector(`#${card} canvas`);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
}"""


@pytest.fixture
async def open_page(browser: Browser, server: Any, resources: Resources, admin: Viewer) -> AsyncIterator[Opener]:
    """Opens a page as an admin sees it. What scripts and the security policy complain of fails the test."""
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    contexts: list[Any] = []
    said: list[str] = []

    async def opened(path: str = "/monitor", **options: Any) -> Page:
        context = await browser.new_context(base_url=server.url, **options)
        contexts.append(context)
        await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
        page = await context.new_page()
        page.on("console", lambda message: LOADING in message.text or said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        await page.clock.install()
        await page.goto(path)
        return page

    yield opened
    for context in contexts:
        await context.close()
    assert said == []


async def end_one(resources: Resources, owner: Viewer) -> None:
    await stored_export(resources, owner, Status.SUCCESS)
    await tally_events(resources, await resources.store.now())


async def test_charts_are_drawn_and_follow_the_numbers(open_page: Opener, resources: Resources, user: Viewer) -> None:
    page = await open_page()
    await expect(page.locator("canvas")).to_have_count(0)
    await end_one(resources, user)
    await page.clock.fast_forward(10_500)
    await expect(page.locator("#tile-success .tile-value")).to_have_text("100%")
    await expect(page.locator("#ends canvas")).to_be_visible()
    assert await page.evaluate(PIXELS, "ends") > 10
    await page.locator("#ends summary").click()
    await page.evaluate("window.before = document.querySelector('#ends canvas')")
    await end_one(resources, user)
    await page.clock.fast_forward(10_500)
    await expect(page.locator("#tile-success .tile-note")).to_have_text("2 of 2 attempts in the last 24 hours")
    assert await page.evaluate("window.before.isConnected && window.before === document.querySelector('#ends canvas')")
    await expect(page.locator("#ends table")).to_be_visible()


async def test_the_page_outlives_a_server_that_answers_with_errors(
    open_page: Opener, resources: Resources, user: Viewer
) -> None:
    page = await open_page()
    notice = page.locator("#monitor-notice")
    await page.route("**/monitor/live**", lambda route: route.fulfill(status=503, body="Not now."))
    await expect(notice).to_be_hidden()
    for _ in range(4):
        async with page.expect_response("**/monitor/live**"):
            await page.clock.fast_forward(10_500)
    await expect(notice).to_contain_text("This is the last known state.")
    await expect(page.locator("#tile-success")).to_be_visible()
    await page.unroute("**/monitor/live**")
    await end_one(resources, user)
    await page.clock.fast_forward(10_500)
    await expect(notice).to_be_hidden()
    await expect(page.locator("#tile-success .tile-value")).to_have_text("100%")


async def test_only_this_page_loads_the_library(open_page: Opener, server: Any) -> None:
    await open_page("/exports")
    assert server.log.count(LIBRARY) == 0
    await open_page()
    assert server.log.count(LIBRARY) == 1


async def test_without_scripts_the_tables_and_ranges_are_there(
    open_page: Opener, resources: Resources, user: Viewer
) -> None:
    await end_one(resources, user)
    page = await open_page(java_script_enabled=False)
    await expect(page.locator("#ends table")).to_be_visible()
    await page.get_by_role("link", name="30 days").click()
    await expect(page.locator("#ends tbody tr")).to_have_count(30)


@pytest.mark.parametrize(("range", "scheme"), [("1h", "light"), ("30d", "dark")])
async def test_it_fits_on_a_phone(
    open_page: Opener, resources: Resources, user: Viewer, range: str, scheme: str
) -> None:
    await end_one(resources, user)
    page = await open_page(f"/monitor?range={range}", viewport={"width": 360, "height": 740}, color_scheme=scheme)
    await expect(page.locator("#ends canvas")).to_be_visible()
    for summary in await page.locator(".chart-numbers summary").all():
        await summary.click()
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    await expect(page.locator(".top-nav [aria-current]")).to_be_in_viewport()
