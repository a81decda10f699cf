"""The far end of callbacks: real socket servers that answer well, badly, slowly or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from multidict import CIMultiDict
from patience import PATIENCE


@dataclass(slots=True)
class Received:
    path: str
    headers: CIMultiDict[str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Receiver:
    """`connections` counts what was accepted, also when no request came."""

    port: int
    behave: Behaviour
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    open_at_once: int = 0
    most_at_once: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    received = await read_request(reader)
                    self.requests.append(received)
                    self.open_at_once += 1
                    self.most_at_once = max(self.most_at_once, self.open_at_once)
                    try:
                        await self.behave(received, writer)
                        await writer.drain()
                    finally:
                        self.open_at_once -= 1
        finally:
            writer.close()

    async def until(self, count: int, *, seconds: float = PATIENCE) -> list[Received]:
        """Waits for so many requests."""
        async with asyncio.timeout(seconds):
            while len(self.requests) < count:
                await asyncio.sleep(0.005)
        return self.requests


async def read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = CIMultiDict(tuple(line.split(": ", 1)) for line in head[1:] if line)
    body = await reader.readexactly(int(headers.get("Content-Length", 0)))
    return Received(head[0].split(" ")[1], headers, body, asyncio.get_running_loop().time())


@asynccontextmanager
async def receiver(behave: Behaviour | None = None, *, host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    """Answers 204 unless it is told otherwise."""
    made = Receiver(0, behave or answer(204))
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await made.serve(reader, writer)

    server = await asyncio.start_server(serve, host, 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def response(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Because", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answer(status: int, body: bytes = b"", *, after: float = 0.0, **headers: str) -> Behaviour:
    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(after)
        writer.write(response(status, body, **headers))

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One after the other; the last one stays."""
    left = list(behaviours)

    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(received, writer)

    return behave


async def hang(received: Received, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def hang_after_headers(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    await hang(received, writer)


async def drip(received: Received, writer: asyncio.StreamWriter) -> None:
    """A byte a second: no single wait is long."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(1)


async def drip_headers(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1000):
        writer.write(f"X-{number}: y\r\n".encode())
        await writer.drain()
        await asyncio.sleep(0.3)


async def close_at_once(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def close_in_the_middle(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nthe beginning")
    await writer.drain()
    writer.close()


async def garbage(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\nwho are you\r\n\r\n")


async def ten_megabytes(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n")
    for _ in range(160):
        writer.write(b"x" * 65536)
        await writer.drain()


async def headers_without_end(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        writer.write(f"X-{number}: {'y' * 4000}\r\n".encode())
        await writer.drain()


BOMB = gzip.compress(b"\0" * 20_000_000)


async def gzip_bomb(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(response(200, BOMB, Content_Encoding="gzip"))
