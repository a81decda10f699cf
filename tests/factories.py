"""Makes exports in any status, with the history that leads there, and a client transport that can stream."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx

from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import (
    Export,
    ExportFile,
    Status,
    cancel,
    expire,
    fail,
    queue,
    start,
    succeed,
    time_out,
)
from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.store import events, exports

CONTENT = b"id,name\r\n1,thing\r\n"


def new_export(owner: str, at: datetime, **changes: Any) -> Export:
    export_id = new_id("exp")
    fields: dict[str, Any] = {
        "id": export_id,
        "owner": owner,
        "dataset": "things",
        "params": {"search": None, "most": None},
        "format": "csv",
        "options": {"bom": False, "csv_text": "raw", "delimiter": ",", "compression": "none"},
        "order_key": export_id,
        "status": Status.PENDING,
        "version": 1,
        "created_at": at,
    }
    return Export(**{**fields, **changes})


def export_file(export: Export, at: datetime, *, content: bytes = CONTENT, name: str = "Things.csv") -> ExportFile:
    return ExportFile(
        key=f"{export.id[-2:]}/{export.id}.{export.attempt}.csv",
        name=name,
        size=len(content),
        rows=1,
        sha256=hashlib.sha256(content).hexdigest(),
        content_type="text/csv; charset=utf-8",
        expires_at=at + timedelta(days=7),
    )


def history(export: Export, status: Status, at: datetime) -> list[Export]:
    """The versions that lead from a new order to this status."""
    steps = [export]
    if status is Status.PENDING:
        return steps
    steps.append(queue(steps[-1], at=at))
    if status is Status.QUEUED:
        return steps
    if status is Status.CANCELLED:
        return [*steps, cancel(steps[-1], at=at)]
    steps.append(start(steps[-1], at=at))
    match status:
        case Status.SUCCESS:
            steps.append(succeed(steps[-1], export_file(steps[-1], at), (), at=at))
        case Status.FAILED:
            error = export_error(ErrorCode.QUERY_ERROR, detail="no such table: things")
            steps.append(fail(steps[-1], error, at=at))
        case Status.EXPIRED:
            steps.append(time_out(steps[-1], export_error(ErrorCode.TIMEOUT, limit="30 minutes"), at=at))
    return steps


async def stored_export(resources: Resources, owner: Viewer, status: Status, **changes: Any) -> Export:
    """Inserts the export with one event a version, and its file when it has one. `aged_out=True`: past retention."""
    aged_out = changes.pop("aged_out", False)
    at = changes.pop("created_at", await resources.store.now())
    steps = history(new_export(owner.id, at, **changes), Status.SUCCESS if aged_out else status, at)
    if aged_out:
        steps.append(expire(steps[-1], export_error(ErrorCode.RETENTION), at=at))
    async with resources.store.transaction():
        await exports.insert(resources.store, steps[-1])
        for step in steps:
            await events.record(resources.store, step, at=at, base_url="http://testserver")
    if file := steps[-1].file:
        temporary = resources.storage.temporary(steps[-1].id, steps[-1].attempt)
        temporary.write_bytes(CONTENT)
        await resources.storage.keep(temporary, file)
        await resources.storage.delete_temporary(steps[-1].id, steps[-1].attempt)
    return steps[-1]


async def changed(resources: Resources, export: Export, **changes: Any) -> Export:
    """Rewrites fields of a stored export as they are, without an event: for states that take long to arise."""
    after = replace(export, **changes)
    async with resources.store.transaction():
        assert await exports.compare_and_set(resources.store, export, after)
    return after


class ASGITransport(httpx.AsyncBaseTransport):
    """Like httpx's own, but the body arrives while the application still sends it: streams can be read."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "server": (request.url.host, request.url.port),
            "client": ("127.0.0.1", 123),
            "root_path": "",
        }
        messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        gone, asked = asyncio.Event(), False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def run() -> None:
            try:
                await self.app(scope, receive, messages.put)
            finally:
                await messages.put(None)

        task = asyncio.create_task(run())
        start = await messages.get()
        if start is None:
            await task
            raise AssertionError("the application did not answer")
        return httpx.Response(start["status"], headers=start["headers"], stream=_Body(messages, gone, task))


class _Body(httpx.AsyncByteStream):
    def __init__(self, messages: asyncio.Queue[Any], gone: asyncio.Event, task: asyncio.Task[None]) -> None:
        self.messages, self.gone, self.task = messages, gone, task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while message := await self.messages.get():
            if chunk := message.get("body"):
                yield chunk
            if not message.get("more_body"):
                return

    async def aclose(self) -> None:
        self.gone.set()
        await asyncio.gather(self.task, return_exceptions=True)
