"""Plain ASGI middleware: who is asking, no cross-site writes, no over-long bodies, strict headers, a request log."""

from __future__ import annotations

import logging
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webapp.actions import people
from webapp.api.problems import problem
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.ids import new_id

SESSION_COOKIE = "exportdesk_session"
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}

CONTENT_SECURITY_POLICY = "; ".join(
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
)

access_log = logging.getLogger("exportdesk.access")
