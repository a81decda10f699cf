"""The monitor page's first view with a million exports, spread over thirty days and twenty datasets, in SQLite.

No rival: the budget is a second from the request to the last byte, for each range, with and without a filter. The page
is asked of the application itself, in this process. Exports are written straight into their table; the sweep's tables
are filled for every period with as many different rows as a busy desk has. The slowest median must be under a second.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from itertools import product
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from command_line import environment
from factories import ASGITransport
from far_end import broker

from webapp.actions import people, tallies
from webapp.actions.monitor import RANGES
from webapp.app import build_app, serving
from webapp.domain.access import Role
from webapp.domain.tallies import BOUNDS, Metric
from webapp.resources import Resources, open_resources
from webapp.settings import read_settings
from webapp.store import monitor
from webapp.store.schema import migrate
from webapp.store.tallies import SEPARATOR
from webapp.web.security import SESSION_COOKIE

DATASETS = [f"dataset_{number}" for number in range(20)]
STEP = timedelta(hours=1)
QUERIES = [f"range={name}{more}" for name, more in product(RANGES, ("", "&dataset=dataset_3&channel=sse"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exports", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)):
        asyncio.run(_measure(Path(folder), chosen))


async def _measure(folder: Path, chosen: argparse.Namespace) -> None:
    settings = read_settings(environment(folder / "data", REDIS_URL=f"unix://{folder}/redis.sock"))
    await migrate(settings.database_url)
    async with open_resources(settings) as resources:
        admin = await people.add_user(resources, "admin", Role.ADMIN, actor="bench", password="bench has a password")
        await _fill(resources, admin.id, chosen.exports)
        began = time.perf_counter()
        await tallies.count_ended(resources, await resources.store.now())
        print(f"the sweep counts those that ended, once a minute: {time.perf_counter() - began:.2f} s")
        session = await people.sign_in(resources, "admin", "bench has a password")
        assert session is not None
        app = build_app()
        async with (
            serving(app, resources),
            httpx.AsyncClient(transport=ASGITransport(app), base_url="http://bench", timeout=60) as client,
        ):
            client.cookies.set(SESSION_COOKIE, session.token)
            medians = [await _view(client, query, chosen.rounds) for query in QUERIES]
    print(f"slowest median: {max(medians):.2f} s (budget: under 1 s)")


async def _view(client: httpx.AsyncClient, query: str, rounds: int) -> float:
    laps: list[float] = []
    size, cpu = 0, time.process_time()
    for _ in range(rounds):
        began = time.perf_counter()
        answer = await client.get(f"/monitor?{query}")
        laps.append(time.perf_counter() - began)
        assert answer.status_code == 200, answer.text
        size = len(answer.content)
    median, cpu = statistics.median(laps), (time.process_time() - cpu) / rounds
    told = " ".join(f"{lap * 1000:.0f}" for lap in laps)
    print(f"{query:42}{median * 1000:7.0f} ms{cpu * 1000:7.0f} ms cpu{size / 1000:6.0f} kB   {told}")
    return median


async def _fill(resources: Resources, owner: str, count: int) -> None:
    now = await resources.store.now()
    async with resources.store.transaction():
        await resources.store.plain(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :count) "
            "INSERT INTO exports (id, owner, dataset, params, format, options, order_key, status, version, attempt, "
            "failures, rows_done, bytes, created_at, warnings) "
            "SELECT 'exp_' || i, :owner, 'dataset_' || (i % 20), '{}', 'csv', '{}', i, "
            "CASE i % 10 WHEN 0 THEN 'FAILED' WHEN 1 THEN 'CANCELLED' ELSE 'SUCCESS' END, 4, 1, 0, 10, 100, "
            ":now - CAST(i AS integer) * (30 * 86400000 / :count), '[]' FROM n",
            count=count,
            owner=owner,
            now=round(now.timestamp() * 1000),
        )
    one = _one_hour()
    for number in range(30 * 24):
        async with resources.store.transaction():
            await monitor.add(resources.store, {now - number * STEP: one})


def _one_hour() -> Counter[monitor.Key]:
    """A thousand and more different rows: every dataset, and of each what a busy hour has."""
    found: Counter[monitor.Key] = Counter()
    for dataset in DATASETS:
        for metric in (Metric.QUEUE_TIME, Metric.EXECUTION_TIME):
            for bucket in range(0, len(BOUNDS[metric]), 2):
                found[metric.value, dataset, bucket] += 10
        for channel, bucket in product(("sse", "polling", "callback"), range(0, 12, 2)):
            found[Metric.NOTIFICATION_LATENCY.value, SEPARATOR.join((channel, dataset)), bucket] += 5
        for end in ("export.succeeded", "export.failed", "export.cancelled"):
            found[monitor.ENDED, SEPARATOR.join((dataset, end)), 0] += 20
        for outcome, reason, endpoint in (("succeeded", "", ""), ("retried", "TIMEOUT", "end_1"),
                                          ("retried", "HTTP_5XX", "end_2"), ("dead", "REFUSED", "")):  # fmt: skip
            found[Metric.DELIVERIES.value, SEPARATOR.join((outcome, reason, dataset, endpoint)), 0] += 3
    return found


if __name__ == "__main__":
    main()
