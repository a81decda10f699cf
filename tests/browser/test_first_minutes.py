"""From an empty install to an order of a dataset that was written by form over an own SQLite file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from webapp.actions import people
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.web.security import SESSION_COOKIE

pytestmark = pytest.mark.browser


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """No file says what can be exported."""
    return replace(settings, config=None)


async def test_from_an_empty_install_to_an_order(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, shop: Path
) -> None:
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    context = await browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 900})
    await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": server.url}])
    page = await context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))

    await page.goto("/exports")
    await page.get_by_role("link", name="Connect a source").click()
    await page.get_by_label("Name").fill("own")
    await page.get_by_label("Address").fill("/nowhere.db")
    await page.get_by_role("button", name="Try it and save").click()
    await expect(page.locator("#error-url")).to_have_text("There is no file /nowhere.db.")
    await page.get_by_label("Address").fill(str(shop))
    await page.get_by_role("button", name="Try it and save").click()
    await page.get_by_role("link", name="Write a dataset over own").click()

    await page.get_by_label("Title").fill("Stock")
    await page.get_by_label("Name", exact=True).fill("stock")
    await page.get_by_label("Query").fill("SELECT id, name FROM things WHERE id <= :most")
    await expect(page.locator(".parameter legend")).to_have_text([":most"])
    await page.get_by_label("Type").select_option("integer")
    await page.get_by_label("For the preview").fill("4")
    await page.get_by_label("Label").fill("At most")
    await expect(page.locator("#draft tbody tr")).to_have_count(4)
    await expect(page.get_by_label("Label")).to_have_value("At most")
    await page.get_by_label("Must be given").check()
    await page.set_viewport_size({"width": 390, "height": 844})
    boxes = [await page.locator(part).bounding_box() for part in ("#parameters", ".preview", ".order-end")]
    tops = [box["y"] for box in boxes if box]
    assert len(tops) == 3
    assert tops == sorted(tops), "on a phone the form is saved below all of it"
    await page.get_by_role("button", name="Save the dataset").click()

    await page.get_by_role("link", name="Order an export").click()
    await page.get_by_label("At most").fill("7")
    await page.get_by_role("button", name="Order the export").click()
    await expect(page).to_have_url(re.compile("/exports/exp_"))
    await expect(page.locator("h1")).to_contain_text("Stock")
    await page.goto("/exports")
    await expect(page.locator(".started-steps a")).to_have_text(["Grant it", "Register a callback"])
    await page.get_by_role("button", name="Do not show it again").click()
    await expect(page.locator(".getting-started")).to_have_count(0)
    await context.close()
    assert problems == []
