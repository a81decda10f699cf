"""From the commit of a status change to the changed row in Chromium, while 500 other SSE readers are open.

There is no rival: the budget is p50 ≤ 100 ms and p99 ≤ 300 ms. `exportdesk web` runs over SQLite and a Redis of its
own; the browser shows a list page of 20 exports, which change one after another; the other readers follow `/events` by
raw sockets in a process of their own. They are read three ways: nobody, 500 readers of other people, and 500 readers of
the same person, who are told of each change too. Chromium and the readers share the machine with the server.

The clock starts when the transaction is committed, before the hint, and stops when a MutationObserver of the page sees
the row in its new version. Both clocks are this machine's; what they differ by is measured and taken off.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from far_end import broker

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser.streaming import until_it_streams
from browsing import chromium, desk, visitor
from factories import stored_export
from playwright.async_api import BrowserContext, Page
from processes import web_process

from webapp.actions import changes, people
from webapp.domain.access import Role
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Status, fail, retry_by_hand, start
from webapp.resources import Resources

READ = "--read"
AT_ONCE = 50
OTHERS = 50
"""The readers of other people are of so many."""
SHOWN = 20
TURNS = (Status.QUEUED, Status.PROCESSING, Status.FAILED)
WARM_UP = 10
SETTLING_SECONDS = 2.0
SETTLING_TRIES = 5
LISTEN = """
window.seen = {};
document.addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  const now = performance.timeOrigin + performance.now();
  for (const { dataset } of document.querySelectorAll("#live-content [data-version]"))
    window.seen[`${dataset.export} ${dataset.version}`] ??= now;
}).observe(document.body, { attributes: true, childList: true, subtree: true }));
"""


@dataclass(slots=True)
class Contest:
    """One line of the table: who reads beside the browser, by token; `committed` by export and version, in seconds."""

    name: str
    tokens: Sequence[str]
    committed: dict[str, float] = field(default_factory=dict[str, float])
    latencies: list[float] = field(default_factory=list[float])
    """Milliseconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.15, help="seconds between two changes")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)):
        asyncio.run(_measure(Path(folder), chosen))


async def _measure(folder: Path, chosen: argparse.Namespace) -> None:
    async with desk(folder) as opened, web_process(opened.settings), chromium(chosen.browser) as browser:
        resources, port = opened.resources, opened.settings.port
        _, own = await people.create_token(resources, opened.admin, "bench", actor="bench")
        others = [await _token(resources, f"other-{n}") for n in range(OTHERS)]
        contests = [
            Contest("nobody else", []),
            Contest(f"{chosen.readers} of other people", [others[n % OTHERS] for n in range(chosen.readers)]),
            Contest(f"{chosen.readers} of the same person", [own] * chosen.readers),
        ]
        exports = [await stored_export(resources, opened.admin, TURNS[n % len(TURNS)]) for n in range(SHOWN)]
        for contest in contests:
            async with _reading(port, contest.tokens), visitor(browser, opened) as context:
                page = await _watching(context)
                await asyncio.sleep(SETTLING_SECONDS)
                exports = await _change_all(resources, exports, contest, chosen)
                await _collect(page, contest)
    _report(contests, chosen)


def _report(contests: list[Contest], chosen: argparse.Namespace) -> None:
    print(f"{'milliseconds':28}{'p50':>8}{'p90':>8}{'p99':>8}{'most':>8}")
    for contest in contests:
        percentiles = statistics.quantiles(contest.latencies, n=100)
        figures = "".join(f"{percentiles[percent - 1]:8.1f}" for percent in (50, 90, 99))
        print(f"{contest.name:28}{figures}{max(contest.latencies):8.1f}")
    print(f"{len(contests[0].latencies)} changes each, one every {chosen.pause * 1000:.0f} ms")
    last = statistics.quantiles(contests[-1].latencies, n=100)
    print(f"p50: {last[49]:.1f}")
    print(f"p99: {last[98]:.1f}")


async def _token(resources: Resources, name: str) -> str:
    user = await people.add_user(resources, name, Role.USER, actor="bench", password=f"{name} has a password")
    _, token = await people.create_token(resources, user, "bench", actor="bench")
    return token


