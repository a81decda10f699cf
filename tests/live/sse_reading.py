"""Reading a stream of server-sent events as a client does, while the application still sends it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

from webapp import bus
from webapp.domain.exports import Export
from webapp.resources import Resources


@dataclass(frozen=True, slots=True)
class Message:
    """One event; `data` is its lines joined."""

    event: str
    data: str
    id: str


class Stream:
    """What arrived so far, and what arrives next. Heartbeats are counted, not given."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.heartbeats = 0
        self._arrived: asyncio.Queue[Message | None] = asyncio.Queue()

    async def next(self, seconds: float = 5) -> Message:
        message = await asyncio.wait_for(self._arrived.get(), seconds)
        assert message is not None, "the stream has ended"
        return message

    async def until(self, event: str, seconds: float = 5) -> list[Message]:
        """Everything up to the first event of that name, which is the last of the list."""
        found: list[Message] = []
        while not found or found[-1].event != event:
            found.append(await self.next(seconds))
        return found

    async def rest(self, seconds: float = 5) -> list[Message]:
        """Everything up to the end of the stream."""
        found: list[Message] = []
        while message := await asyncio.wait_for(self._arrived.get(), seconds):
            found.append(message)
        return found

    async def quiet(self, seconds: float) -> bool:
        """Whether nothing but heartbeats comes for so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.get(), seconds)
            return False
        return True

    async def _lines(self) -> AsyncIterator[str]:
        """As the standard has it: httpx would break lines at U+2028 and the like as well."""
        left = b""
        async for chunk in self.response.aiter_bytes():
            *lines, left = re.split(rb"\r\n|\n|\r", left + chunk)
            for line in lines:
                yield line.decode()

    async def read(self) -> None:
        fields: dict[str, list[str]] = {}
        async for line in self._lines():
            if line:
                name, _, value = line.partition(":")
                fields.setdefault(name, []).append(value.removeprefix(" "))
                continue
            message = Message(
                fields.get("event", ["message"])[-1], "\n".join(fields.get("data", [])), fields.get("id", [""])[-1]
            )
            fields = {}
            if not message.data:
                continue  # such as a retry alone: no event, says the standard
            if message.event == "heartbeat":
                self.heartbeats += 1
            else:
                await self._arrived.put(message)
        await self._arrived.put(None)


@contextlib.asynccontextmanager
async def opened(client: httpx.AsyncClient, url: str, **headers: Any) -> AsyncIterator[Stream]:
    """`last_event_id="evt_…"` is sent as Last-Event-ID."""
    sent = {"Accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with client.stream("GET", url, headers=sent) as response:
        assert response.status_code == 200, response.status_code
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        assert "no-store" in response.headers["cache-control"]
        stream = Stream(response)
        reading = asyncio.create_task(stream.read())
        try:
            yield stream
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def hint(resources: Resources, export: Export) -> None:
    await bus.publish(resources.redis, bus.Hint(export.id, export.owner, export.version))
