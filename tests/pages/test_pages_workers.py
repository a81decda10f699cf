"""Workers and queues on the pages and by API: told, paused, resumed, drained, kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from api.problem_documents import problem_of
from pages.dom import node, nodes, text, texts

from webapp.actions import attempts, queues, workers
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.workers import Load, Queue, WorkerState
from webapp.resources import Resources

ExportMaker = Callable[..., Awaitable[Export]]
API = "/api/v1"


async def state_of(resources: Resources, worker_id: str) -> WorkerState:
    return (await workers.get(resources, worker_id)).state(await resources.store.now())


async def test_a_worker_is_told_with_what_it_runs(
    admin_client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker
) -> None:
    worker = await workers.begin(resources, [Queue.EXPORTS])
    export = await make_export(Status.QUEUED)
    assert await attempts.claim(resources) is not None
    await workers.beat(resources, worker, Load(slots_taken=1, memory=123_400_000))
    page = await admin_client.get("/monitor")
    card = f"#{worker.id}"
    assert node(page, card).attributes["data-state"] == "alive"
    assert text(page, f"{card} h3") == worker.process
    said = dict(zip(texts(page, f"{card} dt"), texts(page, f"{card} dd"), strict=True))
    assert (said["Works for"], said["Memory"], said["Version"]) == ("Exports", "123 MB", worker.version)
    assert said["Slots taken"] == f"1 of {worker.slots}"
    assert node(page, f"{card} .runs a").attributes["href"] == f"/exports/{export.id}"
    assert "1 worker takes them." in text(page, "#queue-exports")
    told = (await admin_client.get(f"{API}/workers")).json()["items"]
    assert [(one["id"], one["exports"], one["memory"]) for one in told] == [(worker.id, [export.id], 123_400_000)]


async def test_those_that_ended_are_folded_away(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    ended, there = [await workers.begin(resources, [Queue.EXPORTS]) for _ in range(2)]
    await workers.end(resources, ended)
    page = await admin_client.get("/monitor")
    assert text(page, ".ended-workers summary") == "Ended in the last hour: 1"
    assert node(page, f".ended-workers #{ended.id}").attributes["data-state"] == "ended"
    assert node(page, f"#workers > .workers > #{there.id}").attributes["data-state"] == "alive"


@pytest.mark.parametrize("queue", list(Queue))
async def test_a_pause_is_confirmed_told_and_taken_back(
    admin_client: httpx.AsyncClient, resources: Resources, queue: Queue
) -> None:
    address = f"/monitor/queues/{queue.value}"
    asked = await admin_client.post(f"{address}/pause")
    assert asked.status_code == 200
    assert node(asked, f'form[action="{address}/pause"] input[name="confirmed"]').attributes["value"] == "1"
    assert await queues.paused(resources) == {}
    assert (await admin_client.post(f"{address}/pause", data={"confirmed": "1"})).status_code == 303
    page = await admin_client.get("/monitor")
    assert node(page, f"#queue-{queue.value}").attributes["data-paused"] == "yes"
    assert "by admin" in text(page, f"#queue-{queue.value}")
    assert (await admin_client.get("/readyz")).json()["checks"]["queues"] == f"paused: {queue.value}"
    form = node(page, f"#queue-{queue.value} form").attributes["action"]
    assert (await admin_client.post(str(form))).status_code == 303
    assert await queues.paused(resources) == {}
    assert (await admin_client.get("/readyz")).json()["checks"]["queues"] == "ok"


async def test_whoever_waits_is_told_of_the_pause(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, admin: Viewer
) -> None:
    export = await make_export(Status.QUEUED)
    addresses = ("/exports", f"/exports/{export.id}")
    for address in addresses:
        assert nodes(await client.get(address), "#paused") == []
    before = await client.get(f"{API}/exports/{export.id}")
    await queues.pause(resources, admin, Queue.EXPORTS)
    for address in addresses:
        assert len(nodes(await client.get(address), "#paused")) == 1
    after = await client.get(f"{API}/exports/{export.id}", headers={"If-None-Match": before.headers["etag"]})
    assert (before.json()["queue_paused"], after.json()["queue_paused"]) == (False, True)


async def test_the_callback_pages_tell_of_the_pause(
    admin_client: httpx.AsyncClient, resources: Resources, admin: Viewer
) -> None:
    assert nodes(await admin_client.get("/callbacks"), "#paused") == []
    await queues.pause(resources, admin, Queue.CALLBACKS)
    assert "monitor page" in text(await admin_client.get("/callbacks"), "#paused")


async def test_a_drain_is_confirmed_told_and_taken_back(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    worker = await workers.begin(resources, [Queue.EXPORTS])
    address = f"/monitor/workers/{worker.id}/drain"
    asked = await admin_client.post(address)
    assert (asked.status_code, len(nodes(asked, "select option"))) == (200, 3)
    assert (await admin_client.post(address, data={"confirmed": "1", "within": "7"})).status_code == 200
    assert await state_of(resources, worker.id) is WorkerState.ALIVE
    assert (await admin_client.post(address, data={"confirmed": "1", "within": "600"})).status_code == 303
    assert await state_of(resources, worker.id) is WorkerState.DRAINING
    page = await admin_client.get("/monitor")
    assert node(page, f"#{worker.id}").attributes["data-state"] == "draining"
    undo = node(page, f"#{worker.id} form").attributes["action"]
    assert (await admin_client.post(str(undo))).status_code == 303
    assert await state_of(resources, worker.id) is WorkerState.ALIVE
    await workers.end(resources, worker)
    assert (await admin_client.post(address, data={"confirmed": "1", "within": "600"})).status_code == 303
    assert "has ended" in text(await admin_client.get("/monitor"), ".flash")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 202, ""),
        ({"within": "0s"}, 202, ""),
        ({"within": "24h"}, 202, ""),
        ({"within": "25h"}, 422, "INVALID"),
        ({"within": "soon"}, 422, "INVALID"),
        ({"within": 10}, 422, "INVALID"),
        ({"in": "10m"}, 422, "INVALID"),
    ],
)
async def test_a_drain_by_api(
    admin_client: httpx.AsyncClient, resources: Resources, body: dict[str, Any], status: int, code: str
) -> None:
    worker = await workers.begin(resources, [Queue.EXPORTS])
    response = await admin_client.post(f"{API}/workers/{worker.id}/drain", json=body)
    if code:
        problem_of(response, status, code)
        return
    assert (response.status_code, response.json()["state"]) == (status, "draining")
    kept = await admin_client.post(f"{API}/workers/{worker.id}/drain/cancellation")
    assert (kept.json()["state"], kept.json()["drain_until"]) == ("alive", None)
    await workers.end(resources, worker)
    problem_of(await admin_client.post(f"{API}/workers/{worker.id}/drain", json=body), 409, "WORKER_GONE")


async def test_queues_by_api(admin_client: httpx.AsyncClient) -> None:
    paused = await admin_client.post(f"{API}/queues/callbacks/pause")
    assert (paused.json()["paused"], paused.json()["paused_by"]) == (True, "admin")
    told = (await admin_client.get(f"{API}/queues")).json()["items"]
    assert [(queue["name"], queue["paused"]) for queue in told] == [("exports", False), ("callbacks", True)]
    assert not (await admin_client.post(f"{API}/queues/callbacks/resumption")).json()["paused"]
    for address in ("/queues/sweep/pause", "/queues/EXPORTS/resumption", "/workers/wrk_1/drain"):
        problem_of(await admin_client.post(API + address, json={}), 404, "NOT_FOUND")
