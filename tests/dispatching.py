"""Runs a dispatcher in the test's own process, where receivers on loopback may be reached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from owing import all_deliveries
from patience import PATIENCE

from webapp.domain.callbacks import Delivery
from webapp.ending import end
from webapp.resources import Resources
from worker.dispatch import Dispatcher
from worker.guard import Guard

STOPPING_SECONDS = 20.0


def reaching_loopback(resources: Resources) -> Resources:
    return replace(resources, settings=replace(resources.settings, callback_allow_private=("127.0.0.0/8",)))


@asynccontextmanager
async def dispatching(resources: Resources, *, most: int = 200) -> AsyncIterator[Dispatcher]:
    async with Guard.of(resources) as guard:
        dispatcher = Dispatcher(resources, guard, most=most)
        running = asyncio.create_task(dispatcher.run())
        try:
            yield dispatcher
        finally:
            await end(running, again=STOPPING_SECONDS)


async def until(
    resources: Resources, having: Callable[[Sequence[Delivery]], bool], *, seconds: float = PATIENCE
) -> Sequence[Delivery]:
    """The deliveries, oldest first, once they are as wanted."""
    ends = time.monotonic() + seconds
    while True:
        found = await all_deliveries(resources)
        if having(found):
            return found
        assert time.monotonic() < ends, [(one.state, one.attempts, one.last_error) for one in found]
        await asyncio.sleep(0.02)


def all_are(state: str) -> Callable[[Sequence[Delivery]], bool]:
    return lambda found: bool(found) and all(one.state == state for one in found)
