"""Makes the README's picture: the list of exports of a new desk with the demo shop, one of them running.

    python tests/browser/picture.py

Starts `exportdesk up` in a folder of its own and ends it. Takes half a minute, most of it for the demo data.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from webapp.client import ACTIVE, Client

PICTURE = Path(__file__).with_name("picture.webp")
MOST_BYTES = 150_000
WIDTH, HEIGHT = 1120, 600
STARTING_SECONDS = 90
ORDERS = (
    ("orders", "csv", {"country": "DE"}),
    ("orders", "parquet", {"country": "FR"}),
    ("orders", "jsonl", {"country": "JP"}),
    ("orders", "xlsx", {}),
)
"""The last one is to be seen running; it takes the longest."""
ENDED = "The last order ended too soon for a picture of it. Run this again."
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def started(folder: Path, port: int) -> tuple[subprocess.Popen[bytes], dict[str, str], str]:
    """The process, its surroundings, and the link that signs in."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("EXPORTDESK_")}
    environ |= {
        "EXPORTDESK_DATA_DIR": str(folder / "data"),
        "EXPORTDESK_PORT": str(port),
        "EXPORTDESK_BASE_URL": f"http://localhost:{port}",
        "EXPORTDESK_MAX_RUNNING_PER_USER": "1",
    }
    output = folder / "up.txt"
    with output.open("wb") as file:
        command = [sys.executable, "-m", "webapp.cli", "up"]
        process = subprocess.Popen(command, env=environ, stdout=file, stderr=file)
    for _ in range(STARTING_SECONDS * 10):
        if found := re.search(r"http://localhost:\d+/sign-in/once/[\w-]+", output.read_text()):
            return process, environ, found[0]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    raise SystemExit(output.read_text())


def until_it_moves(page: Page, export_id: str) -> None:
    """Until its bar stands past a tenth, or it has ended."""
    row = page.locator(f"#row-{export_id}")
    while row.get_attribute("data-status") in ACTIVE:
        bar = row.locator("progress[value]")
        if bar.count() and float(bar.get_attribute("value") or 0) > 10:
            return
        page.wait_for_timeout(50)
    raise SystemExit(ENDED)


def picture(link: str, desk: Client) -> bytes:
    """WebP, taken while the last order runs."""
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.5, reduced_motion="reduce"
        )
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/exports")
        page.get_by_role("button", name="Do not show it again").click()
        for name, format, params in ORDERS[:-1]:
            answer = desk.order(name, format=format, params=params)
            while answer.export.is_active:
                answer = desk.get(answer.export.id, wait=20, known=answer)
        name, format, params = ORDERS[-1]
        running = desk.order(name, format=format, params=params).export.id
        page.goto(f"{desk.url}/exports")
        until_it_moves(page, running)
        shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", {"format": "webp", "quality": 80})
        if not desk.get(running).export.is_active:
            raise SystemExit(ENDED)
        browser.close()
    return base64.b64decode(shot["data"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        process, environ, link = started(Path(folder), port)
        try:
            command = [sys.executable, "-m", "webapp.cli", "token", "create", "--user", "admin", "--name", "picture"]
            made = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
            content = picture(link, Client(f"http://localhost:{port}", made.stdout.split()[-1]))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    if len(content) > MOST_BYTES:
        raise SystemExit(f"{len(content)} bytes are too many.")
    PICTURE.write_bytes(content)
    print(f"{PICTURE}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
