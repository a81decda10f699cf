"""The far end of a stream, without a server between."""

from __future__ import annotations

import asyncio
from typing import Any

from webapp.live.stream import EventStream


class Far:
    """The far end of a stream: it reads until it is told not to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_ended = False
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = asyncio.Event()

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.sent.append(message.get("body", b""))
        self.is_ended = message.get("more_body") is False

    async def receive(self) -> dict[str, str]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    def serve(self, stream: EventStream) -> asyncio.Task[None]:
        scope = {"type": "http", "method": "GET", "exportdesk.send": self.send}
        return asyncio.create_task(stream(scope, self.receive, self.send))
