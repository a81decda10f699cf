"""Callbacks workers as processes: killed between request and record, told to stop, and with a broker that forgets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import receivers
from dispatching import all_are, until
from owing import all_attempts, owe, register
from receivers import Received, answer, receiver
from sqlalchemy import update

from webapp import queue
from webapp.domain.callbacks import Answer, DeliveryState, ErrorClass
from webapp.resources import Resources
from webapp.store.tables import deliveries

WorkerStarter = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_worker(resources: Resources) -> Iterator[WorkerStarter]:
    """Starts real callbacks workers that may reach loopback; ends those that are left."""
    settings = resources.settings
    environment = {
        **os.environ,
        "EXPORTDESK_DATA_DIR": str(settings.data_dir),
        "EXPORTDESK_REDIS_URL": str(settings.redis_url),
        "EXPORTDESK_CONFIG": str(settings.config),
        "EXPORTDESK_CALLBACK_ALLOW_PRIVATE": "127.0.0.0/8",
    }
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "worker", "callbacks"]
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
        return running[-1]

    yield start
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


async def let_leases_run_out(resources: Resources) -> None:
    """Instead of waiting for 45 seconds."""
    async with resources.store.transaction():
        past = await resources.store.now() - timedelta(seconds=1)
        query = update(deliveries).where(deliveries.c.lease_until.is_not(None)).values(lease_until=past)
        await resources.store.execute(query)


async def test_a_worker_killed_between_request_and_record(resources: Resources, start_worker: WorkerStarter) -> None:
    """The request has arrived and nobody wrote so: it is sent again under the same id, and both are on record."""
    victims: list[subprocess.Popen[bytes]] = []

    async def kill_the_sender(received: Received, writer: asyncio.StreamWriter) -> None:
        if victims:
            victims.pop().kill()
        else:
            await answer(204)(received, writer)

    async with receiver(kill_the_sender) as made:
        await owe(resources, await register(resources, made.url))
        victim = start_worker()
        victims.append(victim)
        await made.until(1)
        await asyncio.to_thread(victim.wait)
        (killed,) = await until(resources, lambda found: True)
        (attempt,) = await all_attempts(resources)
        assert (killed.state, killed.attempts, attempt.finished_at) == (DeliveryState.PENDING, 1, None)
        start_worker()
        await asyncio.sleep(2)
        assert len(made.requests) == 1
        await let_leases_run_out(resources)
        (delivery,) = await until(resources, all_are("succeeded"))
    assert (delivery.attempts, delivery.failures) == (2, 0)
    assert [one.id for one in made.requests] == [delivery.event_id] * 2
    first, second = await all_attempts(resources)
    assert first.answer == Answer(ErrorClass.INTERRUPTED)
    assert second.answer is not None
    assert second.answer.status == 204


async def test_workers_killed_at_any_moment_lose_nothing(resources: Resources, start_worker: WorkerStarter) -> None:
    async with receiver(answer(204, after=0.01)) as made:
        for _ in range(4):
            await owe(resources, await register(resources, made.url, rate=50), 50)
        for wanted in (20, 80, 140):
            victim = start_worker()
            await made.until(wanted)
            victim.kill()
            await asyncio.to_thread(victim.wait)
            await let_leases_run_out(resources)
        start_worker()
        found = await until(resources, all_are("succeeded"))
    sent = Counter(one.id for one in made.requests)
    assert set(sent) == {one.event_id for one in found}
    assert all(sent[one.event_id] <= one.attempts for one in found)
    attempts = await all_attempts(resources)
    assert len(attempts) == sum(one.attempts for one in found)
    assert all(one.finished_at for one in attempts)


async def test_a_worker_that_is_told_to_stop_breaks_off_what_hangs_within_seconds(
    resources: Resources, start_worker: WorkerStarter
) -> None:
    async with receiver(receivers.hang) as made:
        await owe(resources, await register(resources, made.url, time_limit=30.0), 3)
        worker = start_worker()
        await made.until(3)
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait, 15) == 0
        found = await until(resources, lambda found: True)
        assert {(one.state, one.lease_until, one.failures) for one in found} == {(DeliveryState.PENDING, None, 0)}
        made.behave = answer(204)
        start_worker()
        await until(resources, all_are("succeeded"))


async def test_a_broker_wiped_in_mid_flight_loses_nothing_and_doubles_nothing(
    resources: Resources, start_worker: WorkerStarter
) -> None:
    async with receiver(answer(204, after=0.02)) as made:
        endpoints = [await register(resources, made.url, rate=40) for _ in range(4)]
        for endpoint in endpoints:
            await owe(resources, endpoint, 60)
        start_worker()
        for wanted in (20, 60, 100, 140):
            await made.until(wanted)
            await resources.redis.flushall()
        for endpoint in endpoints:
            await owe(resources, endpoint, 5)
        await queue.wake(resources.redis, queue.QueueName.CALLBACKS)
        await resources.redis.flushall()
        found = await until(resources, all_are("succeeded"))
    assert Counter(one.id for one in made.requests) == Counter(one.event_id for one in found)
    assert {one.attempts for one in found} == {1}


async def test_two_workers_share_the_limits_of_an_endpoint(resources: Resources, start_worker: WorkerStarter) -> None:
    async with receiver(answer(204, after=0.05)) as made:
        await owe(resources, await register(resources, made.url, max_in_flight=4, rate=500), 100)
        start_worker()
        start_worker()
        found = await until(resources, all_are("succeeded"))
    assert made.most_at_once == 4
    assert {one.attempts for one in found} == {1}
