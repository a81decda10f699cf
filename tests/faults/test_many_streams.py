"""A deploy under a thousand open streams: the web process ends in good order, and its readers come back spread out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import time
from collections import Counter
from pathlib import Path

from cli.command_line import free_port
from factories import stored_export
from web_processes import web_process

from webapp.actions import attempts, exports, people
from webapp.commands.web import SHUTDOWN_SECONDS
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import ListFilter

STREAMS = int(os.environ.get("EXPORTDESK_TEST_STREAMS", "500"))
BACK_SECONDS = 30
BIN_SECONDS = 0.1
FAIR_SHARE = 0.1
"""Of all streams, how many may come back within the same tenth of a second. All at once would be 1."""


class Source:
    """A reader as browsers' EventSource is: it knows the last id and the server's `retry`, and connects again."""

    def __init__(self, port: int, path: str, token: str) -> None:
        self.port, self.path, self.token = port, path, token
        self.retry, self.last_id, self.heard = 3.0, "", ""
        self.due = time.monotonic()
        self.connected_at: list[float] = []
        self.statuses: dict[str, str] = {}
        self.ends = 0

    async def run(self) -> None:
        while True:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._read()
            self.ends += bool(self.connected_at)
            self.due = time.monotonic() + self.retry
            await asyncio.sleep(self.retry)

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            known = f"Last-Event-ID: {self.last_id}\r\n" if self.last_id else ""
            head = f"GET {self.path} HTTP/1.1\r\nHost: desk\r\nAccept: text/event-stream\r\n{known}"
            writer.write(f"{head}Authorization: Bearer {self.token}\r\n\r\n".encode())
            status = await reader.readuntil(b"\r\n\r\n")
            assert status.startswith(b"HTTP/1.1 200 "), status
            self.connected_at.append(self.due)  # on a busy machine many a sleeper wakes late, together
            while True:
                self._hear((await reader.readuntil(b"\n\n")).decode())
        finally:
            writer.close()

    def _hear(self, frame: str) -> None:
        """The sizes of chunks are lines without a name, which the standard passes over."""
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
        self.last_id = fields.get("id", self.last_id)
        self.retry = int(fields.get("retry", self.retry * 1000)) / 1000
        self.heard = fields.get("event", self.heard)
        if fields.get("event", "").startswith("export."):
            data = json.loads(fields["data"])["data"]
            self.statuses[data["id"]] = data["status"]


async def until(is_so: object, seconds: float, what: str) -> None:
    ends = time.monotonic() + seconds
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < ends, what
        await asyncio.sleep(0.05)


async def statuses(resources: Resources, user: Viewer) -> dict[str, str]:
    async with resources.store.connection():
        found = await rows.list_page(resources.store, ListFilter(owner=user.id), limit=100, after=None)
    return {export.id: export.status.value for export in found}


async def test_a_restart_under_a_thousand_streams(resources: Resources, user: Viewer, tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _, token = await people.create_token(resources, await people.user_named(resources, user.name), "t", actor="tests")
    waiting = [await stored_export(resources, user, Status.QUEUED) for _ in range(4)]
    port, log = free_port(), tmp_path / "web.txt"
    sources = [Source(port, "/api/v1/events?after=0", token) for _ in range(STREAMS)]
    with web_process(resources.settings, port, log) as web:
        await web.until_listening()
        running = [asyncio.create_task(source.run()) for source in sources]
        known = await statuses(resources, user)
        await until(lambda: all(each.statuses == known for each in sources), 60, "not all streams were opened")

        stopped_at = time.monotonic()  # what outlasts the grace time is an ERROR in the log
        assert await web.stop(2 * SHUTDOWN_SECONDS) == 0
        assert web.troubles() == []
        await until(lambda: all(each.ends for each in sources), 5, "a stream is still open")
        assert {each.heard for each in sources} == {"restart"}
        assert len({each.retry for each in sources}) > STREAMS / 4, "they were not told different times"

    await exports.cancel(resources, user, waiting[0].id)
    assert await attempts.claim(resources)
    expected = await statuses(resources, user)
    assert expected != known
    with web_process(resources.settings, port, log) as web:
        await until(
            lambda: all(len(each.connected_at) == 2 and each.statuses == expected for each in sources),
            stopped_at + BACK_SECONDS - time.monotonic(),
            "not all came back in time, each with the status that the store has",
        )
        back = [each.connected_at[1] for each in sources]
        bins = Counter(int((at - min(back)) / BIN_SECONDS) for at in back)
        assert max(bins.values()) <= STREAMS * FAIR_SHARE, bins
        print(f"{STREAMS} streams: back after {max(back) - stopped_at:.1f} s, at most {max(bins.values())} in 0.1 s")
        assert not [task for task in running if task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert await web.stop(2 * SHUTDOWN_SECONDS) == 0
        assert web.troubles() == []
