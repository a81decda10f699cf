"""Workers that send the change log are killed at random while exports end: the sink is told every event, in order."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import replace

import pytest
from factories import stored_export
from sink_servers import RedisServer, redis_sink
from worker_processes import workers_of

from webapp.actions import change_log
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.domain.sink_targets import parse_sink
from webapp.resources import Resources
from webapp.store import events

__all__ = ["redis_sink"]

KILLS = int(os.environ.get("EXPORTDESK_TEST_FAULT_KILLS", "2"))
EXPORTS_BETWEEN = 40


async def until_longer(sink: RedisServer, length: int) -> None:
    async with asyncio.timeout(60):
        while sink.length() <= length:
            await asyncio.sleep(0.01)


async def test_killed_senders_skip_nothing(
    resources: Resources, user: Viewer, redis_sink: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPORTDESK_EVENT_SINK_URL", redis_sink.url)
    target = parse_sink(redis_sink.url)
    desk = replace(resources, settings=replace(resources.settings, event_sink=target))
    with workers_of(desk.settings) as start:
        for kill in range(KILLS + 1):
            length = redis_sink.length()
            for _ in range(EXPORTS_BETWEEN):
                await stored_export(desk, user, Status.SUCCESS)
            worker = start("callbacks")
            await until_longer(redis_sink, length)
            if kill < KILLS:
                await asyncio.sleep(random.uniform(0, 0.05))
                worker.kill()
                worker.wait()
                await _lease_runs_out(desk)
        async with asyncio.timeout(60):
            while (lag := await change_log.lag(desk, await desk.store.now())) is None or lag.events:
                await asyncio.sleep(0.05)
    told = [event["seq"] for _, event in redis_sink.entries()]
    recorded = [event.seq for event in await events.page(desk.store, limit=10_000)]
    print(f"{KILLS} kills, {len(recorded)} events, {len(told)} entries, {len(told) - len(recorded)} sent twice")
    assert list(dict.fromkeys(told)) == recorded
    assert len(told) - len(recorded) <= KILLS * change_log.BATCH


async def _lease_runs_out(desk: Resources) -> None:
    await desk.store.plain("UPDATE settings SET value = json_set(value, '$.until', 0) WHERE name LIKE 'change_log:%'")
