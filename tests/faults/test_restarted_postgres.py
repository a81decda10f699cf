"""PostgreSQL is restarted in order, crashes, and is away for seconds, under orders, polls and running exports.

Requests wait or answer 503 with `Retry-After`; nothing is lost and nothing is done twice; the web process and the
worker go on by themselves. The long form: EXPORTDESK_TEST_FAULT_ORDERS=200.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from time import monotonic, sleep

import httpx
import pytest
from cli.command_line import free_port
from faults.test_killed_at_random import assert_whole, history
from faults.test_orders_under_faults import going_on
from fresh_stores import apart
from postgres_clusters import Cluster, running_cluster
from processes import web_process
from sqlalchemy import func, select
from worker_processes import until, workers_of

from webapp.actions import people
from webapp.actions.sweep import sweep
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.resources import Resources, open_resources
from webapp.settings import Settings
from webapp.store import exports as rows
from webapp.store.database import DATABASE_ERRORS
from webapp.store.schema import migrate
from webapp.store.tables import exports

pytestmark = pytest.mark.postgres

ORDERS = int(os.environ.get("EXPORTDESK_TEST_FAULT_ORDERS", "8"))
ROUNDS = max(1, ORDERS // 20)
AWAY_SECONDS = 2.0
SECONDS_APART = 0.5
SMALL, LARGE = 3000, 400_000
"""Rows: of most exports, and of every fourth, which runs through a fault."""
AT_MOST = 30
"""Seconds that any request may take."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        apart(migrate(cluster.url))
        yield cluster


@pytest.fixture
def settings(settings: Settings, cluster: Cluster) -> Settings:
    return replace(
        settings,
        database_url=cluster.url,
        max_active_per_user=ORDERS,
        max_running_per_user=min(ORDERS, 64),
        port=free_port(),
    )


@pytest.fixture
async def resources(settings: Settings) -> AsyncIterator[Resources]:
    async with open_resources(settings) as opened:
        await opened.redis.flushdb()
        yield opened


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the sweep of this process goes by."""
    monkeypatch.setattr(limits, "HEARTBEAT_LOST_AFTER", 6.0)
    monkeypatch.setattr(limits, "QUEUED_STUCK_AFTER", 2.0)
    monkeypatch.setattr(limits, "RETRY_WAITS", (0.1,))


def be_away(cluster: Cluster) -> None:
    cluster.stop("fast")
    sleep(AWAY_SECONDS)
    cluster.start()


FAULTS: dict[str, Callable[[Cluster], None]] = {
    "restarted": lambda cluster: cluster.restart("fast"),
    "crashed": lambda cluster: cluster.restart("immediate"),
    "away": be_away,
}


class Client:
    """A program that minds `Retry-After`, and what it was answered."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.answers: Counter[tuple[str, int]] = Counter()
        self.slowest = 0.0

    async def ask(self, method: str, path: str, **more: object) -> httpx.Response:
        began = monotonic()
        answer = await self._http.request(method, path, **more)  # type: ignore[arg-type]
        self.slowest = max(self.slowest, monotonic() - began)
        self.answers[method, answer.status_code] += 1
        if answer.status_code >= 500:
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True), answer.text
        return answer

    async def order(self, number: int) -> str:
        body = {"dataset": "slow", "params": {"rows": (SMALL if number % 4 else LARGE) + number}, "format": "csv"}
        async with asyncio.timeout(60):
            while True:
                answer = await self.ask("POST", "/exports", json=body, headers={"Idempotency-Key": f"order-{number}"})
                if answer.status_code != 503:
                    assert answer.status_code in {200, 202}, answer.text
                    return str(answer.json()["id"])
                await asyncio.sleep(int(answer.headers["retry-after"]) / 4)

    async def keep_polling(self, path: str) -> None:
        while True:
            await self.ask("GET", path)
            await asyncio.sleep(0.1)


async def keep_sweeping(resources: Resources) -> None:
    while True:
        with suppress(*DATABASE_ERRORS):
            await sweep(resources)
        await asyncio.sleep(0.5)


async def test_what_was_taken_ends_once(
    resources: Resources, settings: Settings, user: Viewer, cluster: Cluster
) -> None:
    _, token = await people.create_token(resources, user, "orders", actor=user.name)
    url, headers = f"http://127.0.0.1:{settings.port}/api/v1", {"Authorization": f"Bearer {token}"}

    async def befall() -> None:
        for _ in range(ROUNDS):
            for fault in FAULTS.values():
                await asyncio.sleep(0.7)
                await asyncio.to_thread(fault, cluster)

    async def order_by_and_by(client: Client) -> list[str]:
        return await asyncio.gather(*(order_later(client, number) for number in range(ORDERS)))

    async def order_later(client: Client, number: int) -> str:
        await asyncio.sleep(SECONDS_APART * number)
        return await client.order(number)

    with workers_of(settings) as start:
        workers = [start("exports"), start("callbacks")]
        async with (
            web_process(settings) as web,
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=AT_MOST) as http,
        ):
            client, web_pid = Client(http), web.pid
            async with going_on(keep_sweeping(resources), client.keep_polling("/exports")):
                taken, _ = await asyncio.gather(order_by_and_by(client), befall())
                ended = [
                    await until(
                        resources,
                        (await rows.any_of(resources.store, [export_id]))[0],
                        seconds=30 + ORDERS,
                        having=lambda export: export.status is Status.SUCCESS,
                    )
                    for export_id in taken
                ]
            assert web.pid == web_pid
            assert (await client.ask("GET", "/exports")).status_code == 200
        assert [worker.poll() for worker in workers] == [None, None]
    attempts = sum(export.attempt for export in ended)
    print(
        f"{3 * ROUNDS} restarts, {len(ended)} exports in {attempts} attempts, answers {dict(client.answers)}, "
        f"the slowest after {client.slowest:.1f} s"
    )
    assert await resources.store.fetch_val(select(func.count()).select_from(exports)) == len(set(taken)) == ORDERS
    for export in ended:
        assert await history(resources, export)
        assert_whole(resources, export)
