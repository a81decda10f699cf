"""Sends the change log: a resident task. A sink that is away delays it, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import random

import msgspec

from webapp import bus, queue, sinks
from webapp.actions import change_log
from webapp.actions.change_log import Held
from webapp.domain.events import Event, event_json
from webapp.domain.ids import new_id
from webapp.domain.sink_targets import SinkTarget
from webapp.ending import end, go_on
from webapp.resources import Resources
from webapp.sinks import EventSink, Message, SinkUnusable

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds; sooner when an export changes."""
GROUP_SECONDS = 0.1
"""How long the first event that is new waits for others, to be sent with them."""
OTHERS_LOOK_EVERY = 5.0
SEND_SECONDS = 8.0
BACK_OFF = (0.5, 5.0)
"""Sending and waiting are shorter than what is left of a lease, so that the log stays with one process."""
STOP_SECONDS = 5.0


class ChangeLog:
    """Holds the lease, sends what is new, and moves on. What fails is tried again, less and less eagerly."""

    def __init__(self, resources: Resources, target: SinkTarget) -> None:
        self._resources = resources
        self._target = target
        self._holder = new_id("log")
        self._held: Held | None = None
        self._sink: EventSink | None = None
        self._woken = asyncio.Event()
        self._failures = 0
        self._told = ""

    async def run(self) -> None:
        """Until it is cancelled."""
        listening = asyncio.create_task(self._listen())
        log.info("the change log goes to %s", self._target)
        try:
            while True:
                self._woken.clear()
                wait, may_wake = await self._look_or_back_off()
                go_on()
                await self._sleep(wait, may_wake=may_wake)
        finally:
            await end(listening)
            await self._stop()

    async def _look_or_back_off(self) -> tuple[float, bool]:
        """Seconds until the next look, and whether it may be sooner."""
        try:
            wait = await self._look()
        except Exception as error:
            self._failures += 1
            self._tell(error)
            await self._close()
            return self._back_off(), False
        if self._failures:
            log.info("the change log goes on")
        self._failures, self._told = 0, ""
        return wait, self._held is not None

    async def _look(self) -> float:
        self._held = await change_log.hold(self._resources, self._target, self._holder)
        if self._held is None:
            await self._close()
            return OTHERS_LOOK_EVERY * random.uniform(0.5, 1.0)  # noqa: S311
        events = await change_log.unsent(self._resources, self._held)
        if not events:
            return LOOK_EVERY
        if self._sink is None:
            self._sink = sinks.open_sink(self._target)
        async with asyncio.timeout(SEND_SECONDS):
            await self._sink.send([_message(event) for event in events])
        self._held = await change_log.move_on(self._resources, self._held, events)
        return 0.0

    def _back_off(self) -> float:
        first, longest = BACK_OFF
        return min(first * 2.0 ** min(self._failures - 1, 10), longest) * random.uniform(0.5, 1.0)  # noqa: S311

    def _tell(self, error: Exception) -> None:
        """Once for each reason, however often it is tried."""
        text = f"{type(error).__name__}: {error}"
        mend = ""
        if isinstance(error, SinkUnusable):
            text, mend = str(error), f". To mend it: {error.mend}"
        if text != self._told:
            log.warning("the change log waits: %s%s", text, mend)
        self._told = text

    async def _sleep(self, seconds: float, *, may_wake: bool) -> None:
        if not may_wake:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(GROUP_SECONDS)

    async def _listen(self) -> None:
        """Wakes us when an export changed. Without a broker we look by ourselves, only later."""
        while True:
            try:
                async with bus.listen(self._resources.redis, bus.CHANNEL) as heard:
                    while True:
                        message = await heard.get_message(timeout=queue.SOCKET_TIMEOUT / 2)
                        if message and (hint := bus.decode(message)) and hint.version:
                            self._woken.set()
            except Exception as error:
                log.debug("no wake-ups (%s)", type(error).__name__)
            await asyncio.sleep(LOOK_EVERY)

    async def _close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await sink.close()
            except Exception as error:
                log.debug("the sink cannot be closed (%s)", type(error).__name__)

    async def _stop(self) -> None:
        await self._close()
        letting_go = change_log.let_go(self._resources, self._target, self._holder)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.create_task(letting_go)  # this task's connection may have been cancelled half-way
        except Exception as error:
            log.warning("the change log: %s: %s; its lease runs out by itself", type(error).__name__, error)


def _message(event: Event) -> Message:
    return Message(event.id, event.type, event.export_id, msgspec.json.encode(event_json(event)))
