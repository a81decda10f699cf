"""Trying an endpoint out: the worker sends, the web process waits; nothing secret lies with the broker."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import receivers
import standardwebhooks
from arq.constants import health_check_key_suffix
from owing import all_attempts, all_deliveries
from patience import PATIENCE
from receivers import answer, receiver

from webapp import queue
from webapp.actions import messages, trials
from webapp.domain.callbacks import EndpointSettings, ErrorClass
from webapp.domain.signing import new_secret
from webapp.ending import end
from webapp.resources import Resources
from webapp.sealing import Sealer
from worker.children import Children
from worker.guard import Guard
from worker.main import HEALTH_SECONDS, Tools, callback_worker


@contextlib.asynccontextmanager
async def working(resources: Resources) -> AsyncIterator[None]:
    """A callbacks worker, as `exportdesk worker callbacks` runs it, but for the dispatcher."""
    redis = queue.connect(str(resources.settings.redis_url))
    async with Guard.of(resources) as guard:
        worker = callback_worker(resources, Tools(Children(), guard), redis)
        running = asyncio.create_task(worker.run_until_lost())
        async with asyncio.timeout(PATIENCE):
            while not await queue.worker_is_alive(resources.redis, queue.QueueName.CALLBACKS):
                await asyncio.sleep(0.01)
        yield
        await end(running)
        await worker.cancel_jobs()
        await redis.delete(worker.health_check_key)
        await redis.aclose(close_connection_pool=True)


@pytest.fixture
def allowing(resources: Resources) -> Resources:
    settings = replace(resources.settings, callback_allow_private=("127.0.0.0/8",))
    return replace(resources, settings=settings)


async def test_a_sign_of_life_holds_for_longer_than_a_busy_machine_takes(resources: Resources) -> None:
    key = queue.QueueName.CALLBACKS + health_check_key_suffix
    async with working(resources):
        async with asyncio.timeout(5):
            while await resources.redis.pttl(key) <= 4 * HEALTH_SECONDS * 1000:
                await asyncio.sleep(0.01)
    assert not await resources.redis.exists(key)


async def test_the_request_is_real_and_signed_and_the_answer_comes_back(allowing: Resources) -> None:
    secret = new_secret()
    message = await messages.sample(allowing, "export.succeeded")
    async with receiver(answer(201, b"thanks", X_Seen="yes")) as made, working(allowing):
        settings = EndpointSettings(made.url, headers=(("Authorization", "Bearer hidden-word"),))
        trial = await trials.try_out(allowing, settings, [secret], message)
        held = [await allowing.redis.get(key) for key in await allowing.redis.keys("arq:*")]
    (arrived,) = made.requests
    assert (trial.answer.error, trial.answer.status, trial.answer.body) == (None, 201, "thanks")
    assert ("X-Seen", "yes") in trial.answer.headers
    assert arrived.headers["Authorization"] == "Bearer hidden-word"
    assert arrived.body == trial.sent.body
    assert standardwebhooks.Webhook(secret).verify(arrived.body, dict(arrived.headers))["type"] == "export.succeeded"
    content = b"".join(value for value in held if value)
    assert b"hidden-word" not in content
    assert base64.b64encode(b"hidden-word")[:10] not in content
    assert b"thanks" not in content
    assert await all_deliveries(allowing) == []
    assert await all_attempts(allowing) == []


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:1/", ErrorClass.ADDRESS_FORBIDDEN),
        ("http://localhost/", ErrorClass.ADDRESS_FORBIDDEN),
        ("http://nowhere.invalid/", ErrorClass.DNS),
    ],
)
async def test_the_guard_holds_for_unsaved_urls_too(resources: Resources, url: str, error: ErrorClass) -> None:
    message = await messages.sample(resources, "export.failed")
    async with working(resources):
        trial = await trials.try_out(resources, EndpointSettings(url), [new_secret()], message)
    assert trial.answer.error is error


async def test_a_receiver_that_hangs_is_told_of_after_the_time_limit(allowing: Resources) -> None:
    message = await messages.sample(allowing, "export.created")
    async with receiver(receivers.hang) as made, working(allowing):
        settings = EndpointSettings(made.url, time_limit=1.0)
        trial = await trials.try_out(allowing, settings, [new_secret()], message)
    assert trial.answer.error is ErrorClass.TIMEOUT
    assert trial.answer.seconds > 0.9


async def test_without_a_worker_that_is_said_at_once(resources: Resources) -> None:
    message = await messages.sample(resources, "export.created")
    started = time.monotonic()
    with pytest.raises(trials.NoWorker, match="exportdesk worker callbacks"):
        await trials.try_out(resources, EndpointSettings("https://receiver.example/"), [new_secret()], message)
    assert time.monotonic() - started < 1


async def test_without_a_broker_too(resources: Resources) -> None:
    message = await messages.sample(resources, "export.created")
    redis = queue.connect("unix:///nowhere/redis.sock")
    with pytest.raises(trials.NoWorker):
        await trials.try_out(
            replace(resources, redis=redis), EndpointSettings("https://receiver.example/"), [new_secret()], message
        )
    await redis.aclose(close_connection_pool=True)


async def test_a_worker_that_dies_before_it_answers(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "ANSWERED_WITHIN", 0.5)
    await resources.redis.psetex(f"{queue.QueueName.CALLBACKS}:health-check", 5000, b"alive")
    message = await messages.sample(resources, "export.created")
    settings = EndpointSettings("https://receiver.example/", time_limit=0.1)
    with pytest.raises(trials.NoWorker):
        await trials.try_out(resources, settings, [new_secret()], message)


async def test_a_worker_with_another_key_sends_nothing(allowing: Resources) -> None:
    other = replace(allowing, sealer=Sealer("another key of sixteen characters"))
    message = await messages.sample(allowing, "export.created")
    async with receiver() as made, working(other):
        with pytest.raises(trials.NoWorker):
            await trials.try_out(allowing, EndpointSettings(made.url), [new_secret()], message)
    assert made.connections == 0
