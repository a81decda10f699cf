"""When a saved order is ordered by itself, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from webapp.domain.events import rfc3339
from webapp.domain.exports import Status


class RunOutcome(StrEnum):
    """Of the newest run. ORDERED until its export has ended; WAITING while the person has too many exports."""

    ORDERED = "ordered"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DELETED = "deleted"


class StopReason(StrEnum):
    """Why a schedule has stopped by itself."""

    DATASET = "dataset"
    UNFIT = "unfit"
    FAILURES = "failures"


ENDS: dict[Status, RunOutcome] = {
    Status.SUCCESS: RunOutcome.SUCCEEDED,
    Status.FAILED: RunOutcome.FAILED,
    Status.EXPIRED: RunOutcome.FAILED,
    Status.CANCELLED: RunOutcome.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """`next_at` is when the next run is due, or was, when it was missed; None while paused or stopped. A run that must
    wait is tried again at `retry_at`. `failures` are runs in a row that failed."""

    saved_order_id: str
    cron: str
    zone: str
    next_at: datetime | None
    created_at: datetime
    updated_at: datetime
    retry_at: datetime | None = None
    paused_at: datetime | None = None
    stopped_at: datetime | None = None
    stop: StopReason | None = None
    failures: int = 0
    due_at: datetime | None = None
    export_id: str | None = None
    outcome: RunOutcome | None = None


def schedule_json(schedule: Schedule, following: Sequence[datetime]) -> dict[str, Any]:
    """`following` are the next dates."""
    return {
        "cron": schedule.cron,
        "zone": schedule.zone,
        "next": [rfc3339(moment) for moment in following],
        "paused_at": rfc3339(schedule.paused_at),
        "stopped_at": rfc3339(schedule.stopped_at),
        "stopped_reason": schedule.stop.value if schedule.stop else None,
        "failures": schedule.failures,
        "last_due_at": rfc3339(schedule.due_at),
        "last_export_id": schedule.export_id,
        "last_outcome": schedule.outcome.value if schedule.outcome else None,
        "created_at": rfc3339(schedule.created_at),
        "updated_at": rfc3339(schedule.updated_at),
    }
