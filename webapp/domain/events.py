"""Events: facts about an export, committed with the change itself, the same on every channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Export, Status, eta_seconds, progress
from webapp.domain.turns import Place

EVENT_TYPES = (
    "export.created",
    "export.queued",
    "export.started",
    "export.succeeded",
    "export.failed",
    "export.timed_out",
    "export.expired",
    "export.cancelled",
)

TERMINAL_TYPES = ("export.succeeded", "export.failed", "export.timed_out", "export.cancelled")
"""Ends of an export, which nobody who waits for it may miss."""

_TYPE_OF: Mapping[Status, str] = {
    Status.PENDING: "export.created",
    Status.QUEUED: "export.queued",
    Status.PROCESSING: "export.started",
    Status.SUCCESS: "export.succeeded",
    Status.FAILED: "export.failed",
    Status.CANCELLED: "export.cancelled",
}


@dataclass(frozen=True, slots=True)
class Event:
    """`seq` is drawn from a sequence: later events have larger numbers, but may commit out of that order."""

    id: str
    seq: int
    type: str
    export_id: str
    owner: str
    version: int
    timestamp: datetime
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlertEvent:
    """A fact about an alert, for callbacks alone. Its number orders it among the events of exports."""

    id: str
    type: str
    timestamp: datetime
    data: Mapping[str, Any]


def event_type(export: Export) -> str:
    """The event that reports this export's latest status change."""
    if export.status is Status.EXPIRED:
        timed_out = export.error is not None and export.error.code is ErrorCode.TIMEOUT
        return "export.timed_out" if timed_out else "export.expired"
    return _TYPE_OF[export.status]


def rfc3339(moment: datetime | None) -> str | None:
    """UTC with milliseconds and a Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def snapshot(
    export: Export, *, base_url: str, now: datetime | None = None, place: Place | None = None
) -> dict[str, Any]:
    """The export as JSON, field for field as the API documents it."""
    return {
        "id": export.id,
        "dataset": export.dataset,
        "params": dict(export.params),
        "format": export.format,
        "options": dict(export.options),
        "name": export.name,
        "note": export.note,
        "status": export.status.value,
        "version": export.version,
        "attempt": export.attempt,
        "progress": progress(export),
        "phase": export.phase.value if export.phase else None,
        "rows_done": export.rows_done,
        "rows_total": export.rows_total,
        "bytes": export.bytes,
        "eta_seconds": eta_seconds(export, now) if now else None,
        "queue_position": place.position if place else None,
        "expected_start_at": rfc3339(place.starts_at) if place else None,
        "queue_paused": place.is_paused if place else None,
        "created_at": rfc3339(export.created_at),
        "queued_at": rfc3339(export.queued_at),
        "started_at": rfc3339(export.started_at),
        "completed_at": rfc3339(export.completed_at),
        "expired_at": rfc3339(export.expired_at),
        "cancelled_at": rfc3339(export.cancelled_at),
        "retry_at": rfc3339(export.retry_at),
        "file": _file(export, base_url),
        "error": _error(export),
        "warnings": [{"code": w.code, "message": w.message, "count": w.count} for w in export.warnings],
        "owner": export.owner,
    }


def _file(export: Export, base_url: str) -> dict[str, Any] | None:
    file = export.file
    if file is None:
        return None
    return {
        "name": file.name,
        "size": file.size,
        "rows": file.rows,
        "sha256": file.sha256,
        "content_type": file.content_type,
        "expires_at": rfc3339(file.expires_at),
        "download_url": f"{base_url}/api/v1/exports/{export.id}/file",
    }


def _error(export: Export) -> dict[str, Any] | None:
    error = export.error
    if error is None:
        return None
    return {"code": error.code.value, "message": error.message, "retriable": error.retriable}


def event_json(event: Event) -> dict[str, Any]:
    """The event as every channel sends it."""
    return {
        "id": event.id,
        "seq": event.seq,
        "type": event.type,
        "export_id": event.export_id,
        "version": event.version,
        "timestamp": rfc3339(event.timestamp),
        "data": dict(event.data),
    }
