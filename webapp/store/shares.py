"""Rows of `export_shares`: with whom finished files are shared. They count while the export has its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Select, delete, exists, func, or_, select, update

from webapp.domain.access import Role
from webapp.domain.exports import Status
from webapp.domain.shares import Received, Share
from webapp.store.database import Store
from webapp.store.grants import may_order
from webapp.store.plain import PlainSQL, json_rows
from webapp.store.search import says
from webapp.store.tables import export_shares, exports, users

_sharer = users.alias()


class Note(NamedTuple):
    """What was said when it was shared, and by whom; both may be empty."""

    by: str
    text: str


async def is_shared(store: Store, export_id: str, user_id: str) -> bool:
    """Whether it is shared with this person and its file is there."""
    query = (
        select(export_shares.c.export_id)
        .join(exports, exports.c.id == export_shares.c.export_id)
        .where(
            export_shares.c.export_id == export_id,
            export_shares.c.user_id == user_id,
            exports.c.status == Status.SUCCESS.value,
        )
    )
    return await store.fetch_one(query) is not None


async def of_export(store: Store, export_id: str, dataset: str, roles: frozenset[Role]) -> Sequence[Share]:
    """By the names of those it is shared with; `dataset` and `roles` say who of them may open it."""
    query = (
        select(
            export_shares,
            users.c.name.label("user_name"),
            _sharer.c.name.label("sharer"),
            may_order(dataset, roles).label("is_open"),
        )
        .select_from(export_shares)
        .join(users, users.c.id == export_shares.c.user_id)
        .outerjoin(_sharer, _sharer.c.id == export_shares.c.shared_by)
        .where(export_shares.c.export_id == export_id)
        .order_by(users.c.name)
    )
    return [_share(row) for row in await store.fetch_all(query)]


def _share(row: Mapping[str, Any]) -> Share:
    return Share(
        export_id=row["export_id"],
        user_id=row["user_id"],
        user=row["user_name"],
        note=row["note"],
        shared_by=row["sharer"] or "",
        created_at=row["created_at"],
        seen_at=row["seen_at"],
        downloads=row["downloads"],
        downloaded_at=row["downloaded_at"],
        is_open=bool(row["is_open"]),
    )


async def exists_any(store: Store, user_id: str) -> bool:
    """Whether anything was ever shared with this person, as far as it is there."""
    return bool(await store.fetch_val(select(exists().where(export_shares.c.user_id == user_id))))


async def received(store: Store, user_id: str, export_ids: Sequence[str]) -> Mapping[str, Received]:
    """By the export's id, of these those that are shared with this person and have their file."""
    if not export_ids:
        return {}
    query = _received(user_id).where(export_shares.c.export_id.in_(list(export_ids)))
    return {found.export_id: found for found in await _all_received(store, query)}


async def unseen(store: Store, user_id: str, *, without: frozenset[str], limit: int) -> Sequence[Received]:
    """What is shared with this person and was not opened yet, newest first, without these datasets."""
    query = _received(user_id).where(export_shares.c.seen_at.is_(None), exports.c.dataset.not_in(sorted(without)))
    return await _all_received(store, query.order_by(export_shares.c.created_at.desc()).limit(limit))


def _received(user_id: str) -> Select[*tuple[Any, ...]]:
    return (
        select(
            export_shares.c.export_id,
            export_shares.c.note,
            export_shares.c.created_at,
            export_shares.c.seen_at,
            exports.c.dataset,
            exports.c.name,
            _sharer.c.name.label("sharer"),
        )
        .select_from(export_shares)
        .join(exports, exports.c.id == export_shares.c.export_id)
        .outerjoin(_sharer, _sharer.c.id == export_shares.c.shared_by)
        .where(export_shares.c.user_id == user_id, exports.c.status + "" == Status.SUCCESS.value)
    )


async def _all_received(store: Store, query: Select[*tuple[Any, ...]]) -> Sequence[Received]:
    return [
        Received(
            export_id=row["export_id"],
            dataset=row["dataset"],
            name=row["name"] or "",
            note=row["note"],
            shared_by=row["sharer"] or "",
            created_at=row["created_at"],
            is_seen=row["seen_at"] is not None,
        )
        for row in await store.fetch_all(query)
    ]


