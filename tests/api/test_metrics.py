"""`/metrics`: right after things happened, whichever process did them, read by Prometheus' own parser."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
from fresh_stores import Clock
from owing import owe, register
from prometheus_client.parser import text_string_to_metric_families

from webapp.actions import acks, change_log, sending, workers
from webapp.actions.change_log import Lag
from webapp.actions.sending import Ended
from webapp.actions.sweep import sweep
from webapp.actions.tallies import tally_events
from webapp.domain.access import Viewer
from webapp.domain.callbacks import Answer, ErrorClass
from webapp.domain.exports import Export, Status
from webapp.domain.sink_targets import parse_sink
from webapp.domain.workers import Load, Queue
from webapp.monitoring.metrics import exposition, take
from webapp.resources import Resources
from webapp.store import events

ExportMaker = Callable[..., Awaitable[Export]]
NAMES = {
    "exportdesk_queue_time_seconds",
    "exportdesk_execution_time_seconds",
    "exportdesk_notification_latency_seconds",
    "exportdesk_notifications",
    "exportdesk_exports",
    "exportdesk_deliveries",
    "exportdesk_delivery_attempt_seconds",
    "exportdesk_dead_letters",
    "exportdesk_live_connections",
    "exportdesk_sweep_actions",
    "exportdesk_oldest_queued_seconds",
    "exportdesk_worker_slots",
    "exportdesk_storage_bytes",
}
"""And nothing else of ours."""


async def scraped(http: httpx.AsyncClient) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    response = await http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(response.text))
    assert {family.name for family in families if family.name.startswith("exportdesk_")} == NAMES
    assert {family.name for family in families} > NAMES
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"exportdesk_{name}", frozenset(labels.items())


async def test_nobody_needs_to_sign_in_and_an_empty_desk_has_zeros(anonymous: httpx.AsyncClient) -> None:
    found = await scraped(anonymous)
    assert {value for (name, _), value in found.items() if name == "exportdesk_exports"} == {0.0}
    assert found[key("oldest_queued_seconds")] == 0
    assert found[key("live_connections", kind="sse")] == 0
    assert found[key("worker_slots", state="free")] == found[key("worker_slots", state="taken")] == 0


async def test_how_far_the_change_log_lags(
    resources: Resources, anonymous: httpx.AsyncClient, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.QUEUED)
    assert key("change_log_lag_events") not in await scraped(anonymous)
    target = parse_sink("redis://127.0.0.1:1/exports")
    desk = replace(resources, settings=replace(resources.settings, event_sink=target))
    clock = await Clock.of(resources.store)
    clock.move(60)
    before = (await take(desk, {})).change_log
    assert before is not None
    assert before.events == export.version
    assert 60 <= before.seconds < 120
    assert b"exportdesk_change_log_lag_events 2.0" in exposition(await take(desk, {}))
    held = await change_log.hold(desk, target, "tests")
    assert held is not None
    await change_log.move_on(desk, held, await change_log.unsent(desk, held))
    assert (await take(desk, {})).change_log == Lag(0, 0.0)


async def test_exports_are_counted_and_timed_by_dataset(
    anonymous: httpx.AsyncClient, resources: Resources, make_export: ExportMaker
) -> None:
    for status in (Status.SUCCESS, Status.SUCCESS, Status.FAILED, Status.PROCESSING, Status.QUEUED):
        await make_export(status)
    assert await tally_events(resources, await resources.store.now()) > 0
    assert await tally_events(resources, await resources.store.now()) == 0, "no event is counted twice"
    found = await scraped(anonymous)
    assert found[key("queue_time_seconds_count", dataset="things")] == 4
    assert found[key("execution_time_seconds_count", dataset="things")] == 3
    assert found[key("execution_time_seconds_bucket", dataset="things", le="+Inf")] == 3
    assert found[key("exports", status="PROCESSING")] == 1
    assert found[key("exports", status="QUEUED")] == 1


async def test_what_has_ended_is_counted_by_the_sweep(
    anonymous: httpx.AsyncClient, resources: Resources, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_export(Status.SUCCESS)
    monkeypatch.setattr("webapp.actions.sweep._is_turn", lambda _: True)
    await sweep(resources)
    found = await scraped(anonymous)
    assert (found[key("exports", status="SUCCESS")], found[key("exports", status="FAILED")]) == (1, 0)


async def test_the_oldest_that_waits_is_told(
    anonymous: httpx.AsyncClient, resources: Resources, make_export: ExportMaker
) -> None:
    await make_export(Status.QUEUED)
    clock = await Clock.of(resources.store)
    clock.at += timedelta(seconds=90)
    assert (await scraped(anonymous))[key("oldest_queued_seconds")] == pytest.approx(90, abs=5)


async def test_a_confirmation_is_measured_once(
    anonymous: httpx.AsyncClient, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    await make_export(Status.QUEUED)
    ids = [event.id for event in await events.page(resources.store)]
    for _ in range(2):
        await acks.acknowledge(resources, user, ids, client="page", channel="sse")
    found = await scraped(anonymous)
    assert found[key("notification_latency_seconds_count", channel="sse")] == len(ids)
    assert found[key("notifications_total", channel="sse", outcome="confirmed")] == len(ids)


async def test_deliveries_are_counted_by_how_they_ended(anonymous: httpx.AsyncClient, resources: Resources) -> None:
    endpoint = await register(resources, "https://receiver.example/hook")
    await owe(resources, endpoint, 3)
    answers = [Answer(None, 204, seconds=0.2), Answer(ErrorClass.HTTP_5XX, 500), Answer(ErrorClass.TIMEOUT, seconds=10)]
    work = await sending.claim(resources, "me", limit=3)
    await sending.record(resources, [Ended(one, answer) for one, answer in zip(work, answers, strict=True)])
    await sending.record(resources, [Ended(work[0], answers[0])])
    found = await scraped(anonymous)
    assert found[key("deliveries_total", outcome="succeeded", reason="")] == 1
    assert found[key("deliveries_total", outcome="retried", reason="HTTP_5XX")] == 1
    assert found[key("deliveries_total", outcome="retried", reason="TIMEOUT")] == 1
    assert found[key("delivery_attempt_seconds_count")] == 3
    assert found[key("delivery_attempt_seconds_sum")] == pytest.approx(10.2)
    assert found[key("delivery_attempt_seconds_bucket", le="0.25")] == 2
    assert found[key("notification_latency_seconds_count", channel="callback")] == 1


async def test_slots_are_those_of_workers_that_are_alive(anonymous: httpx.AsyncClient, resources: Resources) -> None:
    clock = await Clock.of(resources.store)
    at_work = await workers.begin(resources, [Queue.EXPORTS])
    await workers.begin(resources, [Queue.CALLBACKS])
    await workers.beat(resources, at_work, Load(slots_taken=1))
    found = await scraped(anonymous)
    free = resources.settings.worker_slots - 1
    assert (found[key("worker_slots", state="taken")], found[key("worker_slots", state="free")]) == (1, free)
    clock.move(60)
    found = await scraped(anonymous)
    assert (found[key("worker_slots", state="taken")], found[key("worker_slots", state="free")]) == (0, 0)


async def test_the_disk_is_told_whole(anonymous: httpx.AsyncClient, resources: Resources) -> None:
    found = await scraped(anonymous)
    told = found[key("storage_bytes", state="used")] + found[key("storage_bytes", state="free")]
    assert told == shutil.disk_usage(resources.settings.data_dir).total
