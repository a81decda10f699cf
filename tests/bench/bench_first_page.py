"""What a new visitor's Chromium is sent for the page to sign in, the list, and an export's page, with all assets.

No rival: the budget is 120 kB a page, with nothing in the cache. `exportdesk web` answers by itself, with no proxy
before it. Bytes are those on the wire, headers too, as Chromium counts them; beside them what the same would be if
nothing were compressed. The list is a full page of exports in every status.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from far_end import broker

sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import chromium, desk, visitor
from factories import stored_export
from playwright.async_api import BrowserContext
from processes import web_process

from webapp.domain.exports import Status
from webapp.domain.limits import PAGE_SIZE

BUDGET = 120_000
LANGUAGES = ("en", "zh-CN")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)):
        asyncio.run(_measure(Path(folder), chosen))


async def _measure(folder: Path, chosen: argparse.Namespace) -> None:
    async with desk(folder) as opened, web_process(opened.settings), chromium(chosen.browser) as browser:
        exports = [
            await stored_export(opened.resources, opened.admin, list(Status)[n % len(Status)]) for n in range(PAGE_SIZE)
        ]
        print(f"{'bytes':36}{'requests':>10}{'sent':>10}{'plain':>10}")
        most = 0
        for language in LANGUAGES:
            for path in ("/sign-in", "/exports", f"/exports/{exports[-1].id}"):
                async with visitor(browser, opened, signed_in=path != "/sign-in", locale=language) as context:
                    sent, plain = await _visit(context, path)
                shown = f"{path[:24]} {language}"
                print(f"{shown:36}{len(sent):10}{sent.total():10,}{plain.total():10,}")
                most = max(most, sent.total())
    print(f"largest: {most / 1000:.0f} kB (budget: {BUDGET / 1000:.0f} kB)")


async def _visit(context: BrowserContext, path: str) -> tuple[Counter[str], Counter[str]]:
    """Bytes by request, as sent and as they would be without compression; until the page has all it names."""
    page = await context.new_page()
    network = await context.new_cdp_session(page)
    sent, plain = Counter[str](), Counter[str]()

    def finished(event: dict[str, Any]) -> None:
        sent[event["requestId"]] = int(event["encodedDataLength"])

    def arrived(event: dict[str, Any]) -> None:
        plain[event["requestId"]] += int(event["dataLength"])

    network.on("Network.loadingFinished", finished)
    network.on("Network.dataReceived", arrived)
    await network.send("Network.enable")
    answer = await page.goto(path, wait_until="load")
    assert answer
    assert answer.ok
    await asyncio.sleep(0.5)
    return sent, plain


if __name__ == "__main__":
    main()
