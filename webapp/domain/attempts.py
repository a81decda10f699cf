"""One try at executing an export, as it is remembered. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from webapp.domain.errors import ExportError
from webapp.domain.events import rfc3339
from webapp.domain.exports import Export, Status


class Outcome(StrEnum):
    """`handed_back`: its worker was stopped on purpose, and it is not held against the export."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    HANDED_BACK = "handed_back"


_OUTCOMES = {
    Status.SUCCESS: Outcome.SUCCEEDED,
    Status.FAILED: Outcome.FAILED,
    Status.EXPIRED: Outcome.TIMED_OUT,
    Status.CANCELLED: Outcome.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """`rows`: how many it had read, as far as was told. None, like the other ends, while it runs."""

    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    error: ExportError | None = None
    rows: int | None = None


def outcome(steps: Sequence[Export]) -> Outcome:
    """Of an attempt that ended with the first of these versions, which are written together."""
    ended, *after = steps
    if after and after[0].failures < ended.failures:
        return Outcome.HANDED_BACK
    return _OUTCOMES[ended.status]


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    error = attempt.error
    return {
        "number": attempt.number,
        "started_at": rfc3339(attempt.started_at),
        "ended_at": rfc3339(attempt.ended_at),
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "error": {"code": error.code.value, "message": error.message, "retriable": error.retriable} if error else None,
        "rows": attempt.rows,
        "worker": attempt.worker,
    }
