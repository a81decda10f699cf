"""The real application behind a real uvicorn, in the test's own event loop, with the troubles of a network."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import uvicorn
from cli.command_line import free_port
from factories import changed, export_file
from patience import PATIENCE

from webapp.actions import people
from webapp.actions.changes import change
from webapp.client import Client
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status, start, succeed
from webapp.resources import Resources

CONTENT = random.Random(5).randbytes(3_000_000)


@dataclass
class Seen:
    method: str
    path: str
    query: str
    headers: dict[str, str]


class Desk:
    """`refusals` are given, one a request, instead of answers; `cuts` break one download each after so many
    bytes, and of what is done for a method in `lost` nobody hears."""

    def __init__(self, app: Any, resources: Resources, token: str) -> None:
        self.app = app
        self.resources = resources
        self.token = token
        self.port = free_port()
        self.seen: list[Seen] = []
        self.refusals: list[tuple[int, dict[str, str], bytes]] = []
        self.cuts: list[int] = []
        self.lost: list[str] = []
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def client(self) -> Client:
        return Client(self.url, self.token)

    async def start(self) -> None:
        config = uvicorn.Config(
            self, host="127.0.0.1", port=self.port, lifespan="off", log_level="critical", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
            await asyncio.wait_for(self._task, PATIENCE)
            self._server = None

    async def until(self, method: str, part: str, count: int = 1) -> None:
        """Until so many such requests have come."""
        async with asyncio.timeout(PATIENCE):
            while sum(seen.method == method and part in seen.path for seen in self.seen) < count:
                await asyncio.sleep(0.02)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append(Seen(scope["method"], scope["path"], scope["query_string"].decode(), headers))
        if self.refusals:
            await refuse(send, *self.refusals.pop(0))
        elif scope["method"] in self.lost:
            self.lost.remove(scope["method"])
            await self.app(scope, receive, swallow)
            raise ConnectionAbortedError("lost by the test")
        elif self.cuts and scope["path"].endswith("/file"):
            await self.app(scope, receive, cut(send, self.cuts.pop(0)))
        else:
            await self.app(scope, receive, send)


async def refuse(send: Any, status: int, headers: dict[str, str], body: bytes) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    raw.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def swallow(message: Any) -> None:
    """Sends nothing."""


def cut(send: Any, after: int) -> Any:
    """What is sent ends in the middle: uvicorn closes a connection whose application breaks off."""
    left = after

    async def send_some(message: Any) -> None:
        nonlocal left
        if body := message.get("body"):
            message = {**message, "body": body[:left], "more_body": True}
            left -= len(body)
        await send(message)
        if left <= 0:
            raise ConnectionAbortedError("cut by the test")

    return send_some


@pytest.fixture
async def desk(app: Any, resources: Resources, user: Viewer) -> AsyncIterator[Desk]:
    _, token = await people.create_token(resources, await people.user_named(resources, user.name), "t", actor="tests")
    running = Desk(app, resources, token)
    await running.start()
    yield running
    await running.stop()


async def with_content(resources: Resources, export: Export, content: bytes = CONTENT) -> Export:
    """The finished export with another file than the factory's."""
    assert export.file is not None
    file = replace(export.file, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    temporary = resources.storage.temporary(export.id, export.attempt)
    temporary.write_bytes(content)
    await resources.storage.keep(temporary, file)
    return await changed(resources, export, file=file)


async def finish(resources: Resources, export_id: str, content: bytes = CONTENT) -> Export:
    """What a worker does, all at once."""

    def decide(export: Export, at: Any) -> list[Export]:
        started = export if export.status is Status.PROCESSING else start(export, at=at)
        file = export_file(started, at, content=content)
        path = resources.storage.path(file.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return (
            [succeed(started, file, (), at=at)] if started is export else [started, succeed(started, file, (), at=at)]
        )

    return await change(resources, export_id, decide)
