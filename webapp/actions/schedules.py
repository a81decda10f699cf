"""Saved orders that are ordered by themselves: set, pause, and run what is due.

A run is ordered under an idempotency key made of the schedule and its due time: however many sweeps see it as due, and
wherever one of them dies, there is one export. Then the schedule is moved on, if it still is what it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from webapp.actions import exports, people, saved_orders
from webapp.actions.changes import Contended
from webapp.actions.due_times import checked_cron, following
from webapp.actions.exports import KeyReused
from webapp.domain import limits
from webapp.domain.access import NotFound, QuotaExceeded, Viewer
from webapp.domain.errors import Invalid
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.saved_orders import SavedOrder
from webapp.domain.schedules import ENDS, RunOutcome, Schedule, StopReason
from webapp.resources import Resources
from webapp.store import exports as export_rows
from webapp.store import saved_orders as saved_rows
from webapp.store import schedules as rows
from webapp.store.types import to_milliseconds

log = logging.getLogger(__name__)

BATCH = 50
SHOWN = 5
"""How many of the next dates a person sees."""

Decide = Callable[[Schedule, datetime], Schedule]


async def put(resources: Resources, viewer: Viewer, saved_id: str, cron: object, zone: object) -> Schedule:
    """Sets when a saved order is ordered; one that was paused or had stopped begins anew. Raises NotFound, Invalid,
    Contended."""
    await saved_orders.get(resources, viewer, saved_id)
    line, place = checked_cron(cron, zone, await resources.store.now())
    async with resources.store.transaction():
        await saved_orders.get(resources, viewer, saved_id)
        at = await resources.store.now()
        before = await rows.get(resources.store, saved_id)
        [due] = following(line, place, at, 1)
        made = Schedule(saved_id, line, place, due, before.created_at if before else at, at)
        if before is not None:
            made = replace(made, due_at=before.due_at, export_id=before.export_id, outcome=before.outcome)
        await _write(resources, before, made)
    return made


async def get(resources: Resources, viewer: Viewer, saved_id: str) -> Schedule:
    """Raises NotFound."""
    async with resources.store.connection():
        await saved_orders.get(resources, viewer, saved_id)
        found = await rows.get(resources.store, saved_id)
    if found is None:
        raise NotFound
    return found


async def of_own(resources: Resources, viewer: Viewer) -> Mapping[str, Schedule]:
    """By the id of the saved order."""
    async with resources.store.connection():
        return await rows.of_owner(resources.store, viewer.id)


async def remove(resources: Resources, viewer: Viewer, saved_id: str) -> None:
    """Raises NotFound."""
    async with resources.store.transaction():
        await get(resources, viewer, saved_id)
        await rows.remove(resources.store, saved_id)


async def pause(resources: Resources, viewer: Viewer, saved_id: str) -> Schedule:
    """Raises NotFound. What falls due meanwhile is not made up for."""
    return await _change(
        resources, viewer, saved_id, lambda schedule, at: replace(schedule, paused_at=at, next_at=None, retry_at=None)
    )


async def resume(resources: Resources, viewer: Viewer, saved_id: str) -> Schedule:
    """From a pause, or after it has stopped by itself. Raises NotFound."""

    def resumed(schedule: Schedule, at: datetime) -> Schedule:
        [due] = following(schedule.cron, schedule.zone, at, 1)
        return replace(schedule, paused_at=None, stopped_at=None, stop=None, failures=0, next_at=due)

    return await _change(resources, viewer, saved_id, resumed)


async def _change(resources: Resources, viewer: Viewer, saved_id: str, decide: Decide) -> Schedule:
    async with resources.store.transaction():
        before = await get(resources, viewer, saved_id)
        at = await resources.store.now()
        after = replace(decide(before, at), updated_at=at)
        await _write(resources, before, after)
    return after


async def _write(resources: Resources, before: Schedule | None, after: Schedule) -> None:
    """Raises Contended when it is no longer what this was made of."""
    store = resources.store
    if not await (rows.insert(store, after) if before is None else rows.replace_if(store, before, after)):
        raise Contended


async def run_due(resources: Resources, now: datetime) -> int:
    """Orders what is due, and how many. A run that was missed is made up for once, however many there were."""
    async with resources.store.connection():
        found = await rows.due(resources.store, now=now, limit=BATCH)
    return sum([await _run(resources, schedule, now) for schedule in found])


async def _run(resources: Resources, schedule: Schedule, now: datetime) -> bool:
    async with resources.store.connection():
        saved = await saved_rows.get(resources.store, schedule.saved_order_id)
    if saved is None or schedule.next_at is None:
        return False
    viewer = await people.viewer_of_user(resources, saved.owner)
    if viewer is None or saved.dataset in viewer.denied:
        return await _move(resources, schedule, _stopped(schedule, StopReason.DATASET, now))
    try:
        after = await _ordered(resources, viewer, saved, schedule, schedule.next_at, now)
    except QuotaExceeded as full:
        return await _move(resources, schedule, _waiting(schedule, full, now))
    except Invalid as invalid:
        is_gone = any(error.field == "dataset" for error in invalid.errors)
        return await _move(
            resources, schedule, _stopped(schedule, StopReason.DATASET if is_gone else StopReason.UNFIT, now)
        )
    except (Contended, NotFound):
        return False
    return await _move(resources, schedule, after)


async def _ordered(
    resources: Resources, viewer: Viewer, saved: SavedOrder, schedule: Schedule, due: datetime, now: datetime
) -> Schedule:
    """The schedule after its run. The catalog and the person's rights are those of now."""
    key = f"schedule:{saved.id}:{to_milliseconds(due)}"
    wanted = saved_orders.as_order(saved)
    export_id = schedule.export_id
    try:
        export, _ = await exports.order(resources, viewer, wanted, defaults=API_DEFAULTS, idempotency_key=key)
        export_id = export.id
        async with resources.store.transaction():
            await saved_rows.note_ordered(resources.store, saved.id, export.id, at=now)
    except KeyReused:
        log.info("%s: its run of %s was ordered before it was changed", saved.id, due)
    times = following(schedule.cron, schedule.zone, max(now, due), 1)
    return replace(
        schedule,
        next_at=times[0] if times else None,
        retry_at=None,
        due_at=due,
        export_id=export_id,
        outcome=RunOutcome.ORDERED,
    )


