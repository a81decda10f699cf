"""The sweep, step by step with a clock that we move: what is stuck, lost or out of date is put right, once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from arq.constants import in_progress_key_prefix
from factories import stored_export
from fresh_stores import Clock

from webapp.actions import attempts, monitor, people
from webapp.actions import exports as actions
from webapp.actions.exports import DAY
from webapp.actions.sweep import ORPHAN_AGE, sweep
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, in_words
from webapp.domain.exports import Export, Phase, Status
from webapp.queue import enqueue_export, job_id
from webapp.resources import Resources
from webapp.store import events, idempotency
from webapp.store import exports as rows
from webapp.store.exports import Progress

Maker = Callable[..., Awaitable[Export]]


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


@pytest.fixture
def put(each_resources: Resources, writer: Viewer, clock: Clock) -> Maker:
    async def make(status: Status, **changes: Any) -> Export:
        return await stored_export(each_resources, writer, status, **changes)

    return make


async def stored(resources: Resources, export: Export) -> Export:
    found = await rows.get(resources.store, export.id)
    assert found is not None
    return found


async def event_types(resources: Resources, export: Export) -> list[str]:
    return [event.type.removeprefix("export.") for event in await events.page(resources.store, export_id=export.id)]


async def jobs(resources: Resources, export: Export) -> int:
    return len(await resources.redis.keys(f"arq:job:export:{export.id}:*"))


async def swept(resources: Resources) -> dict[str, int]:
    return {name: count for name, count in (await sweep(resources)).items() if count}


async def test_with_nothing_amiss_nothing_is_done(each_resources: Resources, put: Maker):
    for status in Status:
        await put(status)
    before = await rows.list_page(each_resources.store, rows.ListFilter(), limit=99, after=None)
    assert await swept(each_resources) == {}
    assert await rows.list_page(each_resources.store, rows.ListFilter(), limit=99, after=None) == before


async def test_an_order_that_was_never_queued_is_queued(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.PENDING)
    clock.move(limits.PENDING_STUCK_AFTER)
    assert await swept(each_resources) == {}
    clock.move(0.001)
    assert await swept(each_resources) == {"queued": 1}
    assert (await stored(each_resources, export)).status is Status.QUEUED
    assert await jobs(each_resources, export) == 1
    assert await swept(each_resources) == {}


async def test_what_redis_forgot_is_enqueued_again(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.QUEUED)
    await each_resources.redis.flushdb()
    clock.move(limits.QUEUED_STUCK_AFTER + 0.001)
    assert await swept(each_resources) == {"woken": 1}
    assert await jobs(each_resources, export) == 1
    assert await stored(each_resources, export) == export
    clock.move(30)
    assert await swept(each_resources) == {}
    assert await jobs(each_resources, export) == 1


async def test_a_wake_up_that_a_killed_worker_had_begun_is_no_wake_up(
    each_resources: Resources, put: Maker, clock: Clock
):
    export = await put(Status.QUEUED)
    await enqueue_export(each_resources.redis, export)
    await each_resources.redis.set(in_progress_key_prefix + job_id(export), b"1")
    clock.move(limits.QUEUED_STUCK_AFTER + 0.001)
    assert await swept(each_resources) == {"woken": 1}
    assert await jobs(each_resources, export) == 2


async def test_what_waits_behind_others_is_left_alone(
    each_resources: Resources, writer: Viewer, put: Maker, clock: Clock
):
    """Its owner has as many running as may run; or all slots are taken, and its wake-up is still in the queue."""
    await put(Status.QUEUED)
    running = [await put(Status.PROCESSING) for _ in range(each_resources.settings.max_running_per_user)]
    clock.move(limits.QUEUED_STUCK_AFTER + 0.001)
    assert await swept(each_resources) == {}
    await actions.cancel(each_resources, writer, running[0].id)
    assert await swept(each_resources) == {}
    await each_resources.redis.flushdb()
    assert await swept(each_resources) == {"woken": 1}


async def test_what_the_sweep_did_is_on_the_monitor(each_resources: Resources, put: Maker, clock: Clock):
    await put(Status.PENDING)
    clock.move(limits.PENDING_STUCK_AFTER + 0.001)
    await sweep(each_resources)
    figures = await monitor.figures(each_resources, monitor.RANGES["1h"], monitor.Narrowed())
    assert figures.swept == {"queued": 1}


async def test_a_retry_that_is_not_due_is_left_alone(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.QUEUED, retry_at=clock.at + timedelta(seconds=60))
    clock.move(59)
    assert await swept(each_resources) == {}
    clock.move(1)
    assert await swept(each_resources) == {"woken": 1}
    assert await jobs(each_resources, export) == 1


async def test_an_attempt_without_a_sign_of_life_is_retried(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.PROCESSING)
    clock.move(limits.HEARTBEAT_LOST_AFTER)
    assert await swept(each_resources) == {}
    clock.move(0.001)
    assert await swept(each_resources) == {"given up": 1}
    after = await stored(each_resources, export)
    assert (after.status, after.failures, after.attempt) == (Status.QUEUED, 1, 1)
    assert after.error is not None
    assert after.error.code is ErrorCode.WORKER_LOST
    assert after.retry_at is not None
    assert (await event_types(each_resources, export))[-2:] == ["failed", "queued"]
    assert not await attempts.report_progress(each_resources, export, Progress(Phase.READING, 1, None, 1))


async def test_a_sign_of_life_keeps_an_attempt_alive(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.PROCESSING)
    for _ in range(3):
        clock.move(limits.HEARTBEAT_LOST_AFTER)
        assert await attempts.report_progress(each_resources, export, Progress(Phase.READING, 1, None, 1))
    assert await swept(each_resources) == {}


async def test_a_worker_lost_for_the_third_time_fails_for_good(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.PROCESSING, failures=2)
    clock.move(13)
    assert await swept(each_resources) == {"given up": 1}
    assert (await stored(each_resources, export)).status is Status.FAILED


async def test_an_attempt_past_its_limit_is_ended(each_resources: Resources, put: Maker, clock: Clock):
    """`slow` declares 20 s; `things` has the setting's 30 minutes."""
    slow, other = await put(Status.PROCESSING, dataset="slow"), await put(Status.PROCESSING)

    async def alive() -> None:
        for export in (slow, other):
            await attempts.report_progress(each_resources, export, Progress(Phase.READING, 1, None, 1))

    clock.move(20 + limits.EXECUTION_GRACE)
    await alive()
    assert await swept(each_resources) == {}
    clock.move(0.001)
    assert await swept(each_resources) == {"timed out": 1}
    ended = await stored(each_resources, slow)
    assert ended.status is Status.EXPIRED
    assert ended.error is not None
    assert (ended.error.code, "limit of 20 seconds" in ended.error.message) == (ErrorCode.TIMEOUT, True)
    assert (await event_types(each_resources, slow))[-1] == "timed_out"
    assert (await stored(each_resources, other)).status is Status.PROCESSING
    clock.move(30 * 60)
    await alive()
    assert await swept(each_resources) == {"timed out": 1}
    assert "30 minutes" in str((await stored(each_resources, other)).error)


