"""The pages of admins on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from browser.sign_ins import signed_in
from playwright.async_api import Browser

from webapp.actions import groups, people
from webapp.domain.access import Viewer
from webapp.resources import Resources

pytestmark = pytest.mark.browser
HIDDEN = """titles => titles.map(
    title => getComputedStyle(title).overflow != "visible" && title.scrollWidth - title.clientWidth
)"""


async def test_datasets_can_be_read_on_a_phone(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, user: Viewer
) -> None:
    for name in (user.name, admin.name):
        await groups.grant(resources, "things", await people.user_named(resources, name), actor="tests")
    context = await signed_in(browser, server, resources, admin, viewport={"width": 320, "height": 844})
    page = await context.new_page()
    for path in ("/admin/datasets", "/admin/sources"):
        await page.goto(path)
        boxes = [await page.locator(part).bounding_box() for part in (".head p", ".head .button")]
        lead, button = [box for box in boxes if box]
        assert button["y"] >= lead["y"] + lead["height"], "the button stands below the words"
        for words in ("A title of many words", "Customers"):
            await page.locator(".rows .row-title").first.evaluate("(title, words) => title.textContent = words", words)
            assert not any(await page.locator(".rows .row-title").evaluate_all(HIDDEN)), "a title is cut off"
        box = await page.locator(".rows .row-title").first.bounding_box()
        assert box
        assert box["height"] < 40, "a word stays on its line"
    await context.close()
