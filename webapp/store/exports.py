"""Rows of `exports`: read, insert, and the one compare-and-set that every change goes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
    distinct,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    type_coerce,
    union_all,
    update,
)

from webapp.domain.annotations import Annotation
from webapp.domain.errors import ErrorCode, ExportError
from webapp.domain.exports import ACTIVE, Export, ExportFile, FormatWarning, Lane, Phase, Status
from webapp.store.database import Store
from webapp.store.search import SEARCH_LENGTH, says
from webapp.store.tables import export_shares, exports
from webapp.store.types import Milliseconds, from_milliseconds, to_milliseconds

SEARCHED_AT_ONCE = 500
"""Exports that one page of a search looks through: it takes about as long however many there are."""

Key = tuple[datetime, str]
"""`created_at` and id, by which pages of exports are ordered."""

_ACTIVE = [status.value for status in ACTIVE]


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What a list shows. `owner` None means everybody's (admins only); `text` matches id, dataset, parameters
    and what their choices were called, name and note."""

    owner: str | None = None
    statuses: tuple[Status, ...] = ()
    dataset: str | None = None
    format: str | None = None
    since: datetime | None = None
    text: str | None = None
    without: frozenset[str] = frozenset()
    """Datasets that are left out."""
    shared_with: str | None = None
    """The id of a person: what is shared with them, as long as it has its file."""


