"""The monitor page: for admins alone, and its numbers are those of what happened."""

from __future__ import annotations

import asyncio
import csv
import io
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from fresh_stores import Clock
from owing import owe, register
from pages.dom import node, nodes, plain, text, texts
from patience import PATIENCE
from starlette.datastructures import QueryParams

from webapp import open_streams
from webapp.actions import acks, monitor, sending, workers
from webapp.actions.monitor import RANGES, Narrowed, quantile
from webapp.actions.sending import Ended
from webapp.actions.sweep import sweep
from webapp.actions.tallies import tally_events
from webapp.app import build_app, serving
from webapp.domain.access import Viewer
from webapp.domain.callbacks import Answer, ErrorClass
from webapp.domain.exports import Export, Status
from webapp.domain.tallies import Metric
from webapp.domain.workers import Load, Queue
from webapp.pages.monitor_query import parse_monitor_query
from webapp.queue import connect
from webapp.resources import Resources
from webapp.store import events
from webapp.store.monitor import LATE_COMMITS, SLOTS, STREAMS

ExportMaker = Callable[..., Awaitable[Export]]
SHOWN = ["statuses", "ends", "execution-time", "queue-time", "execution-trend", "notification-latency", "deliveries",
         "failures", "streams", "slots", "sweep"]  # fmt: skip
NAMES = [*SHOWN, "latency-sse", "latency-websocket", "latency-polling", "latency-callback"]
COUNTED = "/monitor/counted?of=ends&from=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z"
LEFT = {
    timedelta(): {300, 3600, 21_600, 86_400},
    timedelta(hours=3): {3600, 21_600, 86_400},
    timedelta(days=4): {21_600, 86_400},
    timedelta(days=9): {86_400},
    timedelta(days=33): set[int](),
}
ADDRESSES = ["/monitor", "/monitor/live", COUNTED, *(f"/monitor/{name}.csv" for name in NAMES)]
FINISHED = {Status.SUCCESS: "succeeded", Status.FAILED: "failed", Status.EXPIRED: "timed_out",
            Status.CANCELLED: "cancelled"}  # fmt: skip


async def rows(client: httpx.AsyncClient, name: str, range: str = "24h") -> list[dict[str, str]]:
    response = await client.get(f"/monitor/{name}.csv?range={range}")
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(response.text)))


def tile(response: httpx.Response, key: str) -> str:
    return text(response, f"#tile-{key} .tile-value")


async def count_all(resources: Resources) -> None:
    """What the sweep does within a minute."""
    now = await resources.store.now() + LATE_COMMITS + timedelta(milliseconds=1)
    await tally_events(resources, now)
    await monitor.keep(resources, now)


async def test_it_is_for_admins_alone(
    anonymous: httpx.AsyncClient, client: httpx.AsyncClient, admin_client: httpx.AsyncClient
) -> None:
    for address in ADDRESSES:
        refused = await anonymous.get(address)
        assert refused.status_code == (401 if address.endswith("/live") else 303), address
        assert (await client.get(address)).status_code == 403, address
        assert (await admin_client.get(address)).status_code == 200, address


async def test_only_admins_are_led_there(client: httpx.AsyncClient, admin_client: httpx.AsyncClient) -> None:
    assert nodes(await client.get("/exports"), 'nav a[href="/monitor"]') == []
    node(await admin_client.get("/monitor"), 'nav a[href="/monitor"][aria-current="page"]')


@pytest.mark.parametrize("address", ["/monitor", "/monitor/live", "/monitor/ends.csv"])
async def test_a_range_that_is_none_is_told_which_there_are(admin_client: httpx.AsyncClient, address: str) -> None:
    for range in ("", "2h", "24H", "30d;", "x" * 5000):
        response = await admin_client.get(address, params={"range": range})
        assert response.status_code == 400
        assert "1h, 24h, 7d, 30d" in response.text


