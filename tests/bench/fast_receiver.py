"""A receiver that does next to nothing, as a process of its own.

Prints its port; then, for every N requests, one line: the seconds from the first to the last of them, and the clock
(CLOCK_MONOTONIC, the same in all processes) at each. `fast_receiver.py N [--times]`
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import uvloop

BACKLOG = 1024
"""Connections that wait to be accepted: with asyncio's 100, of 200 that are opened at once some are only tried again
after a second."""

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Receiving(asyncio.Protocol):
    wanted = 0
    tells_times = False
    times: list[float] = []  # noqa: RUF012 - shared by all connections

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        arrived = time.monotonic()
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            self.transport.write(ANSWER)
            self.count(arrived)

    def count(self, arrived: float) -> None:
        times = Receiving.times
        times.append(arrived)
        if len(times) == Receiving.wanted:
            every = times if Receiving.tells_times else []
            print(times[-1] - times[0], *every, flush=True)
            times.clear()


async def main() -> None:
    Receiving.wanted, Receiving.tells_times = int(sys.argv[1]), "--times" in sys.argv
    server = await asyncio.get_running_loop().create_server(Receiving, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
