"""The JSON API of workers and queues: who works, draining one, pausing and resuming a queue. For admins."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import queues, workers
from webapp.api.exports import json_response
from webapp.api.requests import SPAN, read_body, span
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import rfc3339
from webapp.domain.sentences import say
from webapp.domain.workers import Pause, Queue, Worker
from webapp.store import monitor
from webapp.store.monitor import Running
from webapp.web.context import admin, queue_name, resources, worker_id

LONGEST_DRAIN = timedelta(days=1)


class DrainBody(msgspec.Struct, forbid_unknown_fields=True):
    """How long what runs may take until it is handed back: `10m`, `0s`, at most `24h`."""

    within: Annotated[str, Meta(extra_json_schema={"pattern": SPAN})] = "10m"


async def index(request: Request) -> Response:
    """Those of the last hour, newest first, those that ended last."""
    admin(request)
    now, found = await workers.listed(resources(request))
    running = await _running(request)
    return json_response({"items": [described(worker, running, now) for worker in found], "next_cursor": None})


async def show(request: Request) -> Response:
    admin(request)
    return await _answer(request, await workers.get(resources(request), worker_id(request)))


async def drain(request: Request) -> Response:
    """202: it takes nothing new, finishes or hands back what it has, and ends."""
    who, body = admin(request), await read_body(request, DrainBody)
    within = span(body.within, "within", say("Write a number and a unit, such as 10m, 1h or 0s."))
    if within > LONGEST_DRAIN:
        raise Invalid([FieldError("within", say("At most 24h."))])
    drained = await workers.drain(resources(request), who, worker_id(request), within=within)
    return await _answer(request, drained, status=202)


async def keep(request: Request) -> Response:
    return await _answer(request, await workers.keep(resources(request), admin(request), worker_id(request)))


async def queues_of_desk(request: Request) -> Response:
    admin(request)
    paused = await queues.paused(resources(request))
    return json_response({"items": [queue_described(queue, paused.get(queue)) for queue in Queue], "next_cursor": None})


async def pause(request: Request) -> Response:
    who, queue = admin(request), queue_name(request)
    return json_response(queue_described(queue, await queues.pause(resources(request), who, queue)))


async def resume(request: Request) -> Response:
    who, queue = admin(request), queue_name(request)
    await queues.resume(resources(request), who, queue)
    return json_response(queue_described(queue, None))


async def _answer(request: Request, worker: Worker, *, status: int = 200) -> Response:
    now = await resources(request).store.now()
    return json_response(described(worker, await _running(request), now), status)


async def _running(request: Request) -> dict[str | None, list[str]]:
    """Ids of exports by the process that runs them."""
    found: dict[str | None, list[str]] = {}
    run: Running
    for run in await monitor.running(resources(request).store, limit=workers.SHOWN):
        found.setdefault(run.worker, []).append(run.export_id)
    return found


def described(worker: Worker, running: dict[str | None, list[str]], now: datetime) -> dict[str, Any]:
    return {
        "id": worker.id,
        "state": worker.state(now).value,
        "queues": [queue.value for queue in worker.queues],
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version,
        "started_at": rfc3339(worker.started_at),
        "heartbeat_at": rfc3339(worker.heartbeat_at),
        "slots": worker.slots,
        "slots_taken": worker.load.slots_taken,
        "sending": worker.load.sending,
        "memory": worker.load.memory,
        "exports": [] if worker.ended_at else running.get(worker.process, []),
        "drain_until": rfc3339(worker.drain_until),
        "ended_at": rfc3339(worker.ended_at),
    }


def queue_described(queue: Queue, pause: Pause | None) -> dict[str, Any]:
    return {
        "name": queue.value,
        "paused": pause is not None,
        "paused_at": rfc3339(pause.since) if pause else None,
        "paused_by": pause.by if pause else None,
    }