def test_no_dataset_has_a_name_that_postgresql_cannot_take() -> None:
    assert parse_monitor_query(QueryParams({"dataset": "a\0b"})).dataset == "ab"


async def test_a_table_that_is_none_is_not_found(admin_client: httpx.AsyncClient) -> None:
    assert (await admin_client.get("/monitor/nonsense.csv")).status_code == 404


@pytest.mark.parametrize("range", ["1h", "30d"])
async def test_an_empty_desk_says_so_in_sentences(admin_client: httpx.AsyncClient, range: str) -> None:
    response = await admin_client.get(f"/monitor?range={range}")
    assert [tile(response, key) for key in ("running", "waiting", "oldest", "success", "latency", "deliveries")] == [
        "0", "0", "–", "–", "–", "–",
    ]  # fmt: skip
    notes = texts(response, ".tile-note")
    assert "Nobody is waiting." in notes
    assert f"No delivery ended in the last {RANGES[range].title}." in notes
    assert len(nodes(response, ".chart-empty")) == len(SHOWN)
    assert nodes(response, "table[data-chart]") == []
    assert text(response, ".chips [aria-current]") == RANGES[range].title
    assert len(await rows(admin_client, "ends", range)) == RANGES[range].parts


async def test_the_page_asks_for_the_same_range_again(admin_client: httpx.AsyncClient) -> None:
    live = node(await admin_client.get("/monitor?range=7d&dataset=things&channel=sse"), "#live")
    assert live.attributes["hx-get"] == "/monitor/live?poll=1&after=0&range=7d&dataset=things&channel=sse"
    part = await admin_client.get("/monitor/live?poll=3&range=7d&dataset=things")
    [live] = nodes(part, "body > *")
    assert (live.attributes["hx-sse:connect"] or "").startswith("/monitor/stream?after=")
    assert (live.attributes["hx-sse:connect"] or "").endswith("&range=7d&dataset=things")


