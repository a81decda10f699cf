"""`/healthz` and `/readyz`: alive, and ready with reasons."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

import httpx
import pytest
from api.problem_documents import SECRETS
from arq.constants import health_check_key_suffix

from webapp import queue
from webapp.resources import Resources
from webapp.store.database import Store

FINE = {"catalog": "ok", "queues": "ok"}


async def work(resources: Resources) -> None:
    """As a worker says that it is alive."""
    await resources.redis.set(queue.QueueName.EXPORTS + health_check_key_suffix, b"alive", ex=10)


async def ready(client: httpx.AsyncClient) -> tuple[int, dict[str, str]]:
    response = await client.get("/readyz")
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert not SECRETS.search(response.text)
    document = response.json()
    assert document["status"] == ("ready" if response.status_code == 200 else "not ready")
    return response.status_code, document["checks"]


async def test_alive_needs_nothing(
    anonymous: httpx.AsyncClient, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "fetch_val", None)
    response = await anonymous.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_ready_with_a_worker(anonymous: httpx.AsyncClient, resources: Resources) -> None:
    await work(resources)
    assert await ready(anonymous) == (
        200,
        {"database": "ok", "broker": "ok", "worker": "ok", **FINE},
    )


async def test_not_ready_without_a_worker(anonymous: httpx.AsyncClient) -> None:
    assert await ready(anonymous) == (
        503,
        {"database": "ok", "broker": "ok", "worker": "none is alive", **FINE},
    )


async def test_a_worker_for_callbacks_makes_no_exports(anonymous: httpx.AsyncClient, resources: Resources) -> None:
    await resources.redis.set(queue.QueueName.CALLBACKS + health_check_key_suffix, b"alive")
    assert (await ready(anonymous))[0] == 503


async def test_not_ready_without_a_broker(anonymous: httpx.AsyncClient, resources: Resources, app: Any) -> None:
    nowhere = queue.connect("unix:///nowhere/redis.sock")
    app.state.resources = replace(resources, redis=nowhere)
    assert await ready(anonymous) == (
        503,
        {"database": "ok", "broker": "unreachable", "worker": "unknown", **FINE},
    )
    await nowhere.aclose(close_connection_pool=True)


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("unable to open database file /srv/data/exportdesk.db"),
        sqlite3.DatabaseError("file is not a database"),
        ConnectionRefusedError(111, "postgresql://desk:no has a password@db/desk"),
        OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 5432, 0, 0)"),
        TimeoutError(),
    ],
)
async def test_not_ready_without_a_database(
    anonymous: httpx.AsyncClient, resources: Resources, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fails(*_args: object) -> None:
        raise error

    await work(resources)
    monkeypatch.setattr(Store, "fetch_val", fails)
    assert await ready(anonymous) == (
        503,
        {"database": "unreachable", "broker": "ok", "worker": "ok", **FINE},
    )


async def test_a_store_without_tables_is_not_ready(
    anonymous: httpx.AsyncClient, resources: Resources, app: Any, tmp_path: Any
) -> None:
    """As after somebody put an empty file in the database's place."""
    await work(resources)
    empty = Store(f"sqlite:///{tmp_path}/empty.db")
    await empty.open()
    app.state.resources = replace(resources, store=empty)
    assert (await ready(anonymous))[1]["database"] == "unreachable"
    await empty.close()


async def test_who_asks_does_not_matter(anonymous: httpx.AsyncClient) -> None:
    for headers in (
        {"Authorization": "Bearer nonsense"},
        {"Cookie": "exportdesk_session=x"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert (await anonymous.get("/healthz", headers=headers)).status_code == 200
