"""The order form in Chromium: searching long lists by keyboard, the preview and its notices, the person's zone."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser.sign_ins import signed_in
from playwright.async_api import Browser, BrowserContext, Page, expect

from webapp.actions import accounts
from webapp.datasets.declaration import Parameter, ParameterType
from webapp.domain.access import Viewer
from webapp.domain.exports import Export
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import ListFilter

pytestmark = pytest.mark.browser

FORM = "/exports/new?dataset=flights"


@pytest.fixture(autouse=True)
def flights(resources: Resources, shop: Path) -> None:
    """A dataset with 300 airports to choose from and 1,000 rows, of which 900 are allowed."""
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("CREATE TABLE airports (code TEXT, name TEXT)")
        named = [(f"A{n:03d}", f"{'South' if n % 100 == 0 else 'North'} {n}") for n in range(300)]
        connection.executemany("INSERT INTO airports VALUES (?, ?)", named)
        connection.commit()
    sql = "SELECT code, name FROM airports ORDER BY code"
    resources.catalog.datasets["flights"] = replace(  # type: ignore[index]
        resources.catalog.datasets["things"],
        name="flights",
        title="Flights",
        sql="SELECT id, :origin AS origin, :others AS others, :day AS day FROM things",
        parameters=(
            Parameter("origin", ParameterType.CHOICE, "Origin", choices_sql=sql),
            Parameter("others", ParameterType.CHOICES, "Others", choices_sql=sql),
            Parameter("day", ParameterType.DATE, "Day", default="today"),
        ),
        row_limit=900,
    )


async def ordered(resources: Resources) -> Export:
    async with resources.store.connection():
        [export] = await rows.list_page(resources.store, ListFilter(), limit=50, after=None)
    return export


async def test_a_choice_is_found_and_picked_by_keyboard_alone(page: Page, resources: Resources) -> None:
    await page.goto(FORM)
    origin = page.get_by_role("combobox", name="Origin")
    await expect(origin).to_have_attribute("aria-expanded", "false")
    await origin.focus()
    await page.keyboard.type("south")
    options = page.locator("#param-origin-found").get_by_role("option")
    await expect(options).to_have_count(3)
    await expect(origin).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    active = await origin.get_attribute("aria-activedescendant")
    assert active == await options.nth(1).get_attribute("id")
    await expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("Enter")
    await expect(origin).to_have_value("South 100")
    await expect(origin).to_have_attribute("aria-expanded", "false")
    await expect(page.locator("#preview tbody tr").first).to_contain_text("A100")

    await page.keyboard.type("nonsense")
    await page.keyboard.press("Escape")
    await expect(origin).to_have_value("South 100")

    await page.get_by_role("button", name="Order the export").click()
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    assert (await ordered(resources)).params["origin"] == "A100"


async def test_emptying_a_choice_means_any(page: Page, resources: Resources) -> None:
    await page.goto(FORM + "&p.origin=A007")
    origin = page.get_by_role("combobox", name="Origin")
    await expect(origin).to_have_value("North 7")
    await expect(page.locator("#preview tbody tr").first).to_contain_text("A007")
    await origin.fill("")
    await page.keyboard.press("Tab")
    await expect(page.locator("#preview tbody tr").first).not_to_contain_text("A007")
    await page.get_by_role("button", name="Order the export").click()
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    assert (await ordered(resources)).params["origin"] is None


async def test_several_are_picked_and_taken_back(page: Page, resources: Resources) -> None:
    await page.goto(FORM)
    others = page.get_by_role("combobox", name="Others")
    for wanted in ("South 200", "South 0", "North 17"):
        await others.click()
        await others.press_sequentially(wanted)
        await page.locator("#param-others-found").get_by_role("option").filter(has_text=wanted).first.click()
        await expect(page.get_by_role("button", name=f"Remove {wanted}")).to_be_visible()
    await others.press_sequentially("south")
    await expect(page.locator("#param-others-found").get_by_role("option")).to_have_count(1)
    await others.fill("")
    await page.get_by_role("button", name="Remove South 200").click()
    await others.press("Backspace")
    await expect(page.locator(".combo-remove")).to_have_count(1)
    await page.get_by_role("button", name="Order the export").click()
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    assert (await ordered(resources)).params["others"] == ["A000"]


async def test_of_a_preview_the_count_is_spoken_and_not_its_rows(page: Page) -> None:
    await page.goto("/exports/new?dataset=things")
    count = page.locator("#preview [aria-live]", has_text="rows")
    await expect(count).to_contain_text("20 of 1,000 rows")
    before = await count.element_handle()
    await page.get_by_label("At most").fill("7")
    await page.get_by_role("button", name="Show the first rows").click()
    await expect(count).to_contain_text("7 rows in all")
    assert await count.evaluate("(now, before) => now === before", before), "a region that is new is not spoken"
    assert await page.locator("[aria-live] table").count() == 0


async def test_the_preview_comes_by_itself_with_what_to_know_before(page: Page) -> None:
    await page.goto(FORM)
    await expect(page.locator("#preview tbody tr")).to_have_count(20)
    await expect(page.locator("#preview")).to_contain_text("20 of 1,000 rows")
    notice = page.locator(".preview-notices .message:visible")
    await expect(notice).to_have_text("1,000 rows: more than the limit of 900 rows; narrow the parameters.")
    await page.get_by_role("radio", name="JSON Lines").check()
    await expect(notice).to_have_count(1)


@pytest.fixture
async def far_away(browser: Browser, server: Any, resources: Resources, user: Viewer) -> AsyncIterator[BrowserContext]:
    opened = await signed_in(browser, server, resources, user, timezone_id="Pacific/Kiritimati")
    yield opened
    await opened.close()


async def test_the_browsers_zone_goes_along(far_away: BrowserContext, resources: Resources) -> None:
    page = await far_away.new_page()
    await page.goto("/exports")
    await page.goto(FORM + "&format=xlsx")
    today = await page.evaluate("new Date().toLocaleDateString('sv')")
    await expect(page.locator("#param-day")).to_have_value(today)
    await expect(page.locator("#option-timezone")).to_have_value("Pacific/Kiritimati")
    await page.get_by_role("button", name="Order the export").click()
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    export = await ordered(resources)
    assert (export.params["day"], export.options) == (today, {"timezone": "Pacific/Kiritimati"})


async def test_the_zone_of_the_account_counts_before_the_browsers(
    far_away: BrowserContext, resources: Resources, user: Viewer
) -> None:
    await accounts.set_preferences(resources, user, language="", timezone="America/New_York")
    page = await far_away.new_page()
    await page.goto("/account")
    seen = page.locator("#sessions time").first
    stamp = await seen.get_attribute("datetime")
    told = await page.evaluate(
        "stamp => new Date(stamp).toLocaleTimeString('en-GB', {timeZone: 'America/New_York'})", stamp
    )
    assert told in (await seen.get_attribute("title") or "")
    await page.goto(FORM + "&format=xlsx")
    await expect(page.locator("#option-timezone")).to_have_value("America/New_York")


async def test_without_javascript_a_list_is_searched_by_a_button(
    browser: Browser, server: Any, resources: Resources, user: Viewer
) -> None:
    context = await signed_in(browser, server, resources, user, java_script_enabled=False)
    page = await context.new_page()
    await page.goto(FORM)
    await page.fill("#param-origin", "south")
    await page.locator("#param-origin").press("Enter")
    await page.get_by_label("South 200").first.check()
    await page.get_by_role("button", name="Order the export").click()
    await page.wait_for_url(re.compile(r"/exports/exp_"))
    assert (await ordered(resources)).params["origin"] == "A200"
    await context.close()
