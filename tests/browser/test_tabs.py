"""Many tabs of one browser: one stream, all of them live; and the ends told wherever the person is."""

from __future__ import annotations

import asyncio
import re

import pytest
from browser.streaming import until_it_streams
from browser.test_live_pages import finish, report, until
from playwright.async_api import BrowserContext, Page, Route, expect

from webapp.actions import shares
from webapp.domain.exports import Status

pytestmark = pytest.mark.browser
NEWS = "/notices/stream"
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.hasFocus = () => !hidden;
  document.dispatchEvent(new Event("visibilitychange"));
}"""


CLOSED_WITHIN = 3.0
"""Seconds until the server knows that a browser closed one stream just before it opened another."""


class OpenStreams:
    """How many streams of a kind are open at the server now, and whether more than one of any kind stayed open."""

    def __init__(self, app) -> None:
        self.app = app
        self.now: dict[str, int] = {}
        self.were_many = False
        self._overlap: asyncio.TimerHandle | None = None

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/stream"):
            await self.app(scope, receive, send)
            return
        kind = "news" if scope["path"] == NEWS else "element"
        self._add(kind, 1)
        try:
            await self.app(scope, receive, send)
        finally:
            self._add(kind, -1)

    def _add(self, kind: str, change: int) -> None:
        self.now[kind] = self.now.get(kind, 0) + change
        if sum(self.now.values()) <= 1:
            if self._overlap:
                self._overlap.cancel()
            self._overlap = None
        elif self._overlap is None:
            self._overlap = asyncio.get_running_loop().call_later(CLOSED_WITHIN, self._stayed)

    def _stayed(self) -> None:
        self.were_many = True


@pytest.fixture
async def streams(server) -> OpenStreams:
    counted = OpenStreams(server.log.app)
    server.log.app = counted
    return counted


async def test_seven_tabs_share_their_streams_and_all_stay_live(
    context: BrowserContext, streams: OpenStreams, server, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    tabs = [await context.new_page() for _ in range(7)]
    for tab in tabs:
        await tab.goto(f"/exports/{export.id}")
    await until(lambda: streams.now.get("element") == 1 and not streams.now.get("news"))
    await report(resources, export, 300)
    for tab in tabs:
        await expect(tab.locator("#live progress").first).to_have_attribute("value", "30")

    # The one that holds the stream goes; others take over.
    for tab in tabs[:3]:
        await tab.close()
    await until(lambda: streams.now.get("element") == 1 and not streams.now.get("news"))
    await report(resources, export, 600)
    for tab in tabs[3:]:
        await expect(tab.locator("#live progress").first).to_have_attribute("value", "60")
    await finish(resources, export)
    for tab in tabs[3:]:
        await expect(tab.get_by_role("link", name="Download")).to_be_visible()
        await expect(tab.locator(".toast")).to_have_count(0)
    await until(lambda: not any(streams.now.values()))
    assert server.log.count(NEWS) <= 6, "while the tab that has the turn polls, the others need them"
    assert server.log.count(f"/exports/{export.id}/live", "fallback=") == 0
    await asyncio.sleep(1.5)
    seen = len(server.log.seen)
    await asyncio.sleep(3)
    assert len(server.log.seen) == seen
    assert not streams.were_many


async def test_the_end_is_told_on_another_page(
    page: Page, streams: OpenStreams, server, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    await page.goto(f"/exports/{export.id}")
    await page.goto("/exports/new")
    await until(lambda: streams.now.get("news") == 1)
    confirmed = server.log.count("/api/v1/acknowledgements")
    await finish(resources, export)
    toast = page.locator(".toast a")
    await expect(toast).to_have_text("Things is ready.")
    await expect(page.locator("#toast-words")).to_have_text("Things is ready.")
    await until(lambda: not any(streams.now.values()))
    await until(lambda: server.log.count("/api/v1/acknowledgements") == confirmed + 1)
    await toast.click()
    await expect(page.get_by_role("link", name="Download")).to_be_visible()
    await expect(page.locator(".toast")).to_have_count(0)


async def test_what_another_tab_knew_to_be_active_is_awaited_when_that_tab_is_gone(
    context: BrowserContext, streams: OpenStreams, resources, make_export
) -> None:
    first, second = await context.new_page(), await context.new_page()
    await first.goto("/exports/new")
    export = await make_export(Status.PROCESSING)
    await second.goto(f"/exports/{export.id}")
    await until(lambda: streams.now.get("element") == 1)
    await second.close()
    await until(lambda: (streams.now.get("news"), streams.now.get("element")) == (1, 0))
    await finish(resources, export)
    await expect(first.locator(".toast a")).to_have_text("Things is ready.")


async def test_an_end_that_comes_again_is_told_once(page: Page, context: BrowserContext, user) -> None:
    await page.goto("/account")
    other = await context.new_page()
    await other.goto("/account")
    for number in (1, 1, 2):
        end = {"id": f"evt_{number}", "export": f"exp_{number}", "seq": number, "tone": "good", "text": f"{number}"}
        await other.evaluate(
            "([name, end]) => new BroadcastChannel(name).postMessage({ended: end})", [f"exportdesk:news:{user.id}", end]
        )
    await expect(page.locator(".toast")).to_contain_text(["1", "2"])
    await expect(page.locator(".toast")).to_have_count(2)


async def test_what_somebody_shares_is_told_on_another_page(
    page: Page, streams: OpenStreams, resources, user, other, make_export
) -> None:
    await make_export(Status.PROCESSING)
    theirs = await make_export(Status.SUCCESS, owner=other)
    await page.goto("/exports")
    await page.goto("/exports/new")
    await until(lambda: streams.now.get("news") == 1)
    await shares.put(resources, other, theirs.id, user.name)
    toast = page.locator(".toast a")
    await expect(toast).to_have_text("other shared Things with you.")
    await expect(page.locator("#toast-words")).to_have_text("other shared Things with you.")
    await toast.click()
    await expect(page).to_have_url(re.compile(f"/exports/{theirs.id}$"))
    await expect(page.get_by_role("link", name="Download")).to_be_visible()


async def test_an_end_while_the_page_changes_is_told_too(page: Page, resources, make_export) -> None:
    """And only to the pages after it, never twice."""
    export, _ = await make_export(Status.PROCESSING), await make_export(Status.PROCESSING)
    await page.goto("/exports")
    await page.goto("about:blank")
    await finish(resources, export)
    await page.goto("/exports/new")
    await expect(page.locator(".toast a")).to_have_text("Things is ready.")
    await page.goto("/exports/new")
    await asyncio.sleep(1.5)
    await expect(page.locator(".toast")).to_have_count(0)


async def test_a_hidden_tab_marks_its_title_until_it_is_looked_at(
    page: Page, streams: OpenStreams, resources, make_export
) -> None:
    first, second = await make_export(Status.PROCESSING), await make_export(Status.PROCESSING)
    await page.goto("/exports")
    await page.goto("/exports/new")
    title = await page.title()
    await page.evaluate(HIDE, True)
    await until(lambda: streams.now.get("news") == 1)
    await finish(resources, first)
    await expect(page).to_have_title(f"(1) {title}")
    await finish(resources, second)
    await expect(page).to_have_title(f"(2) {title}")
    await expect(page.locator(".toast")).to_have_count(0)
    await page.evaluate(HIDE, False)
    await expect(page).to_have_title(title)
    await expect(page.locator(".toast")).to_have_count(2)


async def test_a_page_without_anything_active_opens_no_stream(page: Page, server, make_export) -> None:
    await make_export(Status.SUCCESS)
    for path in ("/exports", "/exports/new", "/exports"):
        await page.goto(path)
        await page.wait_for_load_state("networkidle")
    seen = len(server.log.seen)
    await asyncio.sleep(2)
    assert len(server.log.seen) == seen
    assert server.log.count(NEWS) == 0


async def test_notifications_are_wished_for_in_the_menu_and_kept(page: Page, resources, make_export) -> None:
    await page.add_init_script(
        "window.told = []; class Told extends EventTarget { constructor(text) { super(); told.push(text); } "
        "static permission = 'granted'; static requestPermission() { throw new Error('asked'); } } "
        "window.Notification = Told;"
    )
    export = await make_export(Status.PROCESSING)
    await page.goto("/exports")
    await page.goto("/exports/new")
    await page.locator(".menu summary").click()
    wish = page.get_by_role("button", name="Tell me by notification")
    await expect(wish).to_have_attribute("aria-pressed", "false")
    await wish.click()
    await expect(wish).to_have_attribute("aria-pressed", "true")
    await page.evaluate(HIDE, True)
    await finish(resources, export)
    await asyncio.sleep(2)
    assert await page.evaluate("told") == ["Things is ready."]
    await page.goto("/exports/new")
    await page.locator(".menu summary").click()
    await expect(wish).to_have_attribute("aria-pressed", "true")


async def test_without_locks_every_tab_streams_by_itself(
    context: BrowserContext, streams: OpenStreams, resources, make_export
) -> None:
    await context.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
    export = await make_export(Status.PROCESSING)
    tabs = [await context.new_page() for _ in range(2)]
    for tab in tabs:
        await tab.goto(f"/exports/{export.id}")
    await until(lambda: streams.now == {"element": 2})
    await finish(resources, export)
    for tab in tabs:
        await expect(tab.get_by_role("link", name="Download")).to_be_visible()


async def sign_out(context: BrowserContext) -> None:
    answer = await context.request.post("/sign-out", headers={"Sec-Fetch-Site": "same-origin"}, max_redirects=0)
    assert answer.status == 303


async def test_signing_out_stops_the_tabs_that_follow_too(
    context: BrowserContext, streams: OpenStreams, server, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    tabs = [await context.new_page() for _ in range(2)]
    for tab in tabs:
        await tab.goto(f"/exports/{export.id}")
    await until(lambda: streams.now.get("element") == 1 and not streams.now.get("news"))
    await sign_out(context)
    for tab in tabs:
        await expect(tab.locator("#live-notice")).to_contain_text("signed out")
    await until(lambda: not any(streams.now.values()))


async def test_an_answer_that_was_on_its_way_does_not_take_back_that_one_is_signed_out(
    context: BrowserContext, streams: OpenStreams, server, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    first, second = await context.new_page(), await context.new_page()
    await first.goto(path)
    await until(lambda: streams.now == {"element": 1})
    answered, may_arrive = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        response = await route.fetch()
        answered.set()
        await may_arrive.wait()
        await route.fulfill(response=response)

    await second.route("**/live?poll=1*", hold)
    await second.goto(path)
    await asyncio.wait_for(answered.wait(), 15)
    await sign_out(context)
    notice = second.locator("#live-notice")
    await expect(notice).to_contain_text("signed out")
    async with second.expect_event("requestfinished"):
        may_arrive.set()
    await asyncio.sleep(0.5)
    assert "signed out" in (await notice.all_text_contents() or [""])[0]
    assert await second.evaluate("document.getElementById('live').hasAttribute('hx-get')") is False


async def test_the_tab_that_is_looked_at_has_the_stream(
    context: BrowserContext, streams: OpenStreams, server, resources, make_export
) -> None:
    export = await make_export(Status.PROCESSING)
    path = f"/exports/{export.id}"
    first, second = await context.new_page(), await context.new_page()
    await first.goto(path)
    await until(lambda: streams.now == {"element": 1})
    await second.goto(path)
    await until(lambda: streams.now.get("element") == 1 and not streams.now.get("news"))
    await first.evaluate(HIDE, True)
    await until_it_streams(second)
    await report(resources, export, 300)
    await expect(second.locator("#live progress").first).to_have_attribute("value", "30")

    await second.evaluate(HIDE, True)
    await until(lambda: (streams.now["news"], streams.now["element"]) == (1, 0))
    await first.evaluate(HIDE, False)
    await until_it_streams(first)
    await expect(first.locator("#live progress").first).to_have_attribute("value", "30")
    await finish(resources, export)
    await expect(first.get_by_role("link", name="Download")).to_be_visible()
    assert server.log.count(path + "/live", "fallback=") == 0
    await second.evaluate(HIDE, False)
    await expect(second.get_by_role("link", name="Download")).to_be_visible()
    await until(lambda: not any(streams.now.values()))
