"""Coroutines that are begun at once, without a task while they need none. Python 3.12 has it as
`Task(…, eager_start=True)`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any


def begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Goes on until `work` waits for something; then a task has the rest. None when it has ended. Raises what it does
    until then."""
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_finish(work, waits_for))


async def _finish(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _Rest(work, waits_for)


@dataclass(frozen=True, slots=True)
class _Rest:
    """Of a coroutine that was begun: what it waits for is handed on to the task, and what comes of that to it."""

    work: Coroutine[Any, Any, None]
    waits_for: Any

    def __await__(self) -> Generator[Any, None, None]:
        waits_for = self.waits_for
        try:
            while True:
                try:
                    yield waits_for
                except BaseException as error:
                    waits_for = self.work.throw(error)
                else:
                    waits_for = self.work.send(None)
        except StopIteration:
            return
