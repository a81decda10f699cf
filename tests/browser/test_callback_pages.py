"""Callbacks in Chromium: from an endpoint at the inspector to a verified test, a failed delivery, its redelivery."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from browser.sign_ins import signed_in
from browser.test_live_pages import finish, until
from browser.test_tabs import OpenStreams
from callback_rows import attempt, owe, put
from callback_workers import callbacks_working
from cli.command_line import free_port
from factories import stored_export
from owing import register
from playwright.async_api import Browser, BrowserContext, Page, expect
from receivers import answer, in_turn, receiver

from webapp.actions import endpoints, exports
from webapp.actions.exports import Order
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.formats import PERSON_DEFAULTS
from webapp.resources import Resources
from webapp.settings import Settings

pytestmark = pytest.mark.browser

ExportMaker = Callable[..., Awaitable[Export]]
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The inspector's URL leads to this test's own server."""
    return replace(settings, base_url=f"http://127.0.0.1:{free_port()}", callback_allow_private=("127.0.0.0/8",))


@pytest.fixture
async def working(resources: Resources) -> AsyncIterator[None]:
    async with callbacks_working(resources):
        yield


@pytest.fixture
async def context(browser: Browser, server: Any, resources: Resources, admin: Viewer) -> AsyncIterator[BrowserContext]:
    opened = await signed_in(browser, server, resources, admin, viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(15_000)
    yield opened
    await opened.close()


async def order(resources: Resources, who: Viewer) -> Export:
    export, _ = await exports.order(resources, who, Order("things", {}, "csv", {}), defaults=PERSON_DEFAULTS)
    return export


async def test_from_the_inspector_to_a_verified_test_and_a_delivery(
    page: Page, resources: Resources, working: None, admin: Viewer
) -> None:
    await page.goto("/callbacks")
    await page.get_by_role("button", name="Make an inspector").click()
    url = page.get_by_label("URL", exact=False).first
    await expect(url).to_have_value(re.compile(r"/inspect/[A-Za-z0-9_-]{32}$"))
    await page.get_by_label("Description").fill("My inspector")
    await page.get_by_role("button", name="Make the endpoint").click()
    await expect(page.get_by_role("heading", name="The endpoint is made")).to_be_visible()
    await expect(page.locator("#secret")).to_contain_text("whsec_")
    await page.get_by_text("Shell", exact=True).click()
    await expect(page.locator("#panel-shell")).to_be_visible()
    await expect(page.locator("#panel-python")).to_be_hidden()

    await page.get_by_role("link", name="Send it a test").click()
    await page.get_by_label("Event", exact=True).select_option("export.failed")
    await expect(page.locator("#trial-data")).to_have_value(re.compile('"FAILED"'))
    await page.locator("#trial-data").fill('{"id": "exp_mine",\n oops}')
    await page.get_by_role("button", name="Send the test").click()
    await expect(page.locator("#trial")).to_contain_text("Line 2, column 2")
    await page.locator("#trial-data").fill('{"id": "exp_mine"}')
    await page.get_by_role("button", name="Send the test").click()
    verdict = page.locator("[data-verdict]")
    await expect(verdict).to_contain_text("Delivered: the receiver answered 200.")
    await expect(verdict).to_contain_text("The signature is right and the timestamp is fresh.")
    await expect(page.get_by_role("region", name="Body of the answer")).to_contain_text('"verdict": "verified"')

    await order(resources, admin)
    latest = page.locator(".latest li")
    await expect(latest.locator(".badge")).to_have_text(["Delivered", "Delivered"])
    await latest.first.click()
    await expect(page.locator(".headline")).to_have_text("It arrived.")
    await expect(page.get_by_role("region", name="Body of the request")).to_contain_text('"export.queued"')
    await page.goto("/callbacks")
    await expect(page.locator("table.endpoints .badge")).to_have_text("Active")
    await expect(page.locator("table.endpoints .health b")).to_have_text("100%")


async def test_a_failed_delivery_is_seen_as_it_fails_and_redelivered(
    page: Page, resources: Resources, working: None, admin: Viewer
) -> None:
    async with receiver(in_turn(answer(500, b"<b>broken</b>"), answer(204))) as far:
        endpoint = await register(
            resources, far.url, event_types=("export.created",), schedule="own", waits=(), description="Flaky"
        )
        await page.goto(f"/callbacks/{endpoint.id}")
        await expect(page.locator(".health-card .badge")).to_have_text("Active")
        await order(resources, admin)
        await expect(page.locator(".health-card .badge")).to_have_text("Failing")
        await expect(page.locator(".latest li")).to_contain_text("Dead letter")

        await page.get_by_role("link", name="Dead letters").first.click()
        await expect(page.locator("table.log tbody tr")).to_have_count(1)
        await page.locator("table.log .row-title").click()
        await expect(page.locator(".headline")).to_contain_text("It was given up. The receiver failed")
        await expect(page.get_by_role("region", name="Body of the answer")).to_have_text("<b>broken</b>")
        await page.get_by_role("button", name="Redeliver").click()
        await expect(page.locator(".headline")).to_have_text("It arrived.")
        await expect(page.locator(".attempt")).to_have_count(2)
        first, second = await far.until(2)
    assert first.id == second.id
    assert json.loads(first.body) == json.loads(second.body)
    await page.goto(f"/callbacks/{endpoint.id}")
    await expect(page.locator(".health-card .badge")).to_have_text("Active")


async def test_the_list_is_told_by_one_stream(page: Page, server: Any, resources: Resources, admin: Viewer) -> None:
    first = await register(resources, "https://93.184.216.34/one")
    await register(resources, "https://93.184.216.34/two")
    async with page.expect_request(lambda request: "/callbacks/stream" in request.url):
        await page.goto("/callbacks")
    await endpoints.pause(resources, admin, first.id)
    await expect(page.locator(f"#row-{first.id} .badge")).to_have_text("Paused")
    assert server.log.count("/callbacks/stream") == 1
    assert server.log.count("/callbacks/live") == 3


async def test_tabs_share_one_stream_and_all_stay_true(
    context: BrowserContext, server: Any, resources: Resources, admin: Viewer
) -> None:
    server.log.app = streams = OpenStreams(server.log.app)
    endpoint = await register(resources, "https://93.184.216.34/one")
    tabs = [await context.new_page() for _ in range(3)]
    for tab in tabs:
        await tab.goto("/callbacks")
    await until(lambda: streams.now == {"element": 1})
    await endpoints.pause(resources, admin, endpoint.id)
    for tab in tabs:
        await expect(tab.locator(f"#row-{endpoint.id} .badge")).to_have_text("Paused")
    await tabs[0].close()
    await until(lambda: streams.now == {"element": 1})
    await endpoints.resume(resources, admin, endpoint.id)
    for tab in tabs[1:]:
        await expect(tab.locator(f"#row-{endpoint.id} .badge")).to_have_text("Active")
    assert not streams.were_many


async def test_a_page_goes_before_a_tab_that_only_wants_the_news_and_brings_it_them(
    context: BrowserContext, server: Any, resources: Resources, admin: Viewer
) -> None:
    server.log.app = streams = OpenStreams(server.log.app)
    export = await stored_export(resources, admin, Status.PROCESSING)
    await register(resources, "https://93.184.216.34/one")
    first, second = await context.new_page(), await context.new_page()
    await first.goto(f"/exports/{export.id}")
    await first.goto("/exports/new")
    await until(lambda: streams.now.get("news") == 1)
    await second.goto("/callbacks")
    await until(lambda: streams.now.get("element") == 1 and not streams.now.get("news"))
    await finish(resources, export)
    await expect(first.locator(".toast a")).to_have_text("Things is ready.")
    assert not streams.were_many
    assert server.log.count("/callbacks/stream", "news=") == 1


async def test_the_log_selects_and_redelivers_and_keeps_what_is_ticked(
    page: Page, resources: Resources, make_export: ExportMaker
) -> None:
    endpoint = await register(resources, "https://93.184.216.34/hook", paused_at=await resources.store.now())
    found = await owe(resources, endpoint.id, await make_export(Status.PROCESSING), state="dead", next_attempt_at=None)
    await page.goto(f"/callbacks/{endpoint.id}/deliveries?status=dead")
    await expect(page.locator(".selection")).to_be_hidden()
    async with page.expect_response(lambda response: "/live?poll=2" in response.url):
        await page.locator(f"#row-{found[0].id} .tick").check()
    await expect(page.locator(f"#row-{found[0].id} .tick")).to_be_checked()
    await page.get_by_role("button", name="Redeliver", exact=True).click()
    await expect(page.locator(".flash")).to_have_text("1 delivery put in line to be sent again.")
    await expect(page.locator("table.log tbody tr")).to_have_count(2)
    await page.get_by_role("button", name="Redeliver all that match").click()
    await expect(page.get_by_role("heading")).to_have_text("Redeliver 2 deliveries?")
    await page.get_by_role("button", name="Redeliver 2").click()
    await expect(page.locator(".empty h2")).to_have_text("No dead letters")


async def test_an_attempt_that_was_opened_stays_open_while_news_come(
    page: Page, resources: Resources, make_export: ExportMaker
) -> None:
    now = await resources.store.now()
    endpoint = await register(resources, "https://93.184.216.34/hook", paused_at=now)
    [one, *_] = await owe(resources, endpoint.id, await make_export())
    for number in (1, 2):
        await attempt(resources, one, now, number=number, error="TIMEOUT")
    await put(resources, one, attempts=2, failures=2, last_error="TIMEOUT")
    await page.goto(f"/callbacks/deliveries/{one.id}")
    oldest = page.locator("#attempt-1 details")
    await oldest.locator("summary").click()
    await expect(oldest).to_have_attribute("open", "")
    await attempt(resources, one, now, number=3, error="TIMEOUT")
    await expect(page.locator("#attempt-3")).to_be_visible()
    await expect(oldest).to_have_attribute("open", "")


async def test_an_exports_page_goes_on_to_tell_of_its_callbacks(
    page: Page, resources: Resources, admin: Viewer, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS, owner=admin)
    endpoint = await register(resources, "https://93.184.216.34/hook", description="Warehouse")
    found = await owe(resources, endpoint.id, export)
    await page.goto(f"/exports/{export.id}")
    section = page.locator("#deliveries li")
    await expect(section.locator(".badge")).to_have_text(["Waiting"] * len(found))
    for delivery in found:
        await put(resources, delivery, state="succeeded", next_attempt_at=None)
    await expect(section.locator(".badge")).to_have_text(["Delivered"] * len(found))
    await expect(page.locator("#deliveries")).not_to_have_attribute("hx-get", re.compile("."))


async def test_without_scripts_an_endpoint_is_made_tried_and_deleted(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, working: None
) -> None:
    context = await signed_in(browser, server, resources, admin, java_script_enabled=False)
    context.set_default_timeout(15_000)
    page = await context.new_page()
    async with receiver(answer(503)) as far:
        await page.goto("/callbacks/new")
        await page.locator("#url").fill(far.url)
        await page.locator("#trial-type").select_option("export.cancelled")
        await page.get_by_role("button", name="Fetch its sample").click()
        await expect(page.locator("#trial-data")).to_have_value(re.compile('"CANCELLED"'))
        await page.get_by_role("button", name="Send the test").click()
        await expect(page.locator("[data-verdict=bad]")).to_contain_text("The receiver failed")
        await page.get_by_role("button", name="Make the endpoint").click()
        await expect(page.locator("#secret")).to_contain_text("whsec_")
    await page.get_by_text("Go", exact=True).click()
    await expect(page.locator("#panel-go")).to_be_visible()
    await page.get_by_role("link", name="Send it a test").click()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Delete this endpoint?")
    await page.get_by_role("button", name="Delete").click()
    await expect(page.locator(".flash")).to_contain_text("Endpoint deleted.")
    await context.close()


async def test_the_form_is_filled_in_by_keyboard_and_rows_of_headers_are_added(page: Page) -> None:
    await page.goto("/callbacks/new")
    await page.locator("#url").focus()
    await page.keyboard.type("https://93.184.216.34/hook")
    await expect(page.locator("[name=event_types]").first).to_be_hidden()
    await page.get_by_label("Only these").first.check()
    await expect(page.locator("[name=event_types]").first).to_be_visible()
    await page.get_by_role("button", name="Another header").click()
    await expect(page.locator("[name=header_name]")).to_have_count(3)
    await expect(page.get_by_label("Name of header 3")).to_be_focused()
    await page.locator("#description").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#summary")).to_be_focused()
    await expect(page.locator("#error-event_types")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_wider_than_a_phone(
    browser: Browser, server: Any, resources: Resources, admin: Viewer, make_export: ExportMaker, scheme: str
) -> None:
    now = await resources.store.now()
    long = f"https://93.184.216.34/{'very-long-' * 30}"
    endpoint = await register(resources, long, description="W" * 200, failing_since=now, failures_in_row=3)
    [one, *_] = await owe(resources, endpoint.id, await make_export(Status.QUEUED, owner=admin))
    await attempt(resources, one, now, error="TIMEOUT", response_body="x" * 3000, url=long)
    context = await signed_in(browser, server, resources, admin, viewport=PHONE, color_scheme=scheme, is_mobile=True)
    context.set_default_timeout(15_000)
    page = await context.new_page()
    here = f"/callbacks/{endpoint.id}"
    paths = ["/callbacks", "/callbacks/new", "/callbacks/deliveries", f"/callbacks/deliveries/{one.id}", here]
    paths += [f"{here}/edit", f"{here}/deliveries", f"{here}/secret", f"{here}/recovery", f"/exports/{one.export_id}"]
    for path in paths:
        await page.goto(path)
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], path
    await context.close()
