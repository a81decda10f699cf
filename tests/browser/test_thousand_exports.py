"""Ten people watch their exports end while streams are cut, tabs are hidden, the web process dies and Redis is wiped.

Every change is made by the product's own actions, in this process, on the SQLite and the Redis that a real
`exportdesk web` serves from; browsers reach it through a relay that cuts their connections. In the end each page shows
what the store says, and what each page applied, and told as a toast, it did once.

`EXPORTDESK_TEST_EXPORTS=1000` is the long form, `EXPORTDESK_TEST_SEED` repeats the faults of a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from browser.relay import Relay, relaying
from browser.test_live_pages import finish, report
from browser.test_tabs import HIDE
from cli.command_line import free_port
from playwright.async_api import Browser, BrowserContext, Error, Page
from processes import WebProcess, web_process
from sqlalchemy import func, select

from webapp.actions import attempts, exports, people
from webapp.domain.access import Role, Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.events import TERMINAL_TYPES
from webapp.domain.exports import Export, Status
from webapp.domain.formats import PERSON_DEFAULTS
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import exports as rows
from webapp.store.exports import ListFilter
from webapp.store.tables import client_acks, events
from webapp.web.security import SESSION_COOKIE

pytestmark = pytest.mark.browser
EXPORTS = int(os.environ.get("EXPORTDESK_TEST_EXPORTS", "100"))
SEED = int(os.environ.get("EXPORTDESK_TEST_SEED") or random.SystemRandom().randrange(1_000_000))
PEOPLE = 10
DETAILS = 3 if EXPORTS >= 1000 else 1
"""Detail pages of each person, beside their list page."""
WINDOW = 6
"""Exports of one person that are active at a time."""
SECONDS_EACH = 0.08
FAULT_SECONDS = (0.3, 1.7)
AWAY_SECONDS = (0.2, 3.0)
RIGHT_SECONDS = 60.0
"""So long a page may take to be right from the moment when the server is there: it backs off up to 30 s."""
PAGE_ROWS = 25
ENDED = [status.value for status in Status if status not in {Status.PENDING, Status.QUEUED, Status.PROCESSING}]

LISTEN = """(() => {
  const page = Math.random().toString(36).slice(2);
  const tell = (what) => window.told({ page, ...what });
  document.addEventListener("exportdesk:applied", ({ detail }) => tell({ applied: detail }));
  document.addEventListener("DOMContentLoaded", () => {
    const events = document.getElementById("live-content")?.dataset.events ?? "";
    const rows = document.querySelectorAll("#live-content [data-version]");
    const versions = Object.fromEntries([...rows].map((each) => [each.dataset.export, Number(each.dataset.version)]));
    tell({ shown: events.split(" ").filter(Boolean), versions });
    const toasts = document.getElementById("toasts");
    if (!toasts) return;
    new MutationObserver((changes) => {
      for (const { addedNodes } of changes)
        for (const each of addedNodes) tell({ toast: each.querySelector("a").pathname.split("/").pop() });
    }).observe(toasts, { childList: true });
  });
})();"""
ROWS = """() => [...document.querySelectorAll("#live-content [data-version]")]
  .map((each) => [each.dataset.export, each.dataset.status, Number(each.dataset.version)])"""
END_OF = """([id, ended]) => {
  const shown = document.querySelector(`#live-content [data-export="${id}"]`);
  return ended.includes(shown?.dataset.status) && [shown.dataset.status, Number(shown.dataset.version)];
}"""
TEXTS = """async () => {
  const answer = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  return [document, answer].map((each) => {
    const shown = each.getElementById("live-content").cloneNode(true);
    for (const time of shown.querySelectorAll("time")) time.remove();
    return shown.textContent.replace(/\\s+/g, " ").trim();
  });
}"""
AT_REST = """() => {
  const live = document.getElementById("live");
  const isActive = document.getElementById("live-content").hasAttribute("data-active");
  return !isActive && !live.hasAttribute("hx-trigger") && !live._htmx?.sse;
}"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Of a web process of its own, whose address is the relay's."""
    return replace(
        settings,
        port=free_port(),
        base_url=f"http://127.0.0.1:{free_port()}",
        stream_heartbeat=timedelta(seconds=2),
        max_running_per_user=64,
        max_active_per_user=10_000,
    )


