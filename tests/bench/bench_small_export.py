"""A small export on an idle `exportdesk up`: from the order to the file, as a client of the API sees it.

There is no rival: the budget is p50 ≤ 150 ms and p95 ≤ 300 ms.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from data import sqlite_file

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from command_line import COMMAND, environment, exportdesk, free_port

CONFIG = """
[sources.bench]
url = "sqlite:///{source}"

[datasets.rows]
title = "Rows"
source = "bench"
sql = "SELECT * FROM rows"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two orders, so that all is idle")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "exportdesk.toml"
        config.write_text(CONFIG.format(source=sqlite_file(chosen.rows)))
        settings = environment(Path(folder) / "data", CONFIG=str(config), PORT=str(free_port()))
        with (Path(folder) / "up.txt").open("wb") as log:
            up = subprocess.Popen([*COMMAND, "up"], env=settings, stdout=log, stderr=log)
            try:
                _measure(settings, chosen.rounds, chosen.pause)
            finally:
                up.send_signal(signal.SIGTERM)
                up.wait(30)


def _measure(settings: dict[str, str], rounds: int, pause: float) -> None:
    url = f"http://127.0.0.1:{settings['EXPORTDESK_PORT']}"
    _wait_until_ready(url)
    exportdesk("user", "add", "bench", environ=settings)
    token = exportdesk("token", "create", "--user", "bench", "--name", "bench", environ=settings).stdout.splitlines()[
        -1
    ]
    print(f"{'':10}{'p50 ms':>8}{'p95 ms':>8}{'most':>8}")
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        for format in ("csv", "jsonl", "xlsx"):
            _order(client, format)
            times = []
            for _ in range(rounds):
                time.sleep(pause)
                times.append(_order(client, format) * 1000)
            p95 = statistics.quantiles(times, n=20)[-1]
            print(f"{format:10}{statistics.median(times):8.0f}{p95:8.0f}{max(times):8.0f}", flush=True)


def _order(client: httpx.Client, format: str) -> float:
    """Seconds until a status answer says that the file is there."""
    started = time.perf_counter()
    export = client.post("/api/v1/exports", json={"dataset": "rows", "format": format}).raise_for_status().json()
    while export["status"] != "SUCCESS":
        assert export["status"] in ("PENDING", "QUEUED", "PROCESSING"), export
        export = client.get(f"/api/v1/exports/{export['id']}", params={"wait": 20}).raise_for_status().json()
    return time.perf_counter() - started


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise TimeoutError("`exportdesk up` did not become ready")


if __name__ == "__main__":
    main()
