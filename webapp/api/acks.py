"""What open pages, and programs that poll or stream, have taken in: confirmed in batches. What did not arrive is told
again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from webapp.actions import acks, reminders
from webapp.api.answers import id_pattern
from webapp.api.exports import json_response
from webapp.api.requests import read_body
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.ids import is_id
from webapp.domain.sentences import say
from webapp.web.context import export_id, resources, viewer
from webapp.web.failures import Refused

CLIENT = "page"
MOST = 100
EventName = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": id_pattern("evt")})]
HeldMilliseconds = Annotated[int, msgspec.Meta(ge=0, le=60_000)]


class AcknowledgementBody(msgspec.Struct, forbid_unknown_fields=True):
    """`held_ms` says of each event how long it has waited to be sent with others, so that waiting is no latency."""

    events: Annotated[list[EventName], msgspec.Meta(min_length=1, max_length=MOST)]
    channel: Literal["sse", "polling"]
    held_ms: Annotated[list[HeldMilliseconds], msgspec.Meta(max_length=MOST)] = []


class ReminderBody(msgspec.Struct, forbid_unknown_fields=True):
    """`to`: `all`, `readers` (open pages, streams and sockets), or the id of one endpoint."""

    to: Annotated[
        str, msgspec.Meta(max_length=64, extra_json_schema={"pattern": f"^(all|readers|{id_pattern('end')[1:-1]})$"})
    ] = reminders.ALL


async def create(request: Request) -> Response:
    """204. Events that are not there, or not this person's, are left alone and not told apart."""
    who = viewer(request)
    try:
        body = await read_body(request, AcknowledgementBody)
    except ClientDisconnect:  # a browser that is closed while its last beacon is under way
        return Response(status_code=204)
    await acks.acknowledge(resources(request), who, body.events, client=CLIENT, channel=body.channel, held=_held(body))
    return Response(status_code=204)


def _held(body: AcknowledgementBody) -> Mapping[str, timedelta]:
    if not all(is_id(each, "evt") for each in body.events):
        raise Invalid([FieldError("events", say("Must be ids of events."))])
    if body.held_ms and len(body.held_ms) != len(body.events):
        raise Invalid([FieldError("held_ms", say("Must have one number for each event."))])
    waits = body.held_ms or [0] * len(body.events)
    return {event: timedelta(milliseconds=ms) for event, ms in zip(body.events, waits, strict=True)}


async def remind(request: Request) -> Response:
    """202 with the event that is told again and the number of deliveries; 410 when its events are no longer kept."""
    who, body = viewer(request), await read_body(request, ReminderBody)
    told = await reminders.remind(resources(request), who, export_id(request), to=body.to)
    if told is None:
        raise Refused(410, "GONE", say("The events of this export are no longer kept, so nothing can be told again."))
    return json_response({"type": told.event_type, "deliveries": told.deliveries}, 202)
