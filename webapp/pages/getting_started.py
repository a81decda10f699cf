"""The card for new admins on the list of exports, and sending it away."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import getting_started
from webapp.web.context import admin, resources
from webapp.web.flash import redirect


async def dismiss(request: Request) -> Response:
    await getting_started.dismiss(resources(request), admin(request))
    return redirect(request, "/exports")
