"""Problem documents (RFC 9457): how the API says that something went wrong."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from webapp.language import gettext
from webapp.web.failures import Failure

ERRORS_SHOWN = 50
FIELD_LENGTH = 200
"""A body full of mistakes must not make an answer many times its size."""


def document(failure: Failure) -> dict[str, Any]:
    """`code` is stable and meant for programs, `detail` for people, `errors` names the fields."""
    found: dict[str, Any] = {
        "type": "about:blank",
        "title": gettext(failure.title),
        "status": failure.status,
        "code": failure.code,
        "detail": gettext(failure.detail),
        **failure.extra,
    }
    if failure.errors:
        shown = failure.errors[:ERRORS_SHOWN]
        found["errors"] = [{"field": error.field[:FIELD_LENGTH], "message": gettext(error.message)} for error in shown]
    return found


def problem(failure: Failure) -> Response:
    return Response(
        msgspec.json.encode(document(failure)),
        status_code=failure.status,
        headers=dict(failure.headers),
        media_type="application/problem+json",
    )
