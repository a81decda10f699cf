"""Choosing the language of this browser, and what scripts say in it."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from webapp.domain.access import NotFound
from webapp.language import LANGUAGES
from webapp.web.forms import read_form
from webapp.web.languages import remember
from webapp.web.render import local_path


async def choose(request: Request) -> Response:
    """Back to the page where it was chosen. An unknown language changes nothing."""
    form = await read_form(request)
    response = RedirectResponse(local_path(form.text("next"), may_sign_in=True), status_code=303)
    if chosen := LANGUAGES.get(form.text("language")):
        remember(response, request, chosen)
    return response


async def words(request: Request) -> Response:
    """Its address has a digest of the content, so it may be kept for ever, by anybody."""
    found = LANGUAGES.get(request.path_params["tag"])
    if found is None:
        raise NotFound
    content = json.dumps(found.of_scripts, ensure_ascii=False, separators=(",", ":"))
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(f"globalThis.exportdeskWords = {content};\n", media_type="text/javascript", headers=headers)
