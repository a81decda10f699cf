"""The inspector: a receiver that anybody may call, and a page for admins alone."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from live.sse_reading import opened
from pages.dom import facts, node, nodes, parsed, text, texts

from webapp.actions import inspectors
from webapp.domain import receiving
from webapp.domain.access import Viewer
from webapp.domain.callbacks import Endpoint, EndpointSettings, Secret
from webapp.domain.ids import new_id
from webapp.domain.receiving import Inspector, Verdict
from webapp.domain.signing import new_secret, signature_headers
from webapp.pages.inspector_wording import ANSWERS, BADGES, SENTENCES, event_type, pretty, told_age
from webapp.resources import Resources
from webapp.store import endpoints

SECRET = new_secret()
BODY = json.dumps({"type": "export.succeeded", "data": {"name": "</pre><script>alert(1)</script>", "n": 1.10}}).encode()
Send = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
async def inspector(resources: Resources, admin: Viewer) -> Inspector:
    return await inspectors.create(resources, admin)


@pytest.fixture
async def endpoint(resources: Resources, inspector: Inspector) -> Endpoint:
    now = await resources.store.now()
    made = Endpoint(new_id("end"), EndpointSettings(inspector.url), (Secret(SECRET, now),), "usr_1", now, now)
    async with resources.store.transaction():
        await endpoints.add(resources.store, made, resources.sealer)
    return made


@pytest.fixture
def send(resources: Resources, anonymous: httpx.AsyncClient, inspector: Inspector) -> Send:
    """Sends a callback as somebody who only knows the URL."""

    async def post(body: bytes = BODY, *, secret: str = SECRET, id: str = "evt_1", age: float = 0) -> httpx.Response:
        at = await resources.store.now() - timedelta(seconds=age)
        headers = dict(signature_headers([secret], id, at, body))
        return await anonymous.post(inspector.url, content=body, headers=headers)

    return post


async def test_a_callback_needs_no_sign_in_and_is_told_its_verdict(
    anonymous: httpx.AsyncClient, inspector: Inspector, endpoint: Endpoint, send: Send
) -> None:
    answers = [await send(), await send(secret=new_secret()), await send(age=900), await anonymous.post(inspector.url)]
    assert [(answer.status_code, answer.json()) for answer in answers] == [
        (200, {"verdict": "verified"}),
        (200, {"verdict": "wrong_signature"}),
        (200, {"verdict": "too_old"}),
        (200, {"verdict": "no_signature"}),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "https://elsewhere.example"},
        {"authorization": "Bearer of-something-that-is-no-token-of-ours"},
        {"authorization": "x"},
        {"cookie": "exportdesk_session=nonsense"},
        {"content-type": "multipart/form-data"},
        {"content-encoding": "gzip"},
    ],
)
async def test_whatever_else_the_request_says_makes_no_difference(
    anonymous: httpx.AsyncClient, inspector: Inspector, headers: dict[str, str]
) -> None:
    response = await anonymous.post(inspector.url, headers=headers, content=b"{")
    assert (response.status_code, response.json()) == (200, {"verdict": "no_signature"})


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_callbacks_are_posts(anonymous: httpx.AsyncClient, inspector: Inspector, method: str) -> None:
    response = await anonymous.request(method, inspector.url)
    assert response.status_code == 405
    assert {"GET", "POST"} <= set(response.headers["allow"].replace(" ", "").split(","))


@pytest.mark.parametrize("token", ["A" * 32, "x", "%00", "..%2F..", "ä"])
async def test_an_unknown_token_is_not_found(anonymous: httpx.AsyncClient, inspector: Inspector, token: str) -> None:
    response = await anonymous.post(f"/inspect/{token}", content=BODY)
    assert response.status_code == 404
    assert "set-cookie" not in response.headers


async def test_a_body_beyond_the_limit_is_turned_away_in_json(
    anonymous: httpx.AsyncClient, inspector: Inspector
) -> None:
    response = await anonymous.post(inspector.url, content=b"x" * 300_000)
    assert (response.status_code, response.json()["code"]) == (413, "TOO_LARGE")
    assert (await anonymous.post(inspector.url, content=b"x" * 200_000)).status_code == 200


async def test_too_many_are_told_when_to_come_back(
    send: Send, monkeypatch: pytest.MonkeyPatch, inspector: Inspector
) -> None:
    monkeypatch.setattr(receiving, "RATE", 1)
    await send()
    response = await send()
    assert (response.status_code, response.json()) == (429, {"verdict": "rate_limited"})
    assert 1 <= int(response.headers["retry-after"]) <= 60


async def test_the_token_is_in_no_log(
    anonymous: httpx.AsyncClient,
    admin_client: httpx.AsyncClient,
    inspector: Inspector,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)

    async def fails(*_: Any) -> None:
        raise RuntimeError("the machine is on fire")

    await anonymous.post(inspector.url)
    await admin_client.get(f"/inspect/{inspector.token}/live?fallback=1")
    await admin_client.get(f"/inspect/{inspector.token}/settings")
    monkeypatch.setattr(inspectors, "receive", fails)
    assert (await anonymous.post(inspector.url)).status_code == 500
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("exportdesk", "webapp"))]
    assert len(ours) == 5
    assert all("/inspect/…" in line for line in ours)
    assert not any(inspector.token in line for line in ours)


OPENED = [
    "/inspect",
    "/inspect/{token}",
    "/inspect/{token}/settings",
    "/inspect/{token}/live",
    "/inspect/{token}/stream",
]
CHANGED = ["/inspect", "/inspect/{token}/settings", "/inspect/{token}/clearing", "/inspect/{token}/deletion"]


@pytest.mark.parametrize("path", OPENED)
async def test_the_page_is_for_admins_alone(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, inspector: Inspector, path: str
) -> None:
    url = path.format(token=inspector.token)
    assert (await client.get(url)).status_code == 403
    assert (await anonymous.get(url)).status_code in {303, 401}


@pytest.mark.parametrize("path", CHANGED)
async def test_so_is_what_can_be_done_there(
    client: httpx.AsyncClient,
    anonymous: httpx.AsyncClient,
    admin_client: httpx.AsyncClient,
    inspector: Inspector,
    resources: Resources,
    path: str,
) -> None:
    url = path.format(token=inspector.token)
    fields = {"answer_status": "500", "allowed": "10.0.0.0/8"}
    assert (await client.post(url, data=fields)).status_code == 403
    assert (await anonymous.post(url, data=fields)).status_code == 401
    elsewhere = {"sec-fetch-site": "cross-site"}
    assert (await admin_client.post(url, data=fields, headers=elsewhere)).status_code == 403
    assert list(await inspectors.list_all(resources)) == [inspector]


@pytest.mark.parametrize("path", [path for path in OPENED if "token" in path])
async def test_an_inspector_that_is_not_there(admin_client: httpx.AsyncClient, path: str) -> None:
    assert (await admin_client.get(path.format(token="A" * 32))).status_code == 404


async def test_one_is_made_and_thrown_away_with_one_click_each(
    admin_client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources
) -> None:
    empty = await admin_client.get("/inspect")
    assert text(empty, ".empty h2") == "See what a receiver sees"
    made = await admin_client.post("/inspect")
    (inspector,) = await inspectors.list_all(resources)
    assert (made.status_code, made.headers["location"]) == (303, f"/inspect/{inspector.token}")
    listed = await admin_client.get("/inspect")
    assert texts(listed, ".inspectors .row-title") == [inspector.url]
    form = node(await admin_client.get(made.headers["location"]), "form[action$='/deletion']")
    assert (await admin_client.post(form.attributes["action"] or "")).headers["location"] == "/inspect"
    assert texts(await admin_client.get("/inspect"), ".flash") == [
        "The inspector was thrown away. Its URL answers 404 from now on."
    ]
    assert (await anonymous.post(inspector.url)).status_code == 404


async def test_when_there_are_enough_the_page_says_so(
    admin_client: httpx.AsyncClient, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "MOST_INSPECTORS", 1)
    refused = await admin_client.post("/inspect")
    assert (refused.status_code, refused.headers["location"]) == (303, "/inspect")
    page = await admin_client.get("/inspect")
    assert texts(page, ".flash") == ["There are as many inspectors as there may be. Throw one away first."]
    assert nodes(page, "form[action='/inspect']") == []


async def test_an_empty_page_says_what_to_do(admin_client: httpx.AsyncClient, inspector: Inspector) -> None:
    response = await admin_client.get(f"/inspect/{inspector.token}")
    assert text(response, "#inspector-url") == inspector.url
    assert node(response, "[data-copy]").attributes["data-copy"] == "#inspector-url"
    assert text(response, ".empty h2") == "Nothing has arrived yet"
    link = httpx.URL(node(response, ".empty a.button").attributes["href"] or "")
    assert (link.path, dict(link.params)) == ("/callbacks/new", {"url": inspector.url})


async def test_a_registered_one_leads_to_its_endpoint(
    admin_client: httpx.AsyncClient, inspector: Inspector, endpoint: Endpoint
) -> None:
    response = await admin_client.get(f"/inspect/{inspector.token}")
    links = [link.attributes["href"] for link in nodes(response, "a.button")]
    assert links == [f"/callbacks/{endpoint.id}"] * 2


async def test_what_arrived_is_listed_newest_first_and_the_newest_is_shown_whole(
    admin_client: httpx.AsyncClient, inspector: Inspector, endpoint: Endpoint, send: Send
) -> None:
    await send(b"not json", id="evt_0")
    await send(secret=new_secret())
    await send(age=2)
    await send(age=2)
    response = await admin_client.get(f"/inspect/{inspector.token}")
    assert texts(response, ".inspect-event") == ["export.succeeded"] * 3 + ["No event type"]
    badges = [badge.attributes["data-status"] for badge in nodes(response, ".inspect-row .badge")]
    assert badges == ["verified", "verified", "wrong_signature", "verified"]
    assert texts(response, ".inspect-row .tag") == ["Duplicate"]
    assert nodes(response, ".inspect-row")[0].attributes["aria-current"] == "true"
    said = facts(response, ".inspect-request .facts")
    assert (said["Caller"], said["webhook-id"]) == ("127.0.0.1", "evt_1")
    assert said["Age"] in {"2 s when it arrived", "3 s when it arrived"}
    headers = facts(response, ".inspect-headers")
    assert headers["webhook-id"] == "evt_1"
    assert headers["webhook-signature"].startswith("v1,")


async def test_an_age_is_told_in_the_readers_language(
    admin_client: httpx.AsyncClient, inspector: Inspector, endpoint: Endpoint, send: Send
) -> None:
    await send(age=70)
    shown = await admin_client.get(f"/inspect/{inspector.token}", headers={"Accept-Language": "zh-CN"})
    assert re.fullmatch("1 分钟 1[01] 秒前签名", text(shown, ".inspect-age"))


async def test_the_body_is_laid_out_and_harmless(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send
) -> None:
    await send()
    response = await admin_client.get(f"/inspect/{inspector.token}")
    shown = node(response, "pre.inspect-body")
    lines = ["{", '"type": "export.succeeded",', '"data": {', '"name": "</pre><script>alert(1)</script>",', '"n": 1.1']
    assert [line.strip() for line in shown.text().splitlines()] == [*lines, "}", "}"]
    assert shown.css("*")[1:] == []
    assert [script for script in parsed(response).css("script") if "src" not in script.attributes] == []


async def test_an_older_one_is_looked_at_by_its_address(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send
) -> None:
    await send(b"first")
    await send(b"second")
    page = await admin_client.get(f"/inspect/{inspector.token}")
    assert text(page, "pre.inspect-body") == "second"
    href = nodes(page, "a.inspect-row")[1].attributes["href"] or ""
    assert href.endswith("#request")
    chosen = await admin_client.get(href.removesuffix("#request"))
    assert text(chosen, "pre.inspect-body") == "first"
    assert [row.attributes.get("aria-current") for row in nodes(chosen, "a.inspect-row")] == [None, "true"]
    assert "request=irq_" in (node(chosen, "#live").attributes["hx-get"] or "")
    assert node(chosen, ".inspect-newest").attributes["href"] == f"/inspect/{inspector.token}"


@pytest.mark.parametrize("query", ["request=x", "request=%00", "request=irq_%FF", "all=x", "poll=x&fallback=-1"])
async def test_an_address_that_means_nothing_shows_the_newest(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send, query: str
) -> None:
    await send(b"body")
    response = await admin_client.get(f"/inspect/{inspector.token}?{query}")
    assert (response.status_code, text(response, "pre.inspect-body")) == (200, "body")


async def test_fifty_are_listed_until_somebody_asks_for_all(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send
) -> None:
    for number in range(52):
        await send(b"%d" % number)
    page = await admin_client.get(f"/inspect/{inspector.token}")
    assert (text(page, "#arrived-title"), len(nodes(page, ".inspect-row"))) == ("52 requests", 50)
    every = await admin_client.get(node(page, ".inspect-list .button").attributes["href"] or "")
    assert len(nodes(every, ".inspect-row")) == 52
    assert nodes(every, ".inspect-list .button") == []


async def test_a_cut_body_says_so(admin_client: httpx.AsyncClient, inspector: Inspector, send: Send) -> None:
    await send(b"x" * 70_000)
    response = await admin_client.get(f"/inspect/{inspector.token}")
    assert text(response, ".inspect-request h3 .tag") == "first 64 KiB"
    assert len(text(response, "pre.inspect-body")) == 65_536


async def test_the_answer_is_changed_with_one_click(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send
) -> None:
    page = await admin_client.get(f"/inspect/{inspector.token}")
    assert texts(page, ".inspect-choices button") == ["200", "400", "410", "429", "500", "503"]
    assert texts(page, ".inspect-choices [aria-current]") == ["200"]
    saved = await admin_client.post(f"/inspect/{inspector.token}/settings", data={"answer_status": "503"})
    assert (saved.status_code, saved.headers["location"]) == (303, f"/inspect/{inspector.token}")
    assert texts(await admin_client.get(f"/inspect/{inspector.token}"), ".inspect-choices [aria-current]") == ["503"]
    response = await send()
    assert (response.status_code, response.headers["retry-after"]) == (503, "10")


async def test_who_may_call_is_changed_on_a_page_of_its_own(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send
) -> None:
    url = f"/inspect/{inspector.token}/settings"
    await admin_client.post(url, data={"allowed": "203.0.113.7\r\n 10.0.0.0/8\r\n", "answer_status": "200"})
    form = await admin_client.get(url)
    assert node(form, "textarea").text() == "203.0.113.7/32\n10.0.0.0/8"
    assert (
        text(await admin_client.get(f"/inspect/{inspector.token}"), ".inspect-networks") == "203.0.113.7/32, 10.0.0.0/8"
    )
    assert (await send()).status_code == 403
    page = await admin_client.get(f"/inspect/{inspector.token}")
    assert text(page, ".inspect-request .badge") == "Address refused"
    await admin_client.post(url, data={"answer_status": "500"})
    assert (await send()).status_code == 403
    await admin_client.post(url, data={"allowed": ""})
    assert (await send()).status_code == 500


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"allowed": "example.com <b>", "answer_status": "500"}, "allowed"),
        ({"allowed": "", "answer_status": "302"}, "answer_status"),
        ({"answer_status": "x" * 1000}, "answer_status"),
    ],
)
async def test_a_mistake_is_shown_at_its_field_and_nothing_is_saved(
    admin_client: httpx.AsyncClient, inspector: Inspector, resources: Resources, fields: dict[str, str], field: str
) -> None:
    response = await admin_client.post(f"/inspect/{inspector.token}/settings", data=fields)
    assert response.status_code == 422
    wrong = node(response, "[aria-invalid]")
    assert wrong.attributes["name"] == field
    assert len(nodes(response, "p.error")) == 1
    assert node(response, "textarea").text() == fields.get("allowed", "")
    assert await inspectors.find(resources, inspector.token) == inspector


async def test_clearing_empties_the_page(admin_client: httpx.AsyncClient, inspector: Inspector, send: Send) -> None:
    await send()
    cleared = await admin_client.post(f"/inspect/{inspector.token}/clearing")
    page = await admin_client.get(cleared.headers["location"])
    assert (texts(page, ".flash"), len(nodes(page, ".empty"))) == (["What had arrived is cleared."], 1)


async def test_the_page_keeps_itself_true_by_polls_and_then_a_stream(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send
) -> None:
    element, polls = node(await admin_client.get(f"/inspect/{inspector.token}"), "#live"), 0
    await send(b"news")
    while url := element.attributes.get("hx-get"):
        polls += 1
        answer = await admin_client.get(url, headers={"HX-Request": "true"})
        element = node(answer, "#live")
        assert text(answer, "pre.inspect-body") == "news"
    assert polls == 3
    assert (element.attributes["hx-sse:connect"] or "").startswith(f"/inspect/{inspector.token}/stream?")


async def test_the_stream_tells_of_what_arrives_and_ends_when_it_is_thrown_away(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send, resources: Resources, admin: Viewer
) -> None:
    async with opened(admin_client, f"/inspect/{inspector.token}/stream") as stream:
        assert "Nothing has arrived yet" in (await stream.next()).data
        await send(b"over the stream")
        while "over the stream" not in (message := await stream.next()).data:
            pass
        assert message.event == "message"
        await inspectors.delete(resources, admin, inspector.token)
        assert (await stream.until("gone"))[-1].event == "gone"


async def test_another_inspectors_news_are_not_told(
    admin_client: httpx.AsyncClient, inspector: Inspector, send: Send, resources: Resources, admin: Viewer
) -> None:
    another = await inspectors.create(resources, admin)
    async with opened(admin_client, f"/inspect/{another.token}/stream") as stream:
        await stream.next()
        await send(b"elsewhere")
        assert "elsewhere" not in (await stream.next()).data


def test_every_verdict_and_every_answer_has_its_words() -> None:
    assert set(BADGES) == set(SENTENCES) == set(Verdict)
    assert tuple(ANSWERS) == receiving.ANSWER_STATUSES


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (None, ""),
        (0, "under 1 s"),
        (0.999, "under 1 s"),
        (-0.4, "under 1 s"),
        (1.2, "1 s"),
        (125, "2 min 5 s"),
        (-90, "1 min 30 s ahead"),
    ],
)
def test_ages(age: float | None, words: str) -> None:
    assert told_age(age) == words


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ('{"b":1,"a":[1,{}]}', '{\n  "b": 1,\n  "a": [\n    1,\n    {}\n  ]\n}'),
        ('{"n":12345678901234567890.10}', '{\n  "n": 12345678901234567890.10\n}'),
        ("[" * 33 + "]" * 33, "[" * 33 + "]" * 33),
        ("[" * 60_000, "[" * 60_000),
        ('["' + "]" * 40 + '",' + "[" * 33 + "]" * 34, '["' + "]" * 40 + '",' + "[" * 33 + "]" * 34),
        ('["\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["]', '[\n  "\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["\n]'),
        ('{"a":', '{"a":'),
        ("<html>", "<html>"),
        ("", ""),
    ],
)
def test_a_body_as_it_is_shown(body: str, shown: str) -> None:
    assert pretty(body) == shown


@pytest.mark.parametrize("part", ['\\"', '"', "\\", "[", '["', '{"a":', "\\u0000"])
def test_no_body_takes_long_to_lay_out(part: str) -> None:
    body = ('"' + part * 65_536)[:65_536]
    started = time.process_time()
    pretty(body)
    event_type(body)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        ('{"type":"export.failed"}', "export.failed"),
        ('{"type":1}', ""),
        ('{"type":"\\u202eetorw"}', ""),
        ('["type"]', ""),
        ("", ""),
        ('{"x":' + "[" * 60_000, ""),
        ('{"type":"' + "x" * 500 + '"}', "x" * 60),
    ],
)
def test_an_event_type_is_what_the_body_says(body: str, type_: str) -> None:
    assert event_type(body) == type_
