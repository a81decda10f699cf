"""The sweep: finds what is stuck, owed or out of date and puts it right. Safe to run twice at once.

All times are the database's, and all changes are compare-and-sets, so a sweep can never undo what somebody else did.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from webapp import queue
from webapp.actions import alerts, attempts, change_log, inspectors, monitor, saved_orders, schedules, tallies, turns
from webapp.actions.changes import Contended, change
from webapp.actions.endpoint_secrets import drop_expired_secrets
from webapp.actions.exports import DAY, hand_over
from webapp.actions.lost_files import expire_lost
from webapp.domain import limits
from webapp.domain.access import NotFound
from webapp.domain.errors import ErrorCode, export_error, in_words
from webapp.domain.exports import Export, IllegalTransition, Status, expire
from webapp.domain.tallies import Metric, Observation
from webapp.domain.workers import Queue
from webapp.resources import Resources
from webapp.store import endpoints as endpoint_rows
from webapp.store import events, idempotency, pauses, people, workers
from webapp.store import exports as rows
from webapp.store import monitor as monitor_rows
from webapp.store import tallies as tally_rows

log = logging.getLogger(__name__)

Step = Callable[[Resources, datetime], Awaitable[int]]

BATCH = 200
ORPHAN_AGE = 3600.0
UNUSED_EVERY = 60.0
"""Seconds. What is looked for without an index, and in no hurry, is looked for by one sweep in so many seconds."""


async def sweep(resources: Resources) -> Counter[str]:
    """One round. Gives back how many of each kind it put right."""
    done = Counter({name: await _step(resources, name, step) for name, step in STEPS.items()})
    for name, count in done.items():
        if count:
            log.info("sweep: %s %d", name, count)
    for name, step in BOOKS.items():
        await _step(resources, name, step)
    await _tally(resources, done)
    return done


async def _step(resources: Resources, name: str, step: Step) -> int:
    async with resources.store.connection():
        now = await resources.store.now()
    try:
        return await step(resources, now)
    except Exception:
        log.exception("sweep: the step %r failed; the others go on", name)
        return 0


async def _tally(resources: Resources, done: Counter[str]) -> None:
    found = [Observation(Metric.SWEEP_ACTIONS, (name,), count=count) for name, count in done.items() if count]
    if found:
        async with resources.store.transaction():
            await tally_rows.add(resources.store, found)
            counts = {(Metric.SWEEP_ACTIONS.value, name, 0): count for name, count in done.items() if count}
            await monitor_rows.add(resources.store, {await resources.store.now(): counts})


async def _queue_pending(resources: Resources, now: datetime) -> int:
    """Orders whose process died between the commit and the queue."""
    before = now - timedelta(seconds=limits.PENDING_STUCK_AFTER)
    async with resources.store.connection():
        stuck = await rows.stuck_pending(resources.store, created_before=before, limit=BATCH)
    return await _each(stuck, lambda export: hand_over(resources, export.id))


async def _wake_waiting(resources: Resources, now: datetime) -> int:
    """Exports that Redis forgot: somebody's turn has come, and nothing in the queue wakes a worker for it. Those that
    wait behind others are no sweep's business. The salt gives each half minute its own job id, in case the first one is
    stuck."""
    before = now - timedelta(seconds=limits.QUEUED_STUCK_AFTER)
    async with resources.store.connection():
        if await pauses.get(resources.store, Queue.EXPORTS):
            return 0
        waiting = await rows.waiting(resources.store, queued_before=before, due=now, limit=BATCH)
        if not waiting or not await turns.is_somebodys(resources):
            return 0
    salt = str(int(now.timestamp()) // 30)
    try:
        if await queue.has_wake_up(resources.redis):
            return 0
        for export in waiting:
            await queue.enqueue_export(resources.redis, export, salt=salt)
    except queue.QUEUE_ERRORS:
        return 0
    return len(waiting)


async def _give_up_lost(resources: Resources, now: datetime) -> int:
    """Attempts whose worker no longer gives a sign of life."""
    since = now - timedelta(seconds=limits.HEARTBEAT_LOST_AFTER)
    async with resources.store.connection():
        lost = await rows.without_heartbeat(resources.store, since=since, limit=BATCH)
    error = export_error(ErrorCode.WORKER_LOST)
    return await _each(lost, lambda export: attempts.fail(resources, export, error))


async def _end_overdue(resources: Resources, now: datetime) -> int:
    """Attempts that outlived their execution limit although their worker is alive."""
    shortest = min(_execution_limit(resources, name) for name in (*resources.catalog.datasets, ""))
    grace = timedelta(seconds=limits.EXECUTION_GRACE)
    async with resources.store.connection():
        running = await rows.started_before(resources.store, now - shortest - grace, limit=BATCH)
    overdue = [
        export
        for export in running
        if export.started_at and now - export.started_at > _execution_limit(resources, export.dataset) + grace
    ]
    return await _each(overdue, lambda export: _time_out(resources, export))


async def _time_out(resources: Resources, export: Export) -> Export | None:
    limit = _execution_limit(resources, export.dataset)
    return await attempts.time_out(resources, export, export_error(ErrorCode.TIMEOUT, limit=in_words(limit)))


async def _expire_files(resources: Resources, now: datetime) -> int:
    """The row first, then the file: a download never meets a SUCCESS without its file, and orphans are swept too."""
    async with resources.store.connection():
        old = await rows.past_retention(resources.store, now=now, limit=BATCH)
    return await _each(old, lambda export: _expire(resources, export))


async def _expire(resources: Resources, export: Export) -> None:
    error = export_error(ErrorCode.RETENTION)
    await change(resources, export.id, lambda current, at: [expire(current, error, at=at)])
    if export.file is not None:
        await resources.storage.delete(export.file.key)


async def _delete_orphans(resources: Resources, now: datetime) -> int:
    """Files and temporary files that no export speaks of. An hour's grace covers whatever is just being written."""
    found = await resources.storage.old_files(older_than=ORPHAN_AGE)
    deleted = 0
    for start in range(0, len(found), BATCH):
        batch = found[start : start + BATCH]
        async with resources.store.connection():
            known = await rows.any_of(resources.store, [export_id for export_id, _ in batch])
        kept = {export.file.key for export in known if export.file}
        running = {export.id for export in known if export.status is Status.PROCESSING}
        for export_id, key in batch:
            if key not in kept and export_id not in running:
                deleted += await resources.storage.delete(key)
    return deleted


