"""`/api/v1/ws`: the events of one person, or for an admin everybody's, over a WebSocket and under the same ids.

A client sends `{"subscribe": {"after": "evt_…", "all": false, "client": "name"}}` (each may be left out) and then
confirms what it has taken in with `{"ack": "evt_…"}` or a list of ids. It is sent events as they stand in the API, and
first of all `{"type": "subscribed"}`, or `{"type": "reset"}` when its past is no longer kept. Ends of exports that a
client of this name did not confirm come again when it connects again. Ping and pong are the protocol's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from webapp.actions import acks
from webapp.domain.access import Scope, Viewer, may_hear
from webapp.domain.errors import Invalid
from webapp.domain.events import Event, event_json
from webapp.domain.ids import is_id
from webapp.domain.sentences import say
from webapp.ending import end
from webapp.live.hub import EVERYBODY
from webapp.live.replay import Replay, replay_from
from webapp.live.stream import SEND_SECONDS, identity_of
from webapp.store.database import DATABASE_ERRORS
from webapp.web.context import ScopeNeeded, SignInNeeded, hub, resources, viewer_or_none
from webapp.web.failures import Refused, failure_of
from webapp.web.problems import problem
from webapp.web.security import REFUSED_AS, is_cross_site

CHANNEL = "websocket"
MESSAGE_BYTES = 4096
MESSAGES_PER_SECOND = 20
BURST = 100
SUBSCRIBE_SECONDS = 10.0
UNDERSTOOD = 'Send {"subscribe": {…}} or {"ack": "evt_…"}.'


class Close(IntEnum):
    """Close codes; each tells the client what to do."""

    RESTART = 1012
    """The server stops, its database does not answer, or what the client may see has changed: connect again in a few
    seconds, with `after`."""
    BAD_MESSAGE = 4400
    """What was sent cannot be read: mend the client, do not connect again as it is."""
    SIGNED_OUT = 4401
    """The session ended or the token was revoked: sign in again."""
    NOT_ALLOWED = 4403
    """Only an admin may subscribe to everybody's events."""
    SILENT = 4408
    """No `subscribe` came in time, or the client does not read: connect again, with `after`."""
    TOO_MANY = 4429
    """Too many messages in a second: slow down, and connect again."""


class Subscribe(msgspec.Struct, forbid_unknown_fields=True):
    """`client` names one of several programs of the same person, so that each is told again what it missed."""

    after: str | None = None
    all: bool = False
    client: Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[^\x00-\x1f]*$")] = ""


