"""A TCP relay between browsers and a server, which cuts connections as networks do."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator


class Relay:
    """Passes everything on to `target`, a port of this machine, until it is told to cut."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.cuts = 0
        self._open: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, far_writer)
        self._open.add(pair)
        try:
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        finally:
            self._open.discard(pair)
            for each in pair:
                each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while content := await reader.read(65536):
                writer.write(content)
                await writer.drain()
        writer.close()

    def cut(self, share: float, rng: random.Random) -> None:
        """Breaks this share of the connections, in the middle of whatever they carry."""
        for pair in [pair for pair in self._open if rng.random() < share]:
            self.cuts += 1
            for writer in pair:
                writer.transport.abort()


@contextlib.asynccontextmanager
async def relaying(port: int, target: int) -> AsyncIterator[Relay]:
    relay = Relay(target)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", port)
    try:
        yield relay
    finally:
        server.close()
        relay.cut(1, random.Random())
