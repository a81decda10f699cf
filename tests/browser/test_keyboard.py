"""From signing in to signing out by keyboard alone, the focus always seen; what is spoken is spoken politely."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser.test_live_pages import finish, report
from factories import CONTENT
from playwright.async_api import Browser, Locator, Page, expect

from webapp.actions import attempts, saved_orders
from webapp.actions.exports import Order
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources

pytestmark = pytest.mark.browser
ExportMaker = Callable[..., Awaitable[Export]]
MOST_TABS = 60
SPOKEN_EVERY = 5000
SEEN = """() => {
  const at = document.activeElement;
  const shown = at.closest(".radio-card") ?? at;
  const { outlineStyle, outlineWidth } = getComputedStyle(shown);
  const box = shown.getBoundingClientRect();
  if (at === document.body) return "the page's end";
  if (outlineStyle === "none" || !parseFloat(outlineWidth) || !box.width || !box.height)
    return `the focus is not seen on ${at.outerHTML.slice(0, 200)}`;
}"""
LISTEN = """
window.spoken = [];
document.addEventListener("DOMContentLoaded", () => new MutationObserver((changes) => {
  const regions = new Set(changes.map(({ target }) =>
    (target.nodeType === Node.TEXT_NODE ? target.parentElement : target)
      ?.closest("[aria-live], [role=status], [role=alert], [role=log], [role=timer]")));
  for (const region of regions) if (region?.textContent.trim()) window.spoken.push({
    at: performance.now(),
    how: region.getAttribute("aria-live") ?? region.getAttribute("role"),
    text: region.textContent.trim(),
  });
}).observe(document.body, { childList: true, characterData: true, subtree: true }));
"""


async def tab_to(page: Page, place: Locator) -> None:
    """By Tab alone, from wherever the focus is, at most once past the page's end; it is seen at every stop."""
    await expect(place).to_have_count(1)
    unseen: list[str] = []
    for _ in range(MOST_TABS):
        await page.keyboard.press("Tab")
        unseen += filter(None, [await page.evaluate(SEEN)])
        assert unseen in ([], ["the page's end"])
        if await place.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError(f"{place} is not reached")


async def started(resources: Resources) -> Export:
    export = await attempts.claim(resources)
    assert export is not None
    return export


