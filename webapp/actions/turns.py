"""Whose turn it is, what those that wait may be told of theirs, and how large those are that had to wait."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import fmean

from webapp.actions.datasets import expected_rows
from webapp.domain import limits
from webapp.domain.access import NotFound
from webapp.domain.errors import AttemptFailed
from webapp.domain.exports import Export, Lane, Status, eta_seconds, lane_of
from webapp.domain.turns import Place, Room, Running, Waiting, in_order, position, starts
from webapp.domain.workers import Queue
from webapp.resources import Resources
from webapp.store import past_runs, pauses, turns

log = logging.getLogger(__name__)


async def next_export(resources: Resources, *, lane: Lane | None = None) -> Export | None:
    """The export that a free slot takes; with a lane, a slot that is kept for it."""
    at = await resources.store.now()
    full: frozenset[str] = frozenset()
    if has_limits(resources):
        full = _room(resources, await turns.running_by_dataset(resources.store)).full
    most = resources.settings.max_running_per_user
    return await turns.next_claimable(resources.store, at=at, max_running_per_user=most, full=full, lane=lane)


async def is_somebodys(resources: Resources) -> bool:
    """Whether a free slot would find an export to take. Inside the caller's connection."""
    return any([await next_export(resources, lane=lane) for lane in (None, Lane.SMALL)])


def has_limits(resources: Resources) -> bool:
    """Whether datasets or sources limit how many run, whoever's they are."""
    catalog = resources.catalog
    return any(declared.max_running for declared in (*catalog.datasets.values(), *catalog.sources.values()))


def _room(resources: Resources, running: Mapping[str, int]) -> Room:
    catalog = resources.catalog
    left = {f"datasets.{dataset.name}": dataset.max_running for dataset in catalog.datasets.values()}
    left |= {f"sources.{source.name}": source.max_running for source in catalog.sources.values()}
    room = Room(
        {
            dataset.name: [name for name in (f"datasets.{dataset.name}", f"sources.{dataset.source}") if left[name]]
            for dataset in catalog.datasets.values()
        },
        {name: most for name, most in left.items() if most},
    )
    for dataset, count in running.items():
        room.take(dataset, count)
    return room


async def places(resources: Resources, found: Sequence[Export], *, now: datetime) -> list[Place | None]:
    """Of those that wait for their turn; None for all others. Inside the caller's connection."""
    if not any(_waits(export, now) for export in found):
        return [None] * len(found)
    store, slots = resources.store, resources.settings.worker_slots
    waiting, active = await turns.waiting(store, at=now), await turns.running(store)
    lasts = await _durations(resources, [*waiting, *active] if len(waiting) + len(active) > 1 else [])
    running = [_running(export, lasts(export), now) for export in active]
    room = _room(resources, Counter(export.dataset for export in running))
    served = await turns.served(store) if len({export.owner for export in waiting}) > 1 else {}
    order = in_order(waiting, running, served, room, now=now)
    most = resources.settings.max_running_per_user
    is_paused = await pauses.get(store, Queue.EXPORTS) is not None
    begin = {} if is_paused else dict(starts(order, running, room, lasts, slots=slots, most=most))
    told: list[Place | None] = []
    for export in found:
        place = position(export.id, order, slots=slots) if _waits(export, now) else None
        wait = begin.get(export.id)
        starts_at = (now + timedelta(seconds=wait)).replace(microsecond=0) if wait else None
        told.append(None if place is None else Place(place, starts_at, is_paused))
    return told


def _waits(export: Export, now: datetime) -> bool:
    return export.status is Status.QUEUED and (export.retry_at is None or export.retry_at <= now)


def _running(export: Export, lasts: float, now: datetime) -> Running:
    left: float | None = eta_seconds(export, now)
    if left is None:
        begun = export.started_at or now
        left = max(0.0, lasts - (now - begun).total_seconds())
    return Running(export.owner, export.dataset, export.lane is Lane.SMALL, left)


async def _durations(resources: Resources, asked: Sequence[Waiting | Export]) -> Callable[[Waiting | Export], float]:
    """How many seconds each takes, by past runs of its dataset in its format and of its size; infinite when unknown."""
    means: dict[tuple[str, str, Lane | None], float] = {}
    for dataset, format in {(export.dataset, export.format) for export in asked}:
        past = await past_runs.durations(resources.store, dataset, format, limit=limits.PAST_RUNS)
        for lane in (None, *Lane):
            alike = [seconds for seconds, rows in past if lane is None or lane_of(rows) is lane]
            means[dataset, format, lane] = fmean(alike) if alike else math.inf
    return lambda export: means.get((export.dataset, export.format, export.lane), math.inf)


async def size_up_next(resources: Resources) -> bool:
    """Finds out how large an export is that has to wait. False when all that wait are known."""
    async with resources.store.connection():
        export = await turns.unsized(resources.store, at=await resources.store.now())
    if export is None:
        return False
    lane = lane_of(await _rows_of(resources, export))
    async with resources.store.transaction():
        await turns.set_lane(resources.store, export.id, lane)
    log.info("%s: waits among the %s ones", export.id, lane.value)
    return True


async def _rows_of(resources: Resources, export: Export) -> int | None:
    """As many as the last time, or else as the source counts or guesses now. None when that takes too long."""
    async with resources.store.connection():
        before = await past_runs.rows_of(resources.store, export)
    dataset = resources.catalog.datasets.get(export.dataset)
    if before is not None or dataset is None:
        return before
    try:
        expected = await expected_rows(resources, dataset, export.params)
    except (AttemptFailed, NotFound):
        return None
    return None if expected is None else expected.count
