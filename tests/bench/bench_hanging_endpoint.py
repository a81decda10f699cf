"""One hanging endpoint among fifty: how late the other forty-nine hear of an event, with it and without it.

Every round owes one delivery to each of fifty endpoints at once; the fiftieth is at a port that takes connections and
never answers, or at a receiver like the others'. Times are from the commit to the first byte at the receiver, of the
forty-nine only. Budget: p95 with it ≤ 1.2 × without.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from far_end import broker, environment, line_of, receiver, worker
from owing import owe_each, register

from webapp import queue
from webapp.resources import open_resources
from webapp.settings import read_settings
from webapp.store.schema import migrate

OTHERS = 49


@contextmanager
def hanging() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1000)
        yield listening.getsockname()[1]


async def measure(environ: dict[str, str], last_port: int, rounds: int, pause: float) -> list[float]:
    """Milliseconds of each delivery to the others."""
    settings, times = read_settings(environ), list[float]()
    await migrate(settings.database_url)
    with receiver(OTHERS, "--times") as (port, receiving), worker(environ):
        async with open_resources(settings) as resources:
            endpoints = [await register(resources, f"http://127.0.0.1:{port}/{number}") for number in range(OTHERS)]
            endpoints.append(await register(resources, f"http://127.0.0.1:{last_port}/hook"))
            for number in range(rounds + 3):
                await owe_each(resources, endpoints)
                committed = time.monotonic()
                await queue.wake(resources.redis, queue.QueueName.CALLBACKS)
                _, *arrived = await asyncio.to_thread(line_of, receiving)
                if number >= 3:
                    times += [(one - committed) * 1000 for one in arrived]
                await asyncio.sleep(pause)
    return times


def run(rounds: int, pause: float, *, hangs: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)):
        environ = environment(Path(folder))
        if hangs:
            with hanging() as port:
                return asyncio.run(measure(environ, port, rounds, pause))
        with receiver(1) as (port, _):
            return asyncio.run(measure(environ, port, rounds, pause))


def p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def joined(laps: list[list[float]]) -> list[float]:
    return [one for times in laps for one in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="events per lap")
    parser.add_argument("--laps", type=int, default=3, help="A B A B …")
    parser.add_argument("--pause", type=float, default=0.4)
    chosen = parser.parse_args()
    laps: dict[bool, list[list[float]]] = {False: [], True: []}
    for _ in range(chosen.laps):
        for hangs in laps:
            laps[hangs].append(run(chosen.rounds, chosen.pause, hangs=hangs))
    print(f"{'':10}{'p50 ms':>8}{'p95 ms':>8}{'most':>8}  p95 of laps")
    for hangs, of_it in laps.items():
        every = joined(of_it)
        each = " ".join(f"{p95(times):.0f}" for times in of_it)
        name = "with it" if hangs else "without"
        print(f"{name:10}{statistics.median(every):8.1f}{p95(every):8.1f}{max(every):8.1f}  {each}")
    print(f"ratio of p95: {p95(joined(laps[True])) / p95(joined(laps[False])):.2f}")


if __name__ == "__main__":
    main()
