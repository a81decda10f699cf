"""`create_app(settings)`: middleware, lifespan, and what becomes of exceptions."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response

from webapp import open_streams
from webapp.actions.changes import Contended
from webapp.actions.deliveries import CannotRedeliver
from webapp.actions.exports import AlreadyActive, KeyReused
from webapp.actions.workers import this_process
from webapp.api.polls import KeptPolls
from webapp.domain.access import LastAdmin, NotFound, QuotaExceeded, TooManyTries
from webapp.domain.errors import AttemptFailed, Invalid
from webapp.domain.exports import IllegalTransition
from webapp.ending import end, go_on
from webapp.language import gettext
from webapp.live.hub import Hub
from webapp.pages.errors import error_page
from webapp.queue import QUEUE_ERRORS
from webapp.resources import Resources, open_resources
from webapp.routes import routes
from webapp.sealing import Unsealable
from webapp.settings import Settings
from webapp.store.database import DATABASE_ERRORS
from webapp.web.context import AdminNeeded, ScopeNeeded, SignInNeeded
from webapp.web.edge import Edge
from webapp.web.failures import RESTARTING, Refused, failure_of
from webapp.web.languages import Languages
from webapp.web.problems import problem
from webapp.web.security import (
    REFUSED_AS,
    BodyLimit,
    Failures,
    Identity,
    RequestLog,
    SecurityHeaders,
    is_receiving,
    shown_path,
)

log = logging.getLogger(__name__)

GARBAGE_THRESHOLDS = (50_000, 50, 100)
"""New objects before the youngest are looked at, and how many of those looks come before one at the older ones."""
COMPRESSED_FROM = 1000
"""Bytes: what is shorter goes in one packet anyway."""
COMPRESSION = 6
SENT_AS_THEY_ARE = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/*", "text/csv")
"""Exports, whose ranges and sums are those of the file, and short answers for programs, which are polled for."""
PARTS = ("/live", "/stream")
"""How the addresses of page parts end: whoever asks for one must never be led to a page, not even without htmx."""

EXPECTED: tuple[type[Exception], ...] = (
    AdminNeeded,
    AlreadyActive,
    AttemptFailed,
    CannotRedeliver,
    Contended,
    HTTPException,
    IllegalTransition,
    Invalid,
    KeyReused,
    LastAdmin,
    NotFound,
    QuotaExceeded,
    Refused,
    ScopeNeeded,
    SignInNeeded,
    TooManyTries,
    Unsealable,
    *DATABASE_ERRORS,
)


def create_app(settings: Settings) -> Starlette:
    """The web application. Opens its resources when it starts; refuses to start on an old schema."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with open_resources(settings) as resources, serving(app, resources):
            collect_less()
            yield

    return build_app(lifespan, prefix=urlsplit(settings.base_url).path)


def build_app(lifespan: object = None, *, prefix: str = "") -> Starlette:
    """The application without its resources: `serving` gives it some. `prefix` is the path of BASE_URL."""
    return Starlette(
        routes=routes(),
        middleware=[
            Middleware(KeptPolls, prefix=prefix),
            Middleware(Edge, prefix=prefix),
            Middleware(
                GZipMiddleware,
                minimum_size=COMPRESSED_FROM,
                compresslevel=COMPRESSION,
                exclude_content_types=SENT_AS_THEY_ARE,
            ),
            Middleware(Languages),
            Middleware(SecurityHeaders),
            Middleware(RequestLog),
            Middleware(Failures, refuse=answer_failure),
            Middleware(BodyLimit, refuse=answer_failure),
            Middleware(Identity, refuse=answer_failure),
        ],
        exception_handlers=dict.fromkeys((*EXPECTED, Exception), answer_failure),  # type: ignore[dict-item]
        lifespan=lifespan,  # type: ignore[arg-type]
    )


def collect_less() -> None:
    """Thousands of open streams are a million objects that stay: looking through them for garbage, as often as
    CPython does by itself, stops the process for a second. What is loaded by now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


@contextlib.asynccontextmanager
async def serving(app: Starlette, resources: Resources) -> AsyncGenerator[None]:
    """Gives the application its resources and runs the live hub."""
    async with Hub(resources.redis, resources.statuses).running() as hub:
        app.state.resources = resources
        app.state.hub = hub
        telling = asyncio.create_task(_tell_streams(resources, hub))
        try:
            yield
        finally:
            await end(telling)


async def _tell_streams(resources: Resources, hub: Hub) -> None:
    """For the monitor page, which any web process may show."""
    while True:
        with contextlib.suppress(*QUEUE_ERRORS):
            await open_streams.tell(resources.redis, this_process(), hub.connections)
        go_on()
        await asyncio.sleep(open_streams.TOLD_EVERY)


def answer_failure(request: HTTPConnection, error: Exception) -> Response:
    """A problem document for API clients, a page (or a bare fragment) for browsers."""
    failure, path = failure_of(error), request.scope["path"]
    if failure.status >= 500 and failure is not RESTARTING:
        trace = None if isinstance(error, Refused) else error
        method = request.scope.get("method", "WebSocket")
        log.error("%s %s: %s", method, shown_path(path), failure.code, exc_info=trace)
    if not isinstance(request, Request):
        request.scope[REFUSED_AS] = failure.code
        return problem(failure)
    if path.startswith(("/api/", "/healthz", "/readyz")) or is_receiving(request.scope):
        return problem(failure)
    if path.endswith(PARTS):
        return PlainTextResponse(gettext(failure.detail), failure.status, dict(failure.headers))
    return error_page(request, failure)
