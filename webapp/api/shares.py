"""The JSON API of sharing: with whom an export is shared, share it, withdraw it."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import shares
from webapp.api.exports import json_response
from webapp.api.requests import Note, read_body
from webapp.domain.shares import share_json
from webapp.web.context import export_id, resources, viewer


class ShareBody(msgspec.Struct, forbid_unknown_fields=True):
    """What the person is told with it."""

    note: Note = ""


async def index(request: Request) -> Response:
    found = await shares.of_export(resources(request), viewer(request), export_id(request))
    return json_response({"items": [share_json(share) for share in found], "next_cursor": None})


async def put(request: Request) -> Response:
    """201 when it is new, 200 when its note was changed."""
    who, body = viewer(request), await read_body(request, ShareBody)
    share, is_new = await shares.put(
        resources(request), who, export_id(request), request.path_params["person"], body.note
    )
    return json_response(share_json(share), 201 if is_new else 200)


async def withdraw(request: Request) -> Response:
    await shares.withdraw(resources(request), viewer(request), export_id(request), request.path_params["person"])
    return Response(status_code=204)
