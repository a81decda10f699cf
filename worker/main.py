"""arq's worker classes, `exports` and `callbacks`: run until a signal, start again when Redis was away."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from arq import cron, func
from arq.worker import Worker

from webapp import bus, queue
from webapp.actions import trials
from webapp.domain import limits
from webapp.domain.callbacks import TIME_LIMITS
from webapp.domain.workers import Load, Queue
from webapp.ending import end, go_on
from webapp.queue import QueueName
from webapp.resources import Resources, broker_url, open_resources
from webapp.settings import Settings
from webapp.storage import StorageUnusable
from worker import jobs
from worker.change_log import ChangeLog
from worker.children import Children
from worker.dispatch import Dispatcher
from worker.duty import Duty, Intake, memory_of
from worker.guard import Guard
from worker.metrics import exposed
from worker.slots import Slots, serve_small

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
HEALTH_SECONDS, ALIVE_SECONDS = 2.0, 10
"""Between two signs of life, and how long one holds: the second that arq adds is over too soon on a busy machine."""
RESTART_SECONDS = (0.5, 5.0)
HANDING_BACK_SECONDS = 5.0
AT_LEAST = timedelta(days=1)
FOR_EVER = 1_000_000
"""Tries that arq may take: how often an export is tried is decided by its status machine, not by the queue."""


class WakefulWorker(Worker):
    """Looks into its queue when it is told to, and once a second besides: quick, and quiet when idle."""

    def __init__(self, intake: Intake, *, on_wake: Callable[[], None] = lambda: None, **options: Any) -> None:
        super().__init__(
            handle_signals=False,
            poll_delay=POLL_SECONDS,
            health_check_interval=HEALTH_SECONDS,
            keep_result=0,
            max_tries=FOR_EVER,
            job_serializer=queue.serialize,
            job_deserializer=queue.deserialize,
            log_results=False,
            **options,
        )
        self._polling = asyncio.Lock()
        self._intake = intake
        self._on_wake = on_wake

    async def _poll_iteration(self) -> None:
        async with self._polling:
            self.allow_pick_jobs = self._intake.is_open
            await super()._poll_iteration()

    async def record_health(self) -> None:
        await super().record_health()
        await self.pool.expire(self.health_check_key, ALIVE_SECONDS)

    async def listen(self) -> None:
        """Ends with an error when Redis goes; the poll does too, and both are started again together."""
        async with bus.listen(self.pool, queue.WAKE_CHANNEL.format(queue=self.queue_name)) as channel:
            while True:
                if await channel.get_message(timeout=queue.SOCKET_TIMEOUT / 2):
                    self._on_wake()
                    await self._poll_iteration()

    async def run_until_lost(self) -> None:
        """Until Redis is lost or the task is cancelled. Jobs that are running then are left running."""
        running: list[asyncio.Task[None]] = [asyncio.create_task(self.async_run()), asyncio.create_task(self.listen())]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end(*running, *filter(None, [self.main_task]))

    @property
    def has_running_jobs(self) -> bool:
        return any(not task.done() for task in self.tasks.values())

    async def cancel_jobs(self) -> None:
        """Hands running exports back; each job does so when it is cancelled."""
        await end(*self.tasks.values(), again=HANDING_BACK_SECONDS)


@dataclass(frozen=True, slots=True)
class Tools:
    """What jobs work with, beside the resources."""

    children: Children
    guard: Guard
    slots: Slots = field(default_factory=lambda: Slots(1))

    @property
    def intake(self) -> Intake:
        return self.slots.intake


def export_worker(resources: Resources, tools: Tools, redis: Any) -> WakefulWorker:
    """The supervisor keeps the execution limits; arq's own is beyond them, also when the file is edited meanwhile."""
    settings = resources.settings
    declared = (dataset.execution_limit for dataset in resources.catalog.datasets.values())
    longest = max([settings.execution_limit, AT_LEAST, *filter(None, declared)])
    timeout = longest.total_seconds() + 4 * limits.EXECUTION_GRACE
    return WakefulWorker(
        tools.intake,
        functions=[func(jobs.run_export, name=queue.RUN_EXPORT, timeout=timeout, keep_result=0)],
        queue_name=QueueName.EXPORTS,
        redis_pool=redis,
        max_jobs=tools.slots.common,
        on_wake=tools.slots.told,
        ctx={"resources": resources, "children": tools.children, "slots": tools.slots},
    )