async def _change_all(
    resources: Resources, exports: list[Export], contest: Contest, chosen: argparse.Namespace
) -> list[Export]:
    """Round after round: an export starts, fails, is queued again. Some of them are always active: the page streams."""
    turn = list(exports)
    for number in range(chosen.changes + WARM_UP):
        after, committed = await _change(resources, turn.pop(0))
        turn.append(after)
        if number >= WARM_UP:
            contest.committed[f"{after.id} {after.version}"] = committed
        await asyncio.sleep(chosen.pause)
    return turn


async def _change(resources: Resources, export: Export) -> tuple[Export, float]:
    """As `changes.change` does it, and the moment of the commit."""
    async with resources.store.transaction():
        at = await resources.store.now()
        match export.status:
            case Status.QUEUED:
                step = start(export, at=at)
            case Status.PROCESSING:
                step = fail(export, export_error(ErrorCode.QUERY_ERROR, detail="no such table"), at=at)
            case _:
                step = retry_by_hand(export, at=at)
        written = await changes.write(resources, export, [step], at=at)
    committed = time.time()
    assert written
    await changes.announce(resources, written[-1].export)
    return written[-1].export, committed


async def _watching(context: BrowserContext) -> Page:
    """The list page, once it streams."""
    await context.add_init_script(LISTEN)
    page = await context.new_page()
    await page.goto("/exports")
    await until_it_streams(page)
    return page


async def _collect(page: Page, contest: Contest) -> None:
    for _ in range(SETTLING_TRIES):
        seen: dict[str, float] = await page.evaluate("window.seen")
        if contest.committed.keys() <= seen.keys():
            break
        await asyncio.sleep(SETTLING_SECONDS)
    ahead = await _milliseconds_ahead(page)
    missed = [key for key in contest.committed if key not in seen]
    assert not missed, f"{len(missed)} were never shown"
    contest.latencies = [seen[key] - ahead - at * 1000 for key, at in contest.committed.items()]


async def _milliseconds_ahead(page: Page) -> float:
    """How far the page's clock is ahead of ours, by the quickest of some questions."""
    found: list[tuple[float, float]] = []
    for _ in range(30):
        before = time.time()
        theirs = await page.evaluate("performance.timeOrigin + performance.now()")
        after = time.time()
        found.append((after - before, theirs - (before + after) * 500))
    return min(found)[1]


@contextlib.asynccontextmanager
async def _reading(port: int, tokens: Sequence[str]) -> AsyncIterator[None]:
    """Readers in a process of their own, once all of them are answered."""
    command = [sys.executable, __file__, READ]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=os.environ
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps([port, tokens]).encode() + b"\n")
    assert int(await asyncio.wait_for(process.stdout.readline(), 60)) == len(tokens)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


class Reading(asyncio.Protocol):
    """One stream, whose events are received and dropped."""

    def __init__(self, token: str, answered: asyncio.Future[None]) -> None:
        self._token = token
        self._answered = answered

    def connection_made(self, transport: Any) -> None:
        lines = ["GET /api/v1/events HTTP/1.1", "Host: 127.0.0.1", "Accept: text/event-stream"]
        transport.write("\r\n".join([*lines, f"Authorization: Bearer {self._token}", "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        if not self._answered.done():
            assert data.startswith(b"HTTP/1.1 200"), data
            self._answered.set_result(None)


async def _read() -> None:
    port, tokens = json.loads(sys.stdin.readline())
    loop = asyncio.get_running_loop()
    for begin in range(0, len(tokens), AT_ONCE):
        waiting: list[asyncio.Future[None]] = []
        for token in tokens[begin : begin + AT_ONCE]:
            waiting.append(loop.create_future())
            await loop.create_connection(lambda t=token, a=waiting[-1]: Reading(t, a), "127.0.0.1", port)
        await asyncio.gather(*waiting)
    print(len(tokens), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:2] == [READ]:
        import uvloop

        uvloop.run(_read())
    else:
        main()
