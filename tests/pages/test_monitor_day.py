"""A scripted day of 10,000 exports: every number of the monitor page and its CSV, computed here a second time."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fresh_stores import Clock
from pages.dom import nodes, plain, text
from scripted_day import DATASETS, ERRORS, Day, scripted_day

from webapp.actions import monitor, tallies
from webapp.domain.access import Viewer
from webapp.domain.limits import PAGE_SIZE
from webapp.resources import Resources

EXPORTS = 10_000
BEGAN = datetime(2026, 11, 29, tzinfo=UTC)
NOON = BEGAN + timedelta(hours=23, minutes=58)
"""Nothing happens after it."""
LONG = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800, 3600)
SHORT = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5, 10, 30, 60)
STEPS = {"1h": timedelta(minutes=5), "24h": timedelta(hours=1), "30d": timedelta(days=1)}
ENDS = ("succeeded", "failed", "timed_out", "cancelled")
STATUSES = ("PENDING", "QUEUED", "PROCESSING", "SUCCESS", "FAILED", "EXPIRED", "CANCELLED")
TILES = ("running", "waiting", "success", "deliveries", "dead")
Rows = list[dict[str, str]]


async def table(client: httpx.AsyncClient, name: str, **query: str) -> Rows:
    response = await client.get(f"/monitor/{name}.csv", params=query)
    assert response.status_code == 200, response.text
    return list(csv.DictReader(io.StringIO(response.text)))


def period(at: datetime, step: timedelta) -> str:
    began = at - timedelta(seconds=at.timestamp() % step.total_seconds())
    return f"{began:%Y-%m-%dT%H:%M:%S.000Z}"


def bucket(seconds: float, bounds: Sequence[float]) -> int:
    return next((number for number, bound in enumerate(bounds) if seconds <= bound), len(bounds))


def quantile(times: Sequence[float], share: float) -> float | None:
    """As it can be known from how many are in each bucket."""
    counts = Counter(bucket(time, LONG) for time in times)
    rank, below = share * len(times), 0
    for number, upper in enumerate(LONG):
        if counts[number] and below + counts[number] >= rank:
            lower = LONG[number - 1] if number else 0
            return lower + (upper - lower) * (rank - below) / counts[number]
        below += counts[number]
    return float(LONG[-1]) if times else None


def numbers(rows: Iterable[Mapping[str, str]], names: Iterable[str]) -> dict[tuple[str, str], int]:
    """What is not zero, by the row's beginning and the column."""
    names = [*names]
    found = {(row["from"], name): int(row[name]) for row in rows for name in names}
    return {key: count for key, count in found.items() if count}


@pytest.fixture
async def day(resources: Resources, admin: Viewer) -> Day:
    clock = await Clock.of(resources.store)
    clock.at = BEGAN - timedelta(days=1)
    await monitor.keep(resources, clock.at)
    found = await scripted_day(resources, admin.id, EXPORTS, began_at=BEGAN, until=NOON)
    clock.at = BEGAN + timedelta(hours=23, minutes=59)
    await tallies.tally_events(resources, clock.at)
    await monitor.keep(resources, clock.at)
    await tallies.count_ended(resources, clock.at)
    return found


async def test_every_number_is_what_happened(admin_client: httpx.AsyncClient, day: Day) -> None:
    """And leads to a list of so many."""
    await follow_links(admin_client)
    for range, dataset in (("1h", None), ("24h", None), ("24h", "things"), ("30d", None)):
        narrowed = {"range": range} | ({"dataset": dataset} if dataset else {})
        since = NOON - timedelta(minutes=58) if range == "1h" else BEGAN
        await compare(admin_client, day, narrowed, since, STEPS[range], DATASETS if dataset is None else (dataset,))


async def compare(
    client: httpx.AsyncClient, day: Day, narrowed: Mapping[str, str], since: datetime, step: timedelta,
    datasets: Sequence[str],
) -> None:  # fmt: skip
    happened = [one for one in day.happened if one.at >= since and one.dataset in datasets]
    sent = [one for one in day.sent if one.at >= since and one.dataset in datasets]
    statuses = Counter(status for dataset, status in day.statuses if dataset in datasets)
    found = await table(client, "statuses", **narrowed)
    assert {row["status"]: int(row["exports"]) for row in found} == {name: statuses[name] for name in STATUSES}

    ended = [one for one in happened if one.type.removeprefix("export.") in ENDS]
    ends = Counter((period(one.at, step), one.type.removeprefix("export.")) for one in ended)
    assert numbers(await table(client, "ends", **narrowed), ENDS) == ends

    ran = [one for one in ended if one.seconds is not None]
    waited = [one for one in happened if one.type == "export.started"]
    for name, of in (("execution-time", ran), ("queue-time", waited)):
        times: dict[str, list[float]] = {}
        for one in of:
            times.setdefault(period(one.at, step), []).append(one.seconds or 0)
        for row in await table(client, name, **narrowed):
            these = times.get(row["from"], [])
            assert int(row["attempts"]) == len(these)
            for key, share in (("p50_seconds", 0.5), ("p95_seconds", 0.95)):
                assert told(row[key]) == near(quantile(these, share))

    trend = await table(client, "execution-trend", **narrowed)
    assert {*trend[0]} == {"from", "versions", *datasets}
    of_dataset: dict[tuple[str, str], list[float]] = {}
    for one in ran:
        of_dataset.setdefault((period(one.at, step), one.dataset), []).append(one.seconds or 0)
    for row in trend:
        for dataset in datasets:
            assert told(row[dataset]) == near(quantile(of_dataset.get((row["from"], dataset), ()), 0.95))

    requests = Counter((period(one.at, step), one.outcome) for one in sent)
    assert numbers(await table(client, "deliveries", **narrowed), ("succeeded", "retried", "dead")) == requests
    failures = Counter((one.error, one.endpoint or "one-time") for one in sent if one.error)
    rows = await table(client, "failures", **narrowed)
    assert {row["reason"]: int(row["requests"]) for row in rows} == Counter(one.error for one in sent if one.error)
    behind = {(row["reason"], name): int(count) for row in rows
              for name, count in (each.split("=") for each in row["endpoints"].split())}  # fmt: skip
    assert behind == failures
    assert {*ERRORS} >= {row["reason"] for row in rows}
    await compare_latencies(client, day, narrowed, since, step, datasets)
    await compare_tiles(client, day, narrowed, since, datasets)


