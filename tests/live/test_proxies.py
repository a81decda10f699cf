"""The desk behind a proxy, as it is in production: streams are not held back, and addresses are those of BASE_URL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cli.command_line import free_port
from needed import missing
from proxies import Proxy, nginx
from selectolax.lexbor import LexborHTMLParser
from web_processes import WebProcess, web_process
from websockets.asyncio.client import connect

from webapp.actions import exports, people
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources

ExportMaker = Callable[..., Awaitable[Export]]
EVENTS = "/api/v1/events"
PATIENCE = 30
LATE_SECONDS = 1.0
BUFFERED = "proxy_buffering on; gzip on; gzip_proxied any; gzip_min_length 0; gzip_types *;"
"""All that holds answers back; Debian's own configuration has both."""
UNBUFFERED = "proxy_buffering off;"
PREFIX = "/exports-desk"
BASE_URL = f"https://desk.example{PREFIX}"
FOLLOWED = ("href", "src", "hx-get")
ADDRESSES = (*FOLLOWED, "action", "formaction", "hx-post", "hx-sse:connect", "data-fallback")


@contextlib.asynccontextmanager
async def desk(
    resources: Resources, folder: Path, lines: str = UNBUFFERED, *, location: str = "/", path: str = "", **more: str
) -> AsyncIterator[tuple[Proxy, WebProcess]]:
    """A web process behind nginx. `more` are its settings."""
    more = {"STREAM_HEARTBEAT": "1s", **more}
    with (
        web_process(resources.settings, free_port(), folder / "web.txt", **more) as web,
        nginx(folder, web.port, lines=lines, location=location, path=path) as proxy,
    ):
        await asyncio.gather(proxy.until_listening(), web.until_listening())
        yield proxy, web


async def bearer(resources: Resources, viewer: Viewer) -> str:
    user = await people.user_named(resources, viewer.name)
    return f"Bearer {(await people.create_token(resources, user, 't', actor='tests'))[1]}"