@dataclass
class Tab:
    """One page of one person and what it told, in order: `page` names the document that did."""

    page: Page
    owner: Viewer
    told: list[dict[str, Any]] = field(default_factory=list)

    async def hide(self, is_hidden: bool) -> None:
        with contextlib.suppress(Error):  # while it goes from page to page
            await self.page.evaluate(HIDE, is_hidden)

    async def show(self, path: str) -> None:
        """Loads it, however long nobody answers."""
        while True:
            try:
                answer = await self.page.goto(path)
                if answer is not None and answer.ok:
                    return
            except Error:
                await asyncio.sleep(0.3)


@dataclass
class Desk:
    """What is ordered, runs and ends. Until the last order of a person has come, one export of theirs is active."""

    resources: Resources
    owners: Sequence[Viewer]
    rng: random.Random
    left: dict[str, int]
    active: dict[str, list[str]]
    running: list[Export] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_over(self) -> bool:
        return not any(self.left.values()) and not any(self.active.values())

    async def run(self) -> None:
        while not self.is_over:
            begun = time.monotonic()
            await self.order()
            if claimed := await attempts.claim(self.resources):
                self.running.append(claimed)
            await self.progress()
            await self.end()
            await asyncio.sleep(max(0.0, SECONDS_EACH * self.rng.uniform(0.2, 1.8) - (time.monotonic() - begun)))

    async def order(self) -> None:
        wanting = [who for who in self.owners if self.left[who.id] and len(self.active[who.id]) < WINDOW]
        if not wanting:
            return
        who = self.rng.choice(wanting)
        params = {"search": str(self.left[who.id])}
        export, _ = await exports.order(
            self.resources, who, exports.Order("things", params, "csv", {}), defaults=PERSON_DEFAULTS
        )
        self.left[who.id] -= 1
        self.active[who.id].append(export.id)

    async def progress(self) -> None:
        if self.running and self.rng.random() < 0.5:
            with contextlib.suppress(AssertionError):  # it was cancelled
                await report(self.resources, self.rng.choice(self.running), self.rng.randrange(1000))

    async def end(self) -> None:
        ending = [
            export for export in self.running if not self.left[export.owner] or len(self.active[export.owner]) > 1
        ]
        if not ending:
            return
        export = self.rng.choice(ending)
        self.running.remove(export)
        how = self.rng.choices(
            ["finished", "failed", "timed out", "cancelled", "handed back"], weights=[70, 10, 5, 10, 5]
        )[0]
        self.counts[how] += 1
        match how:
            case "finished":
                await finish(self.resources, export)
            case "failed":
                await attempts.fail(self.resources, export, export_error(ErrorCode.QUERY_ERROR, detail="no such table"))
            case "timed out":
                await attempts.time_out(self.resources, export, export_error(ErrorCode.TIMEOUT, limit="20 seconds"))
            case "cancelled":
                owner = next(who for who in self.owners if who.id == export.owner)
                await exports.cancel(self.resources, owner, export.id)
            case _:
                await attempts.hand_back(self.resources, export)
                return
        self.active[export.owner].remove(export.id)


