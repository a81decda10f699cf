"""The JSON API of a saved order's schedule: set, look, pause, resume, remove."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import schedules
from webapp.api.exports import json_response
from webapp.api.requests import read_body
from webapp.domain.schedules import Schedule, schedule_json
from webapp.web.context import resources, saved_order_id, viewer


class ScheduleBody(msgspec.Struct, forbid_unknown_fields=True):
    """A cron line of five fields, and where its hours are."""

    cron: Annotated[Any, Meta(extra_json_schema={"type": "string", "minLength": 1})]
    zone: Annotated[Any, Meta(extra_json_schema={"type": "string", "minLength": 1})] = "UTC"


async def show(request: Request) -> Response:
    return await _answer(request, await schedules.get(resources(request), viewer(request), saved_order_id(request)))


async def put(request: Request) -> Response:
    who, body = viewer(request), await read_body(request, ScheduleBody)
    made = await schedules.put(resources(request), who, saved_order_id(request), body.cron, body.zone)
    return await _answer(request, made)


async def remove(request: Request) -> Response:
    await schedules.remove(resources(request), viewer(request), saved_order_id(request))
    return Response(status_code=204)


async def pause(request: Request) -> Response:
    return await _answer(request, await schedules.pause(resources(request), viewer(request), saved_order_id(request)))


async def resume(request: Request) -> Response:
    return await _answer(request, await schedules.resume(resources(request), viewer(request), saved_order_id(request)))


async def _answer(request: Request, schedule: Schedule) -> Response:
    now = await resources(request).store.now()
    return json_response(schedule_json(schedule, schedules.next_dates(schedule, now)))
