"""The change log out, into a real Redis and a real broker of Kafka's protocol: all of it, by one process at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from factories import stored_export
from fresh_stores import Clock, database_kind, each_resources, each_settings, migrated_postgres, writer
from sink_servers import RedisServer, SinkServer, redis_sink, sink_server

from webapp.actions import change_log
from webapp.actions.sweep import sweep
from webapp.domain.access import Viewer
from webapp.domain.change_log import LEASE
from webapp.domain.events import Event, event_json
from webapp.domain.exports import Status
from webapp.domain.ids import new_id
from webapp.domain.sink_targets import SinkTarget, parse_sink
from webapp.ending import end
from webapp.resources import Resources
from webapp.sinks import open_sink
from webapp.store import events
from worker import change_log as sending
from worker.change_log import ChangeLog

__all__ = [
    "database_kind",
    "each_resources",
    "each_settings",
    "migrated_postgres",
    "redis_sink",
    "sink_server",
    "writer",
]

INSERT = """
INSERT INTO events (id, type, export_id, owner, version, timestamp, data)
VALUES ($1, 'export.started', $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, '{}')
"""


@asynccontextmanager
async def running(resources: Resources, target: SinkTarget) -> AsyncIterator[None]:
    task = asyncio.create_task(ChangeLog(resources, target).run())
    try:
        yield
    finally:
        await end(task, again=20)


async def until(having: Callable[[], Awaitable[bool]], *, seconds: float = 30) -> None:
    ends = time.monotonic() + seconds
    while not await having():
        assert time.monotonic() < ends
        await asyncio.sleep(0.05)


async def until_sent(resources: Resources) -> None:
    async def is_sent() -> bool:
        lag = await change_log.lag(resources, await resources.store.now())
        return lag is not None and lag.events == 0

    await until(is_sent)


def sending_to(resources: Resources, target: SinkTarget) -> Resources:
    return replace(resources, settings=replace(resources.settings, event_sink=target))


async def all_events(resources: Resources) -> list[Event]:
    return list(await events.page(resources.store, limit=1000))


def in_order(found: list[tuple[str, dict[str, object]]]) -> dict[str, list[object]]:
    """The versions of each export as they came."""
    versions: defaultdict[str, list[object]] = defaultdict(list)
    for key, event in found:
        assert key == event["export_id"]
        versions[key].append(event["version"])
    return versions


async def test_every_event_arrives_once_as_every_channel_tells_it(
    each_resources: Resources, writer: Viewer, sink_server: SinkServer
) -> None:
    target = parse_sink(sink_server.url)
    desk = sending_to(each_resources, target)
    for _ in range(45):
        await stored_export(desk, writer, Status.SUCCESS)
    async with running(desk, target):
        await until_sent(desk)
        await stored_export(desk, writer, Status.FAILED)
        await until_sent(desk)
    found = sink_server.entries()
    assert sorted((event for _, event in found), key=lambda event: event["seq"]) == [
        event_json(event) for event in await all_events(desk)
    ]
    assert all(versions == sorted(versions) for versions in in_order(found).values())

    async with running(desk, target):
        await stored_export(desk, writer, Status.QUEUED)
        await until_sent(desk)
    assert len(sink_server.entries()) == len(found) + 2


@pytest.mark.postgres
@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
async def test_a_late_commit_is_sent_too(each_resources: Resources, writer: Viewer, redis_sink: RedisServer) -> None:
    desk = sending_to(each_resources, parse_sink(redis_sink.url))
    late, early = new_id("evt"), new_id("evt")
    slow, quick = [await asyncpg.connect(desk.settings.database_url) for _ in range(2)]
    try:
        async with running(desk, parse_sink(redis_sink.url)):
            transaction = slow.transaction()
            await transaction.start()
            await slow.execute(INSERT, late, "exp_slow", writer.id, 1)
            await quick.execute(INSERT, early, "exp_quick", writer.id, 1)
            await until_sent(desk)
            assert [event["id"] for _, event in redis_sink.entries()] == [early]
            await transaction.commit()

            async def has_come() -> bool:
                return len(redis_sink.entries()) > 1

            await until(has_come)
            await quick.execute(INSERT, new_id("evt"), "exp_quick", writer.id, 2)
            await until_sent(desk)
    finally:
        await slow.close()
        await quick.close()
    assert [event["id"] for _, event in redis_sink.entries()][:2] == [early, late]
    assert len(redis_sink.entries()) == 3


async def test_a_dead_sink_delays_and_loses_nothing(
    resources: Resources, user: Viewer, sink_server: SinkServer, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    caplog.set_level(logging.INFO, "worker.change_log")
    monkeypatch.setattr(sending, "BACK_OFF", (0.1, 0.2))
    monkeypatch.setattr("webapp.sinks.kafka.ACKNOWLEDGED_SECONDS", 1.0)
    target = parse_sink(sink_server.url)
    desk = sending_to(resources, target)
    async with running(desk, target):
        await stored_export(desk, user, Status.SUCCESS)
        await until_sent(desk)
        before = {event["id"] for _, event in sink_server.entries()}
        sink_server.kill()
        await stored_export(desk, user, Status.SUCCESS)

        async def is_told() -> bool:
            return "the change log waits" in caplog.text

        await until(is_told)
        lag = await change_log.lag(desk, await desk.store.now())
        assert lag is not None
        assert lag.events == 4
        sink_server.start()
        await until_sent(desk)
    after = {event["id"] for _, event in sink_server.entries()}
    assert before | after == {event.id for event in await all_events(desk)}
    assert "the change log goes on" in caplog.text
    assert "To mend it: start it, or check EXPORTDESK_EVENT_SINK_URL" in caplog.text
    assert "hush-hush" not in caplog.text


async def test_what_the_sink_forgot_is_not_sent_again(
    resources: Resources, user: Viewer, redis_sink: RedisServer
) -> None:
    """At least once means until it is acknowledged. Another stream is told everything that is kept."""
    target = parse_sink(redis_sink.url)
    desk = sending_to(resources, target)
    async with running(desk, target):
        await stored_export(desk, user, Status.SUCCESS)
        await until_sent(desk)
        with redis_sink.client as client:
            client.flushall()
        export = await stored_export(desk, user, Status.QUEUED)
        await until_sent(desk)
    assert {key for key, _ in redis_sink.entries()} == {export.id}

    other = replace(target, name="another")
    async with running(desk, other):
        await until_sent(sending_to(desk, other))
    redis_sink.name = "another"
    assert len(redis_sink.entries()) == len(await all_events(desk))


async def test_a_stream_is_cut_to_about_its_length(resources: Resources, user: Viewer, redis_sink: RedisServer) -> None:
    target = replace(parse_sink(redis_sink.url), maxlen=100)
    desk = sending_to(resources, target)
    for _ in range(100):
        await stored_export(desk, user, Status.SUCCESS)
    async with running(desk, target):
        await until_sent(desk)
    assert 100 <= len(redis_sink.entries()) < 300


async def test_of_two_processes_one_sends_and_the_other_takes_over(
    each_resources: Resources, writer: Viewer, redis_sink: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "OTHERS_LOOK_EVERY", 0.1)
    target = parse_sink(redis_sink.url)
    desk = sending_to(each_resources, target)
    async with running(desk, target):
        for _ in range(2):
            async with running(desk, target):
                for _ in range(30):
                    await stored_export(desk, writer, Status.SUCCESS)
                await until_sent(desk)
        await stored_export(desk, writer, Status.SUCCESS)
        await until_sent(desk)
    sent = [event["seq"] for _, event in redis_sink.entries()]
    assert sent == [event.seq for event in await all_events(desk)]


async def test_who_lost_the_lease_cannot_move_on(each_resources: Resources, writer: Viewer) -> None:
    clock = await Clock.of(each_resources.store)
    target = SinkTarget(parse_sink("redis://127.0.0.1/x").kind, ("127.0.0.1:1",), "x")
    await stored_export(each_resources, writer, Status.SUCCESS)
    first = await change_log.hold(each_resources, target, "first")
    assert first is not None
    batch = await change_log.unsent(each_resources, first)
    assert await change_log.hold(each_resources, target, "second") is None
    clock.at += timedelta(milliseconds=LEASE)
    second = await change_log.hold(each_resources, target, "second")
    assert second is not None
    assert await change_log.move_on(each_resources, first, batch) is None
    assert await change_log.move_on(each_resources, second, batch) is not None
    assert await change_log.hold(each_resources, target, "first") is None


async def test_what_was_not_sent_is_kept_beyond_its_time(
    each_resources: Resources, writer: Viewer, redis_sink: RedisServer
) -> None:
    target = parse_sink(redis_sink.url)
    desk = sending_to(each_resources, target)
    await stored_export(desk, writer, Status.FAILED)
    clock = await Clock.of(desk.store)
    clock.at += desk.settings.event_retention + timedelta(hours=1)
    assert (await sweep(desk))["purged"] == 0
    async with running(desk, target):
        await until_sent(desk)
    assert (await sweep(desk))["purged"] > 0
    assert await all_events(desk) == []


async def test_both_say_what_is_there(sink_server: SinkServer) -> None:
    target = parse_sink(sink_server.url)
    sink = open_sink(target)
    assert str(target) in await sink.check()
    await sink.close()