def to_row(export: Export) -> dict[str, Any]:
    file = export.file
    return {
        "id": export.id,
        "owner": export.owner,
        "dataset": export.dataset,
        "params": dict(export.params),
        "labels": dict(export.labels) or None,
        "lane": export.lane.value if export.lane else None,
        "name": export.name or None,
        "note": export.note or None,
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
        name=row["name"] or "",
        note=row["note"] or "",
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
    """Writes `after` if the row still has the version and attempt of `before`. False: somebody else was first.

    What the export is called is left as it is: it may have changed without a new version.
    """
    values = {name: value for name, value in to_row(after).items() if name not in {"id", "name", "note"}}
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


async def annotate(store: Store, export_id: str, annotation: Annotation) -> Export | None:
    """The export with its new name and note, or None when there is no such export."""
    query = (
        update(exports)
        .where(exports.c.id == export_id)
        .values(name=annotation.name or None, note=annotation.note or None)
        .returning(*exports.c)
    )
    row = await store.fetch_one(query)
    return from_row(row) if row else None


async def write_progress(
    store: Store, export_id: str, attempt: int, progress: Progress, *, at: datetime
) -> Annotation | None:
    """Heartbeat and progress in one write, without an event; gives what the export is called now. None: this attempt
    is no longer the running one.

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
        .returning(exports.c.name, exports.c.note)
    )
    row = await store.fetch_one(query)
    return Annotation(row["name"] or "", row["note"] or "") if row else None


def _larger(column: ColumnElement[int], value: int) -> ColumnElement[int]:
    """What SQLite calls max and PostgreSQL greatest."""
    return case((column > value, column), else_=value)


async def remove(store: Store, before: Export) -> bool:
    query = (
        delete(exports).where(exports.c.id == before.id, exports.c.version == before.version).returning(exports.c.id)
    )
    return await store.fetch_one(query) is not None


async def keep(store: Store, export_id: str) -> None:
    """Nobody deletes it until the transaction ends."""
    await store.fetch_one(
        select(exports.c.id).where(exports.c.id == export_id).with_for_update(read=True, key_share=True)
    )


async def count_active(store: Store, owner: str) -> int:
    query = select(func.count()).where(exports.c.owner == owner, exports.c.status.in_(_ACTIVE))
    return int(await store.fetch_val(query))


async def count_active_of(store: Store, dataset: str) -> int:
    query = select(func.count()).where(exports.c.dataset == dataset, exports.c.status.in_(_ACTIVE))
    return int(await store.fetch_val(query))


async def list_page(
    store: Store, chosen: ListFilter, *, limit: int, after: Key | None, down_to: Key | None = None
) -> Sequence[Export]:
    """Newest first, keyset-paged: `after` is the key of the last item seen, `down_to` of the last to look at."""
    pages = [_page(store, one, limit, after) for one in _by_one_status(chosen)]
    if down_to is not None:
        pages = [page.where(_key() >= _key_of(*down_to)) for page in pages]
    return [from_row(row) for row in await store.fetch_all(_newest(pages, limit))]


async def search_end(store: Store, chosen: ListFilter, *, after: Key | None) -> Key | None:
    """The last of the `SEARCHED_AT_ONCE` exports after `after` among which a page of the search looks for its text.
    None when there are none after it."""
    size = SEARCHED_AT_ONCE + 1
    pages = [_page(store, one, size, after) for one in _by_one_status(_in_one_index(chosen))]
    keys = _newest([page.with_only_columns(exports.c.created_at, exports.c.id) for page in pages], size)
    rows = await store.fetch_all(keys.limit(2).offset(SEARCHED_AT_ONCE - 1))
    return (rows[0]["created_at"], rows[0]["id"]) if len(rows) == 2 else None


def _in_one_index(chosen: ListFilter) -> ListFilter:
    """Without those filters for which rows themselves would have to be read."""
    wider = replace(chosen, text=None, without=frozenset())
    if chosen.dataset is not None:
        return replace(wider, statuses=(), format=None)
    return replace(wider, format=None) if chosen.statuses else wider


async def find_by_id(store: Store, chosen: ListFilter) -> Export | None:
    """The export whose id is the text that is looked for, if the other filters let it through."""
    query = _filtered(store, replace(chosen, text=None)).where(exports.c.id == chosen.text)
    row = await store.fetch_one(query)
    return from_row(row) if row else None


def _newest(pages: Sequence[Select[*tuple[Any, ...]]], limit: int) -> Select[*tuple[Any, ...]]:
    """Of several statuses the newest of each are asked for: each has an index, all together have none."""
    if len(pages) == 1:
        return pages[0]
    found = union_all(*(select(page.subquery()) for page in pages)).subquery()
    return select(found).order_by(found.c.created_at.desc(), found.c.id.desc()).limit(limit)


def _by_one_status(chosen: ListFilter) -> Sequence[ListFilter]:
    if len(chosen.statuses) < 2:
        return [chosen]
    return [replace(chosen, statuses=(status,)) for status in dict.fromkeys(chosen.statuses)]


def _page(store: Store, chosen: ListFilter, limit: int, after: Key | None) -> Select[Any]:
    query = _filtered(store, chosen).order_by(exports.c.created_at.desc(), exports.c.id.desc()).limit(limit)
    return query if after is None else query.where(_key() < _key_of(*after))


async def any_of(store: Store, ids: Sequence[str]) -> Sequence[Export]:
    rows = await store.fetch_all(select(exports).where(exports.c.id.in_(list(ids))))
    return [from_row(row) for row in rows]


async def count_by_status(store: Store, chosen: ListFilter, *, before: Key) -> Mapping[Status, int]:
    """Of those that match and are older than `before`."""
    found = _filtered(store, chosen).where(_key() < _key_of(*before)).subquery()
    query = select(found.c.status, func.count().label("n")).group_by(found.c.status)
    return {Status(row["status"]): row["n"] for row in await store.fetch_all(query)}


@dataclass(frozen=True, slots=True)
class Retriable:
    """Of one owner: how many exports may be tried again by their status, how many of them timed out, and how many
    different orders they are, without those that are active."""

    exports: int
    timed_out: int
    orders: int


async def retriable(store: Store, chosen: ListFilter, *, before: Key) -> Mapping[str, Retriable]:
    """By owner. An export that expired without having been completed had timed out."""
    may = or_(
        exports.c.status == Status.FAILED.value,
        and_(exports.c.status == Status.EXPIRED.value, exports.c.completed_at.is_(None)),
    )
    found = _filtered(store, chosen).where(may, _key() < _key_of(*before)).subquery()
    other = exports.alias()
    is_free = ~exists().where(other.c.active_key == found.c.order_key)
    query = select(
        found.c.owner,
        func.count().label("exports"),
        func.count(case((found.c.status == Status.EXPIRED.value, found.c.id))).label("timed_out"),
        func.count(distinct(case((is_free, found.c.order_key)))).label("orders"),
    ).group_by(found.c.owner)
    return {
        row["owner"]: Retriable(row["exports"], row["timed_out"], row["orders"]) for row in await store.fetch_all(query)
    }


async def active_by_owner(store: Store) -> Mapping[str, int]:
    query = select(exports.c.owner, func.count().label("n")).where(exports.c.status.in_(_ACTIVE))
    return {row["owner"]: row["n"] for row in await store.fetch_all(query.group_by(exports.c.owner))}


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
    """Found by their time, not by their status, which very many have: SQLite takes no index for an expression."""
    query = select(exports).where(exports.c.file_expires_at <= now, exports.c.status + "" == Status.SUCCESS.value)
    rows = await store.fetch_all(query.order_by(exports.c.file_expires_at).limit(limit))
    return [from_row(row) for row in rows]


async def finished(store: Store, *, after: Key | None, limit: int) -> Sequence[Export]:
    """SUCCESS, oldest first, keyset-paged: `after` is the (created_at, id) of the last one seen."""
    query = select(exports).where(exports.c.status == Status.SUCCESS.value)
    if after is not None:
        query = query.where(_key() > _key_of(*after))
    rows = await store.fetch_all(query.order_by(exports.c.created_at, exports.c.id).limit(limit))
    return [from_row(row) for row in rows]


async def _by_status(store: Store, status: Status, condition: Any, limit: int) -> Sequence[Export]:
    query = select(exports).where(exports.c.status == status.value, condition).limit(limit)
    return [from_row(row) for row in await store.fetch_all(query)]


def _filtered(store: Store, chosen: ListFilter) -> Select[Any]:
    query = select(exports)
    if chosen.owner is not None:
        query = query.where(exports.c.owner == chosen.owner)
    if chosen.shared_with is not None:
        theirs = select(export_shares.c.export_id).where(export_shares.c.user_id == chosen.shared_with)
        query = query.where(exports.c.id.in_(theirs), exports.c.status + "" == Status.SUCCESS.value)
    if chosen.without:
        query = query.where(exports.c.dataset.not_in(sorted(chosen.without)))
    if chosen.statuses:
        query = query.where(exports.c.status.in_([status.value for status in chosen.statuses]))
    if chosen.dataset is not None:
        query = query.where(exports.c.dataset == chosen.dataset)
    if chosen.format is not None:
        query = query.where(exports.c.format == chosen.format)
    if chosen.since is not None:
        query = query.where(exports.c.created_at >= chosen.since)
    if chosen.text:
        query = query.where(_has_text(store, chosen.text[:SEARCH_LENGTH]))
    return query


def _has_text(store: Store, text: str) -> ColumnElement[bool]:
    """In the JSON of parameters and choices a quote, a backslash or a NUL stands escaped; name and note hold no NUL."""
    written = msgspec.json.encode(text).decode()[1:-1]
    labels = func.coalesce(type_coerce(exports.c.labels, Text), "")
    described = exports.c.id + " " + exports.c.dataset + " " + type_coerce(exports.c.params, Text) + " " + labels
    called = func.coalesce(exports.c.name, "") + literal("\n", Text) + func.coalesce(exports.c.note, "")
    if written == text:
        return says(store, described + literal("\n", Text) + called, text)
    is_called = [] if "\0" in text else [says(store, called, text)]
    return or_(says(store, described, written), *is_called)


def _key() -> Tuple:
    """What pages of exports are ordered by."""
    return tuple_(exports.c.created_at, exports.c.id)


def _key_of(created_at: datetime, export_id: str) -> Tuple:
    return tuple_(literal(created_at, Milliseconds), literal(export_id, Text))
