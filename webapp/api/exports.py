"""The JSON API of exports: order, list, look, wait, cancel, retry, delete."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import attempts, exports, polls, shares
from webapp.actions.statuses import etag
from webapp.api.polls import CACHE_RULE, if_none_match, is_known, names, told
from webapp.api.requests import (
    AnnotationBody,
    OrderBody,
    annotated,
    query_all,
    query_cursor,
    query_flag,
    query_limit,
    query_name,
    query_since,
    query_statuses,
    query_wait,
    read_body,
)
from webapp.domain import limits
from webapp.domain.attempts import attempt_json
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Export
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.sentences import say
from webapp.store.exports import ListFilter
from webapp.web import cursors
from webapp.web.context import SignInNeeded, export_id, hub, resources, viewer
from webapp.web.security import identify

IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")


async def order(request: Request) -> Response:
    """202 with a new export, or 200 with the one that already answers this order."""
    who, body = viewer(request), await read_body(request, OrderBody)
    wanted = exports.Order(
        body.dataset,
        body.params,
        body.format,
        body.options,
        callback_url=body.callback_url,
        notify=body.notify,
        called=annotated(body),
    )
    placed = await exports.place(
        resources(request), who, wanted, defaults=API_DEFAULTS, idempotency_key=idempotency_key(request)
    )
    return await export_response(request, placed.export, status=202 if placed.is_new else 200, more=_callback(placed))


def _callback(placed: exports.Placed) -> dict[str, Any]:
    """The one time that its secret is shown."""
    if (made := placed.endpoint) is None:
        return {}
    return {"callback": {"endpoint_id": made.id, "url": made.settings.url, "secret": made.secrets[0].value}}


async def index(request: Request) -> Response:
    """One page, newest first: of one's own, with `shared=1` of what is shared with oneself, for an admin with `all=1`
    of everybody's."""
    who, wants_all, is_shared = viewer(request), query_all(request), query_flag(request, "shared")
    everybody = who.is_admin and wants_all
    whose = ListFilter(owner=None if everybody else who.id, without=who.denied)
    chosen = replace(
        shares.list_filter(resources(request), who) if is_shared else whose,
        statuses=query_statuses(request),
        dataset=query_name(request, "dataset"),
        format=query_name(request, "format"),
        since=query_since(request),
        text=query_name(request, "q"),
    )
    after = query_cursor(request, "exp")
    page, following = await exports.list_page(resources(request), chosen, limit=query_limit(request), after=after)
    items = await exports.describe(resources(request), *page)
    return json_response({"items": items, "next_cursor": cursors.encode(*following) if following else None})


async def show(request: Request) -> Response:
    """The export; 304 when `If-None-Match` still holds; with `wait`, at the next change or after that many seconds."""
    who, wait = viewer(request), query_wait(request) if request.scope["query_string"] else 0.0
    if not wait:
        known = if_none_match(request)
        answer = await polls.current(resources(request), who, export_id(request), known)
        return told(answer, is_known=names(known, answer.etag))
    export = await exports.read(resources(request), who, export_id(request))
    if export.is_active:
        export = await _wait_for_change(request, export, wait)
    return await export_response(request, export)


async def annotate(request: Request) -> Response:
    """Gives it another name or note, in whatever status it is."""
    who, sent = viewer(request), annotated(await read_body(request, AnnotationBody))
    return await export_response(request, await exports.annotate(resources(request), who, export_id(request), sent))


async def cancel(request: Request) -> Response:
    return await export_response(
        request, await exports.cancel(resources(request), viewer(request), export_id(request)), status=202
    )


async def retry(request: Request) -> Response:
    return await export_response(
        request, await exports.retry(resources(request), viewer(request), export_id(request)), status=202
    )


async def attempts_of(request: Request) -> Response:
    """Every try at executing it, oldest first."""
    found = await attempts.history(resources(request), viewer(request), export_id(request))
    return json_response({"items": [attempt_json(attempt) for attempt in found], "next_cursor": None})


async def delete(request: Request) -> Response:
    await exports.delete(resources(request), viewer(request), export_id(request))
    return Response(status_code=204)


async def export_response(
    request: Request, export: Export, *, status: int = 200, more: Mapping[str, Any] | None = None
) -> Response:
    [content] = await exports.describe(resources(request), export)
    headers = {
        "ETag": etag(export, content["queue_position"], is_paused=content["queue_paused"] is True),
        "Cache-Control": CACHE_RULE,
    }
    if export.is_active:
        age = (await resources(request).store.now() - export.created_at).total_seconds()
        headers["Retry-After"] = str(limits.retry_after(age))
    if status == 200 and request.method in {"GET", "HEAD"} and is_known(headers["ETag"], request):
        return Response(status_code=304, headers=headers)
    if status != 200 or request.method == "POST":
        headers["Location"] = f"{resources(request).settings.base_url}/api/v1/exports/{export.id}"
    return json_response(content | dict(more or {}), status, headers)


async def _wait_for_change(request: Request, export: Export, wait: float) -> Export:
    """Subscribes, reads again, and then waits: a change in between is not missed."""
    who, ends_at = viewer(request), time.monotonic() + wait
    known = if_none_match(request)
    live = hub(request)
    with (
        live.connection("long_poll"),
        live.reader(owner=export.owner, ids=frozenset({export.id}), viewer=who.id) as reader,
    ):
        while True:
            if await identify(request) != who:
                raise SignInNeeded
            now = await exports.get(resources(request), who, export.id)
            left = ends_at - time.monotonic()
            seen = any(tag in {"", "*"} or tag.strip('"').split("-")[0] == str(now.version) for tag in known)
            if now.version != export.version or not seen or left <= 0:
                return now
            await reader.changes(live.patience(left))


def idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise Invalid([FieldError("Idempotency-Key", say("Must have 1 to 255 visible ASCII characters."))])
    return key
