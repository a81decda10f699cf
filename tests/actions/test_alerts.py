"""Alerts end to end in the store: measured, kept once, told to the endpoints that named them, on both databases."""

from __future__ import annotations

import shutil
from collections import Counter, namedtuple
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import pytest
from factories import stored_export
from fresh_stores import Clock
from owing import all_deliveries, register

from webapp.actions import alerts, messages, monitor, sending, workers
from webapp.domain.access import Viewer
from webapp.domain.alerts import ALERT_TYPES, RULES, Alert
from webapp.domain.exports import Status
from webapp.domain.tallies import Metric, Observation
from webapp.domain.workers import Queue
from webapp.resources import Resources
from webapp.store import events
from webapp.store import monitor as period_rows
from webapp.store.tables import events as event_table
from webapp.store.tallies import SEPARATOR

Disk = namedtuple("Disk", "total used free")
NOTHING = Disk(100, 10, 90)


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> list[Disk]:
    """The disk is as full as the last of these says."""
    found = [NOTHING]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: found[-1])
    return found


@pytest.fixture(autouse=True)
def alive(monkeypatch: pytest.MonkeyPatch) -> Counter[Queue]:
    """How many workers there are of each kind."""
    found = Counter({Queue.EXPORTS: 1, Queue.CALLBACKS: 1})

    async def count(*_: object) -> Counter[Queue]:
        return found

    monkeypatch.setattr(workers, "alive", count)
    return found


async def look(resources: Resources, clock: Clock, minutes: int = 6) -> None:
    """As the sweep does, once a minute."""
    for _ in range(minutes):
        await monitor.keep(resources, clock.at)
        await alerts.keep(resources, clock.at)
        clock.move(60)


async def count(resources: Resources, made: Observation, at: datetime) -> None:
    """As the sweep counts it."""
    async with resources.store.transaction():
        key = made.metric.value, SEPARATOR.join(made.labels), made.bucket
        await period_rows.add(resources.store, {at: {key: made.count}})


async def firing(resources: Resources) -> list[Alert]:
    return [one.alert for one in await alerts.standing(resources) if one.watch.is_firing]


async def test_nothing_fires_on_a_desk_that_is_well(each_resources: Resources) -> None:
    clock = await Clock.of(each_resources.store)
    await look(each_resources, clock, 8)
    assert await alerts.standing(each_resources) == []
    assert set(await alerts.measured(each_resources, clock.at)) == set(Alert)


async def test_it_fires_once_and_ends_once_for_endpoints_that_named_it(
    each_resources: Resources, disk: list[Disk]
) -> None:
    store, clock = each_resources.store, await Clock.of(each_resources.store)
    named = await register(each_resources, "https://one.example/", event_types=ALERT_TYPES, datasets=("things",))
    ends = await register(each_resources, "https://two.example/", event_types=("alert.resolved", "export.failed"))
    await register(each_resources, "https://all.example/")
    await register(each_resources, "https://order.example/", event_types=ALERT_TYPES, export_id="exp_1")
    disk.append(Disk(100, 95, 5))
    await look(each_resources, clock, 9)
    assert await firing(each_resources) == [Alert.STORAGE]
    [owed] = await all_deliveries(each_resources)
    assert (owed.event_type, owed.export_id, owed.endpoint_id) == ("alert.firing", None, named.id)
    disk.append(NOTHING)
    await look(each_resources, clock, 9)
    assert await firing(each_resources) == []
    [over] = await alerts.standing(each_resources)
    assert over.watch.firing_since is not None
    assert over.watch.resolved_at is not None
    assert over.watch.resolved_at - over.watch.firing_since == timedelta(minutes=9)
    owed_ends = [one for one in await all_deliveries(each_resources) if one.event_type == "alert.resolved"]
    assert {one.endpoint_id for one in owed_ends} == {named.id, ends.id}
    rows = await store.fetch_all(event_table.select().order_by(event_table.c.seq))
    assert [(row["type"], row["data"]["alert"], row["data"]["state"]) for row in rows] == [
        ("alert.firing", "storage", "firing"),
        ("alert.resolved", "storage", "resolved"),
    ]
    clock.move(alerts.SHOWN_FOR.total_seconds())
    assert await alerts.standing(each_resources) == []


