"""Work that does not move: what the sweep should have mended, orders left waiting, deliveries overdue."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import func, select

from webapp.actions import queues
from webapp.actions.turns import next_export
from webapp.commands.unwell import Unwell
from webapp.domain import limits
from webapp.domain.exports import Status
from webapp.resources import Resources, open_resources
from webapp.settings import Settings
from webapp.store import leases, turns
from webapp.store.tables import exports
from webapp.web.words import counted

OVERDUE_AFTER = timedelta(hours=1)
SLACK = 30.0
"""Seconds beyond the sweep's own thresholds before work counts as stuck: the sweep has had its chance."""
THRESHOLDS = (
    (Status.PENDING, "created_at", limits.PENDING_STUCK_AFTER, "not queued"),
    (Status.PROCESSING, "heartbeat_at", limits.HEARTBEAT_LOST_AFTER, "running without a heartbeat"),
)
"""Status, what it is counted from, after how many seconds the sweep steps in, and how it is told."""
Stuck = tuple[str, str]
"""What is stuck, and the mend."""


async def stuck_work(settings: Settings) -> str:
    """What should have moved on, by the database's clock."""
    async with open_resources(settings) as resources, resources.store.connection():
        now = await resources.store.now()
        paused = await queues.paused(resources)
        stuck = [found for find in STUCK if (found := await find(resources, now))]
    if stuck:
        raise Unwell("; ".join(problem for problem, _ in stuck), "; ".join(dict.fromkeys(mend for _, mend in stuck)))
    return "nothing is stuck" + (f"; {' and '.join(paused)} are paused, on the monitor page" if paused else "")


async def _unmended(resources: Resources, now: datetime) -> Stuck | None:
    """What the sweep has had its chance to mend."""
    found: list[str] = []
    for status, column, seconds, words in THRESHOLDS:
        since = now - timedelta(seconds=seconds + SLACK)
        query = select(func.count()).where(exports.c.status == status.value, exports.c[column] < since)
        if count := await resources.store.fetch_val(query):
            found.append(f"{counted(count, 'export')} {words}")
    return (", ".join(found), "the sweep mends it: exportdesk worker callbacks") if found else None


async def _left_waiting(resources: Resources, now: datetime) -> Stuck | None:
    """Orders whose turn it is while slots are free. Those that wait for their person's or dataset's limit are not."""
    running = await turns.running(resources.store)
    late = {one.id for one in await turns.waiting(resources.store, at=now) if now - one.queued_at > OVERDUE_AFTER}
    if not late or len(running) >= resources.settings.worker_slots:
        return None
    first = await next_export(resources)
    if first is None or first.id not in late:
        return None
    problem = f"{counted(len(late), 'order')} waiting for over an hour while slots are free"
    return problem, "a worker takes them: exportdesk worker exports"


async def _overdue_deliveries(resources: Resources, now: datetime) -> Stuck | None:
    count = await leases.count_owed(resources.store, now, due_before=now - OVERDUE_AFTER)
    problem = f"{counted(count, 'delivery', 'deliveries')} overdue by more than an hour"
    mend = "exportdesk worker callbacks sends them; where it runs, raise the rate of their endpoints"
    return (problem, mend) if count else None


STUCK = (_unmended, _left_waiting, _overdue_deliveries)
