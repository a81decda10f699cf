"""Confirmations by pages: what is taken, from whom, and what is no latency; and telling an event again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from api.problem_documents import problem_of
from factories import stored_export
from owing import register
from selectolax.lexbor import LexborHTMLParser, LexborNode
from sqlalchemy import delete, select, update

from webapp.actions import exports
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.limits import PAGE_SIZE
from webapp.resources import Resources
from webapp.store.tables import audit_log, client_acks, events

ExportMaker = Callable[..., Awaitable[Export]]
URL = "/api/v1/acknowledgements"
UNKNOWN = "evt_" + "0" * 26


async def confirmed(resources: Resources) -> list[Any]:
    async with resources.store.connection():
        return await resources.store.fetch_all(select(client_acks))


async def live(client: httpx.AsyncClient, path: str) -> LexborNode:
    element = LexborHTMLParser((await client.get(path)).text).css_first("#live")
    assert element is not None
    return element


async def events_of(client: httpx.AsyncClient, path: str) -> list[str]:
    """What an answer brings to a page that showed nothing."""
    content = (await live(client, f"{path}/live?after=0")).css_first("#live-content")
    assert content is not None
    return (content.attributes.get("data-events") or "").split()


@pytest.fixture
async def cancelled(resources: Resources, user: Viewer, make_export: ExportMaker) -> Export:
    export = await make_export(Status.QUEUED)
    return await exports.cancel(resources, user, export.id)


async def test_an_answer_names_the_newest_events_that_it_shows(client: httpx.AsyncClient, cancelled: Export) -> None:
    logged = (await client.get(f"/api/v1/exports/{cancelled.id}/events")).json()["items"]
    for path in ("/exports", f"/exports/{cancelled.id}"):
        assert await events_of(client, path) == [event["id"] for event in reversed(logged)], path
        assert (await live(client, path)).css("[data-events]") == [], "what is on a page from the start is no news"


@pytest.mark.parametrize("way", ["data-fallback", "hx-get"])
@pytest.mark.parametrize("place", ["list", "export"])
async def test_however_much_happens_meanwhile_an_answer_brings_what_the_page_has_not_shown(
    client: httpx.AsyncClient,
    resources: Resources,
    user: Viewer,
    other: Viewer,
    make_export: ExportMaker,
    place: str,
    way: str,
) -> None:
    export, meanwhile = await make_export(Status.QUEUED), await make_export(Status.PENDING, owner=other)
    shown = await live(client, "/exports" if place == "list" else f"/exports/{export.id}")
    await exports.cancel(resources, user, export.id)
    async with resources.store.transaction():
        await resources.store.execute(update(events).where(events.c.export_id == meanwhile.id).values(seq=5000))
    content = (await live(client, str(shown.attributes[way]))).css_first("#live-content")
    [ended] = (await client.get(f"/api/v1/exports/{export.id}/events")).json()["items"][-1:]
    assert ended["type"] == "export.cancelled"
    assert content is not None
    assert content.attributes.get("data-events") == ended["id"]


async def test_old_events_of_a_row_that_comes_into_sight_are_no_news(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    """They would count as news that took as long to arrive as they are old."""
    first, *_, last = [await make_export(Status.SUCCESS) for _ in range(PAGE_SIZE)] + [await make_export(Status.QUEUED)]
    shown = await live(client, "/exports")
    ids = [row.attributes["data-export"] for row in shown.css("[data-export]")]
    assert last.id in ids
    assert first.id not in ids
    await exports.delete(resources, user, str(ids[-1]))
    after = await live(client, str(shown.attributes["data-fallback"]))
    assert first.id in {row.attributes["data-export"] for row in after.css("[data-export]")}
    assert after.css("[data-events]") == []


async def test_what_a_page_confirms_is_kept_once(
    client: httpx.AsyncClient, cancelled: Export, resources: Resources, user: Viewer
) -> None:
    newest = (await events_of(client, f"/exports/{cancelled.id}"))[0]
    for channel in ("sse", "polling"):
        response = await client.post(URL, json={"events": [newest, UNKNOWN], "channel": channel})
        assert (response.status_code, response.content) == (204, b"")
    [row] = await confirmed(resources)
    assert (row["event_id"], row["user_id"], row["client"], row["channel"]) == (newest, user.id, "page", "sse")
    assert 0 <= row["latency_ms"] < 5000


async def test_waiting_in_a_batch_is_no_latency(
    client: httpx.AsyncClient, cancelled: Export, resources: Resources
) -> None:
    newest = (await events_of(client, f"/exports/{cancelled.id}"))[0]
    await client.post(URL, json={"events": [newest], "channel": "sse", "held_ms": [60_000]})
    [row] = await confirmed(resources)
    assert row["latency_ms"] == 0


async def test_nobody_confirms_for_somebody_else(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, cancelled: Export, resources: Resources
) -> None:
    newest = (await events_of(client, f"/exports/{cancelled.id}"))[0]
    assert (await other_client.post(URL, json={"events": [newest], "channel": "sse"})).status_code == 204
    assert await confirmed(resources) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"events": [], "channel": "sse"},
        {"events": [UNKNOWN], "channel": "websocket"},
        {"events": [UNKNOWN] * 101, "channel": "sse"},
        {"events": ["evt_\0"], "channel": "sse"},
        {"events": ["exp_" + "0" * 26], "channel": "sse"},
        {"events": [1], "channel": "sse"},
        {"events": [UNKNOWN], "channel": "sse", "held_ms": [1, 2]},
        {"events": [UNKNOWN], "channel": "sse", "held_ms": [-1]},
        {"events": [UNKNOWN], "channel": "sse", "client": "importer"},
    ],
)
async def test_what_cannot_be_read_is_refused(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    problem_of(await client.post(URL, json=body), 422, "INVALID")


# Telling again


def told(response: httpx.Response) -> str:
    return " ".join(node.text().strip() for node in LexborHTMLParser(response.text).css(".flash"))


async def remind(client: httpx.AsyncClient, export: Export) -> str:
    response = await client.post(f"/exports/{export.id}/reminder")
    assert (response.status_code, response.headers["location"]) == (303, f"/exports/{export.id}")
    return told(await client.get(f"/exports/{export.id}"))


async def test_an_admin_tells_again_to_every_endpoint_that_is_owed_the_event(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    for name in ("one", "two"):
        await register(resources, f"https://93.184.216.34/{name}")
    export = await stored_export(resources, user, Status.QUEUED)
    await exports.cancel(resources, user, export.id)
    assert "2 deliveries put in line" in await remind(admin_client, export)
    async with resources.store.connection():
        audited = await resources.store.fetch_all(select(audit_log.c.action).where(audit_log.c.subject == export.id))
        assert sorted(row["action"] for row in audited) == ["deliveries.redelivered", "export.reminded"]
    assert await remind(client, export) == "Told again to open pages and connected programs.", (
        "not the owner's endpoints"
    )


async def test_one_endpoint_or_the_readers_alone_are_told_again(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    one, _ = [await register(resources, f"https://93.184.216.34/{name}") for name in ("one", "two")]
    export = await stored_export(resources, user, Status.QUEUED)
    await exports.cancel(resources, user, export.id)
    url = f"/api/v1/exports/{export.id}/reminder"
    for to, count in ((one.id, 1), ("readers", 0), ("all", 2)):
        response = await admin_client.post(url, json={"to": to})
        assert (response.status_code, response.json()) == (202, {"type": "export.cancelled", "deliveries": count}), to
    page = LexborHTMLParser((await admin_client.get(f"/exports/{export.id}")).text)
    offered = [option.attributes["value"] for option in page.css("#reminder-to option")]
    assert (offered[:2], one.id in offered, len(offered)) == (["all", "readers"], True, 4)
    response = await admin_client.post(f"/exports/{export.id}/reminder", data={"to": one.id})
    assert response.status_code == 303
    assert "1 delivery put in line" in told(await admin_client.get(response.headers["location"]))
    for to in (one.id, "end_" + "0" * 26, "nobody", ""):
        problem_of(await client.post(url, json={"to": to}), 404, "NOT_FOUND")


async def test_without_events_the_api_has_nothing_to_tell(
    client: httpx.AsyncClient, cancelled: Export, resources: Resources
) -> None:
    async with resources.store.transaction():
        await resources.store.execute(delete(events))
    problem_of(await client.post(f"/api/v1/exports/{cancelled.id}/reminder", json={}), 410, "GONE")


async def test_without_events_there_is_nothing_to_tell(
    client: httpx.AsyncClient, cancelled: Export, resources: Resources
) -> None:
    async with resources.store.transaction():
        await resources.store.execute(delete(events))
    assert "nothing to tell again" in await remind(client, cancelled)
    page = LexborHTMLParser((await client.get(f"/exports/{cancelled.id}")).text)
    assert page.css_first(f'form[action="/exports/{cancelled.id}/reminder"]') is None
