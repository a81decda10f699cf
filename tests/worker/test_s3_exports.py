"""Exports whose files go to a bucket, from claim to end: broken uploads, cancelling, killed workers, retention."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from buckets import SECRET, Bucket, Fault, Hold, cutting, failing, in_bucket, is_part
from buckets import bucket as bucket
from buckets import s3_server as s3_server
from factories import changed
from patience import PATIENCE

from webapp.actions import attempts, exports
from webapp.actions.sweep import sweep
from webapp.datasets.declaration import Catalog
from webapp.domain.access import Viewer
from webapp.domain.errors import FILE_LOST, ErrorCode
from webapp.domain.exports import Export, Phase, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.storage import s3
from webapp.store import exports as rows
from worker.children import Children
from worker.supervise import run_attempt

MANY_ROWS = 650_000
"""More than one part of an upload."""


@pytest.fixture
def settings(settings: Settings, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Settings:
    quick = {"max_retries": 1, "backoff": {"init_backoff": timedelta(milliseconds=5), "base": 2}}
    monkeypatch.setattr(s3, "UPLOAD_RETRIES", quick)
    monkeypatch.setattr(s3, "CALL_RETRIES", quick)
    return in_bucket(settings, bucket)


async def order(resources: Resources, viewer: Viewer, dataset: str = "things", **params: Any) -> Export:
    wanted = exports.Order(dataset, params, "csv", {})
    export, _ = await exports.order(resources, viewer, wanted, defaults=API_DEFAULTS)
    return export


async def next_attempt(resources: Resources) -> Export:
    claimed = await attempts.claim(resources)
    assert claimed is not None
    return claimed


async def stored(resources: Resources, export: Export) -> Export:
    found = await rows.get(resources.store, export.id)
    assert found is not None
    return found


async def until(resources: Resources, export: Export, holds: Callable[[Export], bool], seconds: float = 60) -> Export:
    async with asyncio.timeout(seconds):
        while not holds(found := await stored(resources, export)):
            await asyncio.sleep(0.05)
    return found


async def content(bucket: Bucket, export: Export) -> bytes:
    """The object's bytes; they are what the export says."""
    assert export.file is not None, export.error
    [key] = await bucket.keys()
    assert key == f"desk/files/{export.file.key}"
    found = await bucket.content(key)
    assert (len(found), hashlib.sha256(found).hexdigest()) == (export.file.size, export.file.sha256)
    return found


async def test_an_order_becomes_an_object(
    resources: Resources, children: Children, user: Viewer, bucket: Bucket
) -> None:
    export = await order(resources, user)
    await run_attempt(resources, children, await next_attempt(resources))
    ended = await stored(resources, export)
    assert ended.status is Status.SUCCESS
    assert (await content(bucket, ended)).decode().splitlines()[7] == "7,thing 7 – 東京,1.75,2026-01-31"
    assert list(resources.storage.work.iterdir()) == []


async def test_a_broken_upload_fails_the_attempt_and_the_next_one_succeeds(
    resources: Resources, children: Children, user: Viewer, bucket: Bucket
) -> None:
    bucket.fault = cutting(lambda request: is_part(request, 2))
    export = await order(resources, user, "slow", rows=MANY_ROWS)
    await run_attempt(resources, children, await next_attempt(resources))
    failed = await stored(resources, export)
    assert failed.error is not None
    assert (failed.status, failed.failures, failed.error.code) == (Status.QUEUED, 1, ErrorCode.STORAGE_ERROR)
    assert failed.error.message == "The file could not be stored. Try again in a few minutes."
    assert (await bucket.keys(), await bucket.uploads()) == ([], [])

    bucket.fault = None
    await changed(resources, failed, retry_at=None)
    await run_attempt(resources, children, await next_attempt(resources))
    ended = await stored(resources, export)
    assert (ended.status, ended.attempt) == (Status.SUCCESS, 2)
    assert (await content(bucket, ended)).count(b"\r\n") == MANY_ROWS + 1
    assert ended.file is not None
    assert ended.file.key.endswith(".2.csv")