async def test_the_whole_way_by_keyboard(
    browser: Browser, server: Any, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    context = await browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(15_000)
    page = await context.new_page()
    keyboard = page.keyboard
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))

    await page.goto("/sign-in")
    await expect(page.get_by_label("Name")).to_be_focused()
    await keyboard.type(user.name)
    await keyboard.press("Tab")
    await keyboard.type(f"{user.name} has a password")
    await keyboard.press("Enter")
    await page.wait_for_url("**/exports")

    await tab_to(page, page.locator(".head").get_by_role("link", name="New export"))
    await keyboard.press("Enter")
    await tab_to(page, page.get_by_role("link", name=re.compile("^Things")))
    await keyboard.press("Enter")
    await tab_to(page, page.get_by_label("At most"))
    await keyboard.type("7")
    looking = page.get_by_role("button", name="Show the first rows")
    await tab_to(page, looking)
    await keyboard.press("Space")
    await expect(page.locator("#preview tbody tr")).to_have_count(7)
    await expect(looking).to_be_focused()
    await tab_to(page, page.get_by_role("button", name="Save this order"))
    await keyboard.press("Shift+Tab")
    await keyboard.press("Shift+Tab")
    await expect(page.get_by_role("button", name="Order the export")).to_be_focused()
    await keyboard.press("Enter")
    await page.wait_for_url("**/exports/exp_*")

    export = await started(resources)
    cancel = page.get_by_role("button", name="Cancel")
    await tab_to(page, cancel)
    for rows in (250, 500):
        await report(resources, export, rows)
        await expect(page.locator("progress.bar")).to_have_attribute("value", str(rows // 10))
        await expect(cancel).to_be_focused()
    await keyboard.press("Enter")
    await expect(page.locator(".headline")).to_contain_text("cancelled", ignore_case=True)

    await tab_to(page, page.get_by_role("link", name="Order again"))
    await keyboard.press("Enter")
    await tab_to(page, page.get_by_role("button", name="Order the export"))
    await keyboard.press("Enter")
    await page.wait_for_url("**/exports/exp_*")
    export = await started(resources)
    await tab_to(page, cancel)
    assert await attempts.fail(resources, export, export_error(ErrorCode.QUERY_ERROR, detail="no such table"))
    again = page.get_by_role("button", name="Try again")
    await expect(again).to_be_visible()
    await expect(page.locator(".progress-card")).to_be_focused()
    await tab_to(page, again)
    await keyboard.press("Space")
    await expect(page.locator(".flash")).to_be_visible()
    export = await started(resources)
    await tab_to(page, cancel)
    await finish(resources, export)
    download = page.get_by_role("link", name="Download")
    await expect(download).to_be_visible()
    await expect(page.locator(".progress-card")).to_be_focused()
    assert await page.evaluate(SEEN) is None
    await keyboard.press("Tab")
    await expect(download).to_be_focused()
    async with page.expect_download() as downloading:
        await keyboard.press("Enter")
    assert Path(await (await downloading.value).path()).read_bytes() == CONTENT

    running = await make_export(Status.PROCESSING)
    await tab_to(page, page.get_by_label("Main").get_by_role("link", name="Exports"))
    await keyboard.press("Enter")
    tick = page.locator(f"#row-{export.id} .tick")
    await tab_to(page, tick)
    await keyboard.press("Space")
    newest = await make_export(Status.PROCESSING)
    await report(resources, running, 500)
    await expect(page.locator(f"#row-{newest.id}")).to_be_visible()
    await expect(page.locator(f"#row-{running.id} progress")).to_have_attribute("value", "50")
    await expect(tick).to_be_checked()
    await expect(tick).to_be_focused()
    delete = page.locator(".selection").get_by_role("button", name="Delete")
    await tab_to(page, delete)
    await keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Keep")).to_be_focused()
    await keyboard.press("Enter")
    await expect(delete).to_be_focused()
    await keyboard.press("Enter")
    await keyboard.press("Tab")
    await expect(page.locator("#confirm-yes")).to_be_focused()
    await keyboard.press("Enter")
    await expect(page.locator(f"#row-{export.id}")).to_have_count(0)

    await tab_to(page, page.locator(".menu summary"))
    await keyboard.press("Enter")
    await tab_to(page, page.get_by_role("button", name="Sign out"))
    await keyboard.press("Enter")
    await page.wait_for_url("**/sign-in*")
    await context.close()
    assert problems == []


async def test_a_filter_chosen_by_keys_waits_for_its_button(page: Page, make_export: ExportMaker) -> None:
    """Each arrow key is a choice: a page that loads anew at the first one takes the focus away."""
    await make_export(Status.SUCCESS)
    await page.goto("/exports")
    chosen = page.locator("#format")
    await tab_to(page, chosen)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(chosen).to_have_value("xlsx")
    await expect(chosen).to_be_focused()
    await tab_to(page, page.get_by_role("button", name="Filter"))
    await page.keyboard.press("Enter")
    await page.wait_for_url("**format=xlsx**")
    await page.locator("#format").click()
    await page.locator("#format").select_option("csv")
    await page.wait_for_url("**format=csv**")


async def test_the_dates_of_a_schedule_follow_the_keys(page: Page, resources: Resources, user: Viewer) -> None:
    wanted = Order("things", {}, "csv", {}, zone="UTC")
    saved = await saved_orders.save(resources, user, "Mine", wanted, defaults=API_DEFAULTS)
    await page.goto(f"/saved-orders/{saved.id}/schedule")
    await expect(page.get_by_role("button", name="Show the dates")).to_have_count(0)
    dates = await page.locator("#dates").element_handle()
    await tab_to(page, page.get_by_label("Daily"))
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("#dates time").first).to_contain_text("-01 08:00")
    await expect(page.get_by_label("Monthly")).to_be_focused()
    assert await page.locator("#dates").evaluate("(now, before) => now === before", dates), "or it is not spoken"
    await page.keyboard.press("ArrowDown")
    await tab_to(page, page.locator("#cron"))
    await page.keyboard.press("Control+A")
    await page.keyboard.type("never")
    await page.keyboard.press("Enter")
    await expect(page.locator("#dates .error")).to_be_focused()


async def test_fast_progress_is_spoken_politely_and_seldom(
    page: Page, resources: Resources, make_export: ExportMaker
) -> None:
    export = await make_export(Status.PROCESSING)
    await page.add_init_script(LISTEN)
    await page.goto(f"/exports/{export.id}")
    for rows in range(0, 1000, 20):
        await report(resources, export, rows)
        await asyncio.sleep(0.05)
    await finish(resources, export)
    await expect(page.locator("#toast-words")).to_have_text("Things, ready")
    spoken = await page.evaluate("window.spoken")
    assert {each["how"] for each in spoken} == {"status"}
    assert re.fullmatch(r"Things, running, \d+%", spoken[0]["text"])
    gaps = [after["at"] - before["at"] for before, after in pairwise(spoken)]
    assert min(gaps) >= SPOKEN_EVERY - 100, spoken
