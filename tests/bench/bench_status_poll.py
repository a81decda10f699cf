"""Status polls with a token, against a bare Starlette JSON route that gives the same content.

Ours is `exportdesk web` over SQLite and a Redis of its own; the rival is one route under the same uvicorn, flags and
all (uvloop, httptools, one process). The load comes from a third process: keep-alive connections over raw sockets,
each with one request at a time. The lesser of the two ratios, 200 and 304, must be at least 0.6, and 304 no slower.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from command_line import COMMAND, environment, free_port
from factories import stored_export
from far_end import broker, child, until_listening

from webapp.actions import attempts, people
from webapp.domain.access import Role, Viewer
from webapp.domain.exports import Export, Phase, Status
from webapp.resources import Resources, open_resources
from webapp.settings import read_settings
from webapp.store.exports import Progress
from webapp.store.schema import migrate

BARE = "--bare"
LOAD = "--load"


@dataclass(slots=True)
class Contest:
    """One line of the table: requests as they go over the wire, and how many a second were answered, lap by lap."""

    name: str
    port: int
    requests: list[bytes]
    status: int
    pid: int
    laps: list[tuple[float, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(rate for rate, _ in self.laps)

    @property
    def cost(self) -> float:
        """Microseconds of processor time that the server spent on one request."""
        return statistics.median(cost for _, cost in self.laps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one lap")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--exports", type=int, default=1, help="how many are polled in turn")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_compare(Path(folder), chosen))


async def _compare(folder: Path, chosen: argparse.Namespace) -> None:
    port, bare_port = free_port(), free_port()
    with broker(folder):
        environ = environment(folder / "data", PORT=str(port), REDIS_URL=f"unix://{folder}/redis.sock")
        settings = read_settings(environ)
        await migrate(settings.database_url)
        async with open_resources(settings) as resources:
            with child([*COMMAND, "web"], environ, folder / "web.txt") as pid:
                token, running, done = await _seed(resources, chosen.exports)
                async with _progress(resources, running):
                    await _run(chosen, environ, folder, token, running, done, (port, pid), bare_port)


async def _run(
    chosen: argparse.Namespace,
    environ: dict[str, str],
    folder: Path,
    token: str,
    running: list[Export],
    done: list[Export],
    web: tuple[int, int],
    bare_port: int,
) -> None:
    port, pid = web
    await until_listening(port)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1/exports") as client:
        client.headers["authorization"] = f"Bearer {token}"
        content = (await client.get(f"/{running[0].id}")).raise_for_status().text
        tags = {export.id: (await client.get(f"/{export.id}")).headers["etag"] for export in done}
    (folder / "content.json").write_text(content)
    bare = [sys.executable, __file__, BARE, str(bare_port), str(folder / "content.json")]
    with child(bare, environ, folder / "bare.txt") as bare_pid:
        await until_listening(bare_port)
        contests = [
            Contest("bare JSON route", bare_port, [_request("/status", token)], 200, bare_pid),
            Contest("poll: running, 200", port, [_request(_path(e), token) for e in running], 200, pid),
            Contest("poll: finished, 200", port, [_request(_path(e), token) for e in done], 200, pid),
            Contest("poll: finished, 304", port, [_request(_path(e), token, tags[e.id]) for e in done], 304, pid),
        ]
        for number in range(chosen.rounds + 1):
            for contest in contests:
                lap = await _lap(contest, chosen)
                if number:
                    contest.laps.append(lap)
    _report(contests, chosen)


def _report(contests: list[Contest], chosen: argparse.Namespace) -> None:
    bare, *ours = contests
    print(f"{'':24}{'requests/s':>12}{'of bare':>9}{'cpu µs':>9}{'of bare':>9}   laps")
    for contest in contests:
        laps = " ".join(f"{rate:,.0f}" for rate, _ in contest.laps)
        rates = f"{contest.rate:12,.0f}{contest.rate / bare.rate:9.2f}"
        print(f"{contest.name:24}{rates}{contest.cost:9.0f}{bare.cost / contest.cost:9.2f}   {laps}")
    print(f"{chosen.exports} exports in turn, {chosen.connections} connections; the load generator is another process")
    print(f"ratio by cpu time: {bare.cost / max(contest.cost for contest in ours):.2f}")
    print(f"304 against 200: {ours[2].rate / ours[1].rate:.2f}")
    print(f"ratio: {min(contest.rate for contest in ours) / bare.rate:.2f}")


def _path(export: Export) -> str:
    return f"/api/v1/exports/{export.id}"


def _request(path: str, token: str, tag: str | None = None) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Accept: application/json", f"Authorization: Bearer {token}"]
    return "\r\n".join([*lines, *([f"If-None-Match: {tag}"] if tag else []), "", ""]).encode()


async def _seed(resources: Resources, count: int) -> tuple[str, list[Export], list[Export]]:
    user = await people.add_user(resources, "bench", Role.USER, actor="bench")
    _, token = await people.create_token(resources, user, "bench", actor="bench")
    viewer = Viewer(user.id, user.name, user.role)
    running = [await stored_export(resources, viewer, Status.PROCESSING) for _ in range(count)]
    done = [await stored_export(resources, viewer, Status.SUCCESS) for _ in range(count)]
    return token, running, done


@asynccontextmanager
async def _progress(resources: Resources, running: list[Export]) -> AsyncIterator[None]:
    """What a worker does while it exports: a report and a hint a second, for the first few."""

    async def work() -> None:
        rows = 0
        while True:
            rows += 1000
            for export in running[:3]:
                progress = Progress(Phase.WRITING, rows, 10_000_000, rows * 80)
                await attempts.report_progress(resources, export, progress)
                await attempts.hint_progress(resources, export)
            await asyncio.sleep(1)

    task = asyncio.create_task(work())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _lap(contest: Contest, chosen: argparse.Namespace) -> tuple[float, float]:
    """Requests a second, counted by the load generator, and the server's time for each."""
    command = [sys.executable, __file__, LOAD]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    order = [contest.port, contest.status, chosen.connections, chosen.seconds, [r.decode() for r in contest.requests]]
    before = _cpu_seconds(contest.pid)
    output, _ = await process.communicate(json.dumps(order).encode())
    assert process.returncode == 0, contest.name
    rate, answered = map(float, output.split())
    return rate, (_cpu_seconds(contest.pid) - before) / answered * 1e6


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Polling(asyncio.Protocol):
    """One connection: sends the next request when the whole answer to the last one is there."""

    def __init__(self, load: Load, start: int) -> None:
        self.load = load
        self.next = start
        self.received = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.transport.write(self.load.requests[self.next % len(self.load.requests)])
        self.next += 1

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        status = int(head[9:12])
        assert status == self.load.status, head
        _, told, length = head.lower().partition(b"\r\ncontent-length:")
        wanted = int(length.split(b"\r\n", 1)[0]) if told and status != 304 else 0
        if len(body) >= wanted:
            self.received = b""
            self.load.answered += 1
            self._send()


