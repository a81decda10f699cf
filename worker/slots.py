"""The slots of a worker for exports: common ones, which arq fills, and one that is kept for small exports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Generator

from webapp.actions import attempts, disk, turns
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Lane
from webapp.ending import go_on
from webapp.resources import Resources
from worker.children import Children
from worker.duty import Intake
from worker.supervise import run_attempt

log = logging.getLogger(__name__)

LOOKED_EVERY = 1.0
"""Seconds between two looks for small exports while all common slots are taken."""


class Slots:
    """`count` in all. With two or more of them one is kept. Those of a worker that is drained are not filled again."""

    def __init__(self, count: int, intake: Intake | None = None) -> None:
        self.intake = intake or Intake()
        self.common = max(1, count - 1)
        self.keeps_one = count > 1
        self._taken = 0
        self._is_kept_one_taken = False
        self._looked_for = asyncio.Event()

    @contextlib.contextmanager
    def one_taken(self) -> Generator[None]:
        """A common one."""
        self._taken += 1
        if self.are_taken:
            self.look()
        try:
            yield
        finally:
            self._taken -= 1

    @contextlib.contextmanager
    def kept_one_taken(self) -> Generator[None]:
        self._is_kept_one_taken = True
        try:
            yield
        finally:
            self._is_kept_one_taken = False

    @property
    def taken(self) -> int:
        return self._taken + self._is_kept_one_taken

    @property
    def are_taken(self) -> bool:
        return self._taken >= self.common

    def look(self) -> None:
        """Something may wait that no common slot may or can take."""
        self._looked_for.set()

    def told(self) -> None:
        """There is something new in the queue."""
        if self.are_taken:
            self.look()

    async def until_looked_for(self) -> None:
        """Or, while all are taken, for a second."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOKED_EVERY if self.are_taken else None):
                await self._looked_for.wait()
        self._looked_for.clear()


async def execute(resources: Resources, children: Children, export: Export) -> None:
    """Runs what was claimed, unless its file would fill the disk."""
    if await disk.has_room_for(resources, export):
        await run_attempt(resources, children, export)
    else:
        log.warning("%s: not begun, its file would fill the disk", export.id)
        await attempts.fail(resources, export, export_error(ErrorCode.DISK_FULL))


async def serve_small(resources: Resources, children: Children, slots: Slots) -> None:
    """Runs small exports in the slot that is kept for them, and otherwise finds out how large those are that wait.

    Until it is cancelled; an export that runs then is handed back.
    """
    while True:
        await slots.until_looked_for()
        go_on()
        try:
            while await _serve(resources, children, slots):
                pass
        except Exception:
            log.exception("the slot for small exports looks again in a moment")
            await asyncio.sleep(LOOKED_EVERY)
            slots.look()


async def _serve(resources: Resources, children: Children, slots: Slots) -> bool:
    """Whether there may be more to do."""
    if not slots.intake.is_open:
        return False
    if slots.keeps_one and (export := await attempts.claim(resources, lane=Lane.SMALL)):
        with slots.kept_one_taken():
            await execute(resources, children, export)
        return True
    return await turns.size_up_next(resources)
