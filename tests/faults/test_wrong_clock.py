"""The clocks of two hosts are ten minutes off, one ahead and one behind: the web process's and the workers'.

What is late, owed, over or too old is decided by the database's clock: nothing happens earlier, later or twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cli.command_line import free_port
from faults.test_killed_at_random import history
from needed import missing
from owing import all_deliveries, register
from processes import web_process
from receivers import receiver
from worker_processes import until, workers_of

from webapp.actions import people
from webapp.domain.access import Role
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import events
from webapp.store import exports as rows
from webapp.web.security import SESSION_COOKIE

pytestmark = pytest.mark.postgres

OFF = timedelta(minutes=10)
SLACK = timedelta(seconds=5)
"""Between the clocks of this process and of the database, which are those of one machine."""
STEPS = ["created", "queued", "started", "succeeded"]
SMALL, LARGE = 3000, 100_000
PASSWORD = "a password of the clock's"


@pytest.fixture
def database_kind() -> str:
    """SQLite is used by the processes of one host, which have one clock."""
    return "postgresql"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, port=free_port())


@contextmanager
def clock_off(by: timedelta) -> Iterator[None]:
    """In processes that are started meanwhile, and in their children. How fast time goes stays true."""
    found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    if not found:
        missing("libfaketime")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(found[0]))
        patch.setenv("FAKETIME", f"{by.total_seconds():+.0f}s")
        patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        yield


@pytest.mark.parametrize(("web", "worker"), [(-OFF, OFF), (OFF, -OFF)], ids=["web_behind", "web_ahead"])
async def test_no_status_is_decided_by_it(
    each_resources: Resources, settings: Settings, web: timedelta, worker: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources, began = each_resources, datetime.now(UTC)
    monkeypatch.setenv("EXPORTDESK_CALLBACK_ALLOW_PRIVATE", "127.0.0.0/8")
    user = await people.add_user(resources, "user", Role.USER, actor="tests", password=PASSWORD)
    _, token = await people.create_token(resources, user, "t", actor="tests", lifetime=OFF / 2)
    session = await people.sign_in(resources, user.name, PASSWORD)
    assert session is not None
    ended = list[Export]()

    async def run(client: httpx.AsyncClient, *counts: int) -> None:
        taken = list[str]()
        for count in counts:
            body = {"dataset": "slow", "params": {"rows": count}, "format": "csv"}
            answer = await client.post("/api/v1/exports", json=body)
            assert answer.status_code == 202, answer.text
            taken.append(answer.json()["id"])
        for export in await rows.any_of(resources.store, taken):
            ended.append(await until(resources, export, having=lambda e: e.status is Status.SUCCESS))

    with workers_of(resources.settings) as start:
        async with receiver() as hook, AsyncExitStack() as stack:
            await register(resources, hook.url)
            with clock_off(worker):
                exporting = start("exports")
            with clock_off(web):
                await stack.enter_async_context(web_process(resources.settings))
            url, bearer = f"http://127.0.0.1:{settings.port}", {"Authorization": f"Bearer {token}"}
            program = await stack.enter_async_context(httpx.AsyncClient(base_url=url, headers=bearer, timeout=30))
            await run(program, SMALL)  # by the order's own wake-up: nobody sweeps yet
            with clock_off(worker):
                calling = start("callbacks")
            await run(program, LARGE, SMALL + 1)
            received = await hook.until(len(STEPS) * len(ended))
            cookies = {SESSION_COOKIE: session.token}
            browser = await stack.enter_async_context(httpx.AsyncClient(base_url=url, cookies=cookies, timeout=30))
            assert (await browser.get("/exports")).status_code == 200, "the session is not over"
            for export in ended:
                file = await program.get(f"/api/v1/exports/{export.id}/file")
                assert file.status_code == 200, "neither is the token, nor the file's time"
            assert exporting.poll() is calling.poll() is None
    over = datetime.now(UTC)
    moments = [datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC) for request in received]
    for export in ended:
        assert await history(resources, export) == STEPS, "in one attempt"
        told = await events.page(resources.store, export_id=export.id)
        moments += [export.created_at, *(event.timestamp for event in told)]
    assert {delivery.attempts for delivery in await all_deliveries(resources)} == {1}
    assert all(began - SLACK <= moment <= over + SLACK for moment in moments)
    minutes = f"web {web.total_seconds() / 60:+.0f} min, workers {worker.total_seconds() / 60:+.0f} min"
    print(f"{minutes}: {len(ended)} exports, {len(received)} callbacks, {len(moments)} moments, all by one clock")
