"""How a page keeps itself true, read off its answers: three polls, a stream, silence; polls when the stream fails."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from factories import changed
from live.sse_reading import opened
from selectolax.lexbor import LexborHTMLParser, LexborNode

from webapp.domain.exports import Export, Status
from webapp.pages.live import FALLBACK_LONGEST, REST_SECONDS, ROW_PACE, STREAM_AGAIN_EVERY, list_pace, paced
from webapp.resources import Resources
from webapp.settings import LiveStrategy
from webapp.store import events

ExportMaker = Callable[..., Awaitable[Export]]
OVER = (Status.SUCCESS, Status.FAILED, Status.EXPIRED, Status.CANCELLED)
DRIVING = ("hx-get", "hx-trigger", "hx-sse:connect", "data-fallback")


@pytest.fixture(params=["list", "export"])
async def place(request: pytest.FixtureRequest, make_export: ExportMaker) -> str:
    """The address of a page with an active export on it."""
    export = await make_export(Status.QUEUED)
    return "/exports" if request.param == "list" else f"/exports/{export.id}"


async def live(client: httpx.AsyncClient, url: str) -> LexborNode:
    """The one live element of an answer."""
    response = await client.get(url)
    assert response.status_code == 200, response.text
    found = LexborHTMLParser(response.text).css("#live")
    assert len(found) == 1
    assert len(LexborHTMLParser(response.text).css("#live-content")) == 1
    return found[0]


def query(url: str | None) -> Mapping[str, str]:
    assert url is not None
    return {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}


def delay(element: LexborNode) -> int:
    trigger = element.attributes["hx-trigger"]
    assert trigger is not None
    name, _, rest = trigger.partition(" delay:")
    assert name == "load"
    return int(rest.removesuffix("s"))


def streams(element: LexborNode) -> bool:
    """Whether it opens a stream; then it does not poll, and the other way round."""
    has_stream, has_poll = "hx-sse:connect" in element.attributes, "hx-get" in element.attributes
    assert has_stream != has_poll
    assert has_poll == ("hx-trigger" in element.attributes)
    return has_stream


async def test_a_page_polls_three_times_and_then_streams(client: httpx.AsyncClient, place: str) -> None:
    url, delays = place, list[int]()
    for number in (1, 2, 3):
        element = await live(client, url)
        assert not streams(element)
        url = str(element.attributes["hx-get"])
        assert url.startswith(f"{place}/live?")
        assert query(url)["poll"] == str(number)
        delays.append(delay(element))
    assert delays == [1, 2, 3]
    last = await live(client, url)
    assert streams(last)
    connect = str(last.attributes["hx-sse:connect"])
    assert connect.startswith(f"{place}/stream?after=")
    assert last.attributes["hx-sse:close"] == "end"
    assert last.attributes["hx-swap"] == "innerMorph", "the element that streams must stay the same"


async def test_the_cursor_is_the_newest_event(client: httpx.AsyncClient, place: str, resources: Resources) -> None:
    async with resources.store.connection():
        newest = await events.latest_seq(resources.store)
    element = await live(client, f"{place}/live?poll=3")
    assert query(element.attributes["hx-sse:connect"])["after"] == str(newest)
    assert str(element.attributes["data-stamp"]).startswith(f"{newest}.")


@pytest.mark.parametrize("status", OVER)
async def test_what_is_over_is_silent(client: httpx.AsyncClient, make_export: ExportMaker, status: Status) -> None:
    export = await make_export(status)
    questions = ("", "/live?poll=1", "/live?poll=3", "/live?fallback=2", "/live?fallback=5")
    for path, question in product(("/exports", f"/exports/{export.id}"), questions):
        element = await live(client, path + question)
        assert not any(name in element.attributes for name in DRIVING)
        asks = element.css("[hx-get], [hx-trigger], [hx-sse\\:connect], [data-active]")
        assert {one.tag for one in asks} <= {"input"}, "only a field in which a person types asks for anything"


async def test_one_stream_per_page_and_never_one_per_row(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    for _ in range(5):
        await make_export(Status.QUEUED)
    response = await client.get("/exports/live?poll=3")
    assert response.text.count("hx-sse:connect") == 1


async def test_an_empty_list_is_silent(client: httpx.AsyncClient) -> None:
    element = await live(client, "/exports")
    assert not any(name in element.attributes for name in DRIVING)


async def test_a_page_falls_back_slower_and_slower(client: httpx.AsyncClient, place: str) -> None:
    element = await live(client, f"{place}/live?poll=3")
    fallback = str(element.attributes["data-fallback"])
    assert element.attributes["data-tries"] == "0"
    waits, streamed = list[int](), list[int]()
    for number in range(1, 16):
        element = await live(client, f"{fallback}&fallback={number}")
        assert element.attributes["data-tries"] == str(number)
        if streams(element):
            streamed.append(number)
            continue
        assert query(element.attributes["hx-get"])["fallback"] == str(number + 1)
        waits.append(delay(element))
    assert waits == [2, 4, 8, 16] + [FALLBACK_LONGEST] * 8
    assert streamed == [5, 10, 15]


@pytest.mark.parametrize("number", [998, 1000, 1001, 9999])
async def test_a_page_that_fell_back_for_days_keeps_its_rhythm(
    client: httpx.AsyncClient, place: str, number: int
) -> None:
    offered, url = list[bool](), f"{place}/live?fallback={number}"
    for _ in range(2 * STREAM_AGAIN_EVERY):
        element = await live(client, url)
        offered.append(streams(element))
        if offered[-1]:
            url = f"{place}/live?fallback={int(str(element.attributes['data-tries'])) + 1}"
        else:
            assert delay(element) == FALLBACK_LONGEST
            url = str(element.attributes["hx-get"])
    assert offered.count(True) == 2


def settings(app: Any, resources: Resources, strategy: LiveStrategy) -> None:
    app.state.resources = replace(resources, settings=replace(resources.settings, live_strategy=strategy))


async def test_poll_only_never_streams(client: httpx.AsyncClient, place: str, app: Any, resources: Resources) -> None:
    settings(app, resources, LiveStrategy.POLL_ONLY)
    url, delays = place, list[int]()
    for _ in range(14):
        element = await live(client, url)
        assert not streams(element)
        delays.append(delay(element))
        url = str(element.attributes["hx-get"])
    assert delays == [1, 2, 3, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30]


async def test_push_first_streams_at_once(
    client: httpx.AsyncClient, place: str, app: Any, resources: Resources
) -> None:
    settings(app, resources, LiveStrategy.PUSH_THEN_POLL)
    assert streams(await live(client, place))
    assert not streams(await live(client, f"{place}/live?fallback=1")), "but not right after a stream that failed"


async def test_after_the_push_it_rests_and_is_pushed_to_again_near_the_end(
    client: httpx.AsyncClient, app: Any, resources: Resources, make_export: ExportMaker
) -> None:
    settings(app, resources, LiveStrategy.PUSH_THEN_POLL)
    export = await make_export(Status.PROCESSING)
    now = await resources.store.now()
    export = await changed(resources, export, started_at=now - timedelta(seconds=60), rows_done=100, rows_total=1000)
    url, numbers = f"/exports/{export.id}/live?rest=1", list[str]()
    for _ in range(3):
        element = await live(client, url)
        assert delay(element) == REST_SECONDS
        url = str(element.attributes["hx-get"])
        numbers.append(query(url)["rest"])
    assert numbers == ["2", "3", "4"]
    await changed(resources, export, rows_done=950)
    assert streams(await live(client, url))
    assert streams(await live(client, "/exports/live?rest=7"))


async def test_a_push_ends_on_purpose_but_not_when_the_end_is_near(
    client: httpx.AsyncClient, app: Any, resources: Resources, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.live.PUSH_SECONDS", 0.0)
    settings(app, resources, LiveStrategy.PUSH_THEN_POLL)
    export = await make_export(Status.PROCESSING)
    for path in (f"/exports/{export.id}", "/exports"):
        async with opened(client, f"{path}/stream") as stream:
            assert [message.event for message in await stream.rest()] == ["message", "rest"]
    now = await resources.store.now()
    await changed(resources, export, started_at=now - timedelta(seconds=60), rows_done=990, rows_total=1000)
    async with opened(client, f"/exports/{export.id}/stream") as stream:
        assert (await stream.next()).event == "message"
        assert await stream.quiet(1.5)


ODD = [
    "poll=", "poll=x", "poll=-1", "poll=1.5", "poll=%00", "poll=٣", "poll=²", "poll=" + "9" * 5000, "poll=1e9",
    "poll=99999", "rest=x", "rest=-1", "rest=" + "9" * 5000,
    "fallback=x", "fallback=-5", "fallback=" + "9" * 5000, "fallback=%ff", "refresh=x", "poll[]=1",
    "refresh=" + "9" * 5000, "poll=1&poll=x", "after=x", "&&&=&", "cursor=x", "status=nope", "since=x", "q=%00",
    "q=" + "x" * 5000, "cursor=99999999999999-exp_00000000000000000000000000",
]  # fmt: skip


async def test_odd_questions_do_no_harm(client: httpx.AsyncClient, place: str) -> None:
    for odd in ODD:
        response = await client.get(f"{place}/live?{odd}")
        assert response.status_code == 200, odd
        assert len(LexborHTMLParser(response.text).css("#live")) == 1, odd
        assert (await client.get(f"{place}?{odd}")).status_code == 200, odd


async def test_a_filter_is_kept_in_every_next_address(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    await make_export(Status.QUEUED)
    asked = "status=queued&dataset=things&q=a%26b%22%3E"
    await make_export(Status.QUEUED, params={"search": 'a&b">', "most": None})
    element = await live(client, f"/exports?{asked}")
    if "hx-get" not in element.attributes:
        pytest.fail("the filter should find the export")
    poll = query(element.attributes["hx-get"])
    assert (poll["status"], poll["dataset"], poll["q"]) == ("queued", "things", 'a&b">')
    last = await live(client, f"/exports/live?poll=3&{asked}")
    for address in (last.attributes["hx-sse:connect"], last.attributes["data-fallback"]):
        kept = query(address)
        assert (kept["status"], kept["dataset"], kept["q"]) == ("queued", "things", 'a&b">')


async def test_every_answer_shows_the_same_element(client: httpx.AsyncClient, place: str) -> None:
    """Page, poll, fallback: one template, so that a swap changes nothing when nothing changed."""
    contents = [
        (await live(client, url)).css("#live-content")[0].html
        for url in (place, f"{place}/live?poll=1", f"{place}/live?poll=3", f"{place}/live?fallback=2")
    ]
    assert len(set(contents)) == 1
    names = {(await live(client, url)).tag for url in (place, f"{place}/live?poll=3")}
    assert names == {"section"}


async def test_a_poll_is_a_part_and_never_a_page(client: httpx.AsyncClient, place: str) -> None:
    response = await client.get(f"{place}/live?poll=1")
    assert not response.text.lstrip().startswith("<!doctype")
    assert "<html" not in response.text
    assert response.headers["cache-control"] == "no-store"


async def test_errors_are_not_swapped_in(client: httpx.AsyncClient, place: str) -> None:
    for url in (place, f"{place}/live?poll=3"):
        element = await live(client, url)
        assert element.attributes["hx-status:4xx"] == element.attributes["hx-status:5xx"] == "swap:none"


async def test_without_javascript_a_page_refreshes_itself(client: httpx.AsyncClient, place: str) -> None:
    url, seconds = place, list[int]()
    for _ in range(7):
        response = await client.get(url)
        metas = LexborHTMLParser(response.text).css("noscript")
        content = [meta.html or "" for meta in metas if "refresh" in (meta.html or "")]
        assert len(content) == 1
        wait, _, target = content[0].partition('content="')[2].partition('"')[0].partition(";url=")
        seconds.append(int(wait))
        url = target.replace("&amp;", "&")
        assert url.startswith(f"{place}?refresh=")
    assert seconds == [1, 2, 3, 4, 5, 5, 5]


async def test_a_page_of_somebody_else_is_not_there(
    other_client: httpx.AsyncClient, anonymous: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    assert (await other_client.get(f"/exports/{export.id}/live?poll=1")).status_code == 404
    assert (await anonymous.get(f"/exports/{export.id}/live?poll=1")).status_code == 401
    assert (await anonymous.get("/exports/live?poll=1")).status_code == 401


async def test_a_list_on_which_much_moves_is_sent_less_often(make_export: ExportMaker) -> None:
    exports = [await make_export(status) for status in (*[Status.PROCESSING] * 6, *OVER)]
    assert list_pace({"exports": exports}) == pytest.approx(6 * ROW_PACE)
    assert list_pace({"exports": exports[6:]}) == 0

    async def read() -> Mapping[str, Any]:
        return {"exports": exports}

    when_it_is_time, began = paced(read, list_pace), time.monotonic()
    for _ in range(3):
        await when_it_is_time()
    assert time.monotonic() - began >= 2 * 6 * ROW_PACE
