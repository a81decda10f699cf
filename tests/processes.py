"""`exportdesk web` and workers as processes of their own, which a test stops, kills and starts again."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
from cli.command_line import COMMAND, environment
from patience import PATIENCE

from webapp.settings import Settings


def environ_of(settings: Settings) -> dict[str, str]:
    """What makes a process read these settings."""
    return environment(
        settings.data_dir,
        DATABASE_URL=settings.database_url,
        REDIS_URL=settings.redis_url or "",
        CONFIG=str(settings.config or ""),
        BASE_URL=settings.base_url,
        PORT=str(settings.port),
        STREAM_HEARTBEAT=f"{settings.stream_heartbeat.total_seconds() * 1000:.0f}ms",
        MAX_RUNNING_PER_USER=str(settings.max_running_per_user),
        MAX_ACTIVE_PER_USER=str(settings.max_active_per_user),
    )


class WebProcess:
    """On the settings' port, with their data. `log`: what all its lives wrote; `up_since`: when the latest began."""

    def __init__(self, settings: Settings) -> None:
        self.port = settings.port
        self.log = Path(settings.data_dir, "web.txt")
        self._environ = environ_of(settings)
        self.up_since = math.inf
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Until it answers."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen((*COMMAND, "web"), env=self._environ, stdout=output, stderr=output)
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client:
            while True:
                assert self._process.poll() is None, self.log.read_text()
                with contextlib.suppress(httpx.HTTPError):
                    await client.get(f"http://127.0.0.1:{self.port}/healthz")
                    break
                await asyncio.sleep(0.05)
        self.up_since = time.monotonic()

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.up_since = math.inf
        if self._process is not None:
            self._process.send_signal(how)
            await asyncio.to_thread(self._process.wait, 30)
            self._process = None


@contextlib.asynccontextmanager
async def web_process(settings: Settings) -> AsyncIterator[WebProcess]:
    web = WebProcess(settings)
    await web.start()
    try:
        yield web
    finally:
        await web.stop()


@contextlib.contextmanager
def worker_process(settings: Settings, kind: str) -> Iterator[None]:
    """A worker of this kind, on the same data."""
    with Path(settings.data_dir, f"{kind}.txt").open("wb") as output:
        command = [sys.executable, "-m", "worker", kind]
        process = subprocess.Popen(command, env=environ_of(settings), stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
