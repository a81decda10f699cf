"""Rows of `attempts`: written in the transaction of the status change that begins or ends one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

import msgspec

from webapp.domain.attempts import Attempt, Outcome
from webapp.domain.errors import ErrorCode, ExportError
from webapp.domain.exports import Export
from webapp.store.database import Store
from webapp.store.types import from_milliseconds, to_milliseconds


async def begin(store: Store, export: Export, *, worker: str, at: datetime) -> None:
    await store.plain(
        "INSERT INTO attempts (export_id, number, worker, started_at) VALUES (:export_id, :number, :worker, :at)",
        export_id=export.id,
        number=export.attempt,
        worker=worker,
        at=to_milliseconds(at),
    )


async def end(store: Store, export: Export, outcome: Outcome, *, at: datetime) -> None:
    await store.plain(
        "UPDATE attempts SET ended_at = :at, outcome = :outcome, error = :error, rows = :rows "
        "WHERE export_id = :export_id AND number = :number",
        at=to_milliseconds(at),
        outcome=outcome.value,
        error=msgspec.json.encode(asdict(export.error)).decode() if export.error else None,
        rows=export.rows_done,
        export_id=export.id,
        number=export.attempt,
    )


async def of_export(store: Store, export_id: str, *, limit: int) -> Sequence[Attempt]:
    """The latest, oldest first."""
    rows = await store.plain(
        "SELECT number, worker, started_at, ended_at, outcome, error, rows FROM attempts "
        "WHERE export_id = :export_id ORDER BY number DESC LIMIT :most",
        export_id=export_id,
        most=limit,
    )
    return [
        Attempt(
            number=number,
            worker=worker,
            started_at=from_milliseconds(started_at),
            ended_at=None if ended_at is None else from_milliseconds(ended_at),
            outcome=Outcome(outcome) if outcome else None,
            error=_error(error) if error else None,
            rows=count,
        )
        for number, worker, started_at, ended_at, outcome, error, count in reversed(rows)
    ]


def _error(text: str) -> ExportError:
    fields = msgspec.json.decode(text)
    return ExportError(ErrorCode(fields["code"]), fields["message"], fields["retriable"])