@dataclass
class Trouble:
    """The faults: each kind once in any order, then as chance has it, until the task is cancelled."""

    web: WebProcess
    relay: Relay
    resources: Resources
    tabs: Sequence[Tab]
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    away: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        kinds = ["cut", "hide", "flush", "deaf", "SIGTERM", "SIGKILL"]
        first = self.rng.sample(kinds, len(kinds))
        while True:
            await asyncio.sleep(self.rng.uniform(*FAULT_SECONDS))
            kind = first.pop() if first else self.rng.choices(kinds, weights=[16, 20, 8, 4, 1, 1])[0]
            self.counts[kind] += 1
            await self.make(kind)

    async def make(self, kind: str) -> None:
        match kind:
            case "cut":
                self.relay.cut(self.rng.choice([0.2, 0.5, 1.0]), self.rng)
            case "hide":
                for tab in self.rng.sample(self.tabs, len(self.tabs) // 3):
                    self.away.add(asyncio.create_task(self.send_away(tab)))
            case "flush":
                await self.resources.redis.flushall()
            case "deaf":
                await self.resources.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            case _:
                await asyncio.shield(self.restart(signal.Signals[kind]))

    async def restart(self, how: signal.Signals) -> None:
        await self.web.stop(how)
        await asyncio.sleep(self.rng.uniform(0, 1))
        await self.web.start()

    async def send_away(self, tab: Tab) -> None:
        await tab.hide(True)
        await asyncio.sleep(self.rng.uniform(*AWAY_SECONDS))
        await tab.hide(False)


@dataclass
class Visits:
    """Detail pages that were watched to the end of their export. `slowest`: seconds from there, or from when the web
    process was up again, until the page showed it."""

    resources: Resources
    desk: Desk
    web: WebProcess
    rng: random.Random
    ends: int = 0
    news: int = 0
    slowest: float = 0.0

    async def of(self, tab: Tab) -> None:
        while ids := self.desk.active[tab.owner.id]:
            await self.watch(tab, self.rng.choice(ids))

    async def watch(self, tab: Tab, export_id: str) -> None:
        await tab.show(f"/exports/{export_id}")
        while export_id in self.desk.active[tab.owner.id]:
            await asyncio.sleep(0.1)
        ended = time.monotonic()
        while not (shown := await tab.page.evaluate(END_OF, [export_id, ENDED])):
            late = time.monotonic() - max(ended, self.web.up_since)
            assert late < RIGHT_SECONDS, f"{tab.owner.name}: {await state(tab, [], [[export_id]])}"
            await asyncio.sleep(0.1)
        assert shown == await stored(self.resources, export_id)
        self.slowest = max(self.slowest, time.monotonic() - max(ended, self.web.up_since))
        self.news += await self.came_as_news(tab, export_id, shown[1])
        self.ends += 1

    async def came_as_news(self, tab: Tab, export_id: str, version: int) -> bool:
        """Whether the page applied the export's last event, or else was loaded with its last version. It tells so a
        moment later."""
        last, ends = await last_event(self.resources, export_id), time.monotonic() + RIGHT_SECONDS
        while True:
            told = [each for each in tab.told if each["page"] == tab.told[-1]["page"]]
            if any(last in each["applied"]["events"] for each in told if "applied" in each):
                return True
            if any(each["versions"].get(export_id) == version for each in told if "shown" in each):
                return False
            assert time.monotonic() < ends, f"{export_id} ended with {last}, the page told {told[-20:]}"
            await asyncio.sleep(0.05)


async def stored(resources: Resources, export_id: str) -> list[Any]:
    async with resources.store.connection():
        found = await rows.get(resources.store, export_id)
    assert found is not None
    return [found.status.value, found.version]


async def last_event(resources: Resources, export_id: str) -> str:
    query = select(events.c.id).where(events.c.export_id == export_id).order_by(events.c.seq.desc()).limit(1)
    async with resources.store.connection():
        row = await resources.store.fetch_one(query)
    assert row is not None
    return str(row["id"])


async def person(resources: Resources, name: str) -> Viewer:
    user = await people.add_user(resources, name, Role.USER, actor="tests", password=f"{name} has a password")
    return Viewer(user.id, user.name, user.role)


@contextlib.asynccontextmanager
async def signed_in(browser: Browser, resources: Resources, who: Viewer) -> AsyncIterator[BrowserContext]:
    session = await people.sign_in(resources, who.name, f"{who.name} has a password")
    assert session is not None
    url = resources.settings.base_url
    context = await browser.new_context(base_url=url)
    await context.add_cookies([{"name": SESSION_COOKIE, "value": session.token, "url": url}])
    await context.add_init_script(LISTEN)
    try:
        yield context
    finally:
        await context.close()


async def open_tabs(context: BrowserContext, who: Viewer, problems: list[str]) -> list[Tab]:
    """The list page first."""
    tabs: dict[Page, Tab] = {}
    await context.expose_binding("told", lambda source, what: tabs[source["page"]].told.append(what))
    for _ in range(1 + DETAILS):
        page = await context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        tabs[page] = Tab(page, who)
    return list(tabs.values())


async def until_right(resources: Resources, tab: Tab) -> float:
    """Seconds until the list page shows what the store says, and has come to rest."""
    async with resources.store.connection():
        wanted = await rows.list_page(resources.store, ListFilter(owner=tab.owner.id), limit=PAGE_ROWS, after=None)
    expected = [[export.id, export.status.value, export.version] for export in wanted]
    begun = time.monotonic()
    while (shown := await tab.page.evaluate(ROWS)) != expected or not await tab.page.evaluate(AT_REST):
        assert time.monotonic() - begun < RIGHT_SECONDS, f"{tab.owner.name}: {await state(tab, shown, expected)}"
        await asyncio.sleep(0.1)
    return time.monotonic() - begun


async def state(tab: Tab, shown: list[Any], expected: list[Any]) -> str:
    """What is wrong, and what the page is about to do."""
    live = await tab.page.evaluate("document.getElementById('live').cloneNode(false).outerHTML")
    notice = await tab.page.evaluate("document.getElementById('live-notice')?.textContent")
    missing = [row for row in expected if row not in shown]
    return f"{missing} missing; {live}; {notice}; last told {tab.told[-2:]}"


def applied_by_document(tab: Tab) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in tab.told:
        found.setdefault(each["page"], []).append(each)
    return found


def check_what_was_told(tab: Tab, counts: Counter[str]) -> None:
    """Within a document no event is applied and no end is told twice, and nothing shown goes back."""
    for told in applied_by_document(tab).values():
        brought = [event for each in told for event in each.get("shown", each.get("applied", {}).get("events", ()))]
        assert len(brought) == len(set(brought)), f"{tab.owner.name}: applied twice"
        toasts = [each["toast"] for each in told if "toast" in each]
        assert len(toasts) == len(set(toasts)), f"{tab.owner.name}: told twice"
        applied = [each["applied"] for each in told if "applied" in each]
        stamps = [each["stamp"] for each in applied]
        assert stamps == sorted(stamps), f"{tab.owner.name}: went back"
        seen: dict[str, int] = {}
        for versions in (each["versions"] for each in applied):
            assert all(version >= seen.get(export, 0) for export, version in versions.items())
            seen |= versions
        counts["documents"] += 1
        counts["snapshots"] += len(applied)
        counts["events"] += sum(len(each["events"]) for each in applied)
        counts["toasts"] += len(toasts)


async def acknowledged(resources: Resources) -> tuple[int, int]:
    """Ends that some page confirmed, and all of them."""
    ends = select(func.count()).select_from(events).where(events.c.type.in_(TERMINAL_TYPES))
    told = events.c.id.in_(select(client_acks.c.event_id))
    async with resources.store.connection():
        counts = [await resources.store.fetch_val(query) for query in (ends.where(told), ends)]
    return counts[0], counts[1]


async def test_every_page_is_right_in_the_end(browser: Browser, resources: Resources, settings: Settings) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    owners = [await person(resources, f"person-{number}") for number in range(PEOPLE)]
    desk = Desk(
        resources,
        owners,
        rng,
        left={who.id: EXPORTS // PEOPLE for who in owners},
        active={who.id: [] for who in owners},
    )
    while any(len(ids) < 2 for ids in desk.active.values()):
        await desk.order()
    problems: list[str] = []
    relay_port = int(settings.base_url.rsplit(":", 1)[1])
    async with contextlib.AsyncExitStack() as stack:
        web = await stack.enter_async_context(web_process(settings))
        relay = await stack.enter_async_context(relaying(relay_port, settings.port))
        tabs: list[Tab] = []
        for who in owners:
            context = await stack.enter_async_context(signed_in(browser, resources, who))
            tabs += await open_tabs(context, who, problems)
        lists = tabs[:: 1 + DETAILS]
        details = [tab for tab in tabs if tab not in lists]
        await asyncio.gather(*(tab.show("/exports") for tab in lists))

        trouble = Trouble(web, relay, resources, tabs, rng)
        visits = Visits(resources, desk, web, rng)
        faults = asyncio.create_task(trouble.run())
        watching = [asyncio.create_task(visits.of(tab)) for tab in details]
        begun = time.monotonic()
        await desk.run()
        lasted = time.monotonic() - begun
        faults.cancel()
        await asyncio.gather(faults, return_exceptions=True)
        await asyncio.gather(*trouble.away)

        print(f"{EXPORTS} exports in {lasted:.0f} s: {dict(desk.counts)}")
        print(f"faults: {dict(trouble.counts)}, {relay.cuts} connections cut")
        settled = await asyncio.gather(*(until_right(resources, tab) for tab in lists))
        await asyncio.gather(*watching)
        for tab in tabs:
            shown, fresh = await tab.page.evaluate(TEXTS)
            assert shown == fresh
        counts: Counter[str] = Counter()
        for tab in tabs:
            check_what_was_told(tab, counts)
        confirmed, ends = await acknowledged(resources)

    print(f"{len(tabs)} tabs: {dict(counts)}; {confirmed} of {ends} ends confirmed by a page")
    print(f"{visits.ends} detail pages watched to the end, {visits.news} ends came as news")
    print(f"right after: detail pages {visits.slowest:.1f} s, list pages {max(settled):.1f} s at most")
    assert ends == EXPORTS + desk.counts["handed back"]
    assert problems == []
