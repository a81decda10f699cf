"""Keyboard shortcuts: rows, pages, search and the sheet; nothing while typing, and nothing once they are off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from browser.test_accessibility import AXE, RUN
from needed import missing
from playwright.async_api import BrowserContext, Page, expect

from webapp.domain.exports import Export, Status

pytestmark = pytest.mark.browser
ExportMaker = Callable[..., Awaitable[Export]]


@pytest.fixture
async def exports(make_export: ExportMaker) -> list[Export]:
    """As the list shows them: newest first."""
    made = [await make_export(Status.SUCCESS) for _ in range(3)]
    return sorted(made, key=lambda export: (export.created_at, export.id), reverse=True)


def title(page: Page, export: Export) -> Any:
    return page.locator(f"#row-{export.id} .row-title")


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def test_rows_are_stepped_through_selected_and_opened(page: Page, exports: list[Export]) -> None:
    first, second, third = exports
    await page.goto("/exports")
    await press(page, "j")
    await expect(title(page, first)).to_be_focused()
    await press(page, "j", "ArrowDown", "ArrowDown")
    await expect(title(page, third)).to_be_focused()
    await press(page, "ArrowUp", "x")
    await expect(page.locator(f"#row-{second.id} .tick")).to_be_checked()
    await expect(page.locator(".selection")).to_be_visible()
    await press(page, "k", "x", "x")
    await expect(page.locator(f"#row-{first.id} .tick")).not_to_be_checked()
    await page.locator(f"#row-{third.id} .tick").focus()
    await press(page, "Enter")
    await page.wait_for_url(f"**/exports/{third.id}")


@pytest.mark.parametrize(
    ("keys", "path"), [(["n"], "/exports/new"), (["g", "e"], "/exports"), (["g", "c"], "/saved-orders")]
)
async def test_keys_lead_to_pages_where_the_person_may_go(page: Page, keys: list[str], path: str) -> None:
    """Callbacks are for admins: for anybody else `g c` leads nowhere."""
    await page.goto("/saved-orders")
    await press(page, *keys)
    await expect(page.locator("h1")).to_be_visible()
    await page.wait_for_url(f"**{path}")


async def test_search_takes_the_focus_and_typing_is_typing(page: Page, exports: list[Export]) -> None:
    await page.goto("/exports")
    await press(page, "/")
    field = page.get_by_role("searchbox")
    await expect(field).to_be_focused()
    await page.keyboard.type("jnx?g")
    await expect(field).to_have_value("jnx?g")
    await expect(page.locator("#shortcuts")).to_have_count(0)
    await page.locator("#dataset").focus()
    await press(page, "n")
    assert page.url.endswith("/exports")


async def test_keys_of_the_browser_are_left_alone(page: Page, exports: list[Export]) -> None:
    await page.goto("/exports")
    await press(page, "Control+j", "Alt+n", "ArrowDown")
    await expect(page.locator("main a:focus")).to_have_count(0)
    assert page.url.endswith("/exports")


async def test_the_sheet_tells_them_and_closes(page: Page, exports: list[Export]) -> None:
    await page.goto("/exports")
    await press(page, "j", "?")
    sheet = page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(sheet.locator("dd")).to_contain_text(["Next row", "Search", "This list", "Exports", "New export"])
    await press(page, "n", "?")
    await expect(page.locator("#shortcuts")).to_have_count(1)
    await press(page, "Escape")
    await expect(sheet).to_have_count(0)
    await expect(title(page, exports[0])).to_be_focused()


async def test_off_is_kept_by_the_browser_and_the_menu_brings_them_back(
    context: BrowserContext, exports: list[Export]
) -> None:
    page, other = await context.new_page(), await context.new_page()
    await page.goto("/exports")
    await other.goto("/exports")
    await press(page, "?")
    await page.get_by_label("Use them in this browser").uncheck()
    await page.get_by_role("button", name="Close").click()
    for tab in (page, other):
        await press(tab, "j", "?", "n")
        await expect(tab.locator("main a:focus, #shortcuts")).to_have_count(0)
    await page.reload()
    await press(page, "?")
    await expect(page.locator("#shortcuts")).to_have_count(0)
    await page.locator("summary", has_text="user").click()
    await page.get_by_role("button", name="Keyboard shortcuts").click()
    await page.get_by_label("Use them in this browser").check()
    await press(page, "Escape")
    await expect(page.locator(".menu summary")).to_be_focused()
    await press(page, "j")
    await expect(title(page, exports[0])).to_be_focused()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
async def test_axe_finds_nothing_in_the_sheet(context: BrowserContext, server: Any, scheme: Any, width: int) -> None:
    if not AXE.is_file():
        missing("axe-core (an editable install brings it)")
    browser = context.browser
    assert browser is not None
    bare = await browser.new_context(
        base_url=server.url, bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    await bare.add_cookies(await context.cookies())  # type: ignore[arg-type]
    page = await bare.new_page()
    await page.goto("/exports")
    await page.keyboard.press("?")
    await expect(page.locator("#shortcuts")).to_be_visible()
    await page.add_script_tag(path=AXE)
    found = await page.evaluate(RUN)
    await bare.close()
    assert found == []
