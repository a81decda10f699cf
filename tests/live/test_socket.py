"""The WebSocket: who gets in, what is told, resumed, confirmed and told again, and how it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import uvicorn
from cli.command_line import free_port
from patience import PATIENCE
from processes import web_process
from sqlalchemy import func, select
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Response

from webapp.actions import exports, people, reminders
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.tallies import Metric
from webapp.live.socket import BURST, MESSAGE_BYTES, Close
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store.tables import client_acks, tallies
from webapp.web.handshakes import Handshakes
from webapp.web.security import SESSION_COOKIE

ExportMaker = Callable[..., Awaitable[Export]]
Opener = Callable[..., Any]
UNKNOWN = "evt_" + "0" * 26


@pytest.fixture
async def address(app: Any) -> AsyncIterator[str]:
    """The application behind uvicorn, as `exportdesk web` runs it."""
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, ws=Handshakes)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"127.0.0.1:{port}"
    server.should_exit = True
    await serving


@pytest.fixture
def dial(address: str, resources: Resources) -> Opener:
    """Opens a socket with a token of the viewer."""

    @contextlib.asynccontextmanager
    async def opened(viewer: Viewer) -> AsyncIterator[ClientConnection]:
        _, token = await people.create_token(resources, viewer, "socket", actor=viewer.name)  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(f"ws://{address}/api/v1/ws", additional_headers=headers) as socket:
            yield socket

    return opened


async def said(socket: ClientConnection) -> dict[str, Any]:
    return json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))  # type: ignore[no-any-return]


async def subscribe(socket: ClientConnection, **wanted: Any) -> dict[str, Any]:
    await socket.send(json.dumps({"subscribe": wanted}))
    return await said(socket)


async def closed(socket: ClientConnection) -> int:
    """The code it is closed with, whatever is said before."""
    try:
        while True:
            await asyncio.wait_for(socket.recv(), PATIENCE)
    except ConnectionClosed as error:
        return error.rcvd.code if error.rcvd else 1006


async def is_quiet(socket: ClientConnection, seconds: float = 0.3) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(socket.recv(), seconds)
        return False
    return True


async def confirmed(resources: Resources, count: int) -> list[Any]:
    for _ in range(200):
        async with resources.store.connection():
            rows = await resources.store.fetch_all(select(client_acks))
        if len(rows) >= count:
            return [*rows]
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(rows)} confirmations")


async def test_what_happens_is_told_as_the_api_tells_it(
    dial: Opener, resources: Resources, user: Viewer, make_export: ExportMaker, client: Any
) -> None:
    export = await make_export(Status.QUEUED)
    async with dial(user) as socket:
        assert await subscribe(socket) == {"type": "subscribed"}
        await exports.cancel(resources, user, export.id)
        event = await said(socket)
    listed = (await client.get(f"/api/v1/exports/{export.id}/events")).json()["items"][-1]
    assert event == listed
    assert (event["type"], event["data"]["status"]) == ("export.cancelled", "CANCELLED")


async def test_a_client_that_comes_back_is_told_what_it_missed(
    dial: Opener, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    async with dial(user) as socket:
        await subscribe(socket, after="0")
        known = [await said(socket), await said(socket)]
    await exports.cancel(resources, user, export.id)
    async with dial(user) as socket:
        assert await subscribe(socket, after=known[-1]["id"]) == {"type": "subscribed"}
        news = [await said(socket)]
        while news[-1]["type"] != "export.cancelled":
            news.append(await said(socket))
    assert {event["id"] for event in news} - {event["id"] for event in known} == {news[-1]["id"]}


async def test_a_past_that_is_gone_is_a_reset(dial: Opener, user: Viewer) -> None:
    async with dial(user) as socket:
        assert await subscribe(socket, after=UNKNOWN) == {"type": "reset"}


async def test_only_ones_own_events_are_told_but_an_admin_may_ask_for_all(
    dial: Opener, resources: Resources, user: Viewer, other: Viewer, admin: Viewer, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED, owner=other)
    async with dial(user) as mine, dial(admin) as everybodys:
        await subscribe(mine)
        await subscribe(everybodys, all=True)
        await exports.cancel(resources, other, export.id)
        assert (await said(everybodys))["export_id"] == export.id
        assert await is_quiet(mine)


async def test_everybodys_events_are_for_admins(dial: Opener, user: Viewer) -> None:
    async with dial(user) as socket:
        await socket.send('{"subscribe": {"all": true}}')
        assert await closed(socket) == Close.NOT_ALLOWED


async def test_a_confirmation_is_recorded_once_with_its_latency(
    dial: Opener, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    async with dial(user) as socket:
        await subscribe(socket, client="importer")
        await exports.cancel(resources, user, export.id)
        event = await said(socket)
        await socket.send(json.dumps({"ack": event["id"]}))
        await socket.send(json.dumps({"ack": [event["id"], UNKNOWN]}))
        [row] = await confirmed(resources, 1)
        assert await is_quiet(socket)
    assert (row["event_id"], row["user_id"], row["client"]) == (event["id"], user.id, "importer")
    assert row["channel"] == "websocket"
    assert 0 <= row["latency_ms"] < 5000
    assert len(await confirmed(resources, 1)) == 1


async def measured(resources: Resources) -> int:
    """How many confirmations count as a latency of WebSockets."""
    metric, labels = Metric.NOTIFICATION_LATENCY.value, "websocket"
    query = select(func.sum(tallies.c.count)).where(tallies.c.metric == metric, tallies.c.labels == labels)
    async with resources.store.connection():
        return await resources.store.fetch_val(query)


async def test_an_end_that_was_not_confirmed_comes_again_on_the_next_connect(
    dial: Opener, resources: Resources, user: Viewer, make_export: ExportMaker
) -> None:
    first, second = [await make_export(Status.QUEUED) for _ in range(2)]
    async with dial(user) as socket:
        await subscribe(socket, client="importer")
        await exports.cancel(resources, user, first.id)
        await socket.send(json.dumps({"ack": (await said(socket))["id"]}))
        await confirmed(resources, 1)
        await exports.cancel(resources, user, second.id)
        missed = await said(socket)
    async with dial(user) as socket:
        await subscribe(socket, after=missed["id"], client="importer")
        assert await said(socket) == missed
        await socket.send(json.dumps({"ack": missed["id"]}))
        await confirmed(resources, 2)
    assert await measured(resources) == 1, "what waited for the client to come back is no latency"
    for name in ("importer", "another"):
        async with dial(user) as socket:
            await subscribe(socket, client=name)
            assert await is_quiet(socket), name


async def test_what_somebody_tells_again_comes_again_at_once(
    dial: Opener, resources: Resources, user: Viewer, other: Viewer, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    async with dial(user) as socket, dial(other) as others:
        await subscribe(socket)
        await subscribe(others)
        await exports.cancel(resources, user, export.id)
        event = await said(socket)
        assert await reminders.remind(resources, user, export.id)
        assert await said(socket) == event
        assert await is_quiet(socket)
        assert await is_quiet(others)


async def test_nobody_confirms_for_somebody_else(
    dial: Opener, resources: Resources, user: Viewer, other: Viewer, make_export: ExportMaker, client: Any
) -> None:
    export = await make_export(Status.SUCCESS)
    event_id = (await client.get(f"/api/v1/exports/{export.id}/events")).json()["items"][-1]["id"]
    async with dial(other) as socket:
        await subscribe(socket)
        await socket.send(json.dumps({"ack": event_id}))
        assert await is_quiet(socket)
    async with resources.store.connection():
        assert await resources.store.fetch_all(select(client_acks)) == []


async def refused(address: str, path: str = "/api/v1/ws", **headers: str) -> Response:
    """How a handshake is answered."""
    with pytest.raises(InvalidStatus) as caught:
        async with connect(f"ws://{address}{path}", additional_headers=headers):
            pytest.fail("connected")
    return caught.value.response


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer " + "x" * 40}])
async def test_nobody_gets_in_without_a_valid_token(address: str, headers: dict[str, str]) -> None:
    answer = await refused(address, **headers)
    assert answer.status_code == 401
    assert json.loads(answer.body or b"")["code"] == "SIGN_IN_NEEDED"


async def test_a_handshake_without_a_database_is_answered_503(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_args: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("webapp.actions.people.viewer_of_token", away)
    answer = await refused(address, Authorization="Bearer " + "x" * 40)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert json.loads(answer.body or b"")["code"] == "UNAVAILABLE"
    assert [record.name for record in caplog.records if record.levelno > logging.INFO] == ["webapp.app"]


async def test_a_handshake_is_one_line_in_the_log_and_no_error(
    settings: Settings, resources: Resources, user: Viewer
) -> None:
    _, token = await people.create_token(resources, user, "socket", actor="tests")  # type: ignore[arg-type]
    port = free_port()
    address = f"127.0.0.1:{port}"
    async with web_process(replace(settings, port=port, base_url=f"http://{address}")) as web:
        no_token = await refused(address, "/api/v1/ws?token=exd_secret")
        await refused(address, "/elsewhere?token=exd_secret")
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(f"ws://{address}/api/v1/ws?after=1", additional_headers=headers) as socket:
            assert await subscribe(socket) == {"type": "subscribed"}
    lines = [line.split()[1:] for line in web.log.read_text().splitlines() if "uvicorn.error: " not in line]
    told = [line[3:] for line in lines if "/healthz" not in line]
    assert told == [["WebSocket", "/api/v1/ws", "401", "SIGN_IN_NEEDED"], ["WebSocket", "/elsewhere", "403"],
                    ["WebSocket", "/api/v1/ws", "101"]]  # fmt: skip
    assert {level for level, *_ in lines} == {"INFO"}
    assert no_token.headers["X-Request-Id"] in web.log.read_text()
    uvicorn = [line.split("uvicorn.error: ")[1] for line in web.log.read_text().splitlines() if "uvicorn.error" in line]
    assert [line for line in uvicorn if "handshake" in line or "rejected" in line or "WebSocket" in line] == []


@pytest.mark.parametrize(("origin", "status"), [("https://elsewhere.example", 403), ("http://testserver", 101)])
async def test_a_page_of_another_site_gets_nothing_by_the_cookie(
    address: str, resources: Resources, user: Viewer, origin: str, status: int
) -> None:
    session = await people.sign_in(resources, user.name, f"{user.name} has a password")
    assert session
    headers = {"Cookie": f"{SESSION_COOKIE}={session.token}", "Origin": origin}
    with contextlib.ExitStack() as expected:
        caught = expected.enter_context(pytest.raises(InvalidStatus)) if status == 403 else None
        async with connect(f"ws://{address}/api/v1/ws", additional_headers=headers) as socket:
            assert await subscribe(socket) == {"type": "subscribed"}
    assert caught is None or caught.value.response.status_code == status


async def test_signing_out_ends_it(dial: Opener, resources: Resources, user: Viewer, monkeypatch: Any) -> None:
    monkeypatch.setattr("webapp.live.identity.IDENTITY_SECONDS", 0.2)
    async with dial(user) as socket:
        await subscribe(socket)
        for token in await people.list_tokens(resources):
            await people.revoke_token(resources, token.id, actor=user.name)
        assert await closed(socket) == Close.SIGNED_OUT


@pytest.mark.parametrize(
    "message",
    [
        "nonsense",
        "{}",
        '{"ack": "' + UNKNOWN + '"}',
        '{"subscribe": {}, "ack": "' + UNKNOWN + '"}',
        '{"subscribe": {"owner": "x"}}',
        '{"subscribe": {"after": "exp_1"}}',
        '{"subscribe": {"client": "' + "x" * 101 + '"}}',
        b"\xff\xfe",
        '{"subscribe": {"after": "' + "x" * MESSAGE_BYTES + '"}}',
    ],
)
async def test_what_cannot_be_understood_closes_it_with_a_reason(dial: Opener, user: Viewer, message: Any) -> None:
    async with dial(user) as socket:
        await socket.send(message)
        assert await closed(socket) == Close.BAD_MESSAGE
        assert socket.close_reason


@pytest.mark.parametrize("ack", ["", "evt_1", "evt_\0" + "0" * 25, "exp_" + "0" * 26, [UNKNOWN, "evt_1"]])
async def test_only_ids_of_events_are_confirmed(dial: Opener, user: Viewer, ack: Any) -> None:
    async with dial(user) as socket:
        await subscribe(socket)
        await socket.send(json.dumps({"ack": ack}))
        assert await closed(socket) == Close.BAD_MESSAGE


async def test_too_many_messages_close_it(dial: Opener, user: Viewer) -> None:
    async with dial(user) as socket:
        await subscribe(socket)
        with contextlib.suppress(ConnectionClosed):
            for _ in range(BURST + 20):
                await socket.send('{"ack": "' + UNKNOWN + '"}')
        assert await closed(socket) == Close.TOO_MANY


async def test_a_client_that_does_not_subscribe_is_closed(dial: Opener, user: Viewer, monkeypatch: Any) -> None:
    monkeypatch.setattr("webapp.live.socket.SUBSCRIBE_SECONDS", 0.2)
    async with dial(user) as socket:
        assert await closed(socket) == Close.SILENT
