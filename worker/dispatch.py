"""The dispatcher: a resident task that sends whatever is owed, whether the broker is there or not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence

from webapp import bus, queue
from webapp.actions import sending
from webapp.actions.sending import Ended, Work
from webapp.domain.callbacks import LEASE_RENEWED_EVERY, Answer, ErrorClass
from webapp.domain.ids import new_id
from webapp.ending import end, go_on
from webapp.queue import QueueName
from webapp.resources import Resources
from webapp.store.database import DATABASE_ERRORS
from worker.deliver import send
from worker.duty import Intake
from worker.guard import Guard
from worker.mailer import Mailer

log = logging.getLogger(__name__)

MOST_IN_FLIGHT = 200
LOOK_EVERY = 1.0
"""Seconds; sooner when told to, or when something is owed sooner."""

OTHERS_CLAIM = 0.02
"""Seconds to wait when what is owed is just being claimed by another worker."""

GROUP_SECONDS = 0.001
"""While more requests end within this time, they wait for each other, to be recorded in one transaction."""

MOST_GROUP_SECONDS = 0.02
"""The first of them waits no longer."""

TELL_EVERY = 0.05
TRY_AGAIN = 0.5
STOP_SECONDS = 5.0


class Dispatcher:
    """Claims, sends and records. At most `most` requests are in flight; each endpoint has its own limits besides."""

    def __init__(
        self, resources: Resources, guard: Guard, intake: Intake | None = None, *, most: int = MOST_IN_FLIGHT
    ) -> None:
        self.resources = resources
        self.guard = guard
        self.intake = intake or Intake()
        self.most = most
        self.token = new_id("dsp")
        self._mailer = Mailer(resources.settings.mail)
        self._woken = asyncio.Event()
        self._claiming: asyncio.Task[list[Work]] | None = None
        self._sending: dict[str, tuple[Work, asyncio.Task[None]]] = {}
        self._ended: list[Ended] = []
        self._has_ended = asyncio.Event()
        self._known: sending.Known = {}
        self._untold: set[str] = set()
        self._telling: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> int:
        return len(self._sending)

    async def run(self) -> None:
        """Until it is cancelled; then what is in flight is given some seconds to end."""
        beside = [asyncio.create_task(task) for task in (self._listen(), self._keep_recording(), self._keep_leased())]
        log.info("the dispatcher is ready")
        try:
            while True:
                self._woken.clear()
                wait = await self._look_or_wait()
                go_on()
                await self._sleep(wait)
        finally:
            await self._stop(beside)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _look_or_wait(self) -> float:
        """Seconds until the next look. A database that is away must not end us."""
        try:
            return await self._look()
        except Exception as error:
            log.warning("nothing can be claimed (%s: %s); trying again", type(error).__name__, error)
            return LOOK_EVERY

    async def _look(self) -> float:
        if self._free <= 0 or not self._may_claim:
            return LOOK_EVERY
        wait = await sending.seconds_until_owed(self.resources)
        if wait is None or wait > 0:
            return min(wait or LOOK_EVERY, LOOK_EVERY)
        if not self._may_claim:
            return LOOK_EVERY
        return 0.0 if await self._claim(self._free) else OTHERS_CLAIM

    @property
    def _free(self) -> int:
        return self.most - len(self._sending)

    @property
    def _may_claim(self) -> bool:
        return self.intake.is_open and self._claiming is None

    async def _claim(self, limit: int, ended: Sequence[Ended] = ()) -> bool:
        """Begins to send what was claimed, if anything was. What has ended is recorded in the same transaction.

        When we are cancelled meanwhile, `_stop` finds out what was claimed.
        """
        claim = sending.claim(self.resources, self.token, limit=limit, known=self._known, ended=ended)
        self._claiming = asyncio.create_task(claim)
        try:
            work = await asyncio.shield(self._claiming)
        except Exception:
            self._claiming = None
            raise
        self._claiming = None
        for one in work:
            self._sending[one.attempt.id] = one, asyncio.create_task(self._send(one))
        return bool(work)

    async def _send(self, work: Work) -> None:
        try:
            limit = work.endpoint.settings.time_limit
            if work.endpoint.settings.reader:
                answer = await self._mailer.send(work.outgoing, time_limit=limit)
            else:
                answer = await send(work.outgoing, time_limit=limit, guard=self.guard)
        except Exception:
            log.exception("delivery %s could not be sent", work.delivery.id)
            answer = Answer(ErrorClass.INTERRUPTED)
        self._ended.append(Ended(work, answer))
        self._has_ended.set()

    async def _keep_recording(self) -> None:
        while True:
            await self._has_ended.wait()
            await self._group()
            try:
                await self._record_and_claim()
            except DATABASE_ERRORS as error:
                log.warning("results cannot be recorded (%s: %s); trying again", type(error).__name__, error)
                await asyncio.sleep(TRY_AGAIN)
            except Exception:
                await self._record_one_by_one()

    async def _group(self) -> None:
        """Until no more of them end, or there are none left that could. Those that end while a transaction runs are a
        group anyway."""
        seen, until = 0, time.monotonic() + MOST_GROUP_SECONDS
        while seen < len(self._ended) < len(self._sending) and time.monotonic() < until:
            seen = len(self._ended)
            await asyncio.sleep(GROUP_SECONDS)

    async def _record_and_claim(self) -> None:
        """One transaction for the places that are free again: while one commits, little else is in flight. What keeps
        us from claiming must not keep back what has ended: that is recorded alone then."""
        batch = self._ended[:]
        if self._may_claim:
            try:
                await self._claim(self._free + len(batch), batch)
            except Exception as error:
                log.warning("nothing can be claimed with what is recorded (%s: %s)", type(error).__name__, error)
            else:
                self._forget(batch)
                return
        await self._record(len(batch))

    async def _record(self, count: int) -> None:
        """The first ones. What could not be recorded stays, and stays leased; recording it twice changes nothing."""
        batch = self._ended[:count]
        if batch:
            await sending.record(self.resources, batch)
            self._forget(batch)

    async def _record_one_by_one(self) -> None:
        """One result that the database will never take must not keep back all others; its lease runs out."""
        for one in list(self._ended):
            try:
                await self._record(1)
            except DATABASE_ERRORS:
                return
            except Exception:
                log.exception("the result of delivery %s cannot be recorded", one.work.delivery.id)
                self._forget([one])

    def _forget(self, batch: list[Ended]) -> None:
        """The first ones are done with."""
        del self._ended[: len(batch)]
        if not self._ended:
            self._has_ended.clear()
        for one in batch:
            self._sending.pop(one.work.attempt.id, None)
        self._tell({one.work.endpoint.id for one in batch})
        self._woken.set()

    def _tell(self, endpoint_ids: set[str]) -> None:
        """Beside the recording, for a broker that hangs must not hold it up."""
        self._untold |= endpoint_ids
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._keep_telling())

    async def _keep_telling(self) -> None:
        while self._untold:
            told, self._untold = self._untold, set()
            await sending.tell(self.resources, told)
            await asyncio.sleep(TELL_EVERY)

    async def _keep_leased(self) -> None:
        while True:
            await asyncio.sleep(LEASE_RENEWED_EVERY)
            work = [one for one, _ in self._sending.values()]
            if work:
                await self._unless_it_fails(sending.renew(self.resources, self.token, work))

    async def _listen(self) -> None:
        """Wakes us when somebody wrote deliveries. Without a broker we look by ourselves, only later."""
        channel = queue.WAKE_CHANNEL.format(queue=QueueName.CALLBACKS)
        while True:
            try:
                async with bus.listen(self.resources.redis, channel) as heard:
                    while True:
                        if await heard.get_message(timeout=queue.SOCKET_TIMEOUT / 2):
                            self._woken.set()
            except Exception as error:
                log.debug("no wake-ups (%s)", type(error).__name__)
            await asyncio.sleep(LOOK_EVERY)

    async def _stop(self, beside: list[asyncio.Task[None]]) -> None:
        await end(*beside)
        if self._claiming is not None:
            await self._unless_it_fails(self._put_back(self._claiming))
        tasks = [task for _, task in self._sending.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        await end(*tasks)
        await self._unless_it_fails(self._record(len(self._ended)))
        broken_off = [work for work, task in self._sending.values() if task.cancelled()]
        await self._unless_it_fails(sending.give_up(self.resources, broken_off))
        if self._telling is not None:
            await self._unless_it_fails(self._telling)

    async def _put_back(self, claiming: asyncio.Task[list[Work]]) -> None:
        await sending.put_back(self.resources, await claiming)

    async def _unless_it_fails(self, step: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await step
        except Exception as error:
            log.warning("the dispatcher: %s: %s; leases run out by themselves", type(error).__name__, error)