async def test_a_long_upload_is_told_and_beats_the_heart(
    resources: Resources, children: Children, user: Viewer, bucket: Bucket
) -> None:
    bucket.fault = hold = Hold(lambda request: request.method == "PUT")
    export = await order(resources, user)
    running = asyncio.create_task(run_attempt(resources, children, await next_attempt(resources)))
    first = await until(resources, export, lambda found: found.phase is Phase.UPLOADING)
    later = await until(resources, export, lambda found: found.heartbeat_at != first.heartbeat_at)
    assert (later.status, later.rows_done) == (Status.PROCESSING, 1000)
    hold.let_go()
    await running
    ended = await stored(resources, export)
    assert (ended.status, ended.phase) == (Status.SUCCESS, None)
    assert ended.file is not None
    assert ended.file.size == first.bytes == later.bytes


async def test_cancelling_stops_the_upload(
    resources: Resources, children: Children, user: Viewer, bucket: Bucket
) -> None:
    bucket.fault = hold = Hold(lambda request: request.method == "PUT")
    export = await order(resources, user)
    running = asyncio.create_task(run_attempt(resources, children, await next_attempt(resources)))
    await hold.reached.wait()
    await exports.cancel(resources, user, export.id)
    await asyncio.sleep(0.05)
    hold.let_go()
    await running
    assert (await stored(resources, export)).status is Status.CANCELLED
    assert (await bucket.keys(), await bucket.uploads()) == ([], [])
    assert list(resources.storage.work.iterdir()) == []


async def test_an_upload_counts_towards_the_time_limit(
    resources: Resources, children: Children, user: Viewer, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "ABORT_SECONDS", 0.2)
    bucket.fault = hold = Hold(lambda request: request.method == "PUT")
    things = replace(resources.catalog.datasets["things"], execution_limit=timedelta(seconds=2))
    catalog = Catalog({**resources.catalog.datasets, "things": things}, resources.catalog.sources)
    export = await order(resources, user)
    await run_attempt(resources.with_catalog(catalog), children, await next_attempt(resources))
    ended = await stored(resources, export)
    assert ended.error is not None
    assert (ended.status, ended.error.code) == (Status.EXPIRED, ErrorCode.TIMEOUT)
    hold.let_go()
    assert await bucket.keys() == []


async def test_a_worker_that_is_stopped_takes_its_upload_back_and_hands_the_export_on(
    resources: Resources, children: Children, user: Viewer, bucket: Bucket
) -> None:
    bucket.fault = hold = Hold(lambda request: request.method == "PUT")
    export = await order(resources, user)
    running = asyncio.create_task(run_attempt(resources, children, await next_attempt(resources)))
    await hold.reached.wait()
    running.cancel()
    await asyncio.sleep(0.05)
    hold.let_go()
    with pytest.raises(asyncio.CancelledError):
        await running
    back = await stored(resources, export)
    assert (back.status, back.failures) == (Status.QUEUED, 0)
    assert (await bucket.keys(), await bucket.uploads()) == ([], [])


async def test_a_worker_that_was_given_up_leaves_its_successors_file_alone(
    resources: Resources, children: Children, user: Viewer, bucket: Bucket
) -> None:
    """It wakes when its successor is done, and completes its upload."""
    bucket.fault = hold = Hold(lambda request: request.method == "PUT" and ".1.csv" in request.path)
    export = await order(resources, user)
    first = await next_attempt(resources)
    late = asyncio.create_task(run_attempt(resources, children, first))
    await hold.reached.wait()
    await attempts.hand_back(resources, first)
    await run_attempt(resources, children, await next_attempt(resources))
    hold.let_go()
    await late
    ended = await stored(resources, export)
    assert (ended.status, ended.attempt) == (Status.SUCCESS, 2)
    assert (await content(bucket, ended)).count(b"\r\n") == 1001


