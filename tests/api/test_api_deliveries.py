"""`/api/v1/deliveries`: the log, what people see of it, and redelivery."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest
from api.problem_documents import fields_of, problem_of
from callback_rows import attempt, owe, put, put_endpoint, stored
from factories import stored_export

from webapp.domain.access import Viewer
from webapp.domain.callbacks import UNREACHABLE, Delivery, DeliveryState
from webapp.domain.exports import Status
from webapp.domain.ids import new_id
from webapp.resources import Resources

URL = "/api/v1/deliveries"
FIELDS = {
    "id", "event_id", "type", "export_id", "endpoint_id", "status", "attempts", "failures", "created_at",
    "next_attempt_at", "last_attempt_at", "completed_at", "last_status", "last_error", "message",
}  # fmt: skip
DEAD: dict[str, Any] = {"state": "dead", "failures": 9, "attempts": 9, "next_attempt_at": None, "last_error": "TLS"}


@pytest.fixture
async def endpoint_id(admin_client: httpx.AsyncClient) -> str:
    response = await admin_client.post("/api/v1/callbacks", json={"url": "https://93.184.216.34/hook"})
    return response.json()["id"]


@pytest.fixture
async def made(resources: Resources, user: Viewer, endpoint_id: str) -> list[Delivery]:
    """Four deliveries of an export of `user`."""
    return await owe(resources, endpoint_id, await stored_export(resources, user, Status.SUCCESS))


async def found(client: httpx.AsyncClient, query: str = "") -> list[str]:
    response = await client.get(f"{URL}?{query}")
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.json()["items"]]


async def test_the_log_is_paged_newest_first(admin_client: httpx.AsyncClient, made: list[Delivery]) -> None:
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await admin_client.get(f"{URL}?limit=3{cursor}")).json()
        assert all(set(item) == FIELDS for item in page["items"])
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {delivery.id for delivery in made}


async def test_the_log_is_filtered(admin_client: httpx.AsyncClient, resources: Resources, made: list[Delivery]) -> None:
    dead, succeeded, *rest = made
    await put(resources, dead, **DEAD)
    await put(resources, succeeded, state="succeeded", next_attempt_at=None)
    assert set(await found(admin_client, "status=dead,succeeded")) == {dead.id, succeeded.id}
    assert set(await found(admin_client, "status=dead&status=SUCCEEDED")) == {dead.id, succeeded.id}
    assert await found(admin_client, "error=TLS") == [dead.id]
    assert await found(admin_client, "error=dns") == []
    assert await found(admin_client, "type=export.created") == [dead.id]
    assert len(await found(admin_client, f"export={dead.export_id}&endpoint={dead.endpoint_id}")) == 4
    assert await found(admin_client, f"endpoint={new_id('end')}") == []
    assert await found(admin_client, "since=2999-01-01") == []
    assert len(await found(admin_client, "since=2020-01-01T00:00:00Z")) == 4
    assert len(rest) == 2


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=late", "status"),
        ("error=BAD", "error"),
        ("type=export.exploded", "type"),
        ("since=soon", "since"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("cursor=x", "cursor"),
        pytest.param(f"cursor=1-{new_id('exp')}", "cursor", id="cursor of an export"),
        ("endpoint=%00", "endpoint"),
        ("export=%00", "export"),
    ],
)
async def test_a_filter_that_means_nothing_is_named(admin_client: httpx.AsyncClient, query: str, field: str) -> None:
    assert fields_of(await admin_client.get(f"{URL}?{query}")) == [field]


async def test_a_delivery_is_shown_with_every_attempt(
    admin_client: httpx.AsyncClient, resources: Resources, made: list[Delivery]
) -> None:
    delivery, now = made[0], await resources.store.now()
    await attempt(resources, delivery, now, error="HTTP_5XX", number=1)
    await attempt(resources, delivery, now + timedelta(seconds=5), number=2, finished_at=None)
    await attempt(resources, delivery, now, error="DNS", number=3, status=None, response_body=None)
    response = await admin_client.get(f"{URL}/{delivery.id}")
    shown = response.json()
    assert set(shown) == FIELDS | {"attempt_log"}
    failed, under_way, unreached = shown["attempt_log"]
    assert (failed["number"], failed["seconds"], failed["error"]) == (1, 0.02, "HTTP_5XX")
    assert failed["request"]["headers"] == [["Authorization", "…"], ["webhook-id", delivery.event_id]]
    assert failed["response"] == {
        "status": 500, "headers": [["Content-Type", "text/plain"]], "body": "ok", "is_cut": False,
    }  # fmt: skip
    assert failed["started_at"] < failed["finished_at"]
    assert (under_way["finished_at"], under_way["response"], under_way["error"]) == (None, None, None)
    assert (unreached["response"], unreached["message"]) == (None, UNREACHABLE)
    assert "hidden" not in response.text
    problem_of(await admin_client.get(f"{URL}/{new_id('dlv')}"), 404, "NOT_FOUND")
    problem_of(await admin_client.get(f"{URL}/x"), 404, "NOT_FOUND")


async def test_one_is_redelivered(admin_client: httpx.AsyncClient, resources: Resources, made: list[Delivery]) -> None:
    dead = await put(resources, made[0], **DEAD)
    response = await admin_client.post(f"{URL}/{dead.id}/redelivery")
    assert response.status_code == 202
    again = response.json()
    assert (again["status"], again["failures"], again["attempts"]) == ("pending", 0, 9)
    assert again["event_id"] == dead.event_id
    problem_of(await admin_client.post(f"{URL}/{new_id('dlv')}/redelivery"), 404, "NOT_FOUND")
    await admin_client.delete(f"/api/v1/callbacks/{dead.endpoint_id}")
    problem_of(await admin_client.post(f"{URL}/{dead.id}/redelivery"), 409, "DELIVERY_CANCELLED")


async def test_several_are_redelivered(
    admin_client: httpx.AsyncClient, resources: Resources, made: list[Delivery]
) -> None:
    for delivery in made:
        await put(resources, delivery, **DEAD)

    async def redeliver(**body: Any) -> int:
        response = await admin_client.post(URL + "/redelivery", json=body)
        assert response.status_code == 202, response.text
        return response.json()["count"]

    assert await redeliver(ids=[]) == 0
    assert await redeliver(ids=[made[0].id, new_id("dlv")]) == 1
    assert await redeliver(endpoint=made[0].endpoint_id, status="dead", type="export.queued,export.started") == 2
    assert await redeliver(status=["dead"], error="TLS", since="2026-01-31", export=made[0].export_id) == 1
    assert await redeliver(status="dead") == 0
    assert {(await stored(resources, one.id)).state for one in made} == {DeliveryState.PENDING}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"status": []}, "body"),
        ({"type": ""}, "body"),
        ({"status": "late"}, "status"),
        ({"error": "?"}, "error"),
        ({"type": ["x"]}, "type"),
        ({"since": "soon"}, "since"),
        ({"endpoint": "\0"}, "endpoint"),
        ({"export": "exp_x"}, "export"),
        ({"ids": ["x"]}, "ids"),
        ({"ids": "dlv_x"}, "ids"),
        ({"all": True}, "all"),
    ],
)
async def test_what_is_redelivered_has_to_be_said(
    admin_client: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    assert fields_of(await admin_client.post(URL + "/redelivery", json=body)) == [field]


async def test_every_mistake_is_named_at_once(admin_client: httpx.AsyncClient) -> None:
    body = {"ids": ["x"], "endpoint": "y", "export": "z", "status": "late", "type": "x", "error": "?", "since": "soon"}
    found = fields_of(await admin_client.post(URL + "/redelivery", json=body))
    assert found == ["ids", "endpoint", "export", "status", "type", "error", "since"]


async def test_too_many_at_once_are_refused(admin_client: httpx.AsyncClient) -> None:
    ids = [new_id("dlv") for _ in range(1001)]
    assert fields_of(await admin_client.post(URL + "/redelivery", json={"ids": ids})) == ["ids"]


# People


async def test_people_see_what_became_of_their_own_callback(
    client: httpx.AsyncClient,
    other_client: httpx.AsyncClient,
    admin_client: httpx.AsyncClient,
    resources: Resources,
    endpoint_id: str,
    made: list[Delivery],
) -> None:
    own = (await admin_client.post("/api/v1/callbacks", json={"url": "https://93.184.216.34/own"})).json()["id"]
    await put_endpoint(resources, own, export_id=made[0].export_id)
    from webapp.store import exports

    async with resources.store.connection():
        export = await exports.get(resources.store, made[0].export_id)
    assert export is not None
    mine = await owe(resources, own, export)
    hidden = ("DNS", "ADDRESS_FORBIDDEN", "REFUSED", "TLS")
    for delivery, error in zip(mine, hidden, strict=True):
        await put(resources, delivery, last_error=error)
    query = f"{URL}?export={export.id}"
    items = (await client.get(query)).json()["items"]
    assert {item["id"] for item in items} == {delivery.id for delivery in mine}
    assert {(item["last_error"], item["message"]) for item in items} == {("UNREACHABLE", UNREACHABLE)}
    await put(resources, mine[0], last_error="TIMEOUT")
    await put(resources, mine[1], last_error="HTTP_5XX")
    errors = {item["last_error"] for item in (await client.get(query)).json()["items"]}
    assert errors == {"UNREACHABLE", "HTTP_5XX"}
    assert await found(client, f"export={export.id}&endpoint={endpoint_id}") == []
    assert len(await found(admin_client, f"export={export.id}")) == 8
    admins = {item["last_error"] for item in (await admin_client.get(f"{query}&endpoint={own}")).json()["items"]}
    assert admins == {"TIMEOUT", "HTTP_5XX", "REFUSED", "TLS"}
    problem_of(await other_client.get(query), 404, "NOT_FOUND")
    problem_of(await client.get(f"{query}&error=DNS"), 403, "FORBIDDEN")


async def test_everything_else_is_for_admins(client: httpx.AsyncClient, made: list[Delivery]) -> None:
    for method, path in [
        ("GET", URL), ("GET", f"{URL}?endpoint={made[0].endpoint_id}"), ("GET", f"{URL}/{made[0].id}"),
        ("POST", f"{URL}/{made[0].id}/redelivery"), ("POST", f"{URL}/redelivery"), ("GET", f"{URL}/{new_id('dlv')}"),
    ]:  # fmt: skip
        response = await client.request(method, path, json={"status": "dead"} if method == "POST" else None)
        problem_of(response, 403, "FORBIDDEN")
