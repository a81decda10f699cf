"""`/api/v1/callbacks`: endpoints as an admin's program sees them, and the `callback_url` of an order."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from api.problem_documents import fields_of, problem_of
from callback_rows import audited, owe, put_endpoint, stored
from factories import stored_export
from patience import PATIENCE
from receivers import answer, receiver
from standardwebhooks import Webhook

from webapp.actions import deliveries, endpoints, inspectors
from webapp.domain.access import Viewer
from webapp.domain.callbacks import DeliveryState
from webapp.domain.exports import Status
from webapp.domain.ids import new_id
from webapp.queue import QueueName, worker_is_alive
from webapp.resources import Resources
from webapp.sealing import Sealer
from webapp.settings import Settings
from webapp.store.deliveries import DeliveryFilter
from worker.children import Children
from worker.guard import Guard
from worker.main import Tools, callback_worker

URL = "/api/v1/callbacks"
HOOK = "https://93.184.216.34/hook"
FIELDS = {
    "id", "url", "description", "event_types", "datasets", "schedule", "time_limit", "max_in_flight", "rate", "headers",
    "encrypted", "export_id", "state", "disabled_reason", "disables_at", "failures_in_row", "failing_since",
    "last_success_at", "last_failure_at", "created_at", "updated_at", "notes",
}  # fmt: skip
GIVEN: dict[str, Any] = {
    "url": HOOK,
    "description": "Billing",
    "event_types": ["export.succeeded"],
    "datasets": ["things"],
    "schedule": [1, 2.5],
    "time_limit": 5,
    "max_in_flight": 2,
    "rate": 7,
    "headers": {"Authorization": "Bearer hidden"},
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Receivers of these tests are on this machine."""
    return replace(settings, callback_allow_private=("127.0.0.1/32",))


async def registered(client: httpx.AsyncClient, **given: Any) -> dict[str, Any]:
    response = await client.post(URL, json={"url": HOOK, **given})
    assert response.status_code == 201, response.text
    return response.json()


def at(endpoint: dict[str, Any], more: str = "") -> str:
    return f"{URL}/{endpoint['id']}{more}"


# Registering and changing


async def test_a_new_endpoint_answers_with_its_secret_once(admin_client: httpx.AsyncClient) -> None:
    response = await admin_client.post(URL, json=GIVEN)
    made = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"http://testserver{at(made)}"
    assert set(made) == FIELDS | {"secret"}
    assert made["secret"].startswith("whsec_")
    for field in set(GIVEN) - {"headers"}:
        assert made[field] == GIVEN[field], field
    assert made["headers"] == {"Authorization": "…"}
    assert (made["encrypted"], made["state"], made["notes"], made["export_id"]) == (False, "active", [], None)
    shown = await admin_client.get(response.headers["location"])
    listed = (await admin_client.get(URL)).json()
    del made["secret"]
    assert shown.json() == made
    assert listed == {"items": [made], "next_cursor": None}
    assert shown.headers["cache-control"] == "no-store"
    assert "hidden" not in shown.text


async def test_what_is_not_given_is_as_usual(admin_client: httpx.AsyncClient) -> None:
    made = await registered(admin_client)
    names = ("schedule", "time_limit", "max_in_flight", "rate", "event_types", "datasets", "headers")
    assert [made[name] for name in names] == ["standard", 10, 5, 20, [], [], {}]


async def test_a_new_key_is_answered_when_it_is_made(admin_client: httpx.AsyncClient) -> None:
    made = await registered(admin_client, encryption="new")
    assert len(base64.urlsafe_b64decode(made["encryption_key"])) == 32
    assert made["encrypted"] is True
    assert "encryption_key" not in (await admin_client.get(at(made))).json()
    assert "encryption_key" not in (await admin_client.patch(at(made), json={"rate": 3})).json()
    again = (await admin_client.patch(at(made), json={"encryption": "new"})).json()
    assert again["encryption_key"] not in {made["encryption_key"], None}
    own = await registered(admin_client, encryption=made["encryption_key"])
    assert "encryption_key" not in own
    assert own["encrypted"] is True
    assert (await admin_client.patch(at(own), json={"encryption": "none"})).json()["encrypted"] is False