async def test_what_is_sent_is_the_alert_and_no_reader_of_events_is_told(
    each_resources: Resources, writer: Viewer, disk: list[Disk]
) -> None:
    store, clock = each_resources.store, await Clock.of(each_resources.store)
    await register(each_resources, "https://one.example/", event_types=ALERT_TYPES)
    disk.append(Disk(1000, 934, 66))
    await look(each_resources, clock)
    export = await stored_export(each_resources, writer, Status.QUEUED)
    [work] = await sending.claim(each_resources, "me", limit=10)
    body = msgspec.json.decode(work.outgoing.body)
    assert (body["type"], work.delivery.export_id) == ("alert.firing", None)
    assert body["data"]["value"] == pytest.approx(93.4)
    assert {**body["data"], "value": None, "firing_since": ""} == {
        "alert": "storage",
        "state": "firing",
        "title": "Storage nearly full",
        "summary": RULES[Alert.STORAGE].summary,
        "value": None,
        "threshold": 90,
        "unit": "percent",
        "firing_since": "",
        "resolved_at": None,
        "url": "http://testserver/monitor",
    }
    told = await events.page(store)
    assert [event.export_id for event in told] == [export.id] * len(told)
    assert await events.get(store, work.message.id) is None
    assert await events.get_many(store, [work.message.id]) == []
    sample = await messages.sample(each_resources, "alert.firing")
    assert sample.data.keys() == body["data"].keys()


async def test_two_sweeps_at_once_tell_it_once(each_resources: Resources, disk: list[Disk]) -> None:
    clock = await Clock.of(each_resources.store)
    endpoint = await register(each_resources, "https://one.example/", event_types=ALERT_TYPES)
    disk.append(Disk(100, 99, 1))
    await look(each_resources, clock, 5)
    for _ in range(2):
        await alerts.keep(each_resources, clock.at)
    assert len(await all_deliveries(each_resources, endpoint)) == 1


@pytest.mark.parametrize(
    ("alert", "made"),
    [
        (Alert.QUEUE_TIME, Observation(Metric.QUEUE_TIME, ("things",), timedelta(minutes=10), count=30)),
        (Alert.DELIVERY_SUCCESS, Observation(Metric.DELIVERIES, ("retried", "TIMEOUT", "things", ""), count=20)),
        (Alert.DEAD_LETTERS, Observation(Metric.DELIVERIES, ("dead", "TIMEOUT", "things", ""), count=11)),
        (
            Alert.NOTIFICATION_LATENCY,
            Observation(Metric.NOTIFICATION_LATENCY, ("websocket", "things"), timedelta(seconds=9), count=2),
        ),
    ],
)
async def test_what_was_counted_fires(resources: Resources, alert: Alert, made: Observation) -> None:
    clock = await Clock.of(resources.store)
    await count(resources, made, clock.at)
    await look(resources, clock, 7)
    assert await firing(resources) == [alert]
    clock.move(3700)
    await look(resources, clock, 7)
    assert await firing(resources) == []


@pytest.mark.parametrize(
    "made",
    [
        Observation(Metric.DELIVERIES, ("retried", "TIMEOUT", "things", ""), count=19),
        Observation(Metric.DELIVERIES, ("dead", "TIMEOUT", "things", ""), count=10),
        Observation(Metric.NOTIFICATION_LATENCY, ("polling", "things"), timedelta(seconds=50), count=9),
    ],
)
async def test_too_little_to_tell_or_nobodys_fault_stays_quiet(resources: Resources, made: Observation) -> None:
    clock = await Clock.of(resources.store)
    await count(resources, made, clock.at)
    await look(resources, clock, 8)
    assert await firing(resources) == []


async def test_an_export_that_nobody_takes_and_a_kind_of_worker_that_is_gone(
    resources: Resources, user: Viewer, alive: Counter[Queue]
) -> None:
    clock = await Clock.of(resources.store)
    await stored_export(resources, user, Status.QUEUED)
    alive[Queue.EXPORTS] = 0
    await look(resources, clock, 3)
    assert await firing(resources) == [Alert.NO_WORKER]
    alive[Queue.EXPORTS] = 2
    clock.move(900)
    await look(resources, clock, 3)
    assert await firing(resources) == [Alert.STUCK_EXPORTS]


async def test_thresholds_are_settings_and_what_is_switched_off_ends(resources: Resources, disk: list[Disk]) -> None:
    clock = await Clock.of(resources.store)
    endpoint = await register(resources, "https://one.example/", event_types=("alert.resolved",))
    disk.append(Disk(100, 60, 40))

    def with_storage(**thresholds: float) -> Resources:
        chosen = {Alert(name): value for name, value in thresholds.items()}
        return replace(resources, settings=replace(resources.settings, alerts=chosen))

    await look(with_storage(storage=50), clock)
    assert await firing(resources) == [Alert.STORAGE]
    await look(with_storage(), clock)
    assert await firing(resources) == []
    [ended] = await all_deliveries(resources, endpoint)
    assert ended.event_type == "alert.resolved"
