"""Receivers that do everything wrong at once, while the others are on time and the worker's memory stays flat."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
import receivers
from dispatching import all_are, dispatching, reaching_loopback, until
from owing import all_deliveries, endpoint_now, owe, register
from receivers import Behaviour, answer, receiver

from webapp import queue
from webapp.domain.callbacks import DeliveryState, EndpointState, ErrorClass
from webapp.resources import Resources

BAD: dict[str, tuple[Behaviour, ErrorClass]] = {
    "hangs": (receivers.hang, ErrorClass.TIMEOUT),
    "hangs after its headers": (receivers.hang_after_headers, ErrorClass.TIMEOUT),
    "drips": (receivers.drip, ErrorClass.TIMEOUT),
    "drips headers": (receivers.drip_headers, ErrorClass.TIMEOUT),
    "fails": (answer(500), ErrorClass.HTTP_5XX),
    "refuses the signature": (answer(401), ErrorClass.HTTP_4XX),
    "redirects to metadata": (answer(302, Location="http://169.254.169.254/latest/"), ErrorClass.REDIRECT),
    "closes at once": (receivers.close_at_once, ErrorClass.DISCONNECTED),
    "closes in the middle": (receivers.close_in_the_middle, ErrorClass.DISCONNECTED),
    "is not a web server": (receivers.garbage, ErrorClass.BAD_ANSWER),
    "has headers without end": (receivers.headers_without_end, ErrorClass.BAD_ANSWER),
}
ODD: dict[str, Behaviour] = {"answers 10 MB": receivers.ten_megabytes, "answers a gzip bomb": receivers.gzip_bomb}
MEGABYTE = 1024
LIMIT = 6.0
"""Seconds that a receiver may take: the others do not wait for it."""


@pytest.fixture
def ours(resources: Resources) -> Resources:
    return reaching_loopback(resources)


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield free.getsockname()[1]


async def test_every_misbehaviour_at_once_is_told_apart_and_delays_nobody(ours: Resources, closed_port: int) -> None:
    async with AsyncExitStack() as stack:
        good = await stack.enter_async_context(receiver())
        expected: dict[str, ErrorClass | None] = {}
        bad = {
            name: (await stack.enter_async_context(receiver(behave)), error) for name, (behave, error) in BAD.items()
        }
        odd = {name: await stack.enter_async_context(receiver(behave)) for name, behave in ODD.items()}
        for made, error in bad.values():
            endpoint = await register(ours, made.url, time_limit=LIMIT, waits=(60.0,))
            expected[endpoint.id] = error
            await owe(ours, endpoint, 10)
        for made in odd.values():
            endpoint = await register(ours, made.url)
            expected[endpoint.id] = None
            await owe(ours, endpoint, 10)
        for url, error in (
            (f"http://127.0.0.1:{closed_port}/", ErrorClass.REFUSED),
            ("http://nowhere.invalid/", ErrorClass.DNS),
            ("http://10.0.0.1/", ErrorClass.ADDRESS_FORBIDDEN),
            ("http://localhost/", ErrorClass.ADDRESS_FORBIDDEN),
        ):
            endpoint = await register(ours, url, time_limit=LIMIT, waits=(60.0,))
            expected[endpoint.id] = error
            await owe(ours, endpoint, 10)
        others = [await register(ours, f"{good.url}/{number}") for number in range(20)]
        async with dispatching(ours):
            await bad["hangs"][0].until(1)
            started = time.monotonic()
            for endpoint in others:
                await owe(ours, endpoint)
            await queue.wake(ours.redis, queue.QueueName.CALLBACKS)
            await good.until(20)
            assert time.monotonic() - started < LIMIT
            found = await until(ours, lambda found: all(one.failures or one.completed_at for one in found))
    assert {one.endpoint_id: one.last_error for one in found if one.endpoint_id in expected} == expected
    assert all(one.attempts == 1 for one in found)


async def test_memory_stays_flat_through_a_thousand_of_them(ours: Resources) -> None:
    """Counted after the first two hundred have warmed everything up."""
    async with AsyncExitStack() as stack:
        behaviours = [
            receivers.ten_megabytes,
            receivers.gzip_bomb,
            receivers.headers_without_end,
            answer(500, b"x" * 9000),
        ]
        endpoints = []
        for behave in behaviours:
            made = await stack.enter_async_context(receiver(behave))
            endpoints.append(await register(ours, made.url, max_in_flight=10, rate=500, waits=(600.0,)))
        async with dispatching(ours):
            sizes = []
            for _ in range(6):
                for endpoint in endpoints:
                    await owe(ours, endpoint, 50)
                await queue.wake(ours.redis, queue.QueueName.CALLBACKS)
                await until(ours, lambda found: all(one.failures or one.completed_at for one in found))
                gc.collect()
                sizes.append(resident_kilobytes())
    assert sizes[-1] - sizes[0] < 12 * MEGABYTE, sizes
    assert len(await all_deliveries(ours)) == 1200


def resident_kilobytes() -> int:
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1])


async def test_gone_disables_the_endpoint_and_nothing_more_is_sent(ours: Resources) -> None:
    async with receiver(answer(410)) as made, dispatching(ours):
        endpoint = await register(ours, made.url, max_in_flight=1)
        await owe(ours, endpoint, 5)
        await until(ours, lambda found: any(one.state is DeliveryState.DEAD for one in found))
        await asyncio.sleep(1.2)
    after = await endpoint_now(ours, endpoint)
    assert (after.state, after.disabled_reason, len(made.requests)) == (EndpointState.DISABLED, "GONE", 1)


async def test_a_day_of_failures_disables_the_endpoint(ours: Resources) -> None:
    """The day is written into its row; the hundredth failure is real."""
    since = await ours.store.now() - timedelta(hours=25)
    async with receiver(answer(500)) as made, dispatching(ours):
        endpoint = await register(ours, made.url, failures_in_row=98, failing_since=since, max_in_flight=1)
        await owe(ours, endpoint, 5)
        await made.until(2)
        await asyncio.sleep(1.2)
    after = await endpoint_now(ours, endpoint)
    assert (after.state, after.disabled_reason, after.failures_in_row) == (EndpointState.DISABLED, "FAILING", 100)
    assert len(made.requests) == 2


async def test_an_hour_of_500s_ends_well(ours: Resources) -> None:
    """A short hour: the receiver fails until it does not, and every delivery arrives."""
    async with receiver(answer(500)) as made, dispatching(ours):
        await owe(ours, await register(ours, made.url, waits=(0.2,) * 20, rate=500), 10)
        await made.until(30)
        made.behave = answer(204)
        found = await until(ours, all_are("succeeded"))
    assert all(one.failures == 0 for one in found)
    assert {one.id for one in made.requests} == {one.event_id for one in found}
