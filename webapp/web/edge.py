"""A desk below a path of its host, as in BASE_URL=https://tools.example/exports-desk. Inside, no address knows of it.

The proxy may take the prefix off or leave it on: what comes in with it loses it first of all. What goes out gets it
last of all: redirects, cookies, and the links of pages and of their parts, whichever way they are sent.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from urllib.parse import unquote

from markupsafe import escape
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINK = re.compile(
    r'(\s(?:href|src|action|formaction|hx-get|hx-post|hx-sse:connect|data-fallback|data-root)="'
    r'|\shttp-equiv="refresh" content="\d+;url=)/(?!/)'
)
"""Only templates can have written one: in what others wrote quotation marks are escaped."""
COOKIE_PATH = re.compile(rb"(;\s*path=)/", re.IGNORECASE)

_prefix: ContextVar[str] = ContextVar("prefix", default="")


def with_prefix(html: str) -> str:
    """The HTML with links that lead where this request came in."""
    prefix = escape(_prefix.get())
    return LINK.sub(lambda link: f"{link[1]}{prefix}/", html) if prefix else html


class Edge:
    """Does this for all that is inside, and shows streams the straight way out: what is inside looks only at how an
    answer starts, and need not pass on each of the many pieces that follow."""

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        self.app = app
        self.prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["exportdesk.send"] = send
        if not self.prefix or scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return

        async def send_with_prefix(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                message["headers"] = [_outward(name, value, self.prefix.encode()) for name, value in headers]
            await send(message)

        _prefix.set(self.prefix)
        await self.app(_inward(scope, self.prefix), receive, send_with_prefix)


def _inward(scope: Scope, prefix: str) -> Scope:
    path, start = scope["path"], unquote(prefix)
    if path != start and not path.startswith(f"{start}/"):
        return scope
    return {**scope, "path": path[len(start) :] or "/", "raw_path": scope.get("raw_path", b"")[len(prefix) :] or b"/"}


def _outward(name: bytes, value: bytes, prefix: bytes) -> tuple[bytes, bytes]:
    if name == b"location" and value.startswith(b"/"):
        return name, prefix + value
    if name == b"set-cookie":
        return name, COOKIE_PATH.sub(rb"\1" + prefix + b"/", value)
    return name, value