class ClientMessage(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one member is set."""

    subscribe: Subscribe | None = None
    ack: str | Annotated[list[str], msgspec.Meta(max_length=100)] | None = None


class Closed(Exception):
    """The connection is to be closed, and why."""

    def __init__(self, code: Close, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(slots=True)
class Allowance:
    """So many messages a second, and a burst now and then."""

    left: float = BURST
    since: float = 0.0

    def take(self) -> bool:
        now = time.monotonic()
        self.left = min(BURST, self.left + (now - self.since) * MESSAGES_PER_SECOND) - 1
        self.since = now
        return self.left >= 0


async def events_socket(socket: WebSocket) -> None:
    who = viewer_or_none(socket)
    if who is None:
        await _deny(socket, SignInNeeded())
        return
    if Scope.READ not in who.scopes:
        await _deny(socket, ScopeNeeded(Scope.READ))
        return
    if not socket.headers.get("authorization") and is_cross_site(socket, "POST"):
        await _deny(socket, Refused(403, "CROSS_SITE", say("This connection came from another site.")))
        return
    await socket.accept()
    try:
        await _serve(socket, who)
    except Closed as closed:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(closed.code, closed.reason)
    except DATABASE_ERRORS:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(Close.RESTART, "The database does not answer. Connect again.")
    except WebSocketDisconnect:
        pass


async def _deny(socket: WebSocket, error: Exception) -> None:
    """Before the handshake is over, as an HTTP answer."""
    failure = failure_of(error)
    socket.scope[REFUSED_AS] = failure.code
    await socket.send_denial_response(problem(failure))


async def _serve(socket: WebSocket, who: Viewer) -> None:
    """Hears the client and tells it events, until either ends."""
    client = Client(socket)
    try:
        wanted = await asyncio.wait_for(client.subscription(), SUBSCRIBE_SECONDS)
    except TimeoutError as error:
        raise Closed(Close.SILENT, "Send a subscribe message first.") from error
    if wanted.all and not who.is_admin:
        raise Closed(Close.NOT_ALLOWED, "Only an admin may subscribe to everybody's events.")
    owner = None if wanted.all else who.id
    try:
        replay = await replay_from(resources(socket).store, wanted.after, owner=owner)
    except Invalid as error:
        raise Closed(Close.BAD_MESSAGE, error.errors[0].message) from error
    again = await acks.to_be_told_again(
        resources(socket), who, client=wanted.client, channel=CHANNEL, owner=owner, up_to=replay.seq
    )
    await _first_to_end(_hear(client, who, wanted.client), _tell(client, who, owner, replay, again))


async def _hear(client: Client, who: Viewer, name: str) -> None:
    """Records what is confirmed."""
    desk = resources(client.socket)
    connected = await desk.store.now()
    while True:
        ids = await client.acknowledged()
        await acks.acknowledge(desk, who, ids, client=name, channel=CHANNEL, connected=connected)


async def _first_to_end(*coroutines: Coroutine[None, None, None]) -> None:
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end(*tasks)


async def _tell(client: Client, who: Viewer, owner: str | None, replay: Replay, again: Sequence[Event]) -> None:
    """Subscribed at the hub first, then the store is read: what is committed in between is told."""
    socket, identity = client.socket, identity_of(client.socket, who)
    live, heartbeat = hub(socket), resources(socket).settings.stream_heartbeat.total_seconds()
    with live.connection(CHANNEL), live.reader(owner=owner, viewer=who.id, replay=replay) as reader:
        await client.send({"type": "reset" if replay.is_reset else "subscribed"})
        for event in again:
            await _say(client, who, event)
        while True:
            async for batch in replay.news():
                for event in batch:
                    await _say(client, who, event)
            changes = await reader.changes(live.patience(heartbeat))
            for event in await acks.newest_of(resources(socket), changes.again if changes else ()):
                await _say(client, who, event)
            if (changes and EVERYBODY in changes.ids) or identity.is_old:
                await live.together.do(identity, identity.look)
            if identity.viewer is None:
                raise Closed(Close.SIGNED_OUT, "Sign in again.")
            if identity.viewer != who:
                raise Closed(Close.RESTART, "What you may see has changed. Connect again.")


async def _say(client: Client, who: Viewer, event: Event) -> None:
    if may_hear(who, event.data):
        await client.send(event_json(event))


class Client:
    """The far end: what it says, within limits, and what it is told."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self._allowance = Allowance(since=time.monotonic())

    async def subscription(self) -> Subscribe:
        message = await self._message()
        if message.subscribe is None:
            raise Closed(Close.BAD_MESSAGE, "Send a subscribe message first.")
        return message.subscribe

    async def acknowledged(self) -> list[str]:
        message = await self._message()
        if message.ack is None:
            raise Closed(Close.BAD_MESSAGE, "After subscribing only acknowledgements are understood.")
        ids = [message.ack] if isinstance(message.ack, str) else message.ack
        if not all(is_id(each, "evt") for each in ids):
            raise Closed(Close.BAD_MESSAGE, "Only ids of events can be acknowledged.")
        return ids

    async def send(self, content: object) -> None:
        text = msgspec.json.encode(content).decode()
        try:
            await asyncio.wait_for(self.socket.send_text(text), SEND_SECONDS)
        except TimeoutError as error:
            raise Closed(Close.SILENT, "You do not read what is sent. Connect again.") from error

    async def _message(self) -> ClientMessage:
        received = await self.socket.receive()
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(received.get("code", 1005))
        data = received.get("text") or received.get("bytes") or b""
        if not self._allowance.take():
            raise Closed(Close.TOO_MANY, f"At most {MESSAGES_PER_SECOND} messages a second.")
        if len(data) > MESSAGE_BYTES:
            raise Closed(Close.BAD_MESSAGE, f"A message may have at most {MESSAGE_BYTES} bytes.")
        try:
            message = msgspec.json.decode(data, type=ClientMessage)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise Closed(Close.BAD_MESSAGE, UNDERSTOOD) from error
        if (message.subscribe is None) == (message.ack is None):
            raise Closed(Close.BAD_MESSAGE, UNDERSTOOD)
        return message
