"""Real `exportdesk web` processes over a test's own store and broker."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.command_line import COMMAND, environment
from patience import PATIENCE

from webapp.settings import Settings


class WebProcess:
    """One of them, on a port of 127.0.0.1; what it says goes to the end of a file."""

    def __init__(self, settings: Settings, port: int, log: Path, **more: str) -> None:
        self.port = port
        self.log = log
        given = {"REDIS_URL": str(settings.redis_url), "CONFIG": str(settings.config), "PORT": str(port), **more}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*COMMAND, "web"], env=environment(settings.data_dir, **given), stdout=output, stderr=output
            )

    async def until_listening(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    async def stop(self, seconds: float) -> int:
        """Told to stop: its exit code."""
        self.process.terminate()
        return await asyncio.to_thread(self.process.wait, seconds)

    def troubles(self) -> list[str]:
        """Lines of its log that a person would look into."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")]


@contextmanager
def web_process(settings: Settings, port: int, log: Path, **more: str) -> Iterator[WebProcess]:
    """`more` are settings: `BASE_URL="https://…"`. Ended at the latest with its block."""
    web = WebProcess(settings, port, log, **more)
    try:
        yield web
    finally:
        web.process.kill()
        web.process.wait()
