"""A worker process among the workers: it gives signs of life, and ends when it was asked to and has nothing in hand."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from webapp.actions import workers
from webapp.domain import limits
from webapp.domain.workers import Load, Queue, Worker
from webapp.resources import Resources

log = logging.getLogger(__name__)

END_SECONDS = 2.0


@dataclass(slots=True)
class Intake:
    """Whether this process takes new work; it is shut while the process is drained."""

    is_open: bool = True


class Duty:
    """From the first sign of life to the last. `in_hand` tells what the process has in hand just now."""

    def __init__(
        self, resources: Resources, queues: Sequence[Queue], intake: Intake, in_hand: Callable[[], Load]
    ) -> None:
        self._resources = resources
        self._queues = queues
        self._intake = intake
        self._in_hand = in_hand
        self._worker: Worker | None = None

    async def run(self) -> None:
        """Until the process is drained, or the task is cancelled. A database that is away must not end us."""
        is_over = False
        while not is_over:
            try:
                is_over = await self._beat()
            except Exception as error:
                log.warning("no sign of life could be given (%s: %s); trying again", type(error).__name__, error)
            await asyncio.sleep(0 if is_over else limits.WORKER_BEATS_EVERY)
        log.info("this worker is drained")

    async def _beat(self) -> bool:
        """Whether the process may end: it was shut for the time of a whole beat, so that nothing is being claimed."""
        if self._worker is None:
            self._worker = await workers.begin(self._resources, self._queues)
        load, was_open = self._in_hand(), self._intake.is_open
        seconds_left = await workers.beat(self._resources, self._worker, load)
        self._intake.is_open = seconds_left is None
        if was_open != self._intake.is_open:
            log.info("this worker takes %s", "new work again" if self._intake.is_open else "nothing new: it is drained")
        if seconds_left is None or was_open:
            return False
        return not (load.slots_taken or load.sending) or seconds_left <= 0

    async def sign_off(self) -> None:
        """Once everything has ended or been handed back."""
        if self._worker is None:
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                await workers.end(self._resources, self._worker)
        except Exception as error:
            log.warning("the last sign of life could not be given (%s)", type(error).__name__)


def memory_of(pids: Sequence[int]) -> int:
    """Bytes of memory that these processes and this one hold."""
    found = 0
    for pid in (None, *pids):
        with contextlib.suppress(psutil.Error):
            found += psutil.Process(pid).memory_info().rss
    return found
