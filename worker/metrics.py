"""A worker's own `/metrics`: what the store tells, as web processes tell it, and how this process does."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import AsyncGenerator

from aiohttp import web

from webapp.commands.failures import Failure
from webapp.commands.listening import open_listener
from webapp.monitoring import metrics
from webapp.resources import Resources

log = logging.getLogger(__name__)

PORTS = 16
"""So many are tried, one after the other: each worker of a host takes the first that is free."""
STOPPING_SECONDS = 1.0


@contextlib.asynccontextmanager
async def exposed(resources: Resources) -> AsyncGenerator[int | None]:
    """At the port, or at none: a worker does its work whether or not somebody can look."""
    listener = _listener(resources)
    if listener is None:
        yield None
        return
    runner = web.AppRunner(_application(resources), access_log=None, shutdown_timeout=STOPPING_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        port = listener.getsockname()[1]
        log.info("metrics at port %d", port)
        yield port
    finally:
        await runner.cleanup()


def _listener(resources: Resources) -> socket.socket | None:
    host, first = resources.settings.host, resources.settings.worker_metrics_port
    problem = None
    for port in range(first, min(first + PORTS, 65536)) if first else ():
        try:
            return open_listener(host, port)
        except Failure as failure:
            problem = failure
    if problem:
        log.error("no metrics of this worker: none of %d ports from %d on can be opened on %s", PORTS, first, host)
    return None


def _application(resources: Resources) -> web.Application:
    async def show(_request: web.Request) -> web.Response:
        snapshot = await metrics.take(resources, {})
        return web.Response(body=metrics.exposition(snapshot), headers={"Content-Type": metrics.CONTENT_TYPE})

    application = web.Application()
    application.router.add_get("/metrics", show)
    return application
