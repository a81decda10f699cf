"""How much there is of what: counts that stay cheap with a million exports."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from webapp.domain.exports import ACTIVE
from webapp.store import app_settings
from webapp.store.database import Store
from webapp.store.plain import PlainSQL
from webapp.store.tables import UNSUCCESSFUL
from webapp.store.types import from_milliseconds

ENDED = "ended_exports_of_datasets"
"""The setting in which the sweep keeps what `ended` counts."""

Counts = dict[str, dict[str, int]]
"""By dataset and status."""

DEAD_LETTERS = f"SELECT count(*) FROM deliveries WHERE state = 'dead' AND {UNSUCCESSFUL}"
"""Said twice, because those that succeeded are not in the index."""

_ACTIVE = ", ".join(f"'{status.value}'" for status in sorted(ACTIVE))


async def exports(store: Store) -> Counts:
    """All there are: the active ones now, those that ended as the sweep counted them last."""
    kept: Counts = await app_settings.get(store, ENDED) or {}
    active = await _counts(store, f"IN ({_ACTIVE})")
    return {dataset: active.get(dataset, {}) | kept.get(dataset, {}) for dataset in sorted(active.keys() | kept.keys())}


def by_status(counts: Counts, dataset: str | None = None) -> Counter[str]:
    """Of one dataset, or of all of them."""
    found: Counter[str] = Counter()
    for name, statuses in counts.items():
        if dataset in (None, name):
            found.update(statuses)
    return found


async def ended(rows: PlainSQL) -> Counts:
    """Reads a whole index: asked which they are, and not which they are not, SQLite would look up each row."""
    return await _counts(rows, f"NOT IN ({_ACTIVE})")


async def _counts(rows: PlainSQL, chosen: str) -> Counts:
    found: Counts = {}
    for dataset, status, count in await rows.plain(
        f"SELECT dataset, status, count(*) FROM exports WHERE status {chosen} GROUP BY dataset, status"
    ):
        found.setdefault(dataset, {})[status] = count
    return found


async def waiting_since(rows: PlainSQL, dataset: str | None = None) -> datetime | None:
    """When the oldest of those that wait, of one dataset or of all, was ordered, or queued again."""
    [[oldest]] = await rows.plain(
        "SELECT min(coalesce(queued_at, created_at)) FROM exports WHERE status IN ('PENDING', 'QUEUED')"
        + (" AND dataset = :dataset" if dataset is not None else ""),
        **({} if dataset is None else {"dataset": dataset}),
    )
    return None if oldest is None else from_milliseconds(oldest)


async def dead_letters(rows: PlainSQL) -> int:
    [[count]] = await rows.plain(DEAD_LETTERS)
    return count
