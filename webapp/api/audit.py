"""The JSON API of the audit log, which is also told as CSV. For admins."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from webapp.actions import audit_log
from webapp.actions.audit_log import KINDS
from webapp.api.exports import json_response
from webapp.api.requests import query_cursor, query_limit, query_name, query_one_of, query_since, query_until
from webapp.domain.events import rfc3339
from webapp.store.audit import AuditFilter, Entry
from webapp.web import cursors
from webapp.web.context import admin, resources

FORMATS = ("json", "csv")
CSV_HEADERS = {"Content-Disposition": 'attachment; filename="audit.csv"', "Vary": "Accept"}


async def index(request: Request) -> Response:
    """One page, newest first; as CSV all that match."""
    admin(request)
    desk, chosen = resources(request), _chosen(request)
    limit, after = query_limit(request), query_cursor(request, "aud")
    if _wants_csv(request):
        return StreamingResponse(audit_log.csv_lines(desk, chosen), 200, CSV_HEADERS, "text/csv")
    found, more = await audit_log.page(desk, chosen, limit=limit, after=after)
    next_cursor = cursors.encode(found[-1].timestamp, found[-1].id) if more else None
    items = [described(entry) for entry in found]
    return json_response({"items": items, "next_cursor": next_cursor}, headers={"Vary": "Accept"})


def described(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "details": entry.details,
        "timestamp": rfc3339(entry.timestamp),
    }


def _chosen(request: Request) -> AuditFilter:
    return AuditFilter(
        query_name(request, "actor"),
        query_one_of(request, "kind", KINDS),
        query_name(request, "subject"),
        query_since(request),
        query_until(request),
    )


def _wants_csv(request: Request) -> bool:
    """By the parameter `format`, else by `Accept`."""
    chosen = query_one_of(request, "format", FORMATS)
    return chosen == "csv" if chosen else "text/csv" in request.headers.get("accept", "")
