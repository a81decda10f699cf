"""Plain ASGI middleware: who is asking, no cross-site writes, no over-long bodies, strict headers, a request log."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webapp import logs
from webapp.actions import people
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.ids import new_id
from webapp.domain.sentences import say
from webapp.web.context import resources
from webapp.web.failures import Refused, Restarting
from webapp.web.languages import speak_for
from webapp.web.proxies import PROXY_USER

SESSION_COOKIE = "exportdesk_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOGGED_PATH = 500
OPEN_PATHS = ("/static/", "/healthz", "/readyz", "/metrics")
HANDSHAKES = {"websocket.accept": 101, "websocket.close": 403}
"""The status that a client gets; that of another answer is in the message itself."""
REFUSED_AS = "exportdesk.refused_as"
"""Where in a WebSocket's scope the code of its refusal is."""
RECEIVER = re.compile(r"/inspect/[^/]+")
PLAIN = re.compile(r"[\w/.-]*", re.ASCII)
HIDDEN = re.compile(r"(/sign-in/once/|/inspect/)[^/]*")
"""Parts of addresses that let in whoever knows them: in a log they are left out."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "manifest-src 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Frame-Options": "DENY",
    "X-Permitted-Cross-Domain-Policies": "none",
}

_DEFAULTS = tuple(
    (name.lower().encode(), value.encode()) for name, value in {**SECURITY_HEADERS, "Cache-Control": "no-store"}.items()
)
"""As ASGI has them: names are in lower case there."""

access_log = logging.getLogger("exportdesk.access")
Refuse = Callable[[HTTPConnection, Exception], Response]


class SecurityHeaders:
    """Sets the headers on every answer, and `no-store` on everything that has no caching rule of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in _DEFAULTS if pair[0] not in given)]
            await send(message)

        await self.app(scope, receive, send_with_headers)


class RequestLog:
    """One line a request, with an id that the answer carries too. Never a query string: it may hold a token.

    Of a WebSocket it tells the handshake: 101, or the status that the client gets and the code of the refusal.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._handshake(scope, receive, send)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, started, status = new_id("req"), time.monotonic(), 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with logs.about(request_id=request_id):
            try:
                await self.app(scope, receive, send_and_note)
            finally:
                milliseconds = (time.monotonic() - started) * 1000
                path = shown_path(scope["path"])
                access_log.info("%s %s %s %d %.1f ms", request_id, scope["method"], path, status, milliseconds)

    async def _handshake(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, is_told = new_id("req"), False

        async def send_and_note(message: Message) -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                told = [
                    str(HANDSHAKES.get(message["type"]) or message["status"]),
                    *filter(None, [scope.get(REFUSED_AS)]),
                ]
                access_log.info("%s WebSocket %s %s", request_id, shown_path(scope["path"]), " ".join(told))
                if "headers" in message:
                    message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with logs.about(request_id=request_id):
            await self.app(scope, receive, send_and_note)


def shown_path(path: str) -> str:
    """For a log: without the token of a one-time link or an inspector, and escaped, so that no client can write lines
    of its own."""
    known = HIDDEN.match(path)
    start, rest = (known[1] + "…", path[known.end() :]) if known else ("", path)
    rest = rest[:LOGGED_PATH]
    return start + (rest if PLAIN.fullmatch(rest) else quote(rest, safe="/:@!$&'()*+,;=~"))


def is_receiving(scope: Scope) -> bool:
    """Whether it is a callback for an inspector. The same address is a page too, which keeps all its checks."""
    return scope["method"] == "POST" and RECEIVER.fullmatch(scope["path"]) is not None


class Failures:
    """Answers what no handler expected, and who waits longest when the server stops: it cancels those. Starlette would
    do it outside all other middleware: without their headers and after their log line."""

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self.app = app
        self.refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        connection = Request(scope) if scope["type"] == "http" else HTTPConnection(scope)
        is_answered = False

        async def send_and_note(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except Exception as error:
            if is_answered:
                raise
            await self.refuse(connection, error)(scope, receive, send)
        except asyncio.CancelledError:
            if is_answered:
                raise
            await self.refuse(connection, Restarting())(scope, receive, send)


class BodyLimit:
    """Turns away bodies that are too long, by their declared length or while they arrive."""

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self.app = app
        self.refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit, received = limits.REQUEST_BODY_BYTES, 0
        too_large = Refused(413, "TOO_LARGE", say("A request may have at most {limit} kB.", limit=limit // 1024))
        request = Request(scope)
        declared = request.headers.get("content-length", "0")
        if not (declared.isascii() and declared.isdigit() and len(declared) < 12 and int(declared) <= limit):
            await self.refuse(request, too_large)(scope, receive, send)
            return

        async def receive_some() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise too_large
            return message

        await self.app(scope, receive_some, send)


class Identity:
    """Finds the viewer by bearer token or session cookie; refuses writes that another site made the browser send."""

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self.app = app
        self.refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or scope["path"].startswith(OPEN_PATHS):
            await self.app(scope, receive, send)
            return
        if scope["type"] == "http" and is_receiving(scope):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        has_token = bool(connection.headers.get("authorization"))
        if scope["type"] == "http" and not has_token and is_cross_site(connection, scope["method"]):
            refused = Refused(403, "CROSS_SITE", say("This request came from another site, so it was not carried out."))
            await self.refuse(Request(scope), refused)(scope, receive, send)
            return
        scope["viewer"] = found = await identify(connection)
        if found and not has_token:
            speak_for(scope, found.language)
        await self.app(scope, receive, send)


async def identify(connection: HTTPConnection) -> Viewer | None:
    """A bearer token counts before all else; a wrong token is nobody, whatever the rest says. What a trusted proxy says
    counts before a cookie."""
    if header := connection.headers.get("authorization"):
        token = bearer_token(header)
        return await people.viewer_of_token(resources(connection), token) if token else None
    if name := connection.scope.get(PROXY_USER):
        return await people.viewer_by_proxy(resources(connection), name)
    cookie = connection.cookies.get(SESSION_COOKIE)
    return await people.viewer_of_session(resources(connection), cookie) if cookie and len(cookie) <= 200 else None


def bearer_token(authorization: str) -> str | None:
    """None for what cannot be one."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and 20 <= len(token) <= 200 else None


def is_cross_site(connection: HTTPConnection, method: str) -> bool:
    """By Sec-Fetch-Site where the browser sends it, else by Origin. A client that sends neither is no browser."""
    if method in SAFE_METHODS:
        return False
    if site := connection.headers.get("sec-fetch-site"):
        return site not in {"same-origin", "none"}
    origin = connection.headers.get("origin")
    if origin is None:
        return False
    expected = {connection.headers.get("host", ""), urlsplit(resources(connection).settings.base_url).netloc}
    return _host_of(origin) not in expected - {""}


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
