"""SQLite is locked under orders and running exports, by another process, for longer than a writer waits.

Requests wait, or answer 503 with `Retry-After`; every order that was taken ends SUCCESS once. The long form:
EXPORTDESK_TEST_FAULT_ORDERS=200.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections import Counter
from dataclasses import replace
from threading import Event

import httpx
import pytest
from cli.command_line import free_port
from faults.test_killed_at_random import assert_whole, history
from processes import web_process
from sqlalchemy import func, select
from worker_processes import until, workers_of

from webapp.actions import people
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import exports as rows
from webapp.store.tables import exports

ORDERS = int(os.environ.get("EXPORTDESK_TEST_FAULT_ORDERS", "6"))
AT_MOST = 60
"""Seconds that it is locked if nobody is turned away."""
ROWS = 3000


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, max_active_per_user=ORDERS, port=free_port())


def lock(path: str, is_locked: Event, is_told: Event, *, times: int) -> None:
    """As another process does it that writes for long: nobody else may write until a writer was told so."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        for _ in range(times):
            is_told.clear()
            connection.execute("BEGIN IMMEDIATE")
            is_locked.set()
            is_told.wait(AT_MOST)
            connection.execute("ROLLBACK")
    finally:
        connection.close()


async def test_what_was_taken_ends_once_though_the_database_is_locked(
    resources: Resources, settings: Settings, user: Viewer
) -> None:
    _, token = await people.create_token(resources, user, "orders", actor=user.name)
    answers: Counter[int] = Counter()
    is_locked, is_told = Event(), Event()
    url, headers = f"http://127.0.0.1:{settings.port}/api/v1", {"Authorization": f"Bearer {token}"}

    async def order(client: httpx.AsyncClient, number: int) -> str:
        body = {"dataset": "slow", "params": {"rows": ROWS + number}, "format": "csv"}
        async with asyncio.timeout(120):
            while True:
                answer = await client.post("/exports", json=body, headers={"Idempotency-Key": f"order-{number}"})
                answers[answer.status_code] += 1
                if answer.status_code in {200, 202}:
                    return str(answer.json()["id"])
                assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE"), answer.text
                is_told.set()
                await asyncio.sleep(int(answer.headers["retry-after"]) / 4)

    database = str(resources.store.database.url.database)
    with workers_of(settings) as start:
        start("exports")
        async with web_process(settings), httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
            before = [await order(client, number) for number in range(ORDERS // 2)]
            locking = asyncio.create_task(
                asyncio.to_thread(lock, database, is_locked, is_told, times=max(1, ORDERS // 20))
            )
            await asyncio.to_thread(is_locked.wait)
            began = time.monotonic()
            polled = await client.get(f"/exports/{before[0]}")
            assert polled.status_code == 200
            read_after = time.monotonic() - began
            assert not locking.done(), "readers do not wait for a writer"
            during = await asyncio.gather(*(order(client, number) for number in range(ORDERS // 2, ORDERS)))
            await locking
            for export_id in (taken := [*before, *during]):
                export = await rows.get(resources.store, export_id)
                assert export is not None, "it was taken, and is not there"
                await until(resources, export, having=lambda e: e.status is Status.SUCCESS)
    assert await resources.store.fetch_val(select(func.count()).select_from(exports)) == len(set(taken)) == ORDERS
    print(f"{ORDERS} orders, answers {dict(answers)}, a read took {read_after:.2f} s while it was locked")
    assert answers[503] >= 1
    for export in await rows.any_of(resources.store, taken):
        assert await history(resources, export)
        assert_whole(resources, export)