class Curl:
    """What it receives, frame by frame, each with the moment when it was there."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        self._arriving = process.stdout

    async def head(self) -> list[str]:
        return (await asyncio.wait_for(self._arriving.readuntil(b"\r\n\r\n"), PATIENCE)).decode().split("\r\n")

    async def until(self, event: str) -> tuple[float, str]:
        while True:
            frame = (await asyncio.wait_for(self._arriving.readuntil(b"\n\n"), PATIENCE)).decode()
            if f"event: {event}\n" in frame:
                return time.monotonic(), frame


@contextlib.asynccontextmanager
async def curl(proxy: Proxy, path: str, version: str, token: str) -> AsyncIterator[Curl]:
    known = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout if shutil.which("curl") else ""
    if "HTTP2" not in known:
        missing("A curl that speaks HTTP/2")
    url = f"https://127.0.0.1:{proxy.tls}{path}"
    command = ["curl", "-sNi", "--compressed", f"--http{version}", "--cacert", str(proxy.certificate), url]
    headers = ["-H", f"Authorization: {token}", "-H", "Accept: text/event-stream"]
    process = await asyncio.create_subprocess_exec(*command, *headers, stdout=asyncio.subprocess.PIPE)
    try:
        yield Curl(process)
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("lines", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"])
async def test_events_are_not_held_back(
    resources: Resources, user: Viewer, make_export: ExportMaker, tmp_path: Path, lines: str
) -> None:
    token = await bearer(resources, user)
    async with desk(resources, tmp_path, lines) as (proxy, _):
        for version, spoken in (("1.1", "HTTP/1.1 200"), ("2", "HTTP/2 200")):
            waiting = [await make_export(Status.QUEUED) for _ in range(3)]
            async with curl(proxy, EVENTS, version, token) as stream:
                assert (await stream.head())[0].startswith(spoken)
                delays: list[float] = []
                for export in waiting:
                    await stream.until("heartbeat")
                    await exports.cancel(resources, user, export.id)
                    committed = time.monotonic()
                    at, frame = await stream.until("export.cancelled")
                    assert export.id in frame
                    delays.append(at - committed)
                assert min(delays) < LATE_SECONDS


@pytest.mark.parametrize("lines", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"])
async def test_a_socket_goes_through(
    resources: Resources, user: Viewer, make_export: ExportMaker, tmp_path: Path, lines: str
) -> None:
    headers = {"Authorization": await bearer(resources, user)}
    async with desk(resources, tmp_path, lines) as (proxy, _):
        places: dict[str, Any] = {
            f"ws://127.0.0.1:{proxy.plain}": {},
            f"wss://127.0.0.1:{proxy.tls}": {"ssl": proxy.trust},
        }
        for place, more in places.items():
            export = await make_export(Status.QUEUED)
            async with connect(
                f"{place}/api/v1/ws", additional_headers=headers, open_timeout=PATIENCE, **more
            ) as socket:
                await socket.send('{"subscribe": {}}')
                assert json.loads(await asyncio.wait_for(socket.recv(), PATIENCE)) == {"type": "subscribed"}
                await exports.cancel(resources, user, export.id)
                told = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
                assert (told["type"], told["export_id"]) == ("export.cancelled", export.id)


@pytest.mark.parametrize(("trusted", "is_believed"), [("127.0.0.0/8", True), ("10.0.0.1", False), ("", False)])
async def test_only_a_trusted_proxy_is_believed(
    resources: Resources, user: Viewer, tmp_path: Path, trusted: str, is_believed: bool
) -> None:
    """That the browser came over TLS: cookies are for TLS alone then."""
    async with desk(resources, tmp_path, TRUSTED_PROXIES=trusted) as (proxy, _):
        for base, is_tls in ((f"https://127.0.0.1:{proxy.tls}", True), (f"http://127.0.0.1:{proxy.plain}", False)):
            async with httpx.AsyncClient(base_url=base, verify=proxy.trust, timeout=PATIENCE) as client:
                headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
                response = await client.post("/sign-out", headers=headers)
                cookie = next(c for c in response.headers.get_list("set-cookie") if c.startswith("exportdesk_flash="))
                assert ("secure" in cookie.lower()) is (is_believed and is_tls)


@pytest.mark.parametrize("path", ["", "/"], ids=["prefix left on", "prefix taken off"])
async def test_below_a_path_every_address_is_below_it(
    resources: Resources, admin: Viewer, make_export: ExportMaker, tmp_path: Path, path: str
) -> None:
    """As a browser does: every link and every file of every page that can be reached, from the sign-in on."""
    running, done = [await make_export(status, owner=admin) for status in (Status.PROCESSING, Status.SUCCESS)]
    async with (
        desk(resources, tmp_path, location=f"{PREFIX}/", path=path, BASE_URL=BASE_URL, TRUSTED_PROXIES="127.0.0.1") as (
            proxy,
            web,
        ),
        httpx.AsyncClient(base_url=f"https://127.0.0.1:{proxy.tls}", verify=proxy.trust, timeout=PATIENCE) as client,
    ):
        refused = await client.get(f"{PREFIX}/exports?status=failed")
        assert refused.headers["location"] == f"{PREFIX}/sign-in?next=%2Fexports%3Fstatus%3Dfailed"
        fields = {"name": "admin", "password": "admin has a password", "next": "/exports?status=failed"}
        entered = await client.post(f"{PREFIX}/sign-in", data=fields, headers={"Origin": "https://desk.example"})
        assert (entered.status_code, entered.headers["location"]) == (303, f"{PREFIX}/exports?status=failed")
        assert f"; Path={PREFIX}/;" in entered.headers["set-cookie"]

        seen = await walk(client, f"{PREFIX}/")
        parts = {path.removeprefix(PREFIX) for path in seen}
        assert {"/exports", "/exports/new", "/callbacks", "/docs", "/static/app.css"} <= parts
        assert {f"/exports/{running.id}", f"/exports/{done.id}", f"/api/v1/exports/{done.id}/file"} <= parts

        shown = (await client.get(f"{PREFIX}/api/v1/exports/{done.id}")).json()
        assert shown["file"]["download_url"] == f"{BASE_URL}/api/v1/exports/{done.id}/file"
        order = {"dataset": "things", "params": {}, "format": "csv"}
        made = await client.post(f"{PREFIX}/api/v1/exports", json=order)
        assert made.headers["location"] == f"{BASE_URL}/api/v1/exports/{made.json()['id']}"
        async with client.stream("GET", f"{PREFIX}/exports/{running.id}/stream") as stream:
            told = b""
            async for chunk in stream.aiter_raw():
                if (told := told + chunk).count(b"\n\n") >= 2:
                    break
            assert f'href="{PREFIX}/'.encode() in told
            assert not re.search(rb'(href|action)="/(?!exports-desk/)', told)
        assert web.troubles() == []


async def walk(client: httpx.AsyncClient, start: str) -> set[str]:
    """Follows the links to each path once; gives back the paths."""
    seen, ahead = {start}, [start]
    while ahead:
        url = ahead.pop()
        response = await client.get(url)
        assert response.status_code in {200, 303}, (url, response.status_code)
        for name, address in addresses(response):
            assert address.startswith(f"{PREFIX}/"), f"{name}={address} in {url}"
            path = urlsplit(address).path
            if name in FOLLOWED and path not in seen:
                seen.add(path)
                ahead.append(address.split("#")[0])
    return seen


def addresses(response: httpx.Response) -> list[tuple[str, str]]:
    """Attributes of a page that hold addresses of this host."""
    if response.status_code == 303:
        return [("href", response.headers["location"])]
    if not response.headers["content-type"].startswith("text/html"):
        return []
    nodes = LexborHTMLParser(response.text).css("*")
    found = [(name, value or "") for node in nodes for name, value in node.attributes.items() if name in ADDRESSES]
    return [(name, value) for name, value in found if value.startswith("/")]
