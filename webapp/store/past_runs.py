"""Finished exports, to tell from what the next one will come to."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from webapp.domain.exports import Export, Status
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
