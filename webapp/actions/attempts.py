"""What a worker does with exports: claim one, report progress, finish, fail, time out, hand back.

Every write carries the attempt's number, the fencing token: a worker that was given up cannot write any more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from webapp import bus
from webapp.actions import disk, exports, statuses, turns
from webapp.actions.changes import Decide, change, hint, tell, write
from webapp.actions.exports import wake_next
from webapp.actions.people import viewer_of_user
from webapp.actions.workers import this_process
from webapp.domain import limits
from webapp.domain.access import NotFound, Viewer
from webapp.domain.attempts import Attempt
from webapp.domain.errors import ErrorCode, ExportError, export_error
from webapp.domain.exports import (
    Export,
    ExportFile,
    FormatWarning,
    Lane,
    Status,
    retry_by_policy,
    retry_wait,
    should_retry,
    start,
    succeed,
)
from webapp.domain.exports import fail as failed
from webapp.domain.exports import time_out as timed_out
from webapp.resources import Resources
from webapp.store import attempts as attempt_rows
from webapp.store import exports as rows
from webapp.store import people
from webapp.store.exports import Progress
from webapp.store.turns import lock_claims

CLAIM_TRIES = 10
DEFAULT_MAX_ATTEMPTS = 3
_rng = random.SystemRandom()


async def claim(resources: Resources, *, lane: Lane | None = None) -> Export | None:
    """Starts a new attempt of the export whose turn it is, or None when nobody's turn has come. With a lane, for a slot
    that is kept for it: that looks first, without keeping others from writing."""
    if lane is not None:
        async with resources.store.connection():
            if await turns.next_export(resources, lane=lane) is None:
                return None
    for _ in range(CLAIM_TRIES):
        async with resources.store.transaction():
            if turns.has_limits(resources):
                await lock_claims(resources.store)
            candidate = await turns.next_export(resources, lane=lane)
            if candidate is None:
                return None
            await people.lock_user(resources.store, candidate.owner)
            if not resources.store.is_sqlite and await turns.next_export(resources, lane=lane) != candidate:
                continue
            at = await resources.store.now()
            written = await write(resources, candidate, [start(candidate, at=at)], at=at)
            if written:
                await attempt_rows.begin(resources.store, written[-1].export, worker=this_process(), at=at)
        if written:
            await tell(resources, written)
            return written[-1].export
    return None


async def is_withheld(resources: Resources, export: Export) -> bool:
    """Whether the dataset was taken from its owner since it was ordered, by roles or grants."""
    owner = await viewer_of_user(resources, export.owner)
    return owner is not None and resources.catalog.dataset_for(export.dataset, owner) is None


async def history(resources: Resources, viewer: Viewer, export_id: str) -> Sequence[Attempt]:
    """The attempts of an export, oldest first. Raises NotFound."""
    async with resources.store.connection():
        export = await exports.get(resources, viewer, export_id)
        return await attempt_rows.of_export(resources.store, export.id, limit=limits.ATTEMPTS_SHOWN)


async def report_progress(resources: Resources, export: Export, progress: Progress) -> bool:
    """Stores progress and heartbeat. False: the work must stop, as the attempt was cancelled, given up, or has ended
    just now because there is no more room for its file."""
    if not await disk.has_room(resources, export):
        await fail(resources, export, export_error(ErrorCode.DISK_FULL))
        return False
    async with resources.store.connection():
        at = await resources.store.now()
        called = await rows.write_progress(resources.store, export.id, export.attempt, progress, at=at)
    if called:
        named = replace(export, name=called.name, note=called.note)
        await statuses.progressed(resources, named, progress, at=at)
    return called is not None


async def hint_progress(resources: Resources, export: Export) -> None:
    """Tells open pages that there is progress to read."""
    await hint(resources, bus.Hint(export.id, export.owner, 0))


async def finish(
    resources: Resources, export: Export, file: ExportFile, warnings: tuple[FormatWarning, ...]
) -> Export | None:
    """SUCCESS with a file that is in its place already. None: the attempt is no longer the running one.

    May be said again by who did not hear whether it was written.
    """
    ended = await _end(resources, export, lambda current, at: [_succeeded(resources, current, file, warnings, at)])
    if ended is not None:
        return ended
    async with resources.store.connection():
        current = await rows.get(resources.store, export.id)
    return current if current and current.file and current.file.key == file.key else None


def _succeeded(
    resources: Resources, export: Export, file: ExportFile, warnings: tuple[FormatWarning, ...], at: datetime
) -> Export:
    kept = replace(file, expires_at=at + resources.settings.file_retention)
    return succeed(export, kept, warnings, at=at)


async def fail(resources: Resources, export: Export, error: ExportError) -> Export | None:
    """FAILED; and, in the same transaction, back to QUEUED when the dataset's policy says that it may pass."""
    max_attempts = _max_attempts(resources, export)

    def decide(current: Export, at: datetime) -> Sequence[Export]:
        after = failed(current, error, at=at)
        if not should_retry(after, max_attempts=max_attempts):
            return [after]
        return [after, retry_by_policy(after, at=at, wait=retry_wait(after.failures, _rng))]

    return await _end(resources, export, decide)


async def hand_back(resources: Resources, export: Export) -> Export | None:
    """The worker is stopped on purpose: the export goes back at once and the attempt is not held against it."""
    error = export_error(ErrorCode.WORKER_LOST)

    def decide(current: Export, at: datetime) -> Sequence[Export]:
        after = failed(current, error, at=at)
        return [after, replace(retry_by_policy(after, at=at, wait=0), retry_at=None, failures=current.failures)]

    return await _end(resources, export, decide)


async def time_out(resources: Resources, export: Export, error: ExportError) -> Export | None:
    return await _end(resources, export, lambda current, at: [timed_out(current, error, at=at)])


async def _end(resources: Resources, export: Export, decide: Decide) -> Export | None:
    """Ends this attempt, if it is still the running one, and lets the next export have its place."""
    ended = False

    def decide_if_ours(current: Export, at: datetime) -> Sequence[Export]:
        nonlocal ended
        ended = current.status is Status.PROCESSING and current.attempt == export.attempt
        return decide(current, at) if ended else []

    try:
        after = await change(resources, export.id, decide_if_ours)
    except NotFound:
        return None
    await wake_next(resources)
    return after if ended else None


def _max_attempts(resources: Resources, export: Export) -> int:
    dataset = resources.catalog.datasets.get(export.dataset)
    return dataset.max_attempts if dataset else DEFAULT_MAX_ATTEMPTS
