"""How much there is of what: counts that stay cheap with a million exports."""

from __future__ import annotations

from datetime import datetime

from webapp.domain.exports import ACTIVE, Status
from webapp.store.database import PlainSQL
from webapp.store.types import from_milliseconds

ENDED = "ended_exports"
"""The setting in which the sweep keeps the counts of `ended`."""

_ACTIVE = ", ".join(f"'{status.value}'" for status in sorted(ACTIVE))
_ENDED = ", ".join(f"'{status.value}'" for status in Status if status not in ACTIVE)


async def active(rows: PlainSQL) -> dict[str, int]:
    """By status."""
    return await _counts(rows, _ACTIVE)


async def ended(rows: PlainSQL) -> dict[str, int]:
    """By status. Reads a large part of an index."""
    return await _counts(rows, _ENDED)


async def _counts(rows: PlainSQL, statuses: str) -> dict[str, int]:
    found = await rows.plain(f"SELECT status, count(*) FROM exports WHERE status IN ({statuses}) GROUP BY status")
    return {str(status): int(count) for status, count in found}


async def waiting_since(rows: PlainSQL) -> datetime | None:
    """When the oldest of those that wait was ordered, or queued again."""
    [[oldest]] = await rows.plain(
        "SELECT min(coalesce(queued_at, created_at)) FROM exports WHERE status IN ('PENDING', 'QUEUED')"
    )
    return None if oldest is None else from_milliseconds(oldest)


async def dead_letters(rows: PlainSQL) -> int:
    [[count]] = await rows.plain("SELECT count(*) FROM deliveries WHERE state = 'dead'")
    return count
