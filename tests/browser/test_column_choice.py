"""Choosing columns in Chromium: by keyboard with scripts, and by the same buttons without them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from browser.sign_ins import signed_in
from playwright.async_api import Browser, Page, expect

from webapp.domain.access import Viewer
from webapp.domain.exports import Export
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import ListFilter

pytestmark = pytest.mark.browser

FORM = "/exports/new?dataset=things"


async def ordered(resources: Resources) -> Export:
    async with resources.store.connection():
        [export] = await rows.list_page(resources.store, ListFilter(), limit=50, after=None)
    return export


async def chosen(page: Page) -> list[str]:
    """From top to bottom."""
    boxes = await page.locator(".columns input:checked").all()
    return [await box.input_value() for box in boxes]


def headings(*names: str) -> list[re.Pattern[str]]:
    return [re.compile(f"^{name}") for name in names]


async def test_columns_are_chosen_and_moved_by_keyboard_alone(page: Page, resources: Resources) -> None:
    await page.goto(FORM)
    heads = page.locator("#preview thead th")
    await expect(heads).to_have_count(4)
    await page.get_by_role("button", name="Choose columns").focus()
    await page.keyboard.press("Enter")
    first = page.get_by_role("checkbox", name="id")
    await expect(first).to_be_focused()
    await page.keyboard.press("Space")
    await expect(heads).to_have_text(headings("name", "price", "made"))
    await expect(page.get_by_role("button", name="Move id up")).to_be_hidden()

    up = page.get_by_role("button", name="Move made up")
    await up.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#columns-said")).to_have_text("made: column 2 of 3")
    await expect(up).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    await expect(page.locator("#columns-said")).to_have_text("made: column 1 of 3")
    assert await chosen(page) == ["made", "name", "price"]
    await page.get_by_role("button", name="Move name down").press("Enter")
    await expect(heads).to_have_text(headings("made", "price", "name"))

    await page.locator("#param-search").press("Enter")
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    assert (await ordered(resources)).options["columns"] == ["made", "price", "name"]
    await expect(page.locator(".facts")).to_contain_text(["made, price, name"])


async def test_all_and_none(page: Page, resources: Resources) -> None:
    await page.goto(f"{FORM}&o.columns=price&o.columns=gone&o.columns=id")
    assert await chosen(page) == ["price", "gone", "id"]
    await page.get_by_role("button", name="None").click()
    await expect(page.locator("#preview .message")).to_have_text("Choose at least one column.")
    await page.get_by_role("checkbox", name="name").check()
    await expect(page.locator("#preview thead th")).to_have_text(headings("name"))
    await page.get_by_role("button", name="All, as in the dataset").click()
    await expect(page.locator("#preview thead th")).to_have_text(headings("id", "name", "price", "made"))
    assert await chosen(page) == ["id", "name", "price", "made"]
    await page.get_by_role("button", name="Order the export").click()
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    assert "columns" not in (await ordered(resources)).options


async def test_without_javascript_the_server_moves_them(
    browser: Browser, server: Any, resources: Resources, user: Viewer
) -> None:
    context = await signed_in(browser, server, resources, user, java_script_enabled=False)
    page = await context.new_page()
    await page.goto(FORM)
    await page.get_by_role("button", name="Choose columns").press("Enter")
    await page.get_by_role("checkbox", name="name").uncheck()
    await page.get_by_role("button", name="Move price up").press("Enter")
    await expect(page.locator(".columns input:checked").first).to_have_value("price")
    assert await chosen(page) == ["price", "id", "made"]
    await page.locator("#param-search").press("Enter")
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    assert (await ordered(resources)).options["columns"] == ["price", "id", "made"]
    await context.close()
