"""Finished exports, to tell from what the next one will come to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import select

from webapp.domain import limits
from webapp.domain.exports import Export, Status
from webapp.domain.formats import FORMATS
from webapp.store.database import Store
from webapp.store.exports import from_row
from webapp.store.tables import exports


async def newest(store: Store, dataset: str, format: str, *, limit: int) -> Sequence[Export]:
    """Of this dataset in this format, whoever ordered them; those whose file is there still."""
    query = (
        select(exports)
        .where(exports.c.dataset == dataset, exports.c.format == format, exports.c.status == Status.SUCCESS.value)
        .order_by(exports.c.completed_at.desc())
        .limit(limit)
    )
    return [from_row(row) for row in await store.fetch_all(query)]


async def durations(store: Store, dataset: str, format: str, *, limit: int) -> Sequence[tuple[float, int]]:
    """(seconds, rows) of the newest of this dataset in this format."""
    rows = await store.plain(
        "SELECT completed_at - started_at, rows_done FROM exports "
        "WHERE dataset = :dataset AND format = :format AND status = 'SUCCESS' AND started_at IS NOT NULL "
        "ORDER BY completed_at DESC LIMIT :most",
        dataset=dataset,
        format=format,
        most=limit,
    )
    return [(milliseconds / 1000, count) for milliseconds, count in rows]


async def rows_of(store: Store, export: Export) -> int | None:
    """How many rows the newest run of the dataset with the same parameters had, if it is among those of each format."""
    past: list[Export] = []
    for format in FORMATS:
        past += await newest(store, export.dataset, format, limit=limits.PAST_RUNS)
    alike = [run for run in past if dict(run.params) == dict(export.params) and run.completed_at]
    return max(alike, key=lambda run: run.completed_at or run.created_at).rows_done if alike else None


async def size_of(store: Store, export: Export) -> int | None:
    """Bytes of the file that the newest run with the same parameters and options left, if it is among the newest."""
    rows = await store.plain(
        "SELECT file FROM (SELECT params, options, file, completed_at FROM exports "
        "WHERE dataset = :dataset AND format = :format AND status = 'SUCCESS' "
        "ORDER BY completed_at DESC LIMIT :most) AS newest "
        "WHERE params = :params AND options = :options ORDER BY completed_at DESC LIMIT 1",
        dataset=export.dataset,
        format=export.format,
        most=limits.PAST_RUNS,
        params=msgspec.json.encode(export.params).decode(),
        options=msgspec.json.encode(export.options).decode(),
    )
    return msgspec.json.decode(rows[0][0])["size"] if rows else None
