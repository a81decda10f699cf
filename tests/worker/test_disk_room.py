"""Exports that would fill the disk: not begun, or ended with DISK_FULL before it is full."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from collections.abc import Callable

import pytest

from webapp.actions import attempts, exports
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Export, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.store import exports as rows
from worker.children import Child, Children
from worker.slots import execute

Usage = namedtuple("Usage", "total used free")
FreeSetter = Callable[[int], None]
MIB = 1024 * 1024


@pytest.fixture
def set_free(monkeypatch: pytest.MonkeyPatch) -> FreeSetter:
    """A disk of a tebibyte with so many bytes left beside the reserve."""

    def leave(free: int) -> None:
        usage = Usage(1024**4, 0, limits.DISK_RESERVE + free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    return leave


async def claimed(resources: Resources, who: Viewer, wanted: int, **options: str) -> Export:
    order = exports.Order("slow", {"rows": wanted}, "csv", options)
    await exports.order(resources, who, order, defaults=API_DEFAULTS)
    export = await attempts.claim(resources)
    assert export is not None
    return export


async def run(resources: Resources, children: Children, export: Export) -> Export:
    await execute(resources, children, export)
    found = await rows.get(resources.store, export.id)
    assert found is not None
    return found


async def test_an_order_that_did_not_fit_the_last_time_is_not_begun(
    resources: Resources, user: Viewer, children: Children, assigned: list[Child], set_free: FreeSetter
) -> None:
    set_free(MIB)
    done = await run(resources, children, await claimed(resources, user, 1000))
    assert done.file is not None
    set_free(done.file.size - 1)
    begun = len(assigned)
    refused = await run(resources, children, await claimed(resources, user, 1000))
    assert refused.error is not None
    assert (refused.status, refused.error.code, len(assigned)) == (Status.FAILED, ErrorCode.DISK_FULL, begun)
    for fits in (await claimed(resources, user, 999), await claimed(resources, user, 1000, compression="gzip")):
        assert (await run(resources, children, fits)).status is Status.SUCCESS
    set_free(done.file.size)
    assert (await run(resources, children, await claimed(resources, user, 1000))).status is Status.SUCCESS


async def test_an_order_that_reaches_the_reserve_is_ended(
    resources: Resources, user: Viewer, children: Children, set_free: FreeSetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEARTBEAT_EVERY", 0.05)
    set_free(MIB)
    export = await claimed(resources, user, 50_000_000)
    report = attempts.report_progress

    async def filling(*arguments: object) -> bool:
        going_on = await report(*arguments)  # type: ignore[arg-type]
        set_free(-1)
        return going_on

    monkeypatch.setattr(attempts, "report_progress", filling)
    ended = await run(resources, children, export)
    assert ended.error is not None
    assert (ended.status, ended.error.code, ended.retry_at) == (Status.FAILED, ErrorCode.DISK_FULL, None)
    assert os.listdir(resources.storage.temporary(export.id, 1).parent) == []
