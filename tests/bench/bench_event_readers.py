"""A status change on its way to 2,000 open SSE readers of one web process, against nginx with nchan and one worker.

Ours is `exportdesk web` over SQLite and a Redis of its own. All readers are one person's, under one token or several.
An export changes its status; the clock starts at the commit, so that the hint and the reading of the event count. The
rival is told as many bytes by a POST, and its clock starts before that. Both have their readers in one and the same
process (uvloop, raw protocols), and changes alternate. Budget: our p99 at most 3 times the rival's, and at most 60 KiB
of the web process for a reader.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from command_line import COMMAND, environment, free_port
from factories import stored_export
from far_end import broker, child, until_listening

from webapp.actions import changes, people
from webapp.domain.access import Role, Viewer
from webapp.domain.events import event_json
from webapp.domain.exports import Export, Status, cancel
from webapp.resources import Resources, open_resources
from webapp.settings import read_settings
from webapp.store import events
from webapp.store.schema import migrate

READ = "--read"
REST_SECONDS = 0.5
LONGEST_SECONDS = 60
AT_ONCE = 50
NCHAN = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
NGINX = """
load_module {module};
master_process off;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location = /listen {{ nchan_subscriber eventsource; nchan_channel_id bench; }}
        location = /tell {{ nchan_publisher; nchan_channel_id bench; }}
    }}
}}
"""


@dataclass(slots=True)
class Contest:
    """One line of the table. `tell` gives the moment when what it told was there to be read."""

    name: str
    port: int
    pid: int
    tell: Callable[[], Awaitable[float]]
    latencies: list[float] = field(default_factory=list)
    """Milliseconds, of every reader and every change."""

    slowest: list[float] = field(default_factory=list)
    """Of each change."""

    seconds: float = 0.0
    """Of processor time that its server took."""

    def percentile(self, percent: int) -> float:
        return statistics.quantiles(self.latencies, n=100)[percent - 1]


class Readers:
    """The process that has all the connections: it is told which contest reads next, and says when each has read."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def open(self, port: int, requests: list[str]) -> None:
        assert await self._ask("open", port, requests) == len(requests)

    async def expect(self, port: int) -> None:
        await self._ask("expect", port)

    async def read(self) -> list[float]:
        """The moments when each reader had the whole event, by the monotonic clock."""
        return await self._ask("read")

    async def _ask(self, *order: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return json.loads(await asyncio.wait_for(self._process.stdout.readline(), LONGEST_SECONDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=2000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=1, help="how many the readers share")
    parser.add_argument("--pid-file", type=Path, help="where to put the number of the web process, for a profiler")
    chosen = parser.parse_args()
    if not NCHAN.exists():
        sys.exit("rival missing: install nginx and libnginx-mod-nchan")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_compare(Path(folder), chosen))


async def _compare(folder: Path, chosen: argparse.Namespace) -> None:
    port, rival_port = free_port(), free_port()
    (folder / "nginx.conf").write_text(NGINX.format(module=NCHAN, folder=folder, port=rival_port))
    environ = environment(folder / "data", PORT=str(port), REDIS_URL=f"unix://{folder}/redis.sock")
    settings = read_settings(environ)
    await migrate(settings.database_url)
    nginx = ["/usr/sbin/nginx", "-e", f"{folder}/nginx.log", "-p", str(folder), "-c", f"{folder}/nginx.conf"]
    with (
        broker(folder),
        child([*COMMAND, "web"], environ, folder / "web.txt") as web,
        child(nginx, None, folder / "nginx.txt") as rival,
    ):
        await asyncio.gather(until_listening(port), until_listening(rival_port))
        if chosen.pid_file:
            chosen.pid_file.write_text(str(web))
        async with open_resources(settings) as resources, aiohttp.ClientSession() as session:
            await _run(chosen, resources, session, (port, web), (rival_port, rival))


async def _run(
    chosen: argparse.Namespace,
    resources: Resources,
    session: aiohttp.ClientSession,
    ours: tuple[int, int],
    rival: tuple[int, int],
) -> None:
    (port, web), (rival_port, nginx) = ours, rival
    tokens, waiting, message = await _seed(resources, chosen)
    exports = iter(waiting)
    told = itertools.count(1)

    async def change() -> float:
        return await _change(resources, next(exports))

    async def publish() -> float:
        at = time.monotonic()
        headers = {"X-EventSource-Event": "export.cancelled"}
        content = message[: -len(str(number := next(told)))] + str(number)
        async with session.post(f"http://127.0.0.1:{rival_port}/tell", data=content, headers=headers) as response:
            assert response.status in {201, 202}
        return at

    contests = [Contest("exportdesk web", port, web, change), Contest("nginx + nchan", rival_port, nginx, publish)]
    process = await _start_readers()
    readers = Readers(process)
    await readers.open(port, [_request("/api/v1/events", tokens[0])] * 10)
    await asyncio.sleep(1)
    before = _resident_kib(web)
    await readers.open(port, [_request("/api/v1/events", tokens[n % len(tokens)]) for n in range(chosen.readers - 10)])
    await asyncio.sleep(2)
    memory = (_resident_kib(web) - before) / (chosen.readers - 10)
    await readers.open(rival_port, [_request("/listen")] * chosen.readers)
    for lap in range(chosen.changes + 1):
        for contest in contests:
            await _lap(contest, readers, is_counted=lap > 0)
    process.terminate()
    await process.wait()
    after = (_resident_kib(web) - before) / (chosen.readers - 10)
    _report(contests, chosen, len(message), memory, after)


async def _lap(contest: Contest, readers: Readers, *, is_counted: bool) -> None:
    await readers.expect(contest.port)
    before = _cpu_seconds(contest.pid)
    at = await contest.tell()
    found = [(moment - at) * 1000 for moment in await readers.read()]
    await asyncio.sleep(REST_SECONDS)
    if is_counted:
        contest.latencies += found
        contest.slowest.append(max(found))
        contest.seconds += _cpu_seconds(contest.pid) - before


def _report(contests: list[Contest], chosen: argparse.Namespace, size: int, memory: float, after: float) -> None:
    ours, rival = contests
    print(f"{'milliseconds':20}{'p50':>8}{'p99':>8}{'max':>8}{'cpu µs':>8}   the last reader, change by change")
    for contest in contests:
        slowest = " ".join(f"{each:.0f}" for each in contest.slowest)
        figures = f"{contest.percentile(50):8.1f}{contest.percentile(99):8.1f}{max(contest.latencies):8.1f}"
        figures += f"{contest.seconds * 1e6 / len(contest.latencies):8.1f}"
        print(f"{contest.name:20}{figures}   {slowest}")
    print(f"{chosen.readers} readers under {chosen.tokens} token(s), {chosen.changes} changes of {size} bytes each")
    print(f"KiB of the web process for an open reader: {memory:.1f}, after all changes {after:.1f}")
    print(f"ratio: {ours.percentile(99) / rival.percentile(99):.2f}")


async def _seed(resources: Resources, chosen: argparse.Namespace) -> tuple[list[str], list[Export], str]:
    """Tokens, exports that wait, and an event as it will be told."""
    user = await people.add_user(resources, "bench", Role.USER, actor="bench")
    tokens = [
        (await people.create_token(resources, user, f"bench {n}", actor="bench"))[1] for n in range(chosen.tokens)
    ]
    viewer = Viewer(user.id, user.name, user.role)
    waiting = [await stored_export(resources, viewer, Status.QUEUED) for _ in range(chosen.changes + 2)]
    await _change(resources, waiting.pop())
    async with resources.store.connection():
        *_, event = await events.page(resources.store, owner=user.id, limit=10_000)
    return tokens, waiting, json.dumps(event_json(event), separators=(",", ":"))


async def _change(resources: Resources, export: Export) -> float:
    """As `changes.change` does it; the moment of the commit."""
    async with resources.store.transaction():
        at = await resources.store.now()
        written = await changes.write(resources, export, [cancel(export, at=at)], at=at)
    committed = time.monotonic()
    assert written
    await changes.announce(resources, written[-1].export)
    return committed


def _request(path: str, token: str | None = None) -> str:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Accept: text/event-stream"]
    return "\r\n".join([*lines, *([f"Authorization: Bearer {token}"] if token else []), "", ""])


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _start_readers() -> asyncio.subprocess.Process:
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    return await asyncio.create_subprocess_exec(sys.executable, __file__, READ, limit=2**24, **pipes)


class Crowd:
    """The readers of one contest."""

    def __init__(self) -> None:
        self.size = 0
        self.opened = 0
        self.moments: list[float] = []

    async def open(self, port: int, requests: list[str]) -> int:
        loop, before = asyncio.get_running_loop(), self.opened
        for start in range(0, len(requests), AT_ONCE):
            some = requests[start : start + AT_ONCE]
            for request in some:
                await loop.create_connection(lambda request=request: Reading(self, request), "127.0.0.1", port)
            self.size += len(some)
            while self.opened < self.size:
                await asyncio.sleep(0.01)
        return self.opened - before

    async def read(self) -> list[float]:
        while len(self.moments) < self.size:
            await asyncio.sleep(0.02)
        return self.moments


class Reading(asyncio.Protocol):
    """One stream. Only a whole event counts, and heartbeats do not."""

    def __init__(self, crowd: Crowd, request: str) -> None:
        self.crowd = crowd
        self.request = request.encode()
        self.left = b""

    def connection_made(self, transport: Any) -> None:
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        *frames, self.left = (self.left + data.replace(b"\r", b"")).split(b"\n\n")
        for frame in frames:
            if b"\ndata: {" in frame:
                self.crowd.moments.append(time.monotonic())
            elif frame.startswith(b"HTTP/1.1 200"):
                self.crowd.opened += 1

    def connection_lost(self, error: Exception | None) -> None:
        sys.exit(f"a stream ended: {error}")


async def _read() -> None:
    """Orders come as lines of JSON, and answers go the same way."""
    loop, crowds, chosen = asyncio.get_running_loop(), dict[int, Crowd](), Crowd()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        match json.loads(line):
            case ["open", int(port), list(requests)]:
                answer: Any = await crowds.setdefault(port, Crowd()).open(port, requests)
            case ["expect", int(port)]:
                chosen, answer = crowds[port], None
                chosen.moments = []
            case _:
                answer = await chosen.read()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == [READ]:
        import uvloop

        uvloop.run(_read())
    else:
        main()
