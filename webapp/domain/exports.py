"""An export, its status machine and what may be said about its progress. Pure: no clock, no I/O."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from webapp.domain import limits
from webapp.domain.errors import ErrorCode, ExportError


class Status(StrEnum):
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    PROCESSING = "PROCESSING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


ACTIVE = frozenset({Status.PENDING, Status.QUEUED, Status.PROCESSING})

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.QUEUED, Status.CANCELLED}),
    Status.QUEUED: frozenset({Status.PROCESSING, Status.CANCELLED}),
    Status.PROCESSING: frozenset({Status.SUCCESS, Status.FAILED, Status.EXPIRED, Status.CANCELLED}),
    Status.SUCCESS: frozenset({Status.EXPIRED}),
    Status.FAILED: frozenset({Status.QUEUED}),
    Status.EXPIRED: frozenset({Status.QUEUED}),
    Status.CANCELLED: frozenset(),
}

STAGE_TIME: Mapping[Status, str] = {
    Status.PENDING: "created_at",
    Status.QUEUED: "queued_at",
    Status.PROCESSING: "started_at",
    Status.SUCCESS: "completed_at",
    Status.FAILED: "completed_at",
    Status.EXPIRED: "expired_at",
    Status.CANCELLED: "cancelled_at",
}


class Lane(StrEnum):
    """How large an export is expected to be, which decides which slots it may have."""

    SMALL = "small"
    LARGE = "large"


def lane_of(rows: int | None) -> Lane:
    """What nobody can tell in time is not small."""
    return Lane.SMALL if rows is not None and rows <= limits.SMALL_ROWS else Lane.LARGE


class Phase(StrEnum):
    COUNTING = "counting"
    READING = "reading"
    WRITING = "writing"
    UPLOADING = "uploading"


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A finished file. `key` names it in the storage and is never shown."""

    key: str
    name: str
    size: int
    rows: int
    sha256: str
    content_type: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class FormatWarning:
    """Something the format could not hold as it was; `count` cells or columns are concerned."""

    code: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class Export:
    """`labels` are what chosen values were called when they were ordered, by parameter and value.

    `lane` is None until it had to wait, and somebody found out. `name` and `note` may be changed at any time: they are
    in no version.
    """

    id: str
    owner: str
    dataset: str
    params: Mapping[str, Any]
    format: str
    options: Mapping[str, Any]
    order_key: str
    status: Status
    version: int
    created_at: datetime
    attempt: int = 0
    failures: int = 0
    phase: Phase | None = None
    rows_done: int = 0
    rows_total: int | None = None
    bytes: int = 0
    queued_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    expired_at: datetime | None = None
    cancelled_at: datetime | None = None
    heartbeat_at: datetime | None = None
    retry_at: datetime | None = None
    file: ExportFile | None = None
    error: ExportError | None = None
    warnings: tuple[FormatWarning, ...] = field(default=())
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    lane: Lane | None = None
    name: str = ""
    note: str = ""

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def can_cancel(self) -> bool:
        return Status.CANCELLED in TRANSITIONS[self.status]

    @property
    def can_retry(self) -> bool:
        return may_move(self, Status.QUEUED) and not self.is_active

    @property
    def can_download(self) -> bool:
        return self.status is Status.SUCCESS and self.file is not None


class IllegalTransition(Exception):
    """The export's status does not allow this."""

    def __init__(self, current: Status, to: Status) -> None:
        super().__init__(f"An export that is {current} cannot become {to}.")
        self.current = current
        self.to = to


def may_move(export: Export, to: Status) -> bool:
    """The table, plus its one condition: only a timed-out export may be queued again, not one whose file aged out."""
    if export.status is Status.EXPIRED and to is Status.QUEUED:
        return export.error is not None and export.error.code is ErrorCode.TIMEOUT
    return to in TRANSITIONS[export.status]


def move(export: Export, to: Status, *, at: datetime, **changes: Any) -> Export:
    """The same export in its next status, one version on, with the stage's time set."""
    if not may_move(export, to):
        raise IllegalTransition(export.status, to)
    return replace(export, status=to, version=export.version + 1, **{STAGE_TIME[to]: at}, **changes)