async def _purge(resources: Resources, now: datetime) -> int:
    """Events that the change log was told, idempotency keys, sessions, sign-in links, what inspectors keep, workers
    that are gone and deleted saved orders, past their time."""
    before = now - resources.settings.event_retention
    async with resources.store.transaction():
        sent = await change_log.sent_up_to(resources)
        count = await events.purge(resources.store, before=before, limit=BATCH, up_to=sent)
        await idempotency.purge(resources.store, before=now - DAY)
        count += await people.delete_expired_sessions(resources.store, now=now)
        count += await people.delete_spent_links(resources.store, now=now)
        count += await workers.purge(resources.store, before=now - timedelta(seconds=limits.WORKERS_SHOWN_FOR))
        count += await inspectors.purge(resources, before)
        count += await saved_orders.purge(resources, now)
    return count


async def _delete_unused_endpoints(resources: Resources, now: datetime) -> int:
    """Their deliveries went with their events, or are over and their export is gone."""
    if not _is_turn(now):
        return 0
    async with resources.store.transaction():
        return await endpoint_rows.remove_unused(resources.store, limit=BATCH)


async def _drop_expired_secrets(resources: Resources, now: datetime) -> int:
    return await drop_expired_secrets(resources) if _is_turn(now) else 0


def _is_turn(now: datetime) -> bool:
    return now.timestamp() % UNUSED_EVERY < limits.SWEEP_EVERY


async def _each(found: Sequence[Export], mend: Callable[[Export], Awaitable[object]]) -> int:
    """Mends one after the other; what somebody else mended meanwhile is no error."""
    count = 0
    for export in found:
        try:
            await mend(export)
            count += 1
        except (IllegalTransition, NotFound, Contended):
            continue
    return count


def _execution_limit(resources: Resources, dataset_name: str) -> timedelta:
    """The longer one when the datasets were edited: an attempt that runs keeps what it was given."""
    state, usual = resources.holder.state, resources.settings.execution_limit
    declared = [catalog.datasets.get(dataset_name) for catalog in (state.catalog, state.before) if catalog]
    return max(((dataset and dataset.execution_limit) or usual for dataset in declared), default=usual)


async def _count_ended(resources: Resources, now: datetime) -> int:
    return await tallies.count_ended(resources, now) if _is_turn(now) else 0


async def _look(resources: Resources, now: datetime) -> int:
    return await monitor.look(resources, now) if _is_turn(now) else 0


async def _forget_periods(resources: Resources, now: datetime) -> int:
    return await monitor.drop_old(resources, now) if _is_turn(now) else 0


STEPS: dict[str, Step] = {
    "scheduled runs": schedules.run_due,
    "schedules settled": schedules.settle,
    "queued": _queue_pending,
    "woken": _wake_waiting,
    "given up": _give_up_lost,
    "timed out": _end_overdue,
    "expired": _expire_files,
    "orphans deleted": _delete_orphans,
    "files lost": expire_lost,
    "purged": _purge,
    "endpoints deleted": _delete_unused_endpoints,
    "secrets dropped": _drop_expired_secrets,
}

BOOKS: dict[str, Step] = {
    "tallied": tallies.tally_events,
    "counted": _count_ended,
    "monitored": monitor.keep,
    "looked": _look,
    "watched": alerts.keep,
    "forgotten": _forget_periods,
    "versions": monitor.note_version,
}
"""What is kept up to date and puts nothing right."""
