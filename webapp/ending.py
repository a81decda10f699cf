"""Ending tasks for certain.

On Python 3.11 `asyncio.wait_for` loses a cancellation that arrives just as what it waits for is done, and the broker's
client sends every command through it: a task that is cancelled once may go on for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any


async def end(*tasks: asyncio.Task[Any], again: float = 1.0) -> None:
    """Cancels them until all have ended, every `again` seconds: longer than what they do when they are cancelled."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at, so that nothing is logged of it


def go_on() -> None:
    """Raises the cancellation that the present task was sent and did not notice."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