def queue(export: Export, *, at: datetime) -> Export:
    return move(export, Status.QUEUED, at=at)


def start(export: Export, *, at: datetime) -> Export:
    """A new attempt with clean progress; its number is the fencing token of every write that follows."""
    return move(
        export,
        Status.PROCESSING,
        at=at,
        attempt=export.attempt + 1,
        phase=None,
        rows_done=0,
        rows_total=None,
        bytes=0,
        heartbeat_at=at,
        retry_at=None,
        error=None,
        warnings=(),
    )


def succeed(export: Export, file: ExportFile, warnings: tuple[FormatWarning, ...], *, at: datetime) -> Export:
    return move(
        export,
        Status.SUCCESS,
        at=at,
        file=file,
        warnings=warnings,
        rows_done=file.rows,
        rows_total=file.rows,
        bytes=file.size,
        phase=None,
    )


def fail(export: Export, error: ExportError, *, at: datetime) -> Export:
    return move(export, Status.FAILED, at=at, error=error, failures=export.failures + 1, phase=None)


def time_out(export: Export, error: ExportError, *, at: datetime) -> Export:
    return move(export, Status.EXPIRED, at=at, error=error, phase=None)


def expire(export: Export, error: ExportError, *, at: datetime) -> Export:
    """The file is gone, by its retention or from the storage. The file's description goes with the file."""
    return move(export, Status.EXPIRED, at=at, error=error, file=None)


def cancel(export: Export, *, at: datetime) -> Export:
    """The error of a try before, which was the reason to wait, is not why it ended."""
    return move(export, Status.CANCELLED, at=at, phase=None, retry_at=None, error=None)


def retry_by_hand(export: Export, *, at: datetime) -> Export:
    return move(export, Status.QUEUED, at=at, failures=0, error=None, **_UNFINISHED)


def retry_by_policy(export: Export, *, at: datetime, wait: float) -> Export:
    """Back to the queue, to be started no earlier than `wait` seconds from now. The error stays, as the reason."""
    return move(export, Status.QUEUED, at=at, retry_at=at + timedelta(seconds=wait), **_UNFINISHED)


_UNFINISHED: Mapping[str, Any] = {
    "started_at": None,
    "completed_at": None,
    "expired_at": None,
    "rows_done": 0,
    "rows_total": None,
    "bytes": 0,
    "heartbeat_at": None,
}


def should_retry(export: Export, *, max_attempts: int) -> bool:
    """Whether a failed export goes back by itself: only for errors that may pass, and only so often."""
    error = export.error
    return export.status is Status.FAILED and error is not None and error.retriable and export.failures < max_attempts


def retry_wait(failures: int, rng: random.Random) -> float:
    """Seconds before the next try: 10, then 60, each ± 20 %."""
    wait = limits.RETRY_WAITS[min(failures, len(limits.RETRY_WAITS)) - 1]
    return wait * rng.uniform(1 - limits.RETRY_JITTER, 1 + limits.RETRY_JITTER)


def progress(export: Export) -> int | None:
    """Percent, 0–100, or None when the total is not known. 100 only when the file can be downloaded."""
    match export.status:
        case Status.SUCCESS:
            return 100
        case Status.PENDING | Status.QUEUED:
            return 0
        case Status.EXPIRED if export.error is not None and export.error.code is not ErrorCode.TIMEOUT:
            return None
        case _:
            if not export.rows_total:
                return None
            return min(99, export.rows_done * 100 // export.rows_total)


def rate(export: Export, now: datetime) -> float | None:
    """Rows per second of the running or finished attempt."""
    if export.started_at is None or not export.rows_done:
        return None
    seconds = ((export.completed_at or now) - export.started_at).total_seconds()
    return export.rows_done / seconds if seconds > 0 else None


def eta_seconds(export: Export, now: datetime) -> int | None:
    """Whole seconds until the last row at the present rate, or None when nothing can be said."""
    speed = rate(export, now)
    if export.status is not Status.PROCESSING or speed is None or export.rows_total is None:
        return None
    if export.phase is Phase.UPLOADING:
        return None
    return max(0, round((export.rows_total - export.rows_done) / speed))