def callback_worker(resources: Resources, tools: Tools, redis: Any) -> WakefulWorker:
    """Sweeps and trials; deliveries are the dispatcher's, beside it."""
    seconds = set(range(0, 60, limits.SWEEP_EVERY))
    trial_limit = TIME_LIMITS[1] + trials.ANSWERED_WITHIN
    return WakefulWorker(
        tools.intake,
        functions=[
            func(jobs.try_out, name=queue.TRY_OUT, timeout=trial_limit, keep_result=queue.RESULT_KEPT, max_tries=1)
        ],
        cron_jobs=[cron(jobs.sweep, name="sweep", second=seconds, run_at_startup=True, timeout=60)],
        queue_name=QueueName.CALLBACKS,
        redis_pool=redis,
        max_jobs=10,
        ctx={"resources": resources, "guard": tools.guard},
    )


WORKERS = {"exports": export_worker, "callbacks": callback_worker}


async def run_workers(settings: Settings, names: Sequence[str]) -> None:
    """Runs the named worker classes until SIGTERM or SIGINT, or until they are drained; then hands back what runs."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    async with (
        open_resources(settings) as resources,
        _children(warm="exports" in names) as children,
        Guard.of(resources) as guard,
        exposed(resources),
    ):
        await _check_storage(resources)
        tools = Tools(children, guard, Slots(settings.worker_slots))
        tasks = [asyncio.create_task(_keep_running(name, resources, tools)) for name in names]
        dispatcher = Dispatcher(resources, guard, tools.intake)

        def in_hand() -> Load:
            return Load(tools.slots.taken, dispatcher.in_flight, memory_of(children.pids))

        if "exports" in names:
            tasks.append(asyncio.create_task(serve_small(resources, children, tools.slots)))
        if "callbacks" in names:
            _collect_less_garbage()
            tasks.append(asyncio.create_task(dispatcher.run()))
            if settings.event_sink is not None:
                tasks.append(asyncio.create_task(ChangeLog(resources, settings.event_sink).run()))
        stop = asyncio.create_task(_until(stopping))
        duty = Duty(resources, [*map(Queue, names)], tools.intake, in_hand)
        beating = asyncio.create_task(duty.run())
        done, _ = await asyncio.wait([*tasks, stop, beating], return_when=asyncio.FIRST_COMPLETED)
        await end(*tasks, stop, again=2 * HANDING_BACK_SECONDS)
        await end(beating)
        await duty.sign_off()
        for task in done:
            task.result()


async def _check_storage(resources: Resources) -> None:
    """It may come back by itself, so it is only told."""
    try:
        await resources.storage.check()
    except StorageUnusable as error:
        log.error("finished files cannot be stored: %s. To mend it: %s", error, error.mend)


def _collect_less_garbage() -> None:
    """Modules and other things that stay are not searched for garbage again and again: a tenth of the sending."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


@contextlib.asynccontextmanager
async def _children(*, warm: bool) -> AsyncGenerator[Children]:
    children = Children()
    if warm:
        children.warm()
    try:
        yield children
    finally:
        await children.close()


async def _keep_running(name: str, resources: Resources, tools: Tools) -> None:
    """arq's worker ends when Redis drops, so a new one is started, less and less eagerly."""
    wait, longest = RESTART_SECONDS
    lost: list[WakefulWorker] = []
    try:
        while True:
            redis = queue.connect(broker_url(resources.settings))
            worker = WORKERS[name](resources, tools, redis)
            lost.append(worker)
            try:
                await queue.ping(redis)
                go_on()
                log.info("the %s worker is ready", name)
                wait = RESTART_SECONDS[0]
                await worker.run_until_lost()
            except queue.QUEUE_ERRORS as error:
                log.warning("%s worker: no broker (%s); next try in %.1f s", name, type(error).__name__, wait)
            go_on()
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)
            lost = [worker for worker in lost if worker.has_running_jobs]
    finally:
        for worker in lost:
            await worker.cancel_jobs()
            with contextlib.suppress(*queue.QUEUE_ERRORS):
                await worker.pool.delete(worker.health_check_key)
                await worker.pool.aclose(close_connection_pool=True)