@dataclass(slots=True)
class Load:
    status: int
    requests: list[bytes]
    answered: int = 0


async def _generate(port: int, status: int, connections: int, seconds: float, requests: list[str]) -> None:
    load = Load(status, [request.encode() for request in requests])
    loop = asyncio.get_running_loop()
    failed: list[object] = []
    loop.set_exception_handler(lambda _, context: failed.append(context))
    for number in range(connections):
        await loop.create_connection(lambda start=number: Polling(load, start), "127.0.0.1", port)
    before, started = load.answered, time.perf_counter()
    await asyncio.sleep(seconds)
    print((load.answered - before) / (time.perf_counter() - started), load.answered)
    sys.exit(f"wrong answers: {failed[0]}" if failed else 0)


def _serve_bare(port: int, content: Path) -> None:
    """The rival: the same values, one route, no middleware, encoded anew for every answer."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    values = json.loads(content.read_text())

    async def status(_request: Request) -> JSONResponse:
        return JSONResponse(values)

    app = Starlette(routes=[Route("/status", status)])
    uvicorn.run(
        app, port=port, loop="uvloop", http="httptools", log_config=None, access_log=False, server_header=False,
        proxy_headers=False,
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == [BARE]:
        _serve_bare(int(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == [LOAD]:
        import uvloop

        uvloop.run(_generate(*json.load(sys.stdin)))
    else:
        main()
