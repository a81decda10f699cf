"""Rows of `exports`: read, insert, and the one compare-and-set that every change goes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    Tuple,
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    type_coerce,
    update,
)

from webapp.domain.errors import ErrorCode, ExportError
from webapp.domain.exports import ACTIVE, Export, ExportFile, FormatWarning, Lane, Phase, Status
from webapp.store.database import Store
from webapp.store.tables import exports
from webapp.store.types import Milliseconds, from_milliseconds, to_milliseconds

SEARCH_LENGTH = 1000
"""Characters of a search that count; SQLite refuses a LIKE pattern of more than 50,000 bytes."""

_ACTIVE = [status.value for status in ACTIVE]


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What a list shows. `owner` None means everybody's (admins only); `text` matches id, dataset, parameters
    and what their choices were called."""

    owner: str | None = None
    statuses: tuple[Status, ...] = ()
    dataset: str | None = None
    format: str | None = None
    since: datetime | None = None
    text: str | None = None


def to_row(export: Export) -> dict[str, Any]:
    file = export.file
    return {
        "id": export.id,
        "owner": export.owner,
        "dataset": export.dataset,
        "params": dict(export.params),
        "labels": dict(export.labels) or None,
        "lane": export.lane.value if export.lane else None,
        "format": export.format,
        "options": dict(export.options),
        "order_key": export.order_key,
        "active_key": export.order_key if export.is_active else None,
        "status": export.status.value,
        "version": export.version,
        "attempt": export.attempt,
        "failures": export.failures,
        "phase": export.phase.value if export.phase else None,
        "rows_done": export.rows_done,
        "rows_total": export.rows_total,
        "bytes": export.bytes,
        "created_at": export.created_at,
        "queued_at": export.queued_at,
        "started_at": export.started_at,
        "completed_at": export.completed_at,
        "expired_at": export.expired_at,
        "cancelled_at": export.cancelled_at,
        "heartbeat_at": export.heartbeat_at,
        "retry_at": export.retry_at,
        "file_expires_at": file.expires_at if file else None,
        "file": {**asdict(file), "expires_at": to_milliseconds(file.expires_at)} if file else None,
        "error": asdict(export.error) if export.error else None,
        "warnings": [asdict(warning) for warning in export.warnings],
    }


