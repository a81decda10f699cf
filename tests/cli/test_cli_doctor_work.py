"""`exportdesk doctor` on clocks that differ and on work that does not move."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from factories import changed, stored_export
from fresh_stores import person
from owing import owe, register
from sqlalchemy import update

from webapp.commands import doctor_clocks
from webapp.commands.doctor_clocks import clocks, told_clocks
from webapp.commands.doctor_stuck import stuck_work
from webapp.commands.unwell import Doubtful, Unwell
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store.tables import deliveries

HOUR = timedelta(hours=1)


# Clocks


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ({"this host": 0, "the database": 2, "the broker": 1}, None),
        ({"this host": 0, "the database": 2.1}, "the clock of the database is 2.1 s ahead of that of this host"),
        ({"this host": 0, "the database": -60.0}, "the clock of this host is 60.0 s ahead of that of the database"),
        (
            {"this host": 0, "the database": 1.5, "the broker": -1},
            "the clock of the database is 2.5 s ahead of that of the broker",
        ),
    ],
)
def test_more_than_two_seconds_apart_is_a_warning(seconds: dict[str, float], verdict: str | None):
    ahead = {name: timedelta(seconds=second) for name, second in seconds.items()}
    if verdict is None:
        assert told_clocks(ahead) == "this host, the database and the broker: 2000 ms apart"
        return
    with pytest.raises(Doubtful) as caught:
        told_clocks(ahead)
    assert str(caught.value) == verdict
    assert "NTP" in caught.value.mend


async def test_the_clocks_of_one_machine_agree(each_settings: Settings):
    told = await clocks(each_settings)
    assert told.startswith("this host, the database and the broker: ")


async def test_a_host_whose_clock_is_off(each_settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor_clocks, "host_now", lambda: datetime.now(UTC) + timedelta(minutes=10))
    with pytest.raises(Doubtful, match=r"the clock of this host is (599|600)\.\d s ahead of that of the (data|brok)"):
        await clocks(each_settings)


async def test_without_a_broker_the_other_clocks_are_compared(each_settings: Settings):
    away = replace(each_settings, redis_url=f"unix://{each_settings.data_dir}/nothing.sock")
    assert (await clocks(away)).startswith("this host and the database: ")


# Stuck work


async def wrong(resources: Resources) -> str | None:
    try:
        await stuck_work(resources.settings)
    except Unwell as unwell:
        return f"{unwell} → {unwell.mend}"
    return None


Maker = Callable[..., Awaitable[Export]]


@pytest.fixture
def put(each_resources: Resources, writer: Viewer) -> Maker:
    """An export of `writer`, with its times so long ago."""

    async def make(status: Status, ago: timedelta = timedelta(), *, owner: Viewer = writer, **changes: Any) -> Export:
        export = await stored_export(each_resources, owner, status, **changes)
        at = await each_resources.store.now() - ago
        times = {"created_at": at, "queued_at": export.queued_at and at, "heartbeat_at": export.heartbeat_at and at}
        return await changed(each_resources, export, **times)

    return make


async def test_what_moves_is_not_stuck(each_resources: Resources, put: Maker):
    for status in Status:
        await put(status)
    await put(Status.QUEUED, HOUR - timedelta(minutes=1))
    await owe(each_resources, await register(each_resources, "https://one.example/"))
    assert await wrong(each_resources) is None


async def test_what_the_sweep_should_have_mended(each_resources: Resources, put: Maker):
    await put(Status.PENDING, timedelta(minutes=1))
    for _ in range(2):
        await put(Status.PROCESSING, timedelta(minutes=1))
    assert await wrong(each_resources) == (
        "1 export not queued, 2 exports running without a heartbeat → the sweep mends it: exportdesk worker callbacks"
    )


LEFT_WAITING = "2 orders waiting for over an hour while slots are free → a worker takes them: exportdesk worker exports"


async def test_orders_are_left_waiting_while_slots_are_free(each_resources: Resources, put: Maker):
    for minutes in (61, 90, 5):
        await put(Status.QUEUED, timedelta(minutes=minutes))
    assert await wrong(each_resources) == LEFT_WAITING
    for number in range(each_resources.settings.worker_slots):
        await put(Status.PROCESSING, owner=await person(each_resources, f"busy-{number}"))
    assert await wrong(each_resources) is None


async def test_who_waits_for_a_limit_is_not_left_waiting(each_resources: Resources, put: Maker):
    """`writer` has as many running as a person may, and there are slots besides."""
    spacious = replace(each_resources, settings=replace(each_resources.settings, worker_slots=9))
    await put(Status.QUEUED, 2 * HOUR)
    assert await wrong(spacious) is not None
    for _ in range(spacious.settings.max_running_per_user):
        await put(Status.PROCESSING)
    assert await wrong(spacious) is None


async def test_a_retry_that_is_not_due_waits_rightly(each_resources: Resources, put: Maker):
    await put(Status.QUEUED, 2 * HOUR, retry_at=await each_resources.store.now() + HOUR)
    assert await wrong(each_resources) is None


async def test_deliveries_are_overdue(each_resources: Resources):
    """Not those of endpoints that are paused, nor those that are being sent."""
    now = await each_resources.store.now()
    sent, late = await register(each_resources, "https://one.example/"), now - HOUR - timedelta(minutes=1)
    paused = await register(each_resources, "https://two.example/", paused_at=now)
    await owe(each_resources, paused, 3, at=late)
    leased = await owe(each_resources, sent, at=late)
    lease = update(deliveries).where(deliveries.c.id.in_(leased)).values(lease_until=now + HOUR)
    await each_resources.store.execute(lease)
    assert await wrong(each_resources) is None
    await owe(each_resources, sent, 2, at=late)
    told = await wrong(each_resources)
    assert told is not None
    assert told.startswith("2 deliveries overdue by more than an hour → exportdesk worker callbacks sends them")
