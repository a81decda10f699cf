"""One attempt from claim to end: a real child process, a real source, a real file."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from webapp.actions import attempts, exports, groups
from webapp.datasets.declaration import Catalog
from webapp.domain.access import Role, Viewer
from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Export, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.store import exports as rows
from worker import supervise
from worker.children import Child, Children

FOR_EVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
NO_ROW_FOR_EVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"

Asking = Callable[..., Resources]
"""What the fixture `asking` is: from SQL to resources whose dataset `things` asks just that."""


def with_dataset(resources: Resources, name: str, **changes: Any) -> Resources:
    """The same resources with one dataset changed."""
    datasets = {**resources.catalog.datasets, name: replace(resources.catalog.datasets[name], **changes)}
    return resources.with_catalog(Catalog(datasets, resources.catalog.sources))


async def claimed(resources: Resources, viewer: Viewer, dataset: str, **order: Any) -> Export:
    wanted = exports.Order(dataset, order.get("params", {}), order.get("format", "csv"), order.get("options", {}))
    await exports.order(resources, viewer, wanted, defaults=API_DEFAULTS)
    export = await attempts.claim(resources)
    assert export is not None
    return export


async def run(resources: Resources, children: Children, export: Export) -> Export:
    await asyncio.wait_for(supervise.run_attempt(resources, children, export), PATIENCE)
    return await stored(resources, export)


async def stored(resources: Resources, export: Export) -> Export:
    found = await rows.get(resources.store, export.id)
    assert found is not None
    return found


def path_of(resources: Resources, export: Export) -> Path:
    assert export.error is None, export.error
    assert export.file is not None
    return resources.storage.path(export.file.key)


def temporary_files(resources: Resources) -> list[str]:
    return os.listdir(resources.storage.folder / ".part")


def processes_of_this_test() -> list[int]:
    """Child processes of ours that run `worker.child`, zombies left out."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if parent == os.getpid() and b"worker.child" in (entry / "cmdline").read_bytes() and state != "Z":
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.parametrize("format", ["csv", "jsonl", "xlsx"])
async def test_an_order_becomes_a_file_whose_rows_and_hash_are_the_ones_that_are_told(
    resources: Resources, children: Children, user: Viewer, format: str
) -> None:
    export = await run(resources, children, await claimed(resources, user, "things", format=format))
    assert (export.status, export.rows_done, export.attempt) == (Status.SUCCESS, 1000, 1)
    assert export.file is not None
    content = resources.storage.path(export.file.key).read_bytes()
    assert hashlib.sha256(content).hexdigest() == export.file.sha256
    assert len(content) == export.file.size
    assert export.file.rows == 1000
    assert export.file.name.startswith("Things ")
    assert temporary_files(resources) == []


@pytest.mark.parametrize("way", ["grants", "roles"])
async def test_what_was_taken_from_its_owner_meanwhile_is_not_executed(
    resources: Resources, children: Children, user: Viewer, way: str
) -> None:
    """Nor tried again, until it is theirs again."""
    export = await claimed(resources, user, "things")
    group = await groups.create(resources, "others", actor="tests")
    if way == "grants":
        await groups.grant(resources, "things", group, actor="tests")
    desk = with_dataset(resources, "things", roles=frozenset({Role.ADMIN})) if way == "roles" else resources
    ended = await run(desk, children, export)
    assert (ended.status, ended.error and ended.error.code) == (Status.FAILED, ErrorCode.NOT_GRANTED)
    assert ended.file is None
    await groups.open_to_all(resources, "things", actor="tests")
    await exports.retry(resources, user, export.id)
    again = await attempts.claim(resources)
    assert again is not None
    assert (await run(resources, children, again)).status is Status.SUCCESS


async def test_the_csv_holds_exactly_what_the_source_holds(
    resources: Resources, children: Children, user: Viewer, shop: Path
) -> None:
    export = await run(resources, children, await claimed(resources, user, "things", params={"most": 3}))
    assert export.file is not None
    assert resources.storage.path(export.file.key).read_bytes().decode() == (
        "id,name,price,made\r\n"
        "1,thing 1 – 東京,0.25,2026-01-31\r\n"
        "2,thing 2 – 東京,0.5,2026-01-31\r\n"
        "3,thing 3 – 東京,0.75,2026-01-31\r\n"
    )


async def test_a_failing_query_is_final_and_explained(resources: Resources, children: Children, user: Viewer) -> None:
    export = await run(resources, children, await claimed(resources, user, "broken"))
    assert export.status is Status.FAILED
    assert export.error is not None
    assert (export.error.code, export.error.retriable) == (ErrorCode.QUERY_ERROR, False)
    assert "vanished" in export.error.message
    assert "Traceback" not in export.error.message


