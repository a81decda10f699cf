"""Problem documents (RFC 9457): how the API says that something went wrong."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from webapp.web.failures import Failure

ERRORS_SHOWN = 50
FIELD_LENGTH = 200
"""A body full of mistakes must not make an answer many times its size."""


def problem(failure: Failure) -> Response:
    """`code` is stable and meant for programs, `detail` for people, `errors` names the fields."""
    document: dict[str, object] = {
        "type": "about:blank",
        "title": failure.title,
        "status": failure.status,
        "code": failure.code,
        "detail": failure.detail,
        **failure.extra,
    }
    if failure.errors:
        shown = failure.errors[:ERRORS_SHOWN]
        document["errors"] = [{"field": error.field[:FIELD_LENGTH], "message": error.message} for error in shown]
    return Response(
        msgspec.json.encode(document),
        status_code=failure.status,
        headers=dict(failure.headers),
        media_type="application/problem+json",
    )
