"""How a page keeps itself true, seen in Chromium and counted in the server's own request log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from browser.sign_ins import signed_in
from browser.streaming import until_it_streams
from factories import changed, export_file
from patience import PATIENCE
from playwright.async_api import BrowserContext, Page, Route, expect
from sqlalchemy import select

from webapp.actions import attempts, exports
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Phase, Status
from webapp.resources import Resources
from webapp.settings import LiveStrategy
from webapp.store.exports import Progress
from webapp.store.tables import client_acks, events

pytestmark = pytest.mark.browser
CONFIRMED = "/api/v1/acknowledgements"


async def finish(resources: Resources, export: Export) -> None:
    file = export_file(export, await resources.store.now())
    path = resources.storage.path(file.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"id,name\r\n1,thing\r\n")
    assert await attempts.finish(resources, export, file, ())


async def report(resources: Resources, export: Export, rows: int) -> None:
    assert await attempts.report_progress(resources, export, Progress(Phase.READING, rows, 1000, rows * 10))
    await attempts.hint_progress(resources, export)


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come to this in time"
        await asyncio.sleep(0.05)


async def is_silent(server, seconds: float = 3, confirmations: int = 1) -> bool:
    """Whether the page asks for nothing, once it has confirmed what it took in with its last snapshot."""
    await until(lambda: server.log.count(CONFIRMED) >= confirmations)
    seen = list(server.log.seen)
    await asyncio.sleep(seconds)
    return server.log.seen == seen


async def test_three_polls_then_one_stream_then_silence(page: Page, server, resources, make_export) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/stream") == 1)
    assert [server.log.count(path + "/live", f"poll={n}") for n in (1, 2, 3, 4)] == [1, 1, 1, 0]
    assert server.log.count(path + "/live") == 3

    await report(resources, export, 400)
    await expect(page.locator("#live progress").first).to_have_attribute("value", "40")
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()

    assert await is_silent(server)
    assert server.log.count(CONFIRMED) == 1
    assert server.log.count(path + "/stream") == 1
    assert await page.locator("#live").get_attribute("hx-trigger") is None


async def test_push_then_poll_streams_rests_and_sees_the_end(
    page: Page, server, app, resources, make_export, monkeypatch
) -> None:
    monkeypatch.setattr("webapp.pages.live.PUSH_SECONDS", 1.0)
    monkeypatch.setattr("webapp.pages.live.REST_SECONDS", 1)
    settings = replace(resources.settings, live_strategy=LiveStrategy.PUSH_THEN_POLL)
    app.state.resources = replace(resources, settings=settings)
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/live", "rest=") >= 3)
    assert server.log.count(path + "/stream") == 1
    assert server.log.count(path + "/live", "fallback=") == 0
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()
    assert await is_silent(server, 2.5)


async def test_an_export_that_ends_while_it_is_polled_opens_no_stream(
    page: Page, server, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/live") == 1)
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()
    polls = server.log.count(path + "/live")
    assert 2 <= polls <= 3, "the second, or on a busy machine the third, brought the end"
    await asyncio.sleep(4)
    assert server.log.count(path + "/live") == polls
    assert server.log.count(path + "/stream") == 0


async def test_pages_with_nothing_active_ask_for_nothing(context: BrowserContext, server, make_export) -> None:
    """For as long as three polls would take."""
    export = await make_export(Status.SUCCESS)
    for path in (f"/exports/{export.id}", "/exports", "/docs"):
        page = await context.new_page()
        await page.goto(path)
        await page.wait_for_load_state("networkidle")
    seen = list(server.log.seen)
    await asyncio.sleep(6.5)
    assert server.log.seen == seen


async def acks_of(resources: Resources) -> list[tuple[str, str]]:
    """Type of each confirmed event, and the channel it was confirmed on."""
    query = select(events.c.type, client_acks.c.channel).join(client_acks, client_acks.c.event_id == events.c.id)
    async with resources.store.connection():
        rows = await resources.store.fetch_all(query.where(client_acks.c.client == "page").order_by(events.c.seq))
    return [(row["type"], row["channel"]) for row in rows]


async def test_what_a_stream_brought_is_confirmed_once(page: Page, server, resources, make_export) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/stream") == 1)
    assert server.log.count(CONFIRMED) == 0, "what was there from the start is no news"
    await finish(resources, export)
    assert await is_silent(server, 2)
    assert await acks_of(resources) == [("export.succeeded", "sse")]


async def test_what_a_poll_brought_is_confirmed_even_by_a_page_that_goes_away(
    page: Page, server, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    await page.goto(f"/exports/{export.id}")
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()
    await page.goto("/exports/new")
    assert await is_silent(server, 2)
    assert await acks_of(resources) == [("export.succeeded", "polling")]


async def test_a_stream_that_cannot_be_opened_is_replaced_by_polling_and_tried_again(
    page: Page, server, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"

    async def refuse(route: Route) -> None:
        await route.abort()

    await page.route("**/stream*", refuse)
    await page.goto(path)
    await until(lambda: server.log.count(path + "/live", "fallback=2") == 1)
    await report(resources, export, 250)
    await expect(page.locator("#live progress").first).to_have_attribute("value", "25")
    assert server.log.count(path + "/stream") == 0

    await page.unroute("**/stream*")
    await until(lambda: server.log.count(path + "/stream") == 1, 60)
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()


async def test_a_stream_that_begins_with_the_end_is_shown_whole(page: Page, server, resources, make_export) -> None:
    export = await make_export(Status.PROCESSING)

    async def end_it_first(route: Route) -> None:
        await finish(resources, export)
        await route.continue_()

    await page.route(f"**/exports/{export.id}/stream*", end_it_first, times=1)
    await page.goto(f"/exports/{export.id}")
    await expect(page.get_by_role("link", name="Download")).to_be_visible()


async def test_a_stream_that_stays_silent_is_given_up(page: Page, server, resources, make_export) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    await page.route("**/stream*", hold)
    await page.goto(path)
    await until(lambda: len(held) == 1)
    await until(lambda: server.log.count(path + "/live", "fallback=") >= 1)
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()
    for route in held:
        await route.abort()


async def test_a_web_process_that_restarts_is_found_again(page: Page, server, resources, make_export) -> None:
    """The stream ends without its last word; the page comes back by itself and shows what happened meanwhile."""
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/stream") == 1)
    await until_it_streams(page)
    await page.evaluate("document.getElementById('live')._htmx.sse.reader.cancel()")
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()


async def test_a_server_that_was_away_and_is_back_is_streamed_from_at_once(
    page: Page, server, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/stream") == 1)
    await until_it_streams(page)

    async def refuse(route: Route) -> None:
        await route.abort()

    await page.route("**/exports/**", refuse)
    await page.evaluate("document.getElementById('live')._htmx.sse.reader.cancel()")
    await expect(page.locator("#live-notice")).to_contain_text("does not answer")
    await page.unroute("**/exports/**")
    await until(lambda: server.log.count(path + "/stream") == 2)
    assert server.log.count(path + "/live", "fallback=") == 0
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()


async def test_two_tabs_see_the_same_end(context: BrowserContext, resources, make_export) -> None:
    export = await make_export(Status.PROCESSING)
    tabs = [await context.new_page() for _ in range(2)]
    for tab in tabs:
        await tab.goto(f"/exports/{export.id}")
    await asyncio.sleep(0.5)
    await finish(resources, export)
    for tab in tabs:
        await tab.bring_to_front()
        await expect(tab.get_by_role("link", name="Download")).to_be_visible()


async def test_signing_out_in_another_tab_stops_the_page_with_a_sentence(
    page: Page, context: BrowserContext, server, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/stream") == 1)
    answer = await context.request.post("/sign-out", headers={"Sec-Fetch-Site": "same-origin"}, max_redirects=0)
    assert answer.status == 303
    await expect(page.locator("#live-notice")).to_contain_text("signed out")
    seen = len(server.log.seen)
    await asyncio.sleep(4)
    assert len(server.log.seen) == seen


async def test_signing_out_while_it_is_polled_stops_the_page_too(
    page: Page, context: BrowserContext, server, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await context.request.post("/sign-out", headers={"Sec-Fetch-Site": "same-origin"}, max_redirects=0)
    await expect(page.locator("#live-notice")).to_contain_text("signed out")
    polls = server.log.count(path + "/live")
    await asyncio.sleep(4)
    assert server.log.count(path + "/live") == polls


async def test_the_list_is_live_with_one_stream_for_all_rows(page: Page, server, resources, make_export) -> None:
    first, second = await make_export(Status.PROCESSING), await make_export(Status.PROCESSING)
    await page.goto("/exports")
    await until(lambda: server.log.count("/exports/stream") == 1)
    assert server.log.count("/exports/live") == 3
    await finish(resources, first)
    await expect(page.locator(f"#row-{first.id}")).to_contain_text("Ready")
    await finish(resources, second)
    await expect(page.locator(f"#row-{second.id}")).to_contain_text("Ready")
    await until(lambda: server.log.count(CONFIRMED) >= 1)
    await asyncio.sleep(1.5)
    assert await is_silent(server)
    assert server.log.count(CONFIRMED) <= 2
    assert server.log.count("/exports/stream") == 1


async def test_what_is_deleted_elsewhere_leaves_the_list_while_another_runs(
    page: Page, server, resources, make_export, user: Viewer
) -> None:
    """It leaves no event, and its rows are no progress that went back."""
    done, running = await make_export(Status.SUCCESS), await make_export(Status.PROCESSING)
    await changed(resources, done, rows_done=1_000_000)
    await report(resources, running, 100)
    await page.goto("/exports")
    await until(lambda: server.log.count("/exports/stream") == 1)
    await exports.delete(resources, user, done.id)
    await expect(page.locator(f"#row-{done.id}")).to_have_count(0)
    await report(resources, running, 200)
    await expect(page.locator("#live progress")).to_have_attribute("value", "20")


async def test_a_page_that_went_offline_says_so_and_comes_back(
    page: Page, context: BrowserContext, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    await page.goto(f"/exports/{export.id}")
    await context.set_offline(True)
    await expect(page.locator("#live-notice")).to_contain_text("offline")
    await finish(resources, export)
    await context.set_offline(False)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()
    await expect(page.locator("#live-notice")).to_have_count(0)


async def test_a_page_that_lost_htmx_on_the_way_says_so_and_gets_it(
    context: BrowserContext, server, resources, make_export
) -> None:
    page, export = await context.new_page(), await make_export(Status.PROCESSING)
    await page.route("**/htmx.min.js*", lambda route: route.abort(), times=2)
    await page.goto(f"/exports/{export.id}")
    await expect(page.locator("#live-notice")).to_contain_text("trying again")
    await expect(page.locator("#live-notice")).to_have_count(0)
    await until(lambda: server.log.count(f"/exports/{export.id}/stream") == 1)
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible()


async def test_an_export_deleted_elsewhere_is_reported_and_no_longer_asked_for(
    page: Page, server, resources, make_export, user: Viewer
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    await page.goto(path)
    await until(lambda: server.log.count(path + "/stream") == 1)
    await exports.cancel(resources, user, export.id)
    await expect(page.locator("#live")).to_contain_text("Cancelled")


async def test_without_javascript_the_page_refreshes_itself(browser, server, resources, make_export, user) -> None:
    context = await signed_in(browser, server, resources, user, java_script_enabled=False)
    page = await context.new_page()
    export = await make_export(Status.PROCESSING)
    await page.goto(f"/exports/{export.id}")
    await asyncio.sleep(1.5)
    await finish(resources, export)
    await expect(page.get_by_role("link", name="Download")).to_be_visible(timeout=10_000)
    await context.close()
