"""Orders over HTTP while web processes are killed (`kill -9`) and the broker forgets everything (FLUSHALL).

Every order that a client was told is taken ends SUCCESS once, and none is there twice. The long form:
EXPORTDESK_TEST_FAULT_ORDERS=200.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from cli.command_line import free_port
from faults.test_killed_at_random import assert_whole, history, keep_sweeping
from processes import WebProcess, web_process
from sqlalchemy import func, select
from worker_processes import until, workers_of

from webapp.actions import people
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.ending import end
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import exports as rows
from webapp.store.tables import exports

ORDERS = int(os.environ.get("EXPORTDESK_TEST_FAULT_ORDERS", "16"))
SECONDS_APART = 0.3
AT_ONCE = 4
MOST_KILLS, MOST_FLUSHES = ORDERS // 4, 100 * ORDERS
"""A web process that starts slowly and is killed at once, again and again, would take no order ever."""

ROWS = 3000
Fault = Callable[[], Awaitable[None]]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, max_active_per_user=ORDERS, port=free_port())


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the sweep of this process goes by."""
    monkeypatch.setattr(limits, "QUEUED_STUCK_AFTER", 2.0)


class Desk:
    """A web process, and what befalls it and its broker."""

    def __init__(self, resources: Resources, web: WebProcess) -> None:
        self.resources = resources
        self.web = web
        self.faults = 0

    async def be_killed(self) -> None:
        await asyncio.sleep(random.uniform(0.3, 2))
        await self.web.stop(signal.SIGKILL)
        self.faults += 1
        await self.web.start()

    async def forget(self) -> None:
        await asyncio.sleep(random.uniform(0.1, 0.6))
        await self.resources.redis.flushall()
        self.faults += 1


@pytest.fixture
async def desk(resources: Resources) -> AsyncIterator[Desk]:
    async with web_process(resources.settings) as web:
        yield Desk(resources, web)


@asynccontextmanager
async def going_on(*loops: Awaitable[None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(loop) for loop in loops]
    try:
        yield
        for task in tasks:
            assert not task.done() or task.exception() is None, task.exception()
    finally:
        await end(*tasks)


async def again_and_again(fault: Fault, most: int) -> None:
    for _ in range(most):
        await fault()


async def order(client: httpx.AsyncClient, number: int) -> str:
    """Until it is taken, under one key, as a program does it that cannot know what became of its request."""
    body = {"dataset": "slow", "params": {"rows": ROWS + number}, "format": "csv"}
    async with asyncio.timeout(120):
        while True:
            try:
                answer = await client.post("/exports", json=body, headers={"Idempotency-Key": f"order-{number}"})
            except httpx.TransportError:
                await asyncio.sleep(0.1)
                continue
            if answer.status_code in {200, 202}:
                return str(answer.json()["id"])
            assert answer.status_code == 503, answer.text
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("fault", "most"),
    [(Desk.be_killed, MOST_KILLS), (Desk.forget, MOST_FLUSHES)],
    ids=["web_killed", "broker_emptied"],
)
async def test_what_was_taken_ends_once(
    desk: Desk, resources: Resources, user: Viewer, fault: Callable[[Desk], Awaitable[None]], most: int
) -> None:
    _, token = await people.create_token(resources, user, "orders", actor=user.name)
    turn = asyncio.Semaphore(AT_ONCE)

    async def in_turn(number: int) -> str:
        async with turn:
            await asyncio.sleep(SECONDS_APART * AT_ONCE)
            return await order(client, number)

    url, headers = f"http://127.0.0.1:{desk.web.port}/api/v1", {"Authorization": f"Bearer {token}"}
    with workers_of(resources.settings) as start:
        start("exports")
        async with (
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client,
            going_on(keep_sweeping(resources)),
        ):
            async with going_on(again_and_again(lambda: fault(desk), most)):
                taken = await asyncio.gather(*map(in_turn, range(ORDERS)))
            for export_id in taken:
                export = await rows.get(resources.store, export_id)
                assert export is not None, "it was taken, and is not there"
                await until(resources, export, having=lambda e: e.status is Status.SUCCESS)
    async with resources.store.connection():
        assert await resources.store.fetch_val(select(func.count()).select_from(exports)) == len(set(taken)) == ORDERS
    ended = await rows.any_of(resources.store, taken)
    print(f"{desk.faults} faults, {len(ended)} exports, {sum(export.attempt for export in ended)} attempts")
    assert desk.faults >= 2
    for export in ended:
        assert await history(resources, export)
        assert_whole(resources, export)
