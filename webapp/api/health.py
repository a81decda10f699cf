"""`/healthz`: this process answers. `/readyz`: orders are taken and a worker is alive."""

from __future__ import annotations

import logging

from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import Response

from webapp import queue
from webapp.actions import queues
from webapp.api.exports import json_response
from webapp.web.context import resources
from webapp.web.words import counted

log = logging.getLogger(__name__)


async def healthz(request: Request) -> Response:
    return json_response({"status": "ok"})


async def readyz(request: Request) -> Response:
    """200, or 503 with the parts that are not ready. Reasons name the part, never an address."""
    checks = {"database": await _database(request), **await _broker(request)}
    ready = all(state == "ok" for state in checks.values())
    checks |= {"catalog": _catalog(request), "queues": await _queues(request)}
    return json_response({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)


def _catalog(request: Request) -> str:
    """Old datasets are no reason to take no orders."""
    count = len(resources(request).holder.state.problems)
    return f"old: {counted(count, 'mistake')}" if count else "ok"


async def _database(request: Request) -> str:
    try:
        await resources(request).store.fetch_val(text("SELECT 1 FROM users LIMIT 1"))
    except Exception as error:
        log.warning("the database is not ready", exc_info=error)
        return "unreachable"
    return "ok"


async def _queues(request: Request) -> str:
    """Orders are taken all the same."""
    try:
        paused = await queues.paused(resources(request))
    except Exception:
        return "unknown"
    return f"paused: {', '.join(paused)}" if paused else "ok"


async def _broker(request: Request) -> dict[str, str]:
    try:
        alive = await queue.worker_is_alive(resources(request).redis, queue.QueueName.EXPORTS)
    except queue.QUEUE_ERRORS:
        return {"broker": "unreachable", "worker": "unknown"}
    return {"broker": "ok", "worker": "ok" if alive else "none is alive"}
