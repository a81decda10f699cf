"""`/admin/audit`: who did what to people, tokens, grants, endpoints; filtered, a page at a time, or all as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from webapp.actions import audit_log
from webapp.actions.audit_log import KINDS, csv_lines
from webapp.domain import limits
from webapp.store.audit import AuditFilter
from webapp.web import cursors
from webapp.web.context import admin, resources
from webapp.web.render import page
from webapp.web.zones import own_zone, parse_day, start_of

HERE = "/admin/audit"
TEXT_LENGTH = 200


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """The page's address. Values that mean nothing are left out."""

    actor: str = ""
    kind: str = ""
    subject: str = ""
    since: str = ""
    until: str = ""

    def url(self, path: str = HERE, **more: str) -> str:
        values = {name: getattr(self, name) for name in self.__slots__} | more
        query = urlencode({name: value for name, value in values.items() if value})
        return f"{path}?{query}" if query else path

    @property
    def is_filtered(self) -> bool:
        return self.url() != HERE

    def filter(self, zone: str) -> AuditFilter:
        """Days are those of the time zone; `until` is the last one that is shown."""
        first, last = parse_day(self.since), parse_day(self.until)
        return AuditFilter(
            self.actor or None,
            self.kind or None,
            self.subject or None,
            start_of(first, zone) if first else None,
            start_of(last + timedelta(days=1), zone) if last else None,
        )


def _query(request: Request) -> AuditQuery:
    given = {
        name: request.query_params.get(name, "").strip()[:TEXT_LENGTH].replace("\0", "")
        for name in AuditQuery.__slots__
    }
    return AuditQuery(
        given["actor"],
        given["kind"] if given["kind"] in KINDS else "",
        given["subject"],
        given["since"] if parse_day(given["since"]) else "",
        given["until"] if parse_day(given["until"]) else "",
    )


async def show(request: Request) -> Response:
    admin(request)
    desk, query = resources(request), _query(request)
    after = cursors.decode(request.query_params.get("cursor"), "aud")
    shown, more = await audit_log.page(desk, query.filter(own_zone(request)), limit=limits.PAGE_SIZE, after=after)
    return page(
        request,
        "admin/audit.html",
        now=await desk.store.now(),
        query=query,
        kinds=KINDS,
        entries=[(entry, told(entry.details)) for entry in shown],
        older=query.url(cursor=cursors.encode(shown[-1].timestamp, shown[-1].id)) if more else None,
        is_first=after is None,
        csv_url=query.url(f"{HERE}.csv"),
    )


async def as_csv(request: Request) -> Response:
    """All that match, newest first, read a batch at a time."""
    admin(request)
    headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
    return StreamingResponse(
        csv_lines(resources(request), _query(request).filter(own_zone(request))), 200, headers, "text/csv"
    )


def told(details: Mapping[str, Any]) -> str:
    """`role: admin; joined: a, b`"""
    return "; ".join(f"{name}: {text}" for name, value in details.items() if (text := _words(value)))


def _words(value: Any) -> str:
    return ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value or "")