@pytest.fixture
def start_worker(resources: Resources) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts worker processes for exports; ends those that are left."""
    settings = resources.settings
    environ = {
        **os.environ,
        "EXPORTDESK_DATA_DIR": str(settings.data_dir),
        "EXPORTDESK_REDIS_URL": str(settings.redis_url),
        "EXPORTDESK_CONFIG": str(settings.config),
        "EXPORTDESK_STORAGE_URL": settings.storage_url,
    }
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "worker", "exports"]
        running.append(subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL))
        return running[-1]

    yield start
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


async def test_a_worker_killed_in_mid_upload_leaves_no_file_and_the_export_ends_once(
    resources: Resources, user: Viewer, bucket: Bucket, start_worker: Callable[[], subprocess.Popen[bytes]]
) -> None:
    bucket.fault = hold = Hold(lambda request: is_part(request, 2) and ".1.csv" in request.path)
    victim = start_worker()
    export = await order(resources, user, "slow", rows=MANY_ROWS)
    await asyncio.wait_for(hold.reached.wait(), PATIENCE)
    uploading = await until(resources, export, lambda found: found.phase is Phase.UPLOADING)
    victim.kill()
    victim.wait()
    hold.let_go()
    assert await bucket.keys() == []
    await attempts.hand_back(resources, uploading)  # as the sweep does it, without its waits
    start_worker()
    ended = await until(resources, export, lambda found: not found.is_active)
    assert (ended.status, ended.attempt) == (Status.SUCCESS, 2)
    assert (await content(bucket, ended)).count(b"\r\n") == MANY_ROWS + 1


ExportMaker = Callable[..., Awaitable[Export]]


async def test_the_object_goes_with_the_export(
    resources: Resources, user: Viewer, bucket: Bucket, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    assert len(await bucket.keys()) == 1
    await exports.delete(resources, user, export.id)
    assert await bucket.keys() == []


async def test_an_export_can_be_deleted_while_the_store_is_away(
    resources: Resources, user: Viewer, bucket: Bucket, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    bucket.fault = failing(500, lambda request: True)
    await exports.delete(resources, user, export.id)
    assert await rows.get(resources.store, export.id) is None


async def test_past_its_retention_the_object_goes(
    resources: Resources, bucket: Bucket, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    assert export.file is not None
    at = await resources.store.now() - timedelta(seconds=1)
    await changed(resources, export, file=replace(export.file, expires_at=at))
    assert (await sweep(resources))["expired"] == 1
    assert (await stored(resources, export)).status is Status.EXPIRED
    assert await bucket.keys() == []


async def test_objects_that_nobody_speaks_of_go(
    resources: Resources, bucket: Bucket, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, running = await make_export(Status.SUCCESS), await make_export(Status.PROCESSING)
    assert done.file is not None
    key = resources.storage.key
    kept = [done.file.key, key(running.id, running.attempt, ".csv")]
    for one in [*kept[1:], key(done.id, 9, ".csv"), key("exp_" + "7" * 26, 1, ".csv")]:
        await bucket.put(f"desk/files/{one}", b"x")
    monkeypatch.setattr("webapp.actions.sweep.ORPHAN_AGE", -60.0)
    assert (await sweep(resources))["orphans deleted"] == 2
    assert sorted(await bucket.keys()) == sorted(f"desk/files/{one}" for one in kept)


async def test_young_objects_stay(resources: Resources, bucket: Bucket) -> None:
    await bucket.put(f"desk/files/{resources.storage.key('exp_' + '7' * 26, 1, '.csv')}", b"x")
    assert (await sweep(resources))["orphans deleted"] == 0
    assert len(await bucket.keys()) == 1


async def test_a_finished_export_whose_object_is_gone_is_told_of(
    resources: Resources, bucket: Bucket, make_export: ExportMaker
) -> None:
    export, other = await make_export(Status.SUCCESS), await make_export(Status.SUCCESS)
    assert export.file is not None
    await resources.storage.delete(export.file.key)
    assert (await sweep(resources))["files lost"] == 1
    after = await stored(resources, export)
    assert (after.status, after.error, after.file) == (Status.EXPIRED, FILE_LOST, None)
    assert await stored(resources, other) == other


NO_BUCKET = failing(404, lambda request: True, body="<Code>NoSuchBucket</Code>")


@pytest.mark.parametrize("fault", [NO_BUCKET, *(failing(status, lambda request: True) for status in (403, 500))])
async def test_a_bucket_that_is_away_is_no_lost_file(
    resources: Resources, bucket: Bucket, make_export: ExportMaker, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    export = await make_export(Status.SUCCESS)
    bucket.fault = fault
    assert (await sweep(resources))["files lost"] == 0
    assert await stored(resources, export) == export
    assert "finished files cannot be looked for" in caplog.text
    assert SECRET not in caplog.text
