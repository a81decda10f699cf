"""Deleting all that match in Chromium: the menu stays open while the list lives, and axe finds nothing in either."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from browser.test_accessibility import AXE, RUN
from needed import missing
from playwright.async_api import BrowserContext, expect

from webapp.domain.exports import Export, Status

pytestmark = pytest.mark.browser


async def test_from_the_open_menu_by_way_of_the_question(
    context: BrowserContext, server: Any, make_export: Callable[..., Awaitable[Export]]
) -> None:
    if not AXE.is_file():
        missing("axe-core (an editable install brings it)")
    for status in (Status.QUEUED, Status.FAILED, Status.SUCCESS):
        await make_export(status)
    browser = context.browser
    assert browser is not None
    bare = await browser.new_context(base_url=server.url, bypass_csp=True)
    await bare.add_cookies(await context.cookies())  # type: ignore[arg-type]
    page = await bare.new_page()
    async with page.expect_response(lambda response: "/live?" in response.url and "poll=2" in response.url):
        await page.goto("/exports?q=exp")
        await page.locator(".matching summary").click()
    delete = page.locator(".matching button", has_text="Delete")
    await expect(delete).to_be_visible()
    await page.add_script_tag(path=AXE)
    found = await page.evaluate(RUN)
    await delete.click()
    await expect(page.locator(".left-reasons li")).to_have_text(["1 export: the status is queued"])
    await page.add_script_tag(path=AXE)
    found += await page.evaluate(RUN)
    await page.get_by_role("button", name="Delete 2 exports").click()
    await expect(page.locator(".flash")).to_have_text("2 exports deleted.")
    await expect(page.locator("table.exports tbody tr")).to_have_count(1)
    await bare.close()
    assert found == []