def _waiting(schedule: Schedule, full: QuotaExceeded, now: datetime) -> Schedule:
    retry_at = now + timedelta(seconds=max(full.retry_after, limits.SCHEDULE_RETRY_SECONDS))
    return replace(schedule, retry_at=retry_at, outcome=RunOutcome.WAITING)


def _stopped(schedule: Schedule, stop: StopReason, now: datetime) -> Schedule:
    return replace(schedule, next_at=None, retry_at=None, stopped_at=now, stop=stop)


async def settle(resources: Resources, now: datetime) -> int:
    """Writes down how the newest runs ended, and stops what has failed too often in a row."""
    async with resources.store.connection():
        found = await rows.unsettled(resources.store, limit=BATCH)
        ids = [schedule.export_id for schedule in found if schedule.export_id]
        ended = {export.id: export for export in await export_rows.any_of(resources.store, ids)}
    count = 0
    for schedule in found:
        export = ended.get(schedule.export_id or "")
        outcome = RunOutcome.DELETED if export is None else None if export.is_active else ENDS[export.status]
        if outcome is not None:
            count += await _move(resources, schedule, _settled(schedule, outcome, now))
    return count


def _settled(schedule: Schedule, outcome: RunOutcome, now: datetime) -> Schedule:
    failures = {RunOutcome.FAILED: schedule.failures + 1, RunOutcome.SUCCEEDED: 0}.get(outcome, schedule.failures)
    after = replace(schedule, outcome=outcome, failures=failures)
    return _stopped(after, StopReason.FAILURES, now) if failures >= limits.SCHEDULE_FAILURES_MOST else after


async def _move(resources: Resources, before: Schedule, after: Schedule) -> bool:
    async with resources.store.transaction():
        is_moved = await rows.replace_if(resources.store, before, after)
    if is_moved and after.stop is not None:
        log.warning("%s: its schedule has stopped (%s)", after.saved_order_id, after.stop)
    return is_moved


def next_dates(schedule: Schedule, now: datetime) -> Sequence[datetime]:
    """Those that a person is shown; none while it is paused or stopped."""
    return [] if schedule.next_at is None else following(schedule.cron, schedule.zone, now, SHOWN)