async def test_a_dataset_that_is_gone_has_the_settings_limit(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.PROCESSING, dataset="gone")
    clock.move(30 * 60 + limits.EXECUTION_GRACE + 1)
    await attempts.report_progress(each_resources, export, Progress(Phase.READING, 1, None, 1))
    assert await swept(each_resources) == {"timed out": 1}


async def test_past_its_retention_the_file_goes(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.SUCCESS)
    assert export.file is not None
    path = each_resources.storage.path(export.file.key)
    clock.at = export.file.expires_at - timedelta(milliseconds=1)
    assert await swept(each_resources) == {}
    assert path.exists()
    clock.move(0.001)
    assert await swept(each_resources) == {"expired": 1}
    after = await stored(each_resources, export)
    assert (after.status, after.file, after.expired_at) == (Status.EXPIRED, None, clock.at)
    assert after.error is not None
    assert after.error.code is ErrorCode.RETENTION
    assert not path.exists()
    assert (await event_types(each_resources, export))[-1] == "expired"
    assert await swept(each_resources) == {}


async def test_a_file_that_is_gone_already_expires_all_the_same(each_resources: Resources, put: Maker, clock: Clock):
    export = await put(Status.SUCCESS)
    assert export.file is not None
    each_resources.storage.path(export.file.key).unlink()
    clock.at = export.file.expires_at
    assert await swept(each_resources) == {"expired": 1}


# Orphans


def aged(path: Path, seconds: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(b"orphan")
    os.utime(path, (time.time() - seconds,) * 2)
    return path


async def test_files_that_nobody_speaks_of_go_after_an_hour(each_resources: Resources, put: Maker):
    storage = each_resources.storage
    done, running, failed = await put(Status.SUCCESS), await put(Status.PROCESSING), await put(Status.FAILED)
    assert done.file is not None
    unknown = "exp_" + "7" * 26
    kept = [
        aged(storage.path(done.file.key), ORPHAN_AGE + 60),
        aged(storage.temporary(running.id, 1), ORPHAN_AGE + 60),
        aged(storage.path(storage.key(running.id, 1, ".csv")), ORPHAN_AGE + 60),
        aged(storage.temporary(failed.id, 1), ORPHAN_AGE - 60),
        aged(storage.path(storage.key(unknown, 2, ".csv")), ORPHAN_AGE - 60),
        aged(storage.folder / "ab" / "README", ORPHAN_AGE + 60),
    ]
    gone = [
        aged(storage.temporary(done.id, 1), ORPHAN_AGE + 60),
        aged(storage.temporary(failed.id, 1).with_suffix(".7"), ORPHAN_AGE + 60),
        aged(storage.path(storage.key(done.id, 9, ".csv")), ORPHAN_AGE + 60),
        aged(storage.path(storage.key(failed.id, 1, ".csv")), ORPHAN_AGE + 60),
        aged(storage.path(storage.key(unknown, 1, ".csv")), ORPHAN_AGE + 60),
        aged(storage.temporary(unknown, 1), ORPHAN_AGE + 60),
    ]
    assert await swept(each_resources) == {"orphans deleted": len(gone)}
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in gone if path.exists()] == []