async def compare_latencies(
    client: httpx.AsyncClient, day: Day, narrowed: Mapping[str, str], since: datetime, step: timedelta,
    datasets: Sequence[str],
) -> None:  # fmt: skip
    all_told = [(one.at, one.dataset, one.channel, one.seconds) for one in day.confirmed]
    all_told += [(one.at, one.dataset, "callback", one.latency) for one in day.sent if one.latency is not None]
    these = [one for one in all_told if one[0] >= since and one[1] in datasets]
    columns = [*(f"up_to_{bound:g}_seconds" for bound in SHORT), "longer"]
    totals: Counter[tuple[str, str]] = Counter()
    for channel in ("sse", "polling", "websocket", "callback"):
        cells = Counter((period(at, step), columns[bucket(seconds, SHORT)])
                        for at, _, name, seconds in these if name == channel)  # fmt: skip
        assert numbers(await table(client, f"latency-{channel}", **narrowed), columns) == cells
        assert numbers(await table(client, f"latency-{channel}", channel=channel, **narrowed), columns) == cells
        for (_, column), count in cells.items():
            totals[channel, column] += count
    rows = await table(client, "notification-latency", **narrowed)
    assert {(row["channel"], name): int(row[name]) for row in rows for name in columns if row[name] != "0"} == totals
    [only] = await table(client, "notification-latency", channel="sse", **narrowed)
    assert only == next(row for row in rows if row["channel"] == "sse")


async def compare_tiles(
    client: httpx.AsyncClient, day: Day, narrowed: Mapping[str, str], since: datetime, datasets: Sequence[str]
) -> None:
    page = await client.get("/monitor", params=dict(narrowed))
    statuses = Counter(status for dataset, status in day.statuses if dataset in datasets)
    tile = {
        key: text(page, f"#tile-{key} .tile-value") for key in ("running", "waiting", "success", "deliveries", "dead")
    }
    assert tile["running"] == f"{statuses['PROCESSING']:,}"
    assert tile["waiting"] == f"{statuses['PENDING'] + statuses['QUEUED']:,}"
    assert tile["dead"] == f"{sum(one.outcome == 'dead' for one in day.sent):,}"
    ends = Counter(one.type.removeprefix("export.") for one in day.happened
                   if one.at >= since and one.dataset in datasets)  # fmt: skip
    good, bad = ends["succeeded"], ends["failed"] + ends["timed_out"]
    assert percent(tile["success"]) == pytest.approx(100 * good / (good + bad), abs=0.051)
    outcomes = Counter(one.outcome for one in day.sent if one.at >= since and one.dataset in datasets)
    good, bad = outcomes["succeeded"], outcomes["dead"]
    assert percent(tile["deliveries"]) == pytest.approx(100 * good / (good + bad), abs=0.051)
    drawn = {card.attributes["id"] for card in nodes(page, ".chart-card:has(table)")}
    assert drawn >= {"statuses", "ends", "execution-time", "queue-time", "execution-trend", "deliveries", "latency-sse"}
    for name in ("ends", "deliveries"):
        shown = [[cell.attributes["data-value"] for cell in nodes_in(row, "th, td")]
                 for row in nodes(page, f"#{name} tbody tr")]  # fmt: skip
        assert shown == [[*row.values()] for row in await table(client, name, **narrowed)]


async def follow_links(admin_client: httpx.AsyncClient) -> None:
    """Some of each chart, so that it is done in time."""
    dice = random.Random(1)
    for query in ("range=24h", "range=30d&dataset=flights"):
        page = await admin_client.get(f"/monitor?{query}")
        for name in ("ends", "execution-time", "queue-time", "notification-latency", "latency-sse", "latency-callback",
                     "deliveries", "failures"):  # fmt: skip
            links = nodes(page, f"#{name} td a")
            assert links, name
            for link in dice.sample(links, min(4, len(links))):
                listed = await admin_client.get(link.attributes["href"] or "")
                wanted = plain(link).split(": ")[-1]
                assert text(listed, "#total") == wanted, (name, link.attributes["href"])
                assert len(nodes(listed, ".counted tbody tr")) == min(PAGE_SIZE, int(wanted.replace(",", "")))


def nodes_in(node: Any, selector: str) -> list[Any]:
    return node.css(selector)


def percent(text: str) -> float:
    return float(text.removesuffix("%"))


def told(value: str) -> float | None:
    return float(value) if value else None


def near(seconds: float | None) -> Any:
    return None if seconds is None else pytest.approx(seconds, abs=0.00051)
