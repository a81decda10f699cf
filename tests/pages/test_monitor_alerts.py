"""Alerts on the monitor page: what fires, what is over, and that somebody looks at all."""

from __future__ import annotations

from datetime import timedelta

import httpx
import msgspec
import pytest
from dom import node, nodes, text, texts

from webapp.actions import alerts, workers
from webapp.domain.alerts import Alert, Unit, Watch
from webapp.domain.workers import Queue, Worker
from webapp.pages.monitor_alerts import told_value
from webapp.resources import Resources
from webapp.store import app_settings


@pytest.fixture(autouse=True)
async def at_work(resources: Resources) -> Worker:
    return await workers.begin(resources, [Queue.CALLBACKS])


async def keep(resources: Resources, **watches: Watch) -> None:
    async with resources.store.transaction():
        at = await resources.store.now()
        value = msgspec.to_builtins(watches)
        await app_settings.put(resources.store, alerts.NAME, value, at=at)


async def test_a_desk_that_is_well_has_no_banner(admin_client: httpx.AsyncClient) -> None:
    assert nodes(await admin_client.get("/monitor"), "#alerts") == []


async def test_what_fires_comes_first_and_what_is_over_after_it(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    now = await resources.store.now()
    hour = timedelta(hours=1)
    await keep(
        resources,
        queue_time=Watch(412.0, None, now - hour),
        storage=Watch(93.4, None, now - 2 * hour),
        dead_letters=Watch(4, None, now - 3 * hour, now - hour),
        no_worker=Watch(1, None, now - 50 * hour, now - 49 * hour),
        stuck_exports=Watch(None, now),
    )
    for path in ("/monitor", "/monitor/live"):
        page = await admin_client.get(path)
        found = [(each.id, each.attributes["data-status"]) for each in nodes(page, "#alerts .message")]
        assert found == [
            ("alert-queue_time", "firing"),
            ("alert-storage", "firing"),
            ("alert-dead_letters", "resolved"),
        ]
        assert "High queue time: 6 min 52 s, the threshold is 5 min" in text(page, "#alert-queue_time")
        assert len(nodes(page, "#alert-queue_time time")) == 1
        assert len(nodes(page, "#alert-dead_letters time")) == 2


async def test_that_nobody_looks_is_told(
    admin_client: httpx.AsyncClient, resources: Resources, at_work: Worker
) -> None:
    await workers.end(resources, at_work)
    await workers.begin(resources, [Queue.EXPORTS])
    [told] = texts(await admin_client.get("/monitor"), "#alerts .message p")
    assert told.startswith("No worker for callbacks is alive")


@pytest.mark.parametrize(
    ("unit", "value", "told"),
    [
        (Unit.SECONDS, 412.2, "6 min 52 s"),
        (Unit.SECONDS, 5, "5 s"),
        (Unit.PERCENT, 93.44, "93.4%"),
        (Unit.PERCENT, 90, "90%"),
        (Unit.COUNT, 1234.0, "1,234"),
        (Unit.COUNT, None, ""),
    ],
)
def test_values_are_told_in_their_unit(unit: Unit, value: float | None, told: str) -> None:
    assert told_value(unit, value) == told


async def test_the_form_of_endpoints_and_the_log_know_alerts(admin_client: httpx.AsyncClient) -> None:
    form = await admin_client.get("/callbacks/new")
    offered = [each.attributes["value"] for each in nodes(form, 'input[name="event_types"]')]
    assert offered[-2:] == ["alert.firing", "alert.resolved"]
    sample = await admin_client.get("/callbacks/sample?trial_type=alert.firing")
    assert f'"alert": "{Alert.QUEUE_TIME}"' in text(sample, "textarea")
    log = await admin_client.get("/callbacks/deliveries?type=alert.firing")
    assert "selected" in node(log, 'option[value="alert.firing"]').attributes
