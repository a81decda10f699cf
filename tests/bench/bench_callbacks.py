"""Callback deliveries to a fast local receiver: a callbacks worker with its database against a bare aiohttp loop.

The rival POSTs the same body with as many headers at the same concurrency and keeps no books. Receiver, worker and
rival are processes of their own; on two cores the receiver has one and the sender the other. Both rates are the
receiver's: requests from the first to the last of them. No endpoint takes more than 500 a second, so there are enough
of them for that not to be the limit. Budget: 0.5 of the rival's.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from far_end import environment, line_of, receiver, worker
from owing import all_deliveries, owe, register

from webapp.domain.callbacks import DeliveryState
from webapp.resources import open_resources
from webapp.settings import read_settings
from webapp.store.schema import migrate

ENDPOINTS, IN_FLIGHT = 20, 10


def ours(count: int) -> float:
    """Requests a second, with everything recorded."""
    with tempfile.TemporaryDirectory() as folder, receiver(count) as (port, receiving):
        environ = environment(Path(folder))
        asyncio.run(prepare(environ, f"http://127.0.0.1:{port}/hook", count))
        with worker(environ):
            (seconds,) = line_of(receiving)
            time.sleep(1)
        assert asyncio.run(are_all_recorded(environ)), "not all of them are recorded as succeeded"
    return (count - 1) / seconds


async def prepare(environ: dict[str, str], url: str, count: int) -> None:
    settings = read_settings(environ)
    await migrate(settings.database_url)
    async with open_resources(settings) as resources:
        for number in range(ENDPOINTS):
            endpoint = await register(resources, f"{url}/{number}", max_in_flight=IN_FLIGHT, rate=500)
            await owe(resources, endpoint, count // ENDPOINTS)


async def are_all_recorded(environ: dict[str, str]) -> bool:
    async with open_resources(read_settings(environ)) as resources:
        found = await all_deliveries(resources)
    return {(one.state, one.attempts) for one in found} == {(DeliveryState.SUCCEEDED, 1)}


def theirs(count: int) -> float:
    with receiver(count) as (port, receiving):
        subprocess.run([sys.executable, __file__, "--bare", str(port), "--count", str(count)], check=True)
        (seconds,) = line_of(receiving)
    return (count - 1) / seconds


async def bare(port: int, count: int) -> None:
    left = iter(range(count))
    headers = {f"X-Header-{number}": "value " * 8 for number in range(8)}
    body = b"{" + b'"name": "value", ' * 12 + b'"last": 1}'

    async def work(session: aiohttp.ClientSession) -> None:
        for number in left:
            url = f"http://127.0.0.1:{port}/hook/{number % ENDPOINTS}"
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(work(session) for _ in range(ENDPOINTS * IN_FLIGHT)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.bare:
        asyncio.run(bare(chosen.bare, chosen.count))
        return
    rates: dict[str, list[float]] = {"exportdesk": [], "bare aiohttp": []}
    for _ in range(chosen.rounds):
        rates["exportdesk"].append(ours(chosen.count))
        rates["bare aiohttp"].append(theirs(chosen.count))
    print(f"{'':16}{'requests/s':>12}  rounds")
    for name, found in rates.items():
        print(f"{name:16}{statistics.median(found):12,.0f}  {' '.join(f'{rate:,.0f}' for rate in found)}")
    print(f"{chosen.count} deliveries to {ENDPOINTS} endpoints, {IN_FLIGHT} in flight each; SQLite; no broker")
    print(f"ratio: {statistics.median(rates['exportdesk']) / statistics.median(rates['bare aiohttp']):.2f}")


if __name__ == "__main__":
    main()
