"""Workers as processes of their own, to be killed and stopped, and exports that take them a while."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from patience import PATIENCE

from webapp.actions import exports
from webapp.domain.access import Viewer
from webapp.domain.exports import Export
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import exports as rows

WorkerStarter = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With a dataset `slow` that may take as long as a busy machine needs for its rows."""
    assert settings.config is not None
    text = settings.config.read_text(encoding="utf-8")
    settings.config.write_text(text.replace('execution_limit = "20s"', 'execution_limit = "10m"'), encoding="utf-8")
    return settings


@contextlib.contextmanager
def workers_of(settings: Settings) -> Iterator[WorkerStarter]:
    """Starts real worker processes on this store and broker; ends those that are left."""
    environment = {
        **os.environ,
        "EXPORTDESK_DATA_DIR": str(settings.data_dir),
        "EXPORTDESK_DATABASE_URL": settings.database_url,
        "EXPORTDESK_MAX_RUNNING_PER_USER": str(settings.max_running_per_user),
        "EXPORTDESK_REDIS_URL": str(settings.redis_url),
        "EXPORTDESK_CONFIG": str(settings.config),
    }
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-m", "worker", name], env=environment, stderr=subprocess.DEVNULL)
        running.append(process)
        return process

    try:
        yield start
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


@pytest.fixture
def start_worker(resources: Resources) -> Iterator[WorkerStarter]:
    with workers_of(resources.settings) as start:
        yield start


async def order_slow(resources: Resources, viewer: Viewer, rows_wanted: int) -> Export:
    wanted = exports.Order("slow", {"rows": rows_wanted}, "csv", {})
    export, _ = await exports.order(resources, viewer, wanted, defaults=API_DEFAULTS)
    return export


async def until(
    resources: Resources, export: Export, *, seconds: float = PATIENCE, having: Callable[[Export], bool]
) -> Export:
    ends = time.monotonic() + seconds
    while True:
        found = await rows.get(resources.store, export.id)
        assert found is not None
        if having(found):
            return found
        assert time.monotonic() < ends, f"still {found.status} at {found.rows_done} rows"
        await asyncio.sleep(0.1)