async def put(store: Store, export_id: str, user_id: str, *, note: str, by: str, at: datetime) -> bool:
    """Whether it is new; else it has this note now."""
    values = {"export_id": export_id, "user_id": user_id, "shared_by": by, "note": note, "created_at": at}
    query = store.insert_new(export_shares).values(**values, downloads=0).returning(export_shares.c.user_id)
    if await store.fetch_one(query) is not None:
        return True
    await store.execute(update(export_shares).where(*_is(export_id, user_id)).values(note=note))
    return False


async def count(store: Store, export_id: str) -> int:
    return int(await store.fetch_val(select(func.count()).where(export_shares.c.export_id == export_id)))


async def remove(store: Store, export_id: str, user_id: str) -> bool:
    """Whether it was there."""
    query = delete(export_shares).where(*_is(export_id, user_id)).returning(export_shares.c.user_id)
    return await store.fetch_one(query) is not None


async def mark_seen(store: Store, export_id: str, user_id: str, *, at: datetime) -> None:
    """The first time."""
    await store.execute(
        update(export_shares).where(*_is(export_id, user_id), export_shares.c.seen_at.is_(None)).values(seen_at=at)
    )


async def count_download(
    store: Store, export_id: str, user_id: str, *, at: datetime, unless_since: datetime | None = None
) -> None:
    """Not when the last one was counted after `unless_since`."""
    query = update(export_shares).where(*_is(export_id, user_id))
    if unless_since is not None:
        last = export_shares.c.downloaded_at
        query = query.where(or_(last.is_(None), last < unless_since))
    await store.execute(query.values(downloads=export_shares.c.downloads + 1, downloaded_at=at))


def _is(export_id: str, user_id: str) -> tuple[Any, ...]:
    return export_shares.c.export_id == export_id, export_shares.c.user_id == user_id


async def candidates(
    store: Store, export_id: str, owner: str, dataset: str, roles: frozenset[Role], *, text: str, limit: int
) -> Sequence[str]:
    """Names that have this text in them, of those who may order the dataset: but for the owner, and those who have it
    already."""
    have = select(export_shares.c.user_id).where(export_shares.c.export_id == export_id)
    query = select(users.c.name).where(may_order(dataset, roles), users.c.id != owner, users.c.id.not_in(have))
    if text:
        query = query.where(says(store, users.c.name, text))
    return [row["name"] for row in await store.fetch_all(query.order_by(users.c.name).limit(limit))]


async def id_of(store: Store, name: str, dataset: str, roles: frozenset[Role]) -> str | None:
    """Of the person of this name, whatever the case of its letters, if they may order the dataset. They are there until
    the transaction ends."""
    query = select(users.c.id).where(func.lower(users.c.name) == name.lower(), may_order(dataset, roles))
    row = await store.fetch_one(query.with_for_update(read=True, key_share=True))
    return row["id"] if row else None


async def told(store: PlainSQL, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Note]:
    """By the ids of export and reader: of these pairs those that are still so, while there is a file and grants do not
    withhold the dataset."""
    asked = msgspec.json.encode([{"e": export_id, "u": user_id} for export_id, user_id in pairs]).decode()
    query = (
        "SELECT s.export_id, s.user_id, b.name, s.note FROM export_shares s "
        "JOIN exports x ON x.id = s.export_id AND x.status = 'SUCCESS' JOIN users p ON p.id = s.user_id "
        "LEFT JOIN users b ON b.id = s.shared_by "
        f"JOIN {json_rows(store, e='text', u='text')} ON r.e = s.export_id AND r.u = s.user_id "
        f"WHERE p.role = '{Role.ADMIN.value}' "
        "OR NOT EXISTS (SELECT 1 FROM granted_datasets d WHERE d.dataset = x.dataset) "
        "OR EXISTS (SELECT 1 FROM grants g WHERE g.dataset = x.dataset AND (g.user_id = p.id "
        "OR g.group_id IN (SELECT m.group_id FROM group_members m WHERE m.user_id = p.id)))"
    )
    found: Sequence[Any] = await store.plain(query, rows=asked)
    return {(export_id, user_id): Note(name or "", note) for export_id, user_id, name, note in found}
