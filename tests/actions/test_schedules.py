"""Schedules: when they are due, that each run is ordered once, and what stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fresh_stores import Clock

from webapp.actions import due_times, exports, people, saved_orders, schedules
from webapp.actions.changes import Contended
from webapp.actions.due_times import checked_cron, following
from webapp.actions.exports import Order
from webapp.domain import limits
from webapp.domain.access import NotFound, Viewer
from webapp.domain.errors import ErrorCode, Invalid, export_error
from webapp.domain.exports import Export, Status, cancel, fail, queue, start
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.schedules import RunOutcome, Schedule, StopReason
from webapp.resources import Resources
from webapp.store import exports as export_rows
from webapp.store import schedules as rows
from webapp.store.exports import ListFilter

Saver = Callable[..., Awaitable[str]]
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


@pytest.fixture
def scheduled(each_resources: Resources, writer: Viewer) -> Saver:
    """The id of a saved order that is due every hour."""

    async def make(cron: str = "0 * * * *", zone: str = "UTC", **params: Any) -> str:
        wanted = Order("things", params, "csv", {})
        saved = await saved_orders.save(each_resources, writer, "Hourly", wanted, defaults=API_DEFAULTS)
        await schedules.put(each_resources, writer, saved.id, cron, zone)
        return saved.id

    return make


async def run(resources: Resources) -> int:
    return await schedules.run_due(resources, await resources.store.now())


async def settle(resources: Resources) -> int:
    return await schedules.settle(resources, await resources.store.now())


async def ordered(resources: Resources) -> list[Export]:
    async with resources.store.connection():
        return list(await export_rows.list_page(resources.store, ListFilter(), limit=50, after=None))


async def stored(resources: Resources, saved_id: str) -> Schedule:
    async with resources.store.connection():
        found = await rows.get(resources.store, saved_id)
    assert found is not None
    return found


async def end(resources: Resources, export: Export, status: Status) -> None:
    """The export as a worker or its owner would have ended it."""
    async with resources.store.transaction():
        now = await resources.store.now()
        before = await export_rows.get(resources.store, export.id)
        assert before is not None
        after = before if before.status is Status.QUEUED else queue(before, at=now)
        if status is Status.CANCELLED:
            after = cancel(after, at=now)
        else:
            after = fail(start(after, at=now), export_error(ErrorCode.QUERY_ERROR, detail="x"), at=now)
        await resources.store.execute(
            export_rows.exports.update()
            .where(export_rows.exports.c.id == export.id)
            .values(**{name: value for name, value in export_rows.to_row(after).items() if name != "id"})
        )


@pytest.mark.parametrize(
    ("cron", "zone", "after", "due"),
    [
        ("30 8 * * *", "UTC", "2026-11-30T08:30", ["2026-12-01T08:30", "2026-12-02T08:30"]),
        ("30 8 * * 1", "Asia/Tokyo", "2026-11-30T00:00", ["2026-12-06T23:30", "2026-12-13T23:30"]),
        ("0 8 L * *", "UTC", "2026-01-15T00:00", ["2026-01-31T08:00", "2026-02-28T08:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        ("0 9 * * *", "America/New_York", "2026-10-31T14:00", ["2026-11-01T14:00", "2026-11-02T14:00"]),
    ],
)
def test_hours_are_those_of_the_zone_in_summer_and_winter(cron: str, zone: str, after: str, due: list[str]) -> None:
    """What summer time skips runs right after it; what it repeats runs once."""
    found = following(cron, zone, datetime.fromisoformat(after).replace(tzinfo=UTC), 2)
    assert [f"{moment:%Y-%m-%dT%H:%M}" for moment in found] == due


@pytest.mark.parametrize(
    ("cron", "zone", "fields"),
    [
        ("0 8 * * *", "Mars/Olympus", ["zone"]),
        ("", "UTC", ["cron"]),
        (None, None, ["zone", "cron"]),
        ("0 8 * *", "UTC", ["cron"]),
        ("* 0 8 * * *", "UTC", ["cron"]),
        ("@daily", "UTC", ["cron"]),
        ("61 8 * * *", "UTC", ["cron"]),
        ("0 8 30 2 *", "UTC", ["cron"]),
        ("*/10 * * * *", "UTC", ["cron"]),
        ("0,14 8 * * *", "UTC", ["cron"]),
        ("0 8 " + "1," * 50 + "1 * *", "UTC", ["cron"]),
        (" */15  * * * * ", "UTC", []),
    ],
)
def test_what_is_no_schedule_is_refused(cron: object, zone: object, fields: list[str]) -> None:
    found: list[str] = []
    try:
        assert checked_cron(cron, zone, NOON) == ("*/15 * * * *", "UTC")
    except Invalid as invalid:
        found = [error.field for error in invalid.errors]
    assert found == fields


async def test_a_run_is_ordered_once_however_many_sweeps_see_it(
    each_resources: Resources, scheduled: Saver, clock: Clock, writer: Viewer
) -> None:
    saved_id = await scheduled(most=5)
    assert await run(each_resources) == 0
    due = (await stored(each_resources, saved_id)).next_at
    clock.move(3600)
    assert sum(await asyncio.gather(*(run(each_resources) for _ in range(4)))) == 1
    [export] = await ordered(each_resources)
    assert (export.owner, export.name, export.params["most"]) == (writer.id, "Hourly", 5)
    after = await stored(each_resources, saved_id)
    assert (after.due_at, after.export_id, after.outcome) == (due, export.id, RunOutcome.ORDERED)
    assert after.next_at is not None
    assert due is not None
    assert after.next_at - due == timedelta(hours=1)
    assert await run(each_resources) == 0


async def test_a_sweep_that_died_between_the_order_and_its_note_orders_nothing_again(
    each_resources: Resources, scheduled: Saver, clock: Clock
) -> None:
    saved_id = await scheduled()
    before = await stored(each_resources, saved_id)
    clock.move(3600)
    await run(each_resources)
    [export] = await ordered(each_resources)
    await end(each_resources, export, Status.CANCELLED)
    async with each_resources.store.transaction():
        await rows.remove(each_resources.store, saved_id)
        assert await rows.insert(each_resources.store, before)
    assert await run(each_resources) == 1
    assert [found.id for found in await ordered(each_resources)] == [export.id]


async def test_what_was_missed_is_made_up_for_once(each_resources: Resources, scheduled: Saver, clock: Clock) -> None:
    saved_id = await scheduled()
    clock.move(5 * 3600 + 60)
    assert await run(each_resources) == 1
    assert await run(each_resources) == 0
    assert len(await ordered(each_resources)) == 1
    after = await stored(each_resources, saved_id)
    assert after.next_at is not None
    assert after.next_at > await each_resources.store.now()


async def test_a_pause_leaves_out_what_falls_due(
    each_resources: Resources, scheduled: Saver, clock: Clock, writer: Viewer
) -> None:
    saved_id = await scheduled()
    assert (await schedules.pause(each_resources, writer, saved_id)).next_at is None
    clock.move(2 * 3600)
    assert await run(each_resources) == 0
    resumed = await schedules.resume(each_resources, writer, saved_id)
    assert resumed.next_at is not None
    assert resumed.next_at > await each_resources.store.now()
    clock.move(3600)
    assert await run(each_resources) == 1


async def test_too_many_exports_make_it_wait(
    each_resources: Resources, scheduled: Saver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_id = await scheduled()

    async def full(*_: Any) -> None:
        raise exports.QuotaExceeded(20, 20, retry_after=30)

    with monkeypatch.context() as patch:
        patch.setattr(exports, "_require_quota", full)
        clock.move(3600)
        await run(each_resources)
    waiting = await stored(each_resources, saved_id)
    assert (waiting.outcome, len(await ordered(each_resources))) == (RunOutcome.WAITING, 0)
    assert await run(each_resources) == 0
    clock.move(limits.SCHEDULE_RETRY_SECONDS + 1)
    assert await run(each_resources) == 1
    after = await stored(each_resources, saved_id)
    assert (after.due_at, after.retry_at, after.outcome) == (waiting.next_at, None, RunOutcome.ORDERED)


async def test_failures_in_a_row_stop_it(
    each_resources: Resources, scheduled: Saver, clock: Clock, writer: Viewer
) -> None:
    saved_id = await scheduled()
    for number in range(1, limits.SCHEDULE_FAILURES_MOST + 1):
        clock.move(3600)
        await run(each_resources)
        newest = (await ordered(each_resources))[0]
        assert await settle(each_resources) == 0
        await end(each_resources, newest, Status.FAILED)
        assert await settle(each_resources) == 1
        assert (await stored(each_resources, saved_id)).failures == number
    stopped = await stored(each_resources, saved_id)
    assert (stopped.stop, stopped.next_at, stopped.outcome) == (StopReason.FAILURES, None, RunOutcome.FAILED)
    resumed = await schedules.resume(each_resources, writer, saved_id)
    assert (resumed.stop, resumed.failures) == (None, 0)


async def test_a_cancelled_run_is_no_failure(each_resources: Resources, scheduled: Saver, clock: Clock) -> None:
    saved_id = await scheduled()
    clock.move(3600)
    await run(each_resources)
    await end(each_resources, (await ordered(each_resources))[0], Status.CANCELLED)
    await settle(each_resources)
    after = await stored(each_resources, saved_id)
    assert (after.outcome, after.failures) == (RunOutcome.CANCELLED, 0)


@pytest.mark.parametrize(
    ("change", "stop"),
    [
        ("dataset", StopReason.DATASET),
        ("unfit", StopReason.UNFIT),
        ("column", StopReason.UNFIT),
        ("person", StopReason.DATASET),
    ],
)
async def test_it_stops_when_it_can_no_longer_be_ordered(
    each_resources: Resources, scheduled: Saver, clock: Clock, writer: Viewer, change: str, stop: StopReason
) -> None:
    """Rights and the catalog are looked at anew at each run."""
    saved_id = await scheduled(most=900)
    config = each_resources.settings.config
    assert config is not None
    text = config.read_text(encoding="utf-8")
    match change:
        case "dataset":
            config.write_text(text.replace("datasets.things", "datasets.goods"), encoding="utf-8")
            assert each_resources.holder.refresh()
        case "column":
            chosen = Order("things", {}, "csv", {"columns": ["price", "id"]})
            await saved_orders.edit(each_resources, writer, saved_id, "Hourly", chosen, defaults=API_DEFAULTS)
            config.write_text(text.replace("SELECT * FROM things", "SELECT id FROM things"), encoding="utf-8")
            assert each_resources.holder.refresh()
        case "unfit":
            config.write_text(text.replace("maximum = 1000", "maximum = 500"), encoding="utf-8")
            assert each_resources.holder.refresh()
        case _:
            await each_resources.store.execute(
                people.people.users.update().where(people.people.users.c.id == writer.id).values(disabled_at=NOON)
            )
    clock.move(3600)
    await run(each_resources)
    after = await stored(each_resources, saved_id)
    assert (after.stop, after.next_at, await ordered(each_resources)) == (stop, None, [])


async def test_a_deleted_order_is_not_run(
    each_resources: Resources, scheduled: Saver, clock: Clock, writer: Viewer
) -> None:
    saved_id = await scheduled()
    await saved_orders.delete(each_resources, writer, saved_id)
    clock.move(3600)
    assert await run(each_resources) == 0
    await saved_orders.restore(each_resources, writer, saved_id)
    assert await run(each_resources) == 1
    await schedules.remove(each_resources, writer, saved_id)
    with pytest.raises(NotFound):
        await schedules.get(each_resources, writer, saved_id)


async def test_set_several_times_at_once_there_is_one(each_resources: Resources, writer: Viewer) -> None:
    saved = await saved_orders.save(
        each_resources, writer, "Once", Order("things", {}, "csv", {}), defaults=API_DEFAULTS
    )
    putting = [schedules.put(each_resources, writer, saved.id, f"{n} 8 * * *", "UTC") for n in range(8)]
    found = await asyncio.gather(*putting, return_exceptions=True)
    assert all(isinstance(one, Schedule | Contended) for one in found), found
    assert any(isinstance(one, Schedule) for one in found)
    assert await stored(each_resources, saved.id) in found


async def test_a_pause_does_not_undo_what_a_sweep_wrote_meanwhile(
    each_resources: Resources, scheduled: Saver, clock: Clock, writer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_id = await scheduled()
    before = await stored(each_resources, saved_id)
    clock.move(3600)
    await run(each_resources)
    monkeypatch.setattr(schedules, "get", lambda *_: asyncio.sleep(0, before))
    with pytest.raises(Contended):
        await schedules.pause(each_resources, writer, saved_id)
    assert (await stored(each_resources, saved_id)).outcome is RunOutcome.ORDERED


def test_a_rare_line_is_not_looked_into_for_centuries(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[datetime] = []

    class Counted(due_times.CronSim):
        def __next__(self) -> datetime:
            looked.append(super().__next__())
            return looked[-1]

    monkeypatch.setattr(due_times, "CronSim", Counted)
    assert checked_cron("0 0 * 2 MON#5", "UTC", NOON) == ("0 0 * 2 MON#5", "UTC")
    assert len(looked) == 2