async def test_every_mistake_is_named(admin_client: httpx.AsyncClient) -> None:
    given = {"url": "http://127.0.0.2/", "rate": 0, "headers": {"Host": "x"}, "schedule": [], "event_types": ["x"]}
    assert sorted(fields_of(await admin_client.post(URL, json=given))) == sorted(given)
    assert fields_of(await admin_client.post(URL, json={"url": HOOK, "secret": "mine"})) == ["secret"]
    assert fields_of(await admin_client.post(URL, json={})) == ["url"]
    problem_of(
        await admin_client.post(URL, content=b"{", headers={"content-type": "application/json"}), 400, "BAD_JSON"
    )
    problem_of(await admin_client.post(URL, data={"url": HOOK}), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert (await admin_client.get(URL)).json()["items"] == []


async def test_a_change_changes_only_what_is_given(admin_client: httpx.AsyncClient) -> None:
    made = await registered(admin_client, **GIVEN)
    changed = (await admin_client.patch(at(made), json={"description": "", "schedule": "quick"})).json()
    same = set(FIELDS) - {"description", "schedule", "updated_at"}
    assert {name: changed[name] for name in same} == {name: made[name] for name in same}
    assert (changed["description"], changed["schedule"]) == ("", "quick")
    assert fields_of(await admin_client.patch(at(made), json={"url": "http://127.0.0.2/"})) == ["url"]
    assert (await admin_client.get(at(made))).json() == changed


async def test_headers_can_be_sent_back_as_they_are_shown(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    made = await registered(admin_client, headers={"Authorization": "Bearer hidden", "X-Old": "1"})
    await admin_client.patch(at(made), json={"headers": {"Authorization": "…", "X-New": "2"}})
    settings = (await endpoints.get(resources, made["id"])).settings
    assert settings.headers == (("Authorization", "Bearer hidden"), ("X-New", "2"))


async def test_notes_tell_what_may_surprise(admin_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    made = await registered(admin_client, url="https://soon.example/")
    assert made["notes"] == ["The host's name leads nowhere just now. Callbacks will be tried once it does."]
    assert len((await registered(admin_client, url="https://soon.example/"))["notes"]) == 2


async def test_the_url_of_an_inspector_can_be_registered(
    admin_client: httpx.AsyncClient, resources: Resources, admin: Viewer
) -> None:
    inspector = await inspectors.create(resources, admin)
    assert (await registered(admin_client, url=inspector.url))["url"] == inspector.url


async def test_pausing_resuming_and_deleting(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    made = await registered(admin_client)
    assert (await admin_client.post(at(made, "/pause"))).json()["state"] == "paused"
    now = await resources.store.now()
    await put_endpoint(resources, made["id"], disabled_at=now, disabled_reason="GONE", failures_in_row=3)
    disabled = (await admin_client.get(at(made))).json()
    assert (disabled["state"], disabled["disabled_reason"], disabled["disables_at"]) == ("disabled", "GONE", None)
    resumed = (await admin_client.post(at(made, "/resumption"))).json()
    assert (resumed["state"], resumed["disabled_reason"], resumed["failures_in_row"]) == ("active", None, 0)
    gone = await admin_client.delete(at(made))
    assert (gone.status_code, gone.content) == (204, b"")
    for method, more in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resumption")):
        problem_of(await admin_client.request(method, at(made, more)), 404, "NOT_FOUND")


async def test_a_failing_endpoint_tells_when_it_will_be_disabled(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    made = await registered(admin_client)
    now = await resources.store.now()
    await put_endpoint(resources, made["id"], failing_since=now, last_failure_at=now, failures_in_row=4)
    failing = (await admin_client.get(at(made))).json()
    assert failing["failing_since"] == failing["last_failure_at"]
    assert failing["disables_at"][:10] == (now + timedelta(hours=24)).isoformat()[:10]


async def test_a_rotation_answers_with_the_new_secret(admin_client: httpx.AsyncClient) -> None:
    made = await registered(admin_client)
    rotated = (await admin_client.post(at(made, "/rotation"), json={"overlap": "2d"})).json()
    assert rotated["secret"] not in {made["secret"], None}
    assert len(rotated["old_secrets_end_at"]) == 1
    usual = (await admin_client.post(at(made, "/rotation"), json={})).json()
    assert len(usual["old_secrets_end_at"]) == 2
    for none in ("0s", "0", "0h"):
        assert (await admin_client.post(at(made, "/rotation"), json={"overlap": none})).json()[
            "old_secrets_end_at"
        ] == []
    for wrong in ("8d", "soon", "-1h", "", "1", 24, "9" * 400 + "ms"):
        assert fields_of(await admin_client.post(at(made, "/rotation"), json={"overlap": wrong})) == ["overlap"]
    assert "secret" not in (await admin_client.get(at(made))).json()


async def test_all_of_it_is_for_admins(client: httpx.AsyncClient, admin_client: httpx.AsyncClient) -> None:
    made = await registered(admin_client)
    body = {"url": HOOK, "event_type": "export.created", "overlap": "1h", "since": "2026-01-01", "hosts": []}
    for method, more in [
        ("GET", ""), ("POST", ""), ("GET", "/hosts"), ("PUT", "/hosts"), ("POST", "/test"),
        *[(method, "/" + made["id"]) for method in ("GET", "PATCH", "DELETE")],
        *[("POST", f"/{made['id']}/{act}") for act in ("test", "rotation", "recovery", "pause", "resumption")],
        ("GET", f"/{made['id']}/recovery?since=2026-01-01"), ("GET", f"/{new_id('end')}"),
    ]:  # fmt: skip
        response = await client.request(method, URL + more, json=body if method != "GET" else None)
        problem_of(response, 403, "FORBIDDEN")
        assert HOOK not in response.text
    assert len((await admin_client.get(URL)).json()["items"]) == 1


# Trying out


@asynccontextmanager
async def callbacks_worker(resources: Resources) -> AsyncIterator[None]:
    async with Guard.of(resources) as guard:
        worker = callback_worker(resources, Tools(Children(), guard), resources.redis)
        running = asyncio.create_task(worker.run_until_lost())
        async with asyncio.timeout(PATIENCE):
            while not await worker_is_alive(resources.redis, QueueName.CALLBACKS):
                await asyncio.sleep(0.02)
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await worker.cancel_jobs()


async def test_a_trial_shows_request_and_answer(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    async with receiver(answer(202, b"thanks")) as there, callbacks_worker(resources):
        made = await registered(admin_client, url=there.url, headers={"Authorization": "Bearer hidden"})
        response = await admin_client.post(at(made, "/test"), json={"event_type": "export.failed"})
    trial, [received] = response.json(), there.requests
    assert response.status_code == 200
    assert (trial["succeeded"], trial["error"], trial["response"]["status"]) == (True, None, 202)
    assert trial["response"]["body"] == "thanks"
    assert trial["request"]["body"] == received.body.decode()
    Webhook(made["secret"]).verify(received.body, dict(received.headers))
    assert received.json["type"] == "export.failed"
    assert received.headers["Authorization"] == "Bearer hidden"
    assert "hidden" not in response.text
    assert ["Authorization", "…"] in trial["request"]["headers"]


async def test_settings_that_are_not_saved_can_be_tried(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    async with receiver(answer(500, b"x")) as there, callbacks_worker(resources):
        given = {"url": there.url, "event_type": "export.created", "data": {"id": "mine"}, "headers": {"X-One": "1"}}
        trial = (await admin_client.post(URL + "/test", json=given)).json()
        [received] = there.requests
    assert (trial["succeeded"], trial["error"], trial["response"]["status"]) == (False, "HTTP_5XX", 500)
    assert trial["message"].endswith(".")
    assert (received.json["data"], received.headers["X-One"]) == ({"id": "mine"}, "1")
    assert (await admin_client.get(URL)).json()["items"] == []


async def test_a_trial_without_a_worker_says_so(admin_client: httpx.AsyncClient) -> None:
    made = await registered(admin_client)
    for path, given in ((at(made, "/test"), {}), (URL + "/test", {"url": HOOK})):
        response = await admin_client.post(path, json={"event_type": "export.created", **given})
        problem_of(response, 503, "NO_WORKER")


async def test_a_trial_is_checked_as_well(admin_client: httpx.AsyncClient) -> None:
    made = await registered(admin_client)
    assert fields_of(await admin_client.post(at(made, "/test"), json={"event_type": "x"})) == ["event_type"]
    assert fields_of(await admin_client.post(at(made, "/test"), json={})) == ["event_type"]
    assert fields_of(await admin_client.post(at(made, "/test"), json={"event_type": "x", "url": HOOK})) == ["url"]
    unsaved = {"event_type": "x", "url": "http://10.0.0.1/", "rate": -1}
    assert fields_of(await admin_client.post(URL + "/test", json=unsaved)) == ["rate", "url", "event_type"]


# A key that is gone


async def test_an_endpoint_sealed_under_another_key_can_still_be_deleted(
    admin_client: httpx.AsyncClient, resources: Resources, admin: Viewer
) -> None:
    elsewhere = replace(resources, sealer=Sealer("another key of sixteen characters"))
    made = (await endpoints.create(elsewhere, admin, {"url": HOOK})).endpoint
    for method, path in (("GET", URL), ("GET", f"{URL}/{made.id}"), ("POST", f"{URL}/{made.id}/pause")):
        problem_of(await admin_client.request(method, path), 503, "KEY_MISSING")
    assert (await admin_client.delete(f"{URL}/{made.id}")).status_code == 204
    problem_of(await admin_client.delete(f"{URL}/{made.id}"), 404, "NOT_FOUND")
    assert (await admin_client.get(URL)).json()["items"] == []


# Recovery


async def test_a_recovery_in_one_request(admin_client: httpx.AsyncClient, resources: Resources, user: Viewer) -> None:
    made = await registered(admin_client)
    export = await stored_export(resources, user, Status.SUCCESS)
    owed = await owe(resources, made["id"], export, state="dead", next_attempt_at=None, failures=9)
    since = "2026-01-31T08:00:00Z"
    assert (await admin_client.get(at(made, f"/recovery?since={since}"))).json() == {"count": 4}
    response = await admin_client.post(at(made, "/recovery"), json={"since": since})
    assert (response.status_code, response.json()) == (202, {"count": 4})
    assert (await stored(resources, owed[0].id)).state is DeliveryState.PENDING
    assert (await admin_client.get(at(made, f"/recovery?since={since}"))).json() == {"count": 0}
    assert fields_of(await admin_client.get(at(made, "/recovery"))) == ["since"]
    assert fields_of(await admin_client.post(at(made, "/recovery"), json={"since": "yesterday"})) == ["since"]
    problem_of(await admin_client.get(f"{URL}/{new_id('end')}/recovery?since={since}"), 404, "NOT_FOUND")


# The callback_url of an order


ORDERS = "/api/v1/exports"
ORDER: dict[str, Any] = {"dataset": "things", "callback_url": HOOK}


@pytest.fixture
async def listed(admin_client: httpx.AsyncClient) -> None:
    response = await admin_client.put(URL + "/hosts", json={"hosts": ["93.184.216.34"]})
    assert response.json() == (await admin_client.get(URL + "/hosts")).json() == {"hosts": ["93.184.216.34"]}


async def test_a_host_list_is_checked(admin_client: httpx.AsyncClient) -> None:
    assert (await admin_client.get(URL + "/hosts")).json() == {"hosts": []}
    assert fields_of(await admin_client.put(URL + "/hosts", json={"hosts": ["a.example", "a b"]})) == ["hosts"]
    assert fields_of(await admin_client.put(URL + "/hosts", json={})) == ["hosts"]


@pytest.mark.usefixtures("listed")
async def test_an_order_with_a_callback_gets_an_endpoint_of_its_own(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    response = await client.post(ORDERS, json=ORDER)
    export = response.json()
    assert response.status_code == 202
    assert set(export["callback"]) == {"endpoint_id", "url", "secret"}
    assert export["callback"]["url"] == HOOK
    assert export["callback"]["secret"].startswith("whsec_")
    assert (await admin_client.get(URL)).json()["items"] == []
    [endpoint] = (await admin_client.get(f"{URL}?export={export['id']}")).json()["items"]
    assert (endpoint["id"], endpoint["export_id"]) == (export["callback"]["endpoint_id"], export["id"])
    owed, _ = await deliveries.list_page(resources, DeliveryFilter(endpoint_id=endpoint["id"]), limit=9)
    assert {delivery.event_type for delivery in owed} == {"export.created", "export.queued"}
    assert "callback" not in (await client.get(f"{ORDERS}/{export['id']}")).json()
    assert export["callback"]["secret"] not in str(await audited(resources))


@pytest.mark.usefixtures("listed")
async def test_the_same_order_has_one_endpoint_for_each_url(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient
) -> None:
    first = (await client.post(ORDERS, json=ORDER)).json()
    again = await client.post(ORDERS, json=ORDER)
    assert (again.status_code, again.json()["id"], "callback" in again.json()) == (200, first["id"], False)
    other = await client.post(ORDERS, json={**ORDER, "callback_url": HOOK + "2"})
    assert (other.status_code, other.json()["callback"]["url"]) == (200, HOOK + "2")
    assert len((await admin_client.get(f"{URL}?export={first['id']}")).json()["items"]) == 2
    for n in range(3, 6):
        await client.post(ORDERS, json={**ORDER, "callback_url": f"{HOOK}{n}"})
    assert fields_of(await client.post(ORDERS, json={**ORDER, "callback_url": HOOK + "6"})) == ["callback_url"]


@pytest.mark.usefixtures("listed")
async def test_twenty_such_orders_at_once_have_one_endpoint(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient
) -> None:
    answers = await asyncio.gather(*(client.post(ORDERS, json=ORDER) for _ in range(20)))
    assert sum("callback" in response.json() for response in answers) == 1
    assert len({response.json()["id"] for response in answers}) == 1


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    "url", ["https://93.184.216.35/hook", "http://127.0.0.1/", "http://10.0.0.1/", "nonsense", "", "https://x.example/"]
)
async def test_only_listed_hosts_may_be_called(client: httpx.AsyncClient, resources: Resources, url: str) -> None:
    response = await client.post(ORDERS, json={**ORDER, "callback_url": url, "format": "nothing"})
    assert fields_of(response) == ["format", "callback_url"]
    assert (await client.get(ORDERS)).json()["items"] == []


@pytest.mark.usefixtures("listed")
async def test_the_callback_is_part_of_what_a_key_stands_for(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    first = await client.post(ORDERS, json=ORDER, headers=key)
    again = await client.post(ORDERS, json=ORDER, headers=key)
    assert (again.status_code, again.json()["id"], "callback" in again.json()) == (200, first.json()["id"], False)
    for different in ({**ORDER, "callback_url": HOOK + "2"}, {"dataset": "things"}):
        problem_of(await client.post(ORDERS, json=different, headers=key), 422, "IDEMPOTENCY_KEY_REUSED")
    plain = {"Idempotency-Key": "plain"}
    assert (await client.post(ORDERS, json={"dataset": "things"}, headers=plain)).status_code == 200
    problem_of(await client.post(ORDERS, json=ORDER, headers=plain), 422, "IDEMPOTENCY_KEY_REUSED")


async def test_without_listed_hosts_there_are_no_callbacks(client: httpx.AsyncClient) -> None:
    assert fields_of(await client.post(ORDERS, json=ORDER)) == ["callback_url"]
