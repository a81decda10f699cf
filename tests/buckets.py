"""A real S3 server (moto, as a process) behind a front that sees every request and can spoil it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import subprocess
import sys
import time
import uuid
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import httpx
import pytest
from aiohttp import web
from cli.command_line import free_port
from needed import missing
from selectolax.lexbor import LexborHTMLParser
from yarl import URL

from webapp.settings import Settings

SECRET = "the-secret-key-of-this-test"
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request"}
"""moto refuses who does not sign, and believes who does."""
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "server", "date"}
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Answers in the store's stead, breaks the connection off, or gives None: then the store answers."""


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The URL of a store of our own."""
    try:
        import moto.server  # noqa: F401
    except ImportError:
        missing("moto[s3], flask and flask-cors")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(1200):
        try:
            httpx.get(url)
            break
        except httpx.TransportError:
            assert process.poll() is None
            time.sleep(0.05)
    yield url
    process.kill()
    process.wait()


@dataclass(frozen=True)
class Asked:
    """A request as it came; `is_checked`: it carried the SHA-256 of its body, twice."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    is_checked: bool


class Bucket:
    """One bucket, reached at `endpoint`. `fault` is asked first, for each request."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.name = f"files-{uuid.uuid4().hex[:12]}"
        self.seen: list[Asked] = []
        self.fault: Fault | None = None
        self.endpoint = ""

    async def __aenter__(self) -> Bucket:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        self._signed = aiohttp.ClientSession(headers=SIGNED)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.endpoint = f"http://127.0.0.1:{port}"
        async with self._signed.put(f"{self.server}/{self.name}") as answer:
            assert answer.status == 200
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()
        await self._signed.close()

    async def keys(self) -> list[str]:
        return await self._named("?list-type=2", "contents > key")

    async def uploads(self) -> list[str]:
        """Keys of uploads that were begun and neither completed nor aborted."""
        return await self._named("?uploads", "upload > key")

    async def content(self, key: str) -> bytes:
        async with self._signed.get(f"{self.server}/{self.name}/{key}") as answer:
            return await answer.read()

    async def put(self, key: str, content: bytes = b"") -> None:
        async with self._signed.put(f"{self.server}/{self.name}/{key}", data=content) as answer:
            assert answer.status == 200

    async def _named(self, query: str, selector: str) -> list[str]:
        async with self._signed.get(f"{self.server}/{self.name}{query}") as answer:
            return [node.text() for node in LexborHTMLParser(await answer.text()).css(selector)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.fault is not None and (spoilt := await self.fault(request)) is not None:
            return spoilt
        body = await request.read()
        digest = hashlib.sha256(body)
        told = (request.headers.get("x-amz-content-sha256"), request.headers.get("x-amz-checksum-sha256"))
        is_checked = told == (digest.hexdigest(), b64encode(digest.digest()).decode())
        asked = Asked(request.method, request.path, dict(request.query), dict(request.headers), is_checked)
        self.seen.append(asked)
        url = URL(f"{self.server}{request.raw_path}", encoded=True)
        sent = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        async with self._session.request(request.method, url, headers=sent, data=io.BytesIO(body)) as answer:
            headers = [(n, v) for n, v in answer.headers.items() if n.lower() not in HOP_BY_HOP]
            return web.Response(status=answer.status, headers=headers, body=await answer.read())


@pytest.fixture
async def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    """An empty one; the environment leads to it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    async with Bucket(s3_server) as opened:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-access-key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", opened.endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        yield opened


def in_bucket(settings: Settings, bucket: Bucket, **changes: Any) -> Settings:
    """The same settings with finished files in the bucket."""
    return replace(settings, storage_url=f"s3://{bucket.name}/desk/files", s3_allow_http=True, **changes)


def is_part(request: web.Request, number: int | None = None) -> bool:
    """Whether it brings a part of an upload: this one, or any."""
    found = request.query.get("partNumber")
    return request.method == "PUT" and found is not None and number in {None, int(found)}


def is_completion(request: web.Request) -> bool:
    return request.method == "POST" and "uploadId" in request.query


def failing(status: int, when: Callable[[web.Request], bool], *, times: int = 1 << 30, body: str = "") -> Fault:
    """Answers with this status so many times."""
    left = times

    async def fail(request: web.Request) -> web.StreamResponse | None:
        nonlocal left
        if left <= 0 or not when(request):
            return None
        left -= 1
        await request.read()
        return web.Response(status=status, text=body)

    return fail


def cutting(when: Callable[[web.Request], bool], *, times: int = 1 << 30) -> Fault:
    """Breaks the connection off in the middle of what is sent, so many times."""
    left = times

    async def cut(request: web.Request) -> web.StreamResponse | None:
        nonlocal left
        if left <= 0 or not when(request):
            return None
        left -= 1
        await request.content.readany()
        assert request.transport is not None
        request.transport.abort()
        raise asyncio.CancelledError

    return cut


class Hold:
    """Keeps requests waiting until it is let go. `reached`: one is waiting."""

    def __init__(self, when: Callable[[web.Request], bool]) -> None:
        self.when = when
        self.reached = asyncio.Event()
        self._open = asyncio.Event()

    def let_go(self) -> None:
        self._open.set()

    async def __call__(self, request: web.Request) -> web.StreamResponse | None:
        if self.when(request):
            self.reached.set()
            await self._open.wait()
        return None