async def test_a_source_that_is_down_is_tried_again_later(
    resources: Resources, children: Children, user: Viewer, shop: Path
) -> None:
    claim = await claimed(resources, user, "things")
    shop.unlink()
    export = await run(resources, children, claim)
    assert export.status is Status.QUEUED
    assert export.error is not None
    assert export.error.code is ErrorCode.SOURCE_UNREACHABLE
    assert export.retry_at is not None
    assert str(shop) not in export.error.message


async def test_a_dataset_that_is_gone_fails_its_export(resources: Resources, children: Children, user: Viewer) -> None:
    claim = await claimed(resources, user, "things")
    without = {name: dataset for name, dataset in resources.catalog.datasets.items() if name != "things"}
    bare = resources.with_catalog(Catalog(without, resources.catalog.sources))
    export = await run(bare, children, claim)
    assert export.status is Status.FAILED
    assert export.error is not None
    assert "things" in export.error.message


@pytest.mark.parametrize("sql", [FOR_EVER, NO_ROW_FOR_EVER])
async def test_cancelling_stops_the_query_and_the_process(
    resources: Resources, children: Children, user: Viewer, sql: str
) -> None:
    changed = with_dataset(resources, "secret", sql=sql, roles=resources.catalog.datasets["things"].roles)
    claim = await claimed(changed, user, "secret")
    running = asyncio.create_task(run(changed, children, claim))
    await asyncio.sleep(1.5)
    assert (await stored(resources, claim)).status is Status.PROCESSING
    await exports.cancel(resources, user, claim.id)
    export = await asyncio.wait_for(running, PATIENCE)
    assert export.status is Status.CANCELLED
    assert temporary_files(resources) == []
    await children.close()
    assert processes_of_this_test() == []


@pytest.mark.parametrize("sql", [FOR_EVER, NO_ROW_FOR_EVER])
async def test_the_execution_limit_ends_the_work_itself(
    resources: Resources, children: Children, user: Viewer, sql: str
) -> None:
    roles = resources.catalog.datasets["things"].roles
    changed = with_dataset(resources, "secret", sql=sql, roles=roles, execution_limit=timedelta(seconds=2))
    export = await run(changed, children, await claimed(changed, user, "secret"))
    assert export.status is Status.EXPIRED
    assert export.error is not None
    assert export.error.code is ErrorCode.TIMEOUT
    assert "2 seconds" in export.error.message
    assert temporary_files(resources) == []


async def test_more_rows_than_the_dataset_allows_is_an_error_and_no_cut_file(
    resources: Resources, children: Children, user: Viewer
) -> None:
    changed = with_dataset(resources, "things", row_limit=999)
    export = await run(changed, children, await claimed(changed, user, "things"))
    assert export.status is Status.FAILED
    assert export.error is not None
    assert export.error.code is ErrorCode.TOO_MANY_ROWS
    assert "999" in export.error.message
    assert temporary_files(resources) == []


async def test_a_larger_file_than_the_dataset_allows_is_an_error_and_no_cut_file(
    resources: Resources, children: Children, user: Viewer
) -> None:
    changed = with_dataset(resources, "things", max_bytes=5_000)
    export = await run(changed, children, await claimed(changed, user, "things"))
    assert export.error is not None
    assert export.error.code is ErrorCode.TOO_LARGE
    assert temporary_files(resources) == []


async def test_too_much_memory_is_an_error_of_the_export_and_the_next_one_runs(
    resources: Resources, children: Children, user: Viewer
) -> None:
    roles = resources.catalog.datasets["things"].roles
    greedy = "SELECT i, hex(zeroblob(200000000 + i)) AS x FROM (SELECT 1 AS i UNION ALL SELECT 2 UNION ALL SELECT 3)"
    changed = with_dataset(resources, "secret", sql=greedy, roles=roles)
    export = await run(changed, children, await claimed(changed, user, "secret"))
    assert export.status is Status.FAILED
    assert export.error is not None
    assert export.error.code is ErrorCode.OUT_OF_MEMORY
    assert "(512 MiB)" in export.error.message
    after = await run(resources, children, await claimed(resources, user, "things"))
    assert after.status is Status.SUCCESS


async def test_a_dataset_may_have_more_or_less_memory_and_the_sentence_says_how_much(
    resources: Resources, children: Children, user: Viewer
) -> None:
    roles = resources.catalog.datasets["things"].roles
    one_cell = "SELECT hex(zeroblob(40000000)) AS x"
    small = with_dataset(resources, "secret", sql=one_cell, roles=roles, memory_limit=64_000_000)
    export = await run(small, children, await claimed(small, user, "secret"))
    assert export.error is not None
    assert (export.error.code, export.file) == (ErrorCode.OUT_OF_MEMORY, None)
    assert "(64 MB)" in export.error.message
    assert temporary_files(resources) == []
    large = with_dataset(resources, "secret", sql=one_cell, roles=roles, memory_limit=2 * 2**30)
    assert (await run(large, children, await claimed(large, user, "secret"))).status is Status.SUCCESS


