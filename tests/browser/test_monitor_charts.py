"""The monitor page in a real browser: charts that follow their tables, and everything without scripts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from browser.relay import relaying
from browser.streaming import until_it_streams
from browser.test_live_pages import until
from cli.command_line import free_port
from factories import stored_export
from playwright.async_api import Browser, Page, expect

from webapp.actions import people
from webapp.actions.tallies import tally_events
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.store import monitor
from webapp.web.security import SESSION_COOKIE

Opener = Callable[..., Awaitable[Page]]
LIBRARY = "/static/vendor/echarts.min.js"
NETWORK = ("Failed to load resource", "network error")
PIXELS = """card => {
    const canvas = document.querySelector(`#${card} canvas`);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
}"""

LABELS = """([card, having]) => {
    const chart = window.echarts.getInstanceByDom(document.querySelector(`#${card} .chart`));
    return chart.getZr().storage.getDisplayList().filter(each => each.style.text?.includes(having)).map(each => {
        const box = each.getBoundingRect().clone();
        if (each.transform) box.applyTransform(each.transform);
        return [each.style.text, box.x, box.y, box.x + box.width, box.y + box.height];
    });
}"""


@pytest.fixture
async def open_page(browser: Browser, server: Any, resources: Resources, admin: Viewer) -> AsyncIterator[Opener]:
    """Opens a page as an admin sees it. What scripts and the security policy complain of fails the test."""
    session = await people.sign_in(resources, admin.name, f"{admin.name} has a password")
    assert session is not None
    contexts: list[Any] = []
    said: list[str] = []

    async def opened(path: str = "/monitor", *, url: str = server.url, **options: Any) -> Page:
        context = await browser.new_context(base_url=url, **options)
        contexts.append(context)
        await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": url}])
        page = await context.new_page()
        page.on("console", lambda message: any(n in message.text for n in NETWORK) or said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        await page.clock.install()
        await page.goto(path)
        return page

    yield opened
    for context in contexts:
        await context.close()
    assert said == []


async def end_one(resources: Resources, owner: Viewer) -> None:
    await stored_export(resources, owner, Status.SUCCESS)
    await tally_events(resources, await resources.store.now())


async def test_charts_are_drawn_and_follow_the_numbers(open_page: Opener, resources: Resources, user: Viewer) -> None:
    page = await open_page()
    await expect(page.locator("canvas")).to_have_count(0)
    await end_one(resources, user)
    await page.clock.fast_forward(10_500)
    await expect(page.locator("#tile-success .tile-value")).to_have_text("100%")
    await expect(page.locator("#ends canvas")).to_be_visible()
    assert await page.evaluate(PIXELS, "ends") > 10
    await page.locator("#ends summary").click()
    await page.evaluate("window.before = document.querySelector('#ends canvas')")
    await end_one(resources, user)
    await page.clock.fast_forward(10_500)
    await expect(page.locator("#tile-success .tile-note")).to_have_text("2 of 2 attempts in the last 24 hours")
    assert await page.evaluate("window.before.isConnected && window.before === document.querySelector('#ends canvas')")
    await expect(page.locator("#ends table")).to_be_visible()


async def test_a_bar_that_is_clicked_leads_to_the_list_it_counts(
    open_page: Opener, resources: Resources, user: Viewer
) -> None:
    await end_one(resources, user)
    page = await open_page()
    await expect(page.locator("#ends canvas")).to_be_visible()
    x, y = await page.evaluate("""() => window.echarts.getInstanceByDom(document.querySelector("#ends .chart"))
        .convertToPixel({ seriesIndex: 0 }, [23, 0.5])""")
    await page.locator("#ends .chart").click(position={"x": x, "y": y})
    await expect(page.locator("#total")).to_have_text("1")
    await expect(page.locator(".counted tbody tr")).to_have_count(1)


async def test_the_page_outlives_a_server_that_answers_with_errors(
    open_page: Opener, resources: Resources, user: Viewer
) -> None:
    page = await open_page()
    notice = page.locator("#live-notice")
    await page.route("**/monitor/live**", lambda route: route.fulfill(status=503, body="Not now."))
    await expect(notice).to_be_hidden()
    async with page.expect_response("**/monitor/live**"):
        await page.clock.fast_forward(1_500)
    await expect(notice).to_contain_text("This is the last known state")
    await expect(page.locator("#tile-success")).to_be_visible()
    await page.unroute("**/monitor/live**")
    await end_one(resources, user)
    await page.clock.fast_forward(40_000)
    await expect(notice).to_be_hidden()
    await expect(page.locator("#tile-success .tile-value")).to_have_text("100%")


async def test_only_this_page_loads_the_library(open_page: Opener, server: Any) -> None:
    await open_page("/exports")
    assert server.log.count(LIBRARY) == 0
    await open_page()
    assert server.log.count(LIBRARY) == 1


async def test_without_scripts_the_tables_and_ranges_are_there(
    open_page: Opener, resources: Resources, user: Viewer
) -> None:
    await end_one(resources, user)
    page = await open_page(java_script_enabled=False)
    await expect(page.locator("#ends table")).to_be_visible()
    await page.get_by_role("link", name="30 days").click()
    await expect(page.locator("#ends tbody tr")).to_have_count(30)


async def test_its_stream_brings_what_changed_and_comes_back_when_it_is_cut(
    open_page: Opener, server: Any, resources: Resources, user: Viewer
) -> None:
    success = "#tile-success .tile-note"
    port = free_port()
    async with relaying(port, int(server.url.rsplit(":", 1)[1])) as relay:
        page = await open_page(url=f"http://127.0.0.1:{port}")
        for _ in range(3):
            await page.clock.fast_forward(3_500)
        await until_it_streams(page)
        polls = server.log.count("/monitor/live")
        await page.evaluate("window.isTheSame = true")
        for count in (1, 2):
            await end_one(resources, user)
            attempts = "attempt" if count == 1 else "attempts"
            await expect(page.locator(success)).to_have_text(f"{count} of {count} {attempts} in the last 24 hours")
        assert server.log.count("/monitor/live") == polls
        assert server.log.count("/monitor/stream") == 1

        relay.cut(1, random.Random())
        await end_one(resources, user)
        await page.clock.fast_forward(10_500)
        await expect(page.locator(success)).to_have_text("3 of 3 attempts in the last 24 hours")
        await until(lambda: server.log.count("/monitor/stream") > 1)
        await until_it_streams(page)
        await end_one(resources, user)
        await expect(page.locator(success)).to_have_text("4 of 4 attempts in the last 24 hours")
        assert await page.evaluate("window.isTheSame")


# Near an edge a name begins or ends at its line. How many hours a mark is from an edge varies with the time of day.
@pytest.mark.parametrize("later", [0, 4, 8, 12, 16, 20])
@pytest.mark.parametrize("width", [360, 1280])
async def test_names_of_versions_that_came_close_together_do_not_overlap(
    open_page: Opener, resources: Resources, width: int, later: int
) -> None:
    now = await resources.store.now() - timedelta(hours=later)
    hours = [143, 101, 99, 96, 94, 92, 60, 30, 20, 19, 18, 17.5, 17, 3, 0.2]
    async with resources.store.transaction():
        await monitor.add(resources.store, {now: Counter({("execution_time", "things", 3): 1})})
        for number, ago in enumerate(hours):
            await monitor.note_version(resources.store, f"1.{number}.0-beta", at=now - timedelta(hours=ago))
    page = await open_page("/monitor?range=7d", viewport={"width": width, "height": 800})
    await expect(page.locator("#execution-trend canvas")).to_be_visible()
    boxes = await page.evaluate(LABELS, ["execution-trend", "beta"])
    assert 2 < len(boxes) < len(hours)
    left_out = sum(int(text.partition(" +")[2] or 0) for text, *_ in boxes)
    assert len(boxes) + left_out == len(hours)
    canvas = await page.locator("#execution-trend canvas").bounding_box()
    assert canvas is not None
    assert all(0 <= left < right <= canvas["width"] for _, left, _, right, _ in boxes)
    for (_, left, top, right, bottom), *others in (boxes[n:] for n in range(len(boxes))):
        assert all(right < o[1] or o[3] < left or bottom <= o[2] or o[4] <= top for o in others)


async def test_a_chart_without_width_waits_for_some(open_page: Opener, resources: Resources) -> None:
    """What scripts complain of fails the test."""
    now = await resources.store.now()
    async with resources.store.transaction():
        await monitor.add(resources.store, {now: Counter({("execution_time", "things", 3): 1})})
        await monitor.note_version(resources.store, "1.0.0-beta", at=now)
    page = await open_page()
    await expect(page.locator("#execution-trend canvas")).to_be_visible()
    for display in ("none", "block"):
        await page.evaluate("display => { document.querySelector('#main').style.display = display }", display)
        await page.evaluate("dispatchEvent(new Event('resize'))")
    assert len(await page.evaluate(LABELS, ["execution-trend", "beta"])) == 1


@pytest.mark.parametrize(("range", "scheme"), [("1h", "light"), ("30d", "dark")])
async def test_it_fits_on_a_phone(
    open_page: Opener, resources: Resources, user: Viewer, range: str, scheme: str
) -> None:
    await end_one(resources, user)
    page = await open_page(f"/monitor?range={range}", viewport={"width": 360, "height": 740}, color_scheme=scheme)
    await expect(page.locator("#ends canvas")).to_be_visible()
    said = await page.evaluate(LABELS, ["ends", ""])
    legend = [box for box in said if box[0] in {"Ready", "Failed", "Timed out", "Cancelled"}]
    assert max(bottom for *_, bottom in legend) <= min(box[2] for box in said if box not in legend)
    for summary in await page.locator(".chart-numbers summary").all():
        await summary.click()
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    await expect(page.locator(".top-nav [aria-current]")).to_be_in_viewport()
