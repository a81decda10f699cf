"""A storage without room: FAILED with DISK_FULL, no file, and the worker takes the next export."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from needed import missing

from webapp.actions import attempts, exports
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.storage import LocalStorage
from webapp.store import exports as rows
from worker.children import Children
from worker.supervise import run_attempt


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
        missing("The right to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_fails_the_export_and_leaves_room_for_the_next(
    resources: Resources, user: Viewer, small_disk: Path
) -> None:
    cramped = replace(resources, storage=LocalStorage(small_disk))
    cramped.storage.prepare()
    children = Children()
    outcomes: list[tuple[Status, ErrorCode | None]] = []
    for wanted in (500_000, 1_000):
        order = exports.Order("slow", {"rows": wanted}, "csv", {})
        await exports.order(cramped, user, order, defaults=API_DEFAULTS)
        claimed = await attempts.claim(cramped)
        assert claimed is not None
        await run_attempt(cramped, children, claimed)
        export = await rows.get(cramped.store, claimed.id)
        assert export is not None
        outcomes.append((export.status, export.error.code if export.error else None))
    await children.close()
    assert outcomes == [(Status.FAILED, ErrorCode.DISK_FULL), (Status.SUCCESS, None)]
    assert os.listdir(small_disk / ".part") == []
