"""Finished exports whose files are gone: a walk over all of them, some at a time, that begins once an hour at most."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from webapp.actions.changes import Contended, change
from webapp.domain.access import NotFound
from webapp.domain.errors import FILE_LOST
from webapp.domain.exports import Export, Status, expire
from webapp.resources import Resources
from webapp.storage import StorageUnusable
from webapp.store import app_settings
from webapp.store import exports as rows
from webapp.store.types import from_milliseconds, to_milliseconds

log = logging.getLogger(__name__)

AT_ONCE = 200
BEGINS_EVERY = timedelta(hours=1)
WALK = "lost_files_walk"
"""The setting that says how far the walk is, whichever process goes on with it."""


@dataclass(frozen=True, slots=True)
class Walk:
    """`after` is the key of the last export that was looked at; None when the walk is over, or has not begun."""

    began: datetime
    after: tuple[datetime, str] | None


async def expire_lost(resources: Resources, now: datetime) -> int:
    """Looks for the files of the next exports; gives back how many are EXPIRED because theirs is gone."""
    async with resources.store.connection():
        walk = await _walk(resources)
        if walk is None or (walk.after is None and now - walk.began >= BEGINS_EVERY):
            walk = Walk(now, None)
        elif walk.after is None:
            return 0
        found = await rows.finished(resources.store, after=walk.after, limit=AT_ONCE)
    lost = await _lost(resources, found)
    count = sum([await _expire(resources, export) for export in lost])
    last = (found[-1].created_at, found[-1].id) if len(found) == AT_ONCE else None
    await _remember(resources, Walk(walk.began, last), now)
    return count


async def _lost(resources: Resources, found: Sequence[Export]) -> Sequence[Export]:
    """None of them while the storage is away: they are looked for again on the next walk."""
    by_key = {export.file.key: export for export in found if export.file is not None}
    try:
        return [by_key[key] for key in await resources.storage.missing([*by_key])]
    except StorageUnusable as error:
        log.warning("finished files cannot be looked for: %s. To mend it: %s", error, error.mend)
        return []


async def _expire(resources: Resources, lost: Export) -> bool:
    """False when it was deleted or expired meanwhile: then its file went with it."""
    is_ours = False

    def decide(current: Export, at: datetime) -> Sequence[Export]:
        nonlocal is_ours
        is_ours = current.status is Status.SUCCESS and current.file == lost.file
        return [expire(current, FILE_LOST, at=at)] if is_ours else []

    try:
        await change(resources, lost.id, decide)
    except (NotFound, Contended):
        return False
    if is_ours:
        log.error("%s: its file is no longer in the storage", lost.id)
    return is_ours


async def _walk(resources: Resources) -> Walk | None:
    kept = await app_settings.get(resources.store, WALK)
    if kept is None:
        return None
    began, after = kept
    return Walk(from_milliseconds(began), (from_milliseconds(after[0]), after[1]) if after else None)


async def _remember(resources: Resources, walk: Walk, now: datetime) -> None:
    after = (to_milliseconds(walk.after[0]), walk.after[1]) if walk.after else None
    async with resources.store.transaction():
        await app_settings.put(resources.store, WALK, (to_milliseconds(walk.began), after), at=now)
