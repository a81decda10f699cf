"""Room on the disk where exports are written, of which a reserve is left to everything else that lives there."""

from __future__ import annotations

import asyncio
import shutil

from webapp.domain import limits
from webapp.domain.exports import Export
from webapp.resources import Resources
from webapp.store import past_runs


async def has_room(resources: Resources, export: Export, size: int = 0) -> bool:
    """Whether so many bytes more may be written for this attempt."""
    folder = resources.storage.temporary(export.id, export.attempt).parent
    try:
        usage = await asyncio.to_thread(shutil.disk_usage, folder)
    except OSError:
        return True  # writing will tell what is wrong
    reserve = min(limits.DISK_RESERVE, usage.total // limits.DISK_RESERVE_PART)
    return usage.free - size >= reserve


async def has_room_for(resources: Resources, export: Export) -> bool:
    """Whether the file will fit, when it comes to as much as the last time that the same was ordered."""
    async with resources.store.connection():
        size = await past_runs.size_of(resources.store, export)
    return await has_room(resources, export, size or 0)
