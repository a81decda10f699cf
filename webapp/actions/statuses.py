"""What a status poll is told of an export, and how every change gets into the cache, see `webapp.status_cache`."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from webapp import queue, status_cache
from webapp.domain import limits
from webapp.domain.events import snapshot
from webapp.domain.exports import STAGE_TIME, Export, Status
from webapp.domain.turns import Place
from webapp.resources import Resources
from webapp.status_cache import Answer
from webapp.store.exports import Progress


def answer_of(export: Export, *, base_url: str, now: datetime, place: Place | None = None) -> Answer:
    content: dict[str, Any] = snapshot(export, base_url=base_url, now=now, place=place)
    age = (now - export.created_at).total_seconds()
    return Answer(
        owner=export.owner,
        version=export.version,
        moved=export.rows_done + export.bytes,
        etag=etag(export, place.position if place else None, is_paused=place is not None and place.is_paused),
        retry_after=limits.retry_after(age) if export.is_active else None,
        body=msgspec.json.encode(content),
        is_waiting=place is not None,
        dataset=export.dataset,
    )


def etag(export: Export, queue_position: int | None, *, is_paused: bool = False) -> str:
    """The version; what changes without changing the version is part of it: progress, and what the export is called."""
    moving = (export.rows_done, export.rows_total, export.bytes, export.phase, queue_position, is_paused)
    loose = (moving if export.is_active else (), (export.name, export.note))
    if not any(map(any, loose)):
        return f'"{export.version}"'
    return f'"{export.version}-{hashlib.sha256(repr(loose).encode()).hexdigest()[:12]}"'


async def changed(resources: Resources, export: Export, *, at: datetime | None = None) -> None:
    """After the commit and before the hint. This process knows it at once, Redis if it can be reached. `at` is when it
    came to its status, if nothing else is said."""
    resources.statuses.hear(export.id, export.version)
    moment: datetime = at or getattr(export, STAGE_TIME[export.status])
    is_kept = export.status is not Status.QUEUED
    answer = answer_of(export, base_url=resources.settings.base_url, now=moment) if is_kept else None
    await _keep(resources, export.id, export.version, answer)


async def progressed(resources: Resources, export: Export, progress: Progress, *, at: datetime) -> None:
    """As `changed`, for what is no change of status."""
    resources.statuses.hear(export.id, 0)
    after = replace(
        export,
        phase=progress.phase,
        rows_done=progress.rows_done,
        rows_total=progress.rows_total,
        bytes=progress.bytes,
        heartbeat_at=at,
    )
    answer = answer_of(after, base_url=resources.settings.base_url, now=at)
    await _keep(resources, export.id, export.version, answer)


async def deleted(resources: Resources, export: Export) -> None:
    """As `changed`. A version that will never be is newer than any that was kept."""
    resources.statuses.hear(export.id, export.version + 1)
    await _keep(resources, export.id, export.version + 1, None)


async def _keep(resources: Resources, export_id: str, version: int, answer: Answer | None) -> None:
    try:
        await status_cache.keep(resources.redis, export_id, version, answer)
    except queue.QUEUE_ERRORS:
        return
