"""`exportdesk web`: one web process under uvicorn."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import TYPE_CHECKING, Any, NoReturn, cast

from webapp import logs
from webapp.commands.listening import open_listener
from webapp.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SHUTDOWN_SECONDS = 10
PING_SECONDS = 30.0
"""A WebSocket whose peer does not answer a ping by the next one is dropped."""
WS_BYTES = 64 * 1024


def run_web(settings: Settings) -> int:
    """Serves until a signal. Port, schema and datasets are tried first: each has a sentence of its own."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    with open_listener(settings.host, settings.port) as listener:
        _require_usable(settings)
        logs.configure(settings.log_format)
        _serve(settings, listener)
    return 0


def _stop(_number: int, _frame: object) -> NoReturn:
    """Before uvicorn takes the signals over, and after it has shut down and raises them again."""
    raise SystemExit(0)


def _require_usable(settings: Settings) -> None:
    from webapp.resources import open_catalog
    from webapp.store.schema import require_current_schema

    asyncio.run(require_current_schema(settings.database_url))
    open_catalog(settings)


def behind_proxies(app: ASGIApp, settings: Settings) -> ASGIApp:
    """Believes what trusted proxies say of the client's address and scheme, and of who it is."""
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    from webapp.web.proxies import ProxyUser

    if not settings.trusted_proxies:
        return app
    inner: Any = ProxyHeadersMiddleware(cast(Any, app), trusted_hosts=list(settings.trusted_proxies))
    if not settings.proxy_user_header:
        return inner
    return ProxyUser(inner, header=settings.proxy_user_header, networks=settings.trusted_proxies)


def _serve(settings: Settings, listener: socket.socket) -> None:
    import uvicorn

    from webapp.app import create_app
    from webapp.web.handshakes import Handshakes

    config = uvicorn.Config(
        behind_proxies(create_app(settings), settings),
        loop="uvloop",
        http="httptools",
        ws=Handshakes,
        ws_max_size=WS_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # see behind_proxies
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])