async def test_more_orphans_than_a_batch(each_resources: Resources):
    storage = each_resources.storage
    for number in range(450):
        aged(storage.temporary(f"exp_{number:026}", 1), ORPHAN_AGE + 60)
    assert await swept(each_resources) == {"orphans deleted": 450}


# Purging


async def test_events_keys_and_sessions_past_their_time_go(each_resources: Resources, put: Maker, clock: Clock):
    done = await put(Status.FAILED)
    user = await people.add_user(
        each_resources, "signer", role=people.Role.USER, actor="tests", password="long enough a password"
    )
    session = await people.sign_in(each_resources, "signer", "long enough a password")
    assert session is not None
    use = idempotency.KeyUse("order", "exp_1")
    await idempotency.remember(each_resources.store, user.id, "k", use, at=clock.at)
    start = clock.at

    async def key_use() -> object:
        return await idempotency.find(each_resources.store, user.id, "k", since=start)

    clock.at = start + DAY
    assert await swept(each_resources) == {}
    assert await key_use() == use
    clock.move(0.001)
    assert await swept(each_resources) == {}  # keys are not counted
    assert await key_use() is None
    clock.at = start + people.SESSION_LIFETIME
    assert await swept(each_resources) == {"purged": 1}
    clock.at = start + each_resources.settings.event_retention
    assert await swept(each_resources) == {}
    clock.move(0.001)
    assert await swept(each_resources) == {"purged": 4}
    assert await events.page(each_resources.store) == []
    assert await stored(each_resources, done) == done


# Two at once


async def test_two_sweeps_at_once_do_nothing_twice(each_resources: Resources, put: Maker, clock: Clock):
    made = {
        "queued": await put(Status.PENDING),
        "given up": await put(Status.PROCESSING),
        "timed out": await put(Status.PROCESSING, dataset="slow"),
        "expired": await put(Status.SUCCESS),
    }
    clock.at = made["expired"].file.expires_at  # type: ignore[union-attr]
    await attempts.report_progress(each_resources, made["timed out"], Progress(Phase.READING, 1, None, 1))
    await asyncio.gather(*(sweep(each_resources) for _ in range(4)))
    after = {name: await stored(each_resources, export) for name, export in made.items()}
    assert {name: export.version - made[name].version for name, export in after.items()} == {
        "queued": 1, "given up": 2, "timed out": 1, "expired": 1,
    }  # fmt: skip
    for export in after.values():
        assert len(await event_types(each_resources, export)) == export.version
    assert await swept(each_resources) == {}


async def test_what_changed_meanwhile_is_left_as_it_is(
    each_resources: Resources, put: Maker, clock: Clock, writer: Viewer, monkeypatch: pytest.MonkeyPatch
):
    """The sweep has seen a stuck order and an old file, and then the person was faster."""
    pending, done = await put(Status.PENDING), await put(Status.SUCCESS)
    assert done.file is not None
    real = rows.stuck_pending

    async def then_cancelled(*args: Any, **kwargs: Any) -> Any:
        found = await real(*args, **kwargs)
        await actions.cancel(each_resources, writer, pending.id)
        await actions.delete(each_resources, writer, done.id)
        return found

    old = replace(done)
    monkeypatch.setattr(rows, "stuck_pending", then_cancelled)

    async def still_seen(*_: Any, **__: Any) -> list[Export]:
        return [old]

    monkeypatch.setattr(rows, "past_retention", still_seen)
    clock.move(60)
    await sweep(each_resources)
    assert (await stored(each_resources, pending)).status is Status.CANCELLED
    assert await rows.get(each_resources.store, done.id) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "1 second"), (90, "90 seconds"), (60, "1 minute"), (1800, "30 minutes"), (3600, "1 hour"), (7200, "2 hours")],
)
def test_limits_in_words(seconds: int, words: str):
    assert in_words(timedelta(seconds=seconds)) == words
