"""Time limits for many tasks under one timer: a timer for each costs as much as signing what they send."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

LOOKED_EVERY = 0.05
"""Seconds: as much later a limit may take effect."""


class Deadlines:
    """What is under way with a limit. The timer runs while there is anything, so it belongs to no loop in between."""

    def __init__(self) -> None:
        self._under_way: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> Deadline:
        """Around what the present task does. Raises TimeoutError when it takes longer."""
        return Deadline(self, asyncio.get_running_loop().time() + seconds)

    def add(self, deadline: Deadline) -> None:
        self._under_way.add(deadline)
        if self._timer is None:
            self._wait()

    def discard(self, deadline: Deadline) -> None:
        self._under_way.discard(deadline)
        if self._timer is not None and not self._under_way:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOKED_EVERY, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for one in [one for one in self._under_way if one.at <= now]:
            self._under_way.discard(one)
            one.expire()
        self._wait()


class Deadline:
    """As `asyncio.timeout`: the task is cancelled, and that becomes a TimeoutError unless others cancelled it too."""

    __slots__ = ("_among", "_cancelling", "_is_expired", "_task", "at")

    def __init__(self, among: Deadlines, at: float) -> None:
        self._among = among
        self._is_expired = False
        self.at = at

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._among.add(self)
        return self

    def expire(self) -> None:
        self._is_expired = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._among.discard(self)
        if self._is_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