def from_row(row: Mapping[str, Any]) -> Export:
    file, error = row["file"], row["error"]
    return Export(
        id=row["id"],
        owner=row["owner"],
        dataset=row["dataset"],
        params=row["params"],
        labels=row["labels"] or {},
        lane=Lane(row["lane"]) if row["lane"] else None,
        format=row["format"],
        options=row["options"],
        order_key=row["order_key"],
        status=Status(row["status"]),
        version=row["version"],
        attempt=row["attempt"],
        failures=row["failures"],
        phase=Phase(row["phase"]) if row["phase"] else None,
        rows_done=row["rows_done"],
        rows_total=row["rows_total"],
        bytes=row["bytes"],
        created_at=row["created_at"],
        queued_at=row["queued_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        expired_at=row["expired_at"],
        cancelled_at=row["cancelled_at"],
        heartbeat_at=row["heartbeat_at"],
        retry_at=row["retry_at"],
        file=_file(file) if file else None,
        error=ExportError(ErrorCode(error["code"]), error["message"], error["retriable"]) if error else None,
        warnings=tuple(FormatWarning(**warning) for warning in row["warnings"]),
    )


def _file(row: Mapping[str, Any]) -> ExportFile:
    fields: dict[str, Any] = {**row, "expires_at": from_milliseconds(row["expires_at"])}
    return ExportFile(**fields)


async def insert(store: Store, export: Export) -> bool:
    """False when the same order is active already: the unique constraint on `active_key` decides, not a look-up."""
    query = store.insert_new(exports).values(**to_row(export)).returning(exports.c.id)
    return await store.fetch_one(query) is not None


async def get(store: Store, export_id: str) -> Export | None:
    row = await store.fetch_one(select(exports).where(exports.c.id == export_id))
    return from_row(row) if row else None


async def get_active_by_order(store: Store, order_key: str) -> Export | None:
    row = await store.fetch_one(select(exports).where(exports.c.active_key == order_key))
    return from_row(row) if row else None


async def compare_and_set(store: Store, before: Export, after: Export) -> bool:
    """Writes `after` if the row still has the version and attempt of `before`. False: somebody else was first."""
    values = to_row(after)
    del values["id"]
    query = (
        update(exports)
        .where(
            exports.c.id == before.id,
            exports.c.version == before.version,
            exports.c.attempt == before.attempt,
        )
        .values(**values)
        .returning(exports.c.id)
    )
    return await store.fetch_one(query) is not None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt is. Rows and bytes only ever grow within an attempt."""

    phase: Phase
    rows_done: int
    rows_total: int | None
    bytes: int


async def write_progress(store: Store, export_id: str, attempt: int, progress: Progress, *, at: datetime) -> bool:
    """Heartbeat and progress in one write, without an event. False: this attempt is no longer the running one.

    A report that was overtaken by a later one does not take rows or bytes back.
    """
    query = (
        update(exports)
        .where(
            exports.c.id == export_id,
            exports.c.attempt == attempt,
            exports.c.status == Status.PROCESSING.value,
        )
        .values(
            phase=progress.phase.value,
            rows_done=_larger(exports.c.rows_done, progress.rows_done),
            rows_total=progress.rows_total,
            bytes=_larger(exports.c.bytes, progress.bytes),
            heartbeat_at=at,
        )
        .returning(exports.c.id)
    )
    return await store.fetch_one(query) is not None


def _larger(column: ColumnElement[int], value: int) -> ColumnElement[int]:
    """What SQLite calls max and PostgreSQL greatest."""
    return case((column > value, column), else_=value)


async def remove(store: Store, before: Export) -> bool:
    query = (
        delete(exports).where(exports.c.id == before.id, exports.c.version == before.version).returning(exports.c.id)
    )
    return await store.fetch_one(query) is not None


async def count_active(store: Store, owner: str) -> int:
    query = select(func.count()).where(exports.c.owner == owner, exports.c.status.in_(_ACTIVE))
    return int(await store.fetch_val(query))


async def list_page(
    store: Store, chosen: ListFilter, *, limit: int, after: tuple[datetime, str] | None
) -> Sequence[Export]:
    """Newest first, keyset-paged: `after` is the (created_at, id) of the last item seen."""
    query = _filtered(chosen).order_by(exports.c.created_at.desc(), exports.c.id.desc()).limit(limit)
    if after is not None:
        query = query.where(_key() < _key_of(*after))
    return [from_row(row) for row in await store.fetch_all(query)]


async def any_of(store: Store, ids: Sequence[str]) -> Sequence[Export]:
    rows = await store.fetch_all(select(exports).where(exports.c.id.in_(list(ids))))
    return [from_row(row) for row in rows]


async def exists_any(store: Store, owner: str) -> bool:
    return bool(await store.fetch_val(select(exists().where(exports.c.owner == owner))))


async def stuck_pending(store: Store, *, created_before: datetime, limit: int) -> Sequence[Export]:
    return await _by_status(store, Status.PENDING, exports.c.created_at < created_before, limit)


async def waiting(store: Store, *, queued_before: datetime, due: datetime, limit: int) -> Sequence[Export]:
    """QUEUED for a while and allowed to start."""
    condition = and_(exports.c.queued_at < queued_before, or_(exports.c.retry_at.is_(None), exports.c.retry_at <= due))
    return await _by_status(store, Status.QUEUED, condition, limit)


async def without_heartbeat(store: Store, *, since: datetime, limit: int) -> Sequence[Export]:
    return await _by_status(store, Status.PROCESSING, exports.c.heartbeat_at < since, limit)


async def started_before(store: Store, moment: datetime, *, limit: int) -> Sequence[Export]:
    return await _by_status(store, Status.PROCESSING, exports.c.started_at < moment, limit)


async def past_retention(store: Store, *, now: datetime, limit: int) -> Sequence[Export]:
    return await _by_status(store, Status.SUCCESS, exports.c.file_expires_at <= now, limit)


async def finished(store: Store, *, after: tuple[datetime, str] | None, limit: int) -> Sequence[Export]:
    """SUCCESS, oldest first, keyset-paged: `after` is the (created_at, id) of the last one seen."""
    query = select(exports).where(exports.c.status == Status.SUCCESS.value)
    if after is not None:
        query = query.where(_key() > _key_of(*after))
    rows = await store.fetch_all(query.order_by(exports.c.created_at, exports.c.id).limit(limit))
    return [from_row(row) for row in rows]


async def _by_status(store: Store, status: Status, condition: Any, limit: int) -> Sequence[Export]:
    query = select(exports).where(exports.c.status == status.value, condition).limit(limit)
    return [from_row(row) for row in await store.fetch_all(query)]


def _filtered(chosen: ListFilter) -> Select[Any]:
    query = select(exports)
    if chosen.owner is not None:
        query = query.where(exports.c.owner == chosen.owner)
    if chosen.statuses:
        query = query.where(exports.c.status.in_([status.value for status in chosen.statuses]))
    if chosen.dataset is not None:
        query = query.where(exports.c.dataset == chosen.dataset)
    if chosen.format is not None:
        query = query.where(exports.c.format == chosen.format)
    if chosen.since is not None:
        query = query.where(exports.c.created_at >= chosen.since)
    if chosen.text:
        labels = func.coalesce(type_coerce(exports.c.labels, Text), "")
        searched = exports.c.id + " " + exports.c.dataset + " " + type_coerce(exports.c.params, Text) + " " + labels
        as_written = searched.like(_pattern(chosen.text), escape="/")
        in_any_case = func.lower(searched).like(_pattern(chosen.text.lower()), escape="/")
        query = query.where(or_(as_written, in_any_case))
    return query


def _key() -> Tuple:
    """What pages of exports are ordered by."""
    return tuple_(exports.c.created_at, exports.c.id)


def _key_of(created_at: datetime, export_id: str) -> Tuple:
    return tuple_(literal(created_at, Milliseconds), literal(export_id, Text))


def _pattern(text: str) -> str:
    """For LIKE, made here and bound: `databases` trips over a literal percent sign in a statement.

    Written as in the JSON of the parameters: a quote, a backslash or a NUL stands there escaped.
    """
    written = msgspec.json.encode(text[:SEARCH_LENGTH]).decode()[1:-1]
    escaped = written.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return f"%{escaped}%"
