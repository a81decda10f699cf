"""From the commit of an event to the first byte at the receiver: an idle callbacks worker, a broker, a local receiver.

There is no rival: the budget is p95 ≤ 150 ms. The clock starts when the transaction has been committed, before the
worker is woken, and is the same in all processes.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from far_end import broker, environment, line_of, receiver, worker
from owing import owe, register

from webapp import queue
from webapp.resources import open_resources
from webapp.settings import read_settings
from webapp.store.schema import migrate


async def measure(environ: dict[str, str], rounds: int, pause: float) -> list[float]:
    """Milliseconds of each round."""
    settings, times = read_settings(environ), list[float]()
    await migrate(settings.database_url)
    with receiver(1, "--times") as (port, receiving), worker(environ):
        async with open_resources(settings) as resources:
            endpoint = await register(resources, f"http://127.0.0.1:{port}/hook")
            for number in range(rounds + 5):
                await owe(resources, endpoint)
                committed = time.monotonic()
                await queue.wake(resources.redis, queue.QueueName.CALLBACKS)
                _, arrived = await asyncio.to_thread(line_of, receiving)
                if number >= 5:
                    times.append((arrived - committed) * 1000)
                await asyncio.sleep(pause)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two events, so that all is idle")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)):
        times = asyncio.run(measure(environment(Path(folder)), chosen.rounds, chosen.pause))
    print(f"{'p50 ms':>8}{'p95 ms':>8}{'most':>8}")
    print(f"{statistics.median(times):8.1f}{statistics.quantiles(times, n=20)[-1]:8.1f}{max(times):8.1f}")


if __name__ == "__main__":
    main()