@pytest.mark.parametrize("range", RANGES)
async def test_exports_are_counted_where_their_time_is(
    admin_client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker, range: str
) -> None:
    clock = await Clock.of(resources.store)
    clock.at = datetime(2026, 11, 29, 13, 37, 11, tzinfo=UTC)
    step, parts = RANGES[range].step, RANGES[range].parts
    expected: Counter[tuple[str, str]] = Counter()
    for number, status in enumerate([*FINISHED] * 4):
        at = clock.at - number * step * parts / 12
        began = datetime.fromtimestamp(at.timestamp() // step.total_seconds() * step.total_seconds(), UTC)
        if began > clock.at - parts * step:
            expected[f"{began:%Y-%m-%dT%H:%M:%S.000Z}", FINISHED[status]] += 1
        await make_export(status, created_at=at)
    await count_all(resources)
    found = await rows(admin_client, "ends", range)
    assert len(found) == parts
    assert 0 < expected.total() < 16
    told = {(row["from"], name): int(row[name]) for row in found for name in FINISHED.values() if row[name] != "0"}
    assert told == dict(expected)
    page = await admin_client.get(f"/monitor?range={range}")
    good, bad = (sum(n for (_, end), n in expected.items() if end in ends)
                 for ends in (("succeeded",), ("failed", "timed_out")))  # fmt: skip
    assert text(page, "#tile-success .tile-note").startswith(f"{good} of {good + bad} attempts")
    assert tile(page, "success").removesuffix("%") == f"{100 * good / (good + bad):.1f}".removesuffix(".0")


async def test_what_is_now_is_counted_and_leads_to_its_list(
    admin_client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {Status.PENDING: 1, Status.QUEUED: 2, Status.PROCESSING: 3, Status.SUCCESS: 4, Status.FAILED: 1}
    for status, count in made.items():
        for _ in range(count):
            await make_export(status)
    monkeypatch.setattr("webapp.actions.sweep._is_turn", lambda _: True)
    await sweep(resources)
    clock = await Clock.of(resources.store)
    clock.move(125)
    page = await admin_client.get("/monitor")
    assert (tile(page, "running"), tile(page, "waiting")) == ("3", "3")
    assert tile(page, "oldest").startswith("2 min")
    found = {row["status"]: int(row["exports"]) for row in await rows(admin_client, "statuses")}
    assert {name: count for name, count in found.items() if count} == {status.value: n for status, n in made.items()}
    for link in nodes(page, "#statuses td a, #tile-running a, #tile-waiting a"):
        shown = link.parent.next.next if link.parent and link.parent.tag == "h2" else link
        listed = await admin_client.get(link.attributes["href"] or "")
        assert len(nodes(listed, "table.exports tbody tr")) == int(plain(shown))
    assert len(nodes(page, "#workers .runs a")) == 3
    assert "No worker takes them." in text(page, "#queue-exports")


@pytest.mark.parametrize(
    ("queues", "told", "missing"),
    [
        ([], "0", True),
        ([Queue.EXPORTS], "1", True),
        ([Queue.CALLBACKS], "1", True),
        ([Queue.EXPORTS, Queue.CALLBACKS], "2", False),
    ],
)
async def test_which_workers_are_alive(
    admin_client: httpx.AsyncClient, resources: Resources, queues: list[Queue], told: str, missing: bool
) -> None:
    for queue in queues:
        await workers.begin(resources, [queue])
    gone = await workers.begin(resources, [*Queue])
    await workers.end(resources, gone)
    page = await admin_client.get("/monitor")
    assert tile(page, "workers") == told
    assert len(nodes(page, "#tile-workers.tone-bad")) == missing


async def test_deliveries_and_confirmations_are_counted_once_they_are_swept(
    admin_client: httpx.AsyncClient, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    await count_all(resources)
    endpoint = await register(resources, "https://receiver.example/hook", waits=())
    other = await register(resources, "https://other.example/hook")
    await owe(resources, endpoint, 4)
    await owe(resources, other, 2)
    answers = {endpoint.id: [Answer(None, 204), Answer(None, 204), Answer(None, 200), Answer(ErrorClass.HTTP_5XX, 500)],
               other.id: [Answer(ErrorClass.TIMEOUT), Answer(ErrorClass.HTTP_5XX, 502)]}  # fmt: skip
    work = await sending.claim(resources, "me", limit=10)
    await sending.record(resources, [Ended(one, answers[one.delivery.endpoint_id].pop()) for one in work])
    await make_export(Status.QUEUED)
    ids = [event.id for event in await events.page(resources.store) if event.type == "export.queued"]
    await acks.acknowledge(resources, user, ids, client="page", channel="sse")
    for _ in range(2):
        await count_all(resources)
    sent = [row for row in await rows(admin_client, "deliveries") if row["succeeded"] != "0"]
    assert [(row["succeeded"], row["retried"], row["dead"]) for row in sent] == [("3", "2", "1")]
    assert await rows(admin_client, "failures") == [
        {"reason": "HTTP_5XX", "requests": "2", "endpoints": f"{endpoint.id}=1 {other.id}=1"},
        {"reason": "TIMEOUT", "requests": "1", "endpoints": f"{other.id}=1"},
    ]
    latency = {
        row.pop("channel"): sum(map(int, row.values())) for row in await rows(admin_client, "notification-latency")
    }
    assert latency == {"callback": 3, "sse": 1}
    page = await admin_client.get("/monitor")
    assert (tile(page, "deliveries"), tile(page, "dead")) == ("75%", "1")
    assert texts(page, "#tile-latency dt") == ["Callback", "SSE"]
    narrowed = await admin_client.get("/monitor?channel=sse")
    assert (text(narrowed, "#tile-latency .tile-note"), nodes(narrowed, "#tile-latency dt")) == ("SSE", [])
    assert len(nodes(await admin_client.get("/callbacks/deliveries?status=dead"), ".log tbody tr")) == 1


async def test_streams_and_slots_are_averages_of_looks(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    """Whatever dataset and channel are looked at. What a web process that is gone told does not count."""
    now = await resources.store.now()
    await open_streams.tell(resources.redis, "one:1", {"sse": 2, "websocket": 1})
    await monitor.look(resources, now)
    await open_streams.tell(resources.redis, "two:2", {"sse": 3})
    worker = await workers.begin(resources, [Queue.EXPORTS])
    await workers.beat(resources, worker, Load(slots_taken=1, sending=0, memory=1))
    await monitor.look(resources, now)
    *earlier, last = await rows(admin_client, "streams", "24h&dataset=things&channel=polling")
    assert (last["sse"], last["websocket"], last["long_poll"]) == ("3.5", "1.0", "0.0")
    assert {row["sse"] for row in earlier} == {""}
    *_, last = await rows(admin_client, "slots")
    assert (float(last["taken"]), float(last["free"])) == (0.5, (worker.slots - 1) / 2)
    shown = text(await admin_client.get("/monitor"), "#streams > p")
    assert shown.startswith("Open now: SSE 5, WebSocket 1, Long poll 0.")
    await resources.redis.delete(f"{open_streams.PROCESSES}:one:1")
    assert await open_streams.count(resources.redis) == {"sse": 3}
    assert not await resources.redis.sismember(open_streams.PROCESSES, "one:1")


async def test_a_web_process_tells_what_it_holds_open(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_streams, "TOLD_EVERY", 0.01)
    application = build_app()
    async with serving(application, resources), asyncio.timeout(PATIENCE):
        for kind in ("sse", "long_poll"):
            with application.state.hub.connection(kind):
                while (await open_streams.count(resources.redis))[kind] != 1:
                    await asyncio.sleep(0.01)


async def test_without_redis_nobody_knows_how_many_streams_are_open(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    now = await resources.store.now()
    await monitor.look(resources, now)
    broken = replace(resources, redis=connect("redis://127.0.0.1:1"))
    assert await monitor.open_now(broken) is None
    await monitor.look(broken, now)
    found = await monitor.figures(broken, RANGES["1h"], Narrowed())
    assert sum((part.looks for part in found.parts), Counter()) == {STREAMS: 1, SLOTS: 2}


async def test_what_was_counted_before_there_was_a_monitor_is_under_no_time(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    endpoint = await register(resources, "https://receiver.example/hook")
    await owe(resources, endpoint)
    [work] = await sending.claim(resources, "me", limit=1)
    await sending.record(resources, [Ended(work, Answer(None, 204))])
    await count_all(resources)
    assert not any(row["succeeded"] != "0" for row in await rows(admin_client, "deliveries"))


async def test_the_disk_is_the_one_that_exports_are_written_to(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    free = tile(await admin_client.get("/monitor"), "disk")
    assert free.endswith("B")
    shutil.rmtree(resources.storage.work)
    assert tile(await admin_client.get("/monitor"), "disk") == "–"


async def test_old_rows_are_dropped(
    admin_client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker
) -> None:
    await make_export(Status.SUCCESS)
    await count_all(resources)
    clock = await Clock.of(resources.store)
    for age, left in LEFT.items():
        await monitor.drop_old(resources, clock.at + age)
        assert {span for (span,) in await resources.store.plain("SELECT span FROM tallies_over_time")} == left


@pytest.mark.parametrize(
    ("counts", "share", "seconds"),
    [
        ({}, 0.5, None),
        ({0: 10}, 0.5, 0.0125),
        ({0: 10}, 1.0, 0.025),
        ({1: 2, 3: 2}, 0.5, 0.05),
        ({1: 2, 3: 2}, 0.75, 0.15),
        ({0: 19, 12: 1}, 0.95, 0.025),
        ({12: 1}, 0.5, 60.0),
    ],
)
def test_quantiles_are_read_from_the_buckets(counts: dict[int, int], share: float, seconds: float | None) -> None:
    assert quantile(Metric.NOTIFICATION_LATENCY, counts, share) == (None if seconds is None else pytest.approx(seconds))