async def test_an_attempt_keeps_the_source_it_was_given_when_the_datasets_change(
    resources: Resources, children: Children, user: Viewer
) -> None:
    claim = await claimed(resources, user, "slow", params={"rows": 1_000_000})
    running = asyncio.create_task(run(resources, children, claim))
    await asyncio.sleep(0.5)
    resources.holder.state = replace(resources.holder.state, catalog=Catalog({}, {}))
    assert (await running).status is Status.SUCCESS


async def test_a_killed_child_is_tried_again(
    resources: Resources, children: Children, user: Viewer, assigned: list[Child]
) -> None:
    roles = resources.catalog.datasets["things"].roles
    changed = with_dataset(resources, "secret", sql=FOR_EVER, roles=roles)
    claim = await claimed(changed, user, "secret")
    running = asyncio.create_task(run(changed, children, claim))
    await asyncio.sleep(1)
    assigned[0].process.send_signal(signal.SIGKILL)
    export = await running
    assert export.status is Status.QUEUED
    assert export.error is not None
    assert export.error.code is ErrorCode.WORKER_LOST
    assert temporary_files(resources) == []


async def test_a_given_up_attempt_leaves_nothing_behind(resources: Resources, children: Children, user: Viewer) -> None:
    """Its successor is running already when it comes to its end: fencing keeps its file and its status out."""
    claim = await claimed(resources, user, "things")
    given_up = await attempts.hand_back(resources, claim)
    assert given_up is not None
    second = await attempts.claim(resources)
    assert second is not None
    assert second.attempt == 2
    export = await run(resources, children, claim)
    assert (export.status, export.attempt) == (Status.PROCESSING, 2)
    assert list(resources.storage.folder.glob("*/exp_*")) == []


async def test_a_stopping_worker_hands_its_export_back(resources: Resources, children: Children, user: Viewer) -> None:
    changed = with_dataset(resources, "secret", sql=FOR_EVER, roles=resources.catalog.datasets["things"].roles)
    claim = await claimed(changed, user, "secret")
    running = asyncio.create_task(supervise.run_attempt(changed, children, claim))
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    export = await stored(resources, claim)
    assert (export.status, export.retry_at, export.failures) == (Status.QUEUED, None, 0)
    assert temporary_files(resources) == []


async def test_a_worker_that_stops_before_it_has_begun_hands_its_export_back(
    resources: Resources, children: Children, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def hang(*_: Any) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return False

    monkeypatch.setattr(attempts, "is_withheld", hang)
    claim = await claimed(resources, user, "things")
    running = asyncio.create_task(supervise.run_attempt(resources, children, claim))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    export = await stored(resources, claim)
    assert (export.status, export.retry_at, export.failures) == (Status.QUEUED, None, 0)


async def test_progress_only_grows_and_is_stored_while_it_runs(
    resources: Resources, children: Children, user: Viewer
) -> None:
    claim = await claimed(resources, user, "slow", params={"rows": 3_000_000})
    running = asyncio.create_task(run(resources, children, claim))
    seen: list[int] = []
    while not running.done():
        seen.append((await stored(resources, claim)).rows_done)
        await asyncio.sleep(0.1)
    assert running.result().rows_done == 3_000_000
    assert seen == sorted(seen)
    assert any(0 < rows_done < 3_000_000 for rows_done in seen)


async def test_what_a_source_holds_in_the_wal_is_exported_too(
    resources: Resources, children: Children, user: Viewer, shop: Path
) -> None:
    writer = sqlite3.connect(shop)
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("INSERT INTO things VALUES (1001, 'new', 1, NULL)")
    writer.commit()
    export = await run(resources, children, await claimed(resources, user, "things"))
    writer.close()
    assert export.file is not None
    assert export.file.rows == 1001


async def has_mapped(child: Child, name: str, *, seconds: float) -> bool:
    maps = Path(f"/proc/{child.process.pid}/maps")
    ends = time.monotonic() + seconds
    while not (found := name in maps.read_text(encoding="utf-8")) and time.monotonic() < ends:
        await asyncio.sleep(0.05)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has mapped is read from /proc")
async def test_the_spare_child_is_ready_for_the_kind_of_the_last_order(children: Children) -> None:
    """It has the reader of PostgreSQL mapped before it has an assignment; the first one did not."""
    async with children.child("postgresql", "csv") as first:
        assert not await has_mapped(first, "psycopg_binary", seconds=0)
    spare = await children._spare  # type: ignore[misc]
    assert await has_mapped(spare, "psycopg_binary", seconds=60)


async def test_a_warm_child_is_kept_and_dead_ones_are_replaced(children: Children) -> None:
    children.warm()
    async with children.child() as first:
        assert first.is_alive
    spare = await children._spare  # type: ignore[misc]
    spare.process.kill()
    await spare.process.wait()
    async with children.child() as second:
        assert second.is_alive
        assert second.process.pid != spare.process.pid
