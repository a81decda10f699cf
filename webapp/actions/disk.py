"""Room on the disk where exports are written, of which a reserve is left to everything else that lives there."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

from webapp.domain import limits
from webapp.domain.exports import Export
from webapp.resources import Resources
from webapp.store import past_runs


class Usage(NamedTuple):
    """Bytes. What the system keeps for itself is neither used nor free."""

    total: int
    used: int
    free: int


async def usage(resources: Resources) -> Usage | None:
    """Of the disk where exports are written; None when it cannot be asked."""
    return await _usage(resources.storage.work)


async def _usage(folder: Path) -> Usage | None:
    try:
        return Usage(*await asyncio.to_thread(shutil.disk_usage, folder))
    except OSError:
        return None


async def has_room(resources: Resources, export: Export, size: int = 0) -> bool:
    """Whether so many bytes more may be written for this attempt."""
    disk = await _usage(resources.storage.temporary(export.id, export.attempt).parent)
    if disk is None:
        return True  # writing will tell what is wrong
    reserve = min(limits.DISK_RESERVE, disk.total // limits.DISK_RESERVE_PART)
    return disk.free - size >= reserve


async def has_room_for(resources: Resources, export: Export) -> bool:
    """Whether the file will fit, when it comes to as much as the last time that the same was ordered."""
    async with resources.store.connection():
        size = await past_runs.size_of(resources.store, export)
    return await has_room(resources, export, size or 0)
