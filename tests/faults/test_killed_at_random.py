"""`kill -9` of workers at random moments under many exports: one worker on SQLite, three on PostgreSQL.

Every export ends SUCCESS, once, with a whole file. The long form: EXPORTDESK_TEST_KILLED_EXPORTS=50.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from worker_processes import WorkerStarter, order_slow, until, workers_of

from webapp.actions.sweep import sweep
from webapp.datasets.declaration import Catalog
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.ending import end
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import events
from webapp.store import exports as rows

EXPORTS = int(os.environ.get("EXPORTDESK_TEST_KILLED_EXPORTS", "10"))
KILLING_SECONDS = 0.7 * EXPORTS
WORKERS = {"sqlite": 1, "postgresql": 3}
ROWS = 400_000
SLOWEST_DEATH = 4.0
"""Seconds between two kills on a desk with one worker; with more of them it is the more often somebody's turn."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def each_settings(each_settings: Settings) -> Settings:
    return replace(each_settings, max_running_per_user=6, max_active_per_user=EXPORTS)


@pytest.fixture
def start(each_settings: Settings) -> Iterator[WorkerStarter]:
    with workers_of(each_settings) as starter:
        yield starter


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the sweep of this process goes by."""
    monkeypatch.setattr(limits, "HEARTBEAT_LOST_AFTER", 3.0)
    monkeypatch.setattr(limits, "QUEUED_STUCK_AFTER", 2.0)
    monkeypatch.setattr(limits, "RETRY_WAITS", (0.1,))


def ever_patient(resources: Resources) -> Resources:
    """However often its worker is lost, an export is tried again."""
    slow = replace(resources.catalog.datasets["slow"], max_attempts=1000)
    return resources.with_catalog(Catalog({**resources.catalog.datasets, "slow": slow}, resources.catalog.sources))


async def keep_sweeping(resources: Resources) -> None:
    while True:
        await sweep(resources)
        await asyncio.sleep(0.5)


async def kill_at_random(start: WorkerStarter, running: list[subprocess.Popen[bytes]], chance: random.Random) -> int:
    """How many died; each has a successor."""
    killed, ends = 0, asyncio.get_running_loop().time() + KILLING_SECONDS
    while asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(chance.uniform(0.3, SLOWEST_DEATH) / len(running))
        victim = running.pop(chance.randrange(len(running)))
        victim.kill()
        await asyncio.to_thread(victim.wait)
        running.append(start("exports"))
        killed += 1
    return killed


async def test_every_export_ends_success_once(
    each_resources: Resources, writer: Viewer, start: WorkerStarter, database_kind: str
) -> None:
    resources, chance = ever_patient(each_resources), random.Random(EXPORTS)
    ordered = [await order_slow(resources, writer, ROWS + number) for number in range(EXPORTS)]
    sweeping = asyncio.create_task(keep_sweeping(resources))
    try:
        running = [start("exports") for _ in range(WORKERS[database_kind])]
        await until(resources, ordered[0], having=lambda export: export.rows_done > 0)
        killed = await kill_at_random(start, running, chance)
        for export in ordered:
            await until(resources, export, having=lambda e: e.status is Status.SUCCESS)
    finally:
        await end(sweeping)
    ended = await rows.any_of(resources.store, [export.id for export in ordered])
    told = [await history(resources, export) for export in ended]
    attempts = sum(export.attempt for export in ended)
    print(f"{database_kind}: {killed} kills, {len(ended)} exports, {attempts} attempts, {sum(map(len, told))} events")
    assert {export.status for export in ended} == {Status.SUCCESS}
    assert killed >= WORKERS[database_kind]
    assert attempts > len(ended)
    for export in ended:
        assert_whole(resources, export)


async def history(resources: Resources, export: Export) -> Sequence[str]:
    """Its events, which are its changes: gapless, and those of as many attempts as there were."""
    found = await events.page(resources.store, export_id=export.id)
    assert [event.version for event in found] == list(range(1, export.version + 1))
    types = [event.type.removeprefix("export.") for event in found]
    lost = ["started", "failed", "queued"] * (export.attempt - 1)
    assert types == ["created", "queued", *lost, "started", "succeeded"]
    return types


def assert_whole(resources: Resources, export: Export) -> None:
    assert export.file is not None
    assert export.file.key == resources.storage.key(export.id, export.attempt, ".csv")
    content = resources.storage.path(export.file.key).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (export.file.size, export.file.sha256)
    assert content.count(b"\r\n") == export.params["rows"] + 1 == export.file.rows + 1
