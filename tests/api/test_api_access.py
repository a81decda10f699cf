"""Who may do what: every address × everybody who may come along; cross-site writes; headers; what logs keep."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
from api.problem_documents import SECRETS, problem_of, rows_written
from factories import stored_export
from owing import owe, register
from sqlalchemy import update
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from webapp.actions import exports, people, saved_orders, schedules, workers
from webapp.domain.access import Role, Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.workers import Queue
from webapp.resources import Resources
from webapp.routes import routes
from webapp.store.tables import sessions, users
from webapp.web.security import SECURITY_HEADERS, SESSION_COOKIE

ExportMaker = Callable[..., Awaitable[Export]]
ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]

OPEN, SIGNED_IN, OWN, ADMIN = "open to all", "whoever is signed in", "the owner and admins", "admins"
OWNER = "the owner alone"
OTHERS = {OWN: ("other",), OWNER: ("other", "admin")}


@dataclass(frozen=True, slots=True)
class Row:
    """Who may do it, and what it answers to who may. `status` is what the export of the address is before."""

    who: str
    answers: int
    status: Status = Status.SUCCESS
    form: dict[str, str] = field(default_factory=dict[str, str])
    json: dict[str, Any] | None = None
    query: str = ""


THINGS = {"dataset": "things", "format": "csv"}
HOOK = {"url": "https://93.184.216.34/hook"}
TRIAL = {"event_type": "export.created"}
HOOK_FORM = HOOK | {"time_limit": "10", "rate": "20", "max_in_flight": "5"}
ROWS: dict[tuple[str, str], Row] = {
    ("GET", "/"): Row(OPEN, 303),
    ("GET", "/healthz"): Row(OPEN, 200),
    ("GET", "/metrics"): Row(OPEN, 200),
    ("GET", "/readyz"): Row(OPEN, 503),
    ("GET", "/static/{path}"): Row(OPEN, 200),
    ("GET", "/docs"): Row(OPEN, 200),
    ("GET", "/docs/api"): Row(OPEN, 200),
    ("POST", "/language"): Row(OPEN, 303, form={"language": "zh-CN", "next": "/docs"}),
    ("GET", "/words/{tag}.js"): Row(OPEN, 200),
    ("GET", "/sign-in"): Row(OPEN, 200),
    ("POST", "/sign-in"): Row(OPEN, 401, form={"name": "x", "password": "y"}),
    ("GET", "/sign-in/openid"): Row(OPEN, 404),
    ("GET", "/sign-in/openid/callback"): Row(OPEN, 404),
    ("GET", "/sign-in/once/{token}"): Row(OPEN, 200),
    ("POST", "/sign-in/once/{token}"): Row(OPEN, 401),
    ("POST", "/sign-out"): Row(OPEN, 303),
    ("GET", "/exports"): Row(SIGNED_IN, 200),
    ("POST", "/exports"): Row(SIGNED_IN, 303, form=THINGS),
    ("GET", "/exports/live"): Row(SIGNED_IN, 200),
    ("GET", "/exports/stream"): Row(SIGNED_IN, 200),
    ("POST", "/exports/selection"): Row(SIGNED_IN, 303, form={"action": "cancel"}),
    ("GET", "/notices/stream"): Row(SIGNED_IN, 200),
    ("GET", "/monitor"): Row(ADMIN, 200),
    ("GET", "/monitor/live"): Row(ADMIN, 200),
    ("GET", "/monitor/counted"): Row(ADMIN, 422),
    ("GET", "/monitor/stream"): Row(ADMIN, 200),
    ("GET", "/monitor/alerts.yml"): Row(ADMIN, 200),
    ("GET", "/monitor/grafana.json"): Row(ADMIN, 200),
    ("GET", "/monitor/{table}.csv"): Row(ADMIN, 200),
    ("POST", "/monitor/queues/{queue}/pause"): Row(ADMIN, 303, form={"confirmed": "1"}),
    ("POST", "/monitor/queues/{queue}/resumption"): Row(ADMIN, 303),
    ("POST", "/monitor/workers/{worker_id}/drain"): Row(ADMIN, 303, form={"confirmed": "1", "within": "600"}),
    ("POST", "/monitor/workers/{worker_id}/drain/cancellation"): Row(ADMIN, 303),
    ("POST", "/getting-started/dismissal"): Row(ADMIN, 303),
    ("GET", "/exports/new"): Row(SIGNED_IN, 200),
    ("GET", "/exports/new/choices"): Row(SIGNED_IN, 200, query="?dataset=things"),
    ("POST", "/exports/new/choices"): Row(SIGNED_IN, 200, form=THINGS),
    ("GET", "/exports/new/columns"): Row(SIGNED_IN, 200, query="?dataset=things"),
    ("POST", "/exports/new/columns"): Row(SIGNED_IN, 200, form=THINGS),
    ("GET", "/exports/new/preview"): Row(SIGNED_IN, 200, query="?dataset=things"),
    ("POST", "/exports/new/preview"): Row(SIGNED_IN, 200, form=THINGS),
    ("GET", "/exports/{export_id}"): Row(OWN, 200),
    ("GET", "/exports/{export_id}/live"): Row(OWN, 200),
    ("GET", "/exports/{export_id}/stream"): Row(OWN, 200),
    ("POST", "/exports/{export_id}/cancellation"): Row(OWN, 303, Status.QUEUED),
    ("POST", "/exports/{export_id}/retry"): Row(OWN, 303, Status.FAILED),
    ("POST", "/exports/{export_id}/deletion"): Row(OWN, 303),
    ("GET", "/exports/{export_id}/deliveries"): Row(OWN, 200),
    ("POST", "/exports/{export_id}/notification"): Row(OWNER, 303),
    ("POST", "/exports/{export_id}/reminder"): Row(OWN, 303),
    ("POST", "/exports/{export_id}/annotation"): Row(OWN, 303, form={"name": "", "note": ""}),
    ("POST", "/exports/{export_id}/shares"): Row(OWN, 422, form={"person": "nobody"}),
    ("GET", "/exports/{export_id}/shares/people"): Row(OWN, 200),
    ("POST", "/exports/{export_id}/shares/withdrawal"): Row(OWN, 303, form={"person": "nobody"}),
    ("GET", "/saved-orders"): Row(SIGNED_IN, 200),
    ("POST", "/saved-orders"): Row(SIGNED_IN, 303, form=THINGS | {"name": "New"}),
    ("GET", "/saved-orders/new"): Row(SIGNED_IN, 200, query="?dataset=things"),
    ("POST", "/saved-orders/new"): Row(SIGNED_IN, 200, form=THINGS),
    ("POST", "/saved-orders/{saved_order_id}/edit"): Row(OWN, 303, form=THINGS | {"name": "New"}),
    ("POST", "/saved-orders/{saved_order_id}/name"): Row(OWN, 303, form={"name": "New"}),
    ("POST", "/saved-orders/{saved_order_id}/exports"): Row(OWN, 303),
    ("POST", "/saved-orders/{saved_order_id}/deletion"): Row(OWN, 303),
    ("POST", "/saved-orders/{saved_order_id}/restoration"): Row(OWN, 404),
    ("GET", "/saved-orders/{saved_order_id}/schedule"): Row(OWN, 200),
    ("POST", "/saved-orders/{saved_order_id}/schedule"): Row(OWN, 303, form={"kind": "daily", "clock": "08:00"}),
    ("POST", "/saved-orders/{saved_order_id}/schedule/pause"): Row(OWN, 303),
    ("POST", "/saved-orders/{saved_order_id}/schedule/resumption"): Row(OWN, 303),
    ("POST", "/saved-orders/{saved_order_id}/schedule/removal"): Row(OWN, 303),
    ("GET", "/callbacks"): Row(ADMIN, 200),
    ("POST", "/callbacks"): Row(ADMIN, 303, form=HOOK_FORM),
    ("GET", "/callbacks/live"): Row(ADMIN, 200),
    ("GET", "/callbacks/stream"): Row(ADMIN, 200),
    ("GET", "/callbacks/new"): Row(ADMIN, 200),
    ("POST", "/callbacks/new/inspector"): Row(ADMIN, 200, form=HOOK),
    ("POST", "/callbacks/new/trial"): Row(ADMIN, 200, form=HOOK_FORM | TRIAL),
    ("GET", "/callbacks/sample"): Row(ADMIN, 200, query="?event_type=export.created"),
    ("POST", "/callbacks/hosts"): Row(ADMIN, 303, form={"hosts": ""}),
    ("POST", "/callbacks/redeliveries"): Row(ADMIN, 303, form={"ids": ""}),
    ("GET", "/callbacks/deliveries"): Row(ADMIN, 200),
    ("GET", "/callbacks/deliveries/live"): Row(ADMIN, 200),
    ("GET", "/callbacks/deliveries/stream"): Row(ADMIN, 200),
    ("GET", "/callbacks/deliveries/{delivery_id}"): Row(ADMIN, 200),
    ("GET", "/callbacks/deliveries/{delivery_id}/live"): Row(ADMIN, 200),
    ("GET", "/callbacks/deliveries/{delivery_id}/stream"): Row(ADMIN, 200),
    ("POST", "/callbacks/deliveries/{delivery_id}/redelivery"): Row(ADMIN, 303),
    ("GET", "/callbacks/{endpoint_id}"): Row(ADMIN, 200),
    ("GET", "/callbacks/{endpoint_id}/live"): Row(ADMIN, 200),
    ("GET", "/callbacks/{endpoint_id}/stream"): Row(ADMIN, 200),
    ("GET", "/callbacks/{endpoint_id}/edit"): Row(ADMIN, 200),
    ("POST", "/callbacks/{endpoint_id}/edit"): Row(ADMIN, 303, form=HOOK_FORM),
    ("POST", "/callbacks/{endpoint_id}/edit/inspector"): Row(ADMIN, 200, form=HOOK),
    ("POST", "/callbacks/{endpoint_id}/edit/trial"): Row(ADMIN, 200, form=HOOK_FORM | TRIAL),
    ("POST", "/callbacks/{endpoint_id}/trial"): Row(ADMIN, 200, form=TRIAL),
    ("GET", "/callbacks/{endpoint_id}/secret"): Row(ADMIN, 200),
    ("POST", "/callbacks/{endpoint_id}/rotation"): Row(ADMIN, 303, form={"overlap": "24"}),
    ("POST", "/callbacks/{endpoint_id}/pause"): Row(ADMIN, 303),
    ("POST", "/callbacks/{endpoint_id}/resumption"): Row(ADMIN, 303),
    ("POST", "/callbacks/{endpoint_id}/deletion"): Row(ADMIN, 303, form={"confirmed": "1"}),
    ("GET", "/callbacks/{endpoint_id}/deliveries"): Row(ADMIN, 200),
    ("GET", "/callbacks/{endpoint_id}/deliveries/live"): Row(ADMIN, 200),
    ("GET", "/callbacks/{endpoint_id}/deliveries/stream"): Row(ADMIN, 200),
    ("GET", "/callbacks/{endpoint_id}/recovery"): Row(ADMIN, 200),
    ("POST", "/callbacks/{endpoint_id}/recovery"): Row(ADMIN, 303, form={"since": "2026-01-31T00:00"}),
    ("GET", "/inspect"): Row(ADMIN, 200),
    ("POST", "/inspect"): Row(ADMIN, 303),
    ("POST", "/inspect/{token}"): Row(OPEN, 404),
    ("GET", "/inspect/{token}"): Row(ADMIN, 404),
    ("GET", "/inspect/{token}/live"): Row(ADMIN, 404),
    ("GET", "/inspect/{token}/stream"): Row(ADMIN, 404),
    ("GET", "/inspect/{token}/settings"): Row(ADMIN, 404),
    ("POST", "/inspect/{token}/settings"): Row(ADMIN, 404),
    ("POST", "/inspect/{token}/clearing"): Row(ADMIN, 404),
    ("POST", "/inspect/{token}/deletion"): Row(ADMIN, 404),
    ("GET", "/api/v1/openapi.json"): Row(OPEN, 200),
    ("GET", "/api/v1/ws"): Row(SIGNED_IN, 426),
    ("GET", "/api/v1/datasets"): Row(SIGNED_IN, 200),
    ("GET", "/api/v1/datasets/{name}"): Row(SIGNED_IN, 200),
    ("GET", "/api/v1/datasets/{name}/choices/{parameter}"): Row(SIGNED_IN, 404),
    ("POST", "/api/v1/datasets/{name}/preview"): Row(SIGNED_IN, 200, json={}),
    ("GET", "/api/v1/exports"): Row(SIGNED_IN, 200),
    ("POST", "/api/v1/exports"): Row(SIGNED_IN, 202, json=THINGS),
    ("GET", "/api/v1/exports/{export_id}"): Row(OWN, 200),
    ("PATCH", "/api/v1/exports/{export_id}"): Row(OWN, 200, json={}),
    ("DELETE", "/api/v1/exports/{export_id}"): Row(OWN, 204),
    ("POST", "/api/v1/exports/{export_id}/cancellation"): Row(OWN, 202, Status.QUEUED),
    ("POST", "/api/v1/exports/{export_id}/retry"): Row(OWN, 202, Status.FAILED),
    ("POST", "/api/v1/exports/{export_id}/reminder"): Row(OWN, 202, json={}),
    ("GET", "/api/v1/exports/{export_id}/attempts"): Row(OWN, 200),
    ("GET", "/api/v1/exports/{export_id}/shares"): Row(OWN, 200),
    ("PUT", "/api/v1/exports/{export_id}/shares/{person}"): Row(OWN, 422, json={}),
    ("DELETE", "/api/v1/exports/{export_id}/shares/{person}"): Row(OWN, 404),
    ("GET", "/api/v1/exports/{export_id}/file"): Row(OWN, 200),
    ("GET", "/api/v1/exports/{export_id}/events"): Row(OWN, 200),
    ("GET", "/api/v1/saved-orders"): Row(SIGNED_IN, 200),
    ("POST", "/api/v1/saved-orders"): Row(SIGNED_IN, 201, json=THINGS | {"name": "New"}),
    ("GET", "/api/v1/saved-orders/{saved_order_id}"): Row(OWN, 200),
    ("PATCH", "/api/v1/saved-orders/{saved_order_id}"): Row(OWN, 200, json={"name": "New"}),
    ("DELETE", "/api/v1/saved-orders/{saved_order_id}"): Row(OWN, 204),
    ("POST", "/api/v1/saved-orders/{saved_order_id}/exports"): Row(OWN, 202),
    ("POST", "/api/v1/saved-orders/{saved_order_id}/restoration"): Row(OWN, 404),
    ("GET", "/api/v1/saved-orders/{saved_order_id}/schedule"): Row(OWN, 200),
    ("PUT", "/api/v1/saved-orders/{saved_order_id}/schedule"): Row(OWN, 200, json={"cron": "0 8 * * *"}),
    ("DELETE", "/api/v1/saved-orders/{saved_order_id}/schedule"): Row(OWN, 204),
    ("POST", "/api/v1/saved-orders/{saved_order_id}/schedule/pause"): Row(OWN, 200),
    ("POST", "/api/v1/saved-orders/{saved_order_id}/schedule/resumption"): Row(OWN, 200),
    ("GET", "/api/v1/events"): Row(SIGNED_IN, 200),
    ("POST", "/api/v1/acknowledgements"): Row(SIGNED_IN, 204, json={"events": ["evt_" + "0" * 26], "channel": "sse"}),
    ("GET", "/account"): Row(SIGNED_IN, 200),
    ("POST", "/account/password"): Row(SIGNED_IN, 422, form={"password": "a", "again": "b"}),
    ("POST", "/account/preferences"): Row(SIGNED_IN, 303, form={"language": "", "timezone": ""}),
    ("POST", "/account/sessions"): Row(SIGNED_IN, 303),
    ("POST", "/account/email"): Row(SIGNED_IN, 422, form={"email": "not an address"}),
    ("POST", "/account/email/cancellation"): Row(SIGNED_IN, 303),
    ("POST", "/account/email/choice"): Row(SIGNED_IN, 422, form={"always": "1"}),
    ("POST", "/account/email/removal"): Row(SIGNED_IN, 303),
    ("GET", "/account/email/{token}"): Row(SIGNED_IN, 404),
    ("POST", "/account/email/{token}"): Row(SIGNED_IN, 404),
    ("POST", "/account/tokens"): Row(SIGNED_IN, 201, form={"name": "x", "scopes": "read", "lifetime": "7"}),
    ("POST", "/account/tokens/{token_id}/revocation"): Row(SIGNED_IN, 404, form={"confirmed": "1"}),
    ("GET", "/admin/users"): Row(ADMIN, 200),
    ("POST", "/admin/users"): Row(ADMIN, 422, form={"name": "-"}),
    ("GET", "/admin/users/{user_id}"): Row(ADMIN, 404),
    ("POST", "/admin/users/{user_id}/role"): Row(ADMIN, 404, form={"role": "admin"}),
    ("POST", "/admin/users/{user_id}/groups"): Row(ADMIN, 404),
    ("POST", "/admin/users/{user_id}/reset"): Row(ADMIN, 404),
    ("POST", "/admin/users/{user_id}/disabling"): Row(ADMIN, 404),
    ("POST", "/admin/users/{user_id}/enabling"): Row(ADMIN, 404),
    ("POST", "/admin/users/{user_id}/deletion"): Row(ADMIN, 404, form={"confirmed": "1"}),
    ("GET", "/admin/groups"): Row(ADMIN, 200),
    ("POST", "/admin/groups"): Row(ADMIN, 303, form={"name": "readers"}),
    ("GET", "/admin/groups/{group_id}"): Row(ADMIN, 404),
    ("POST", "/admin/groups/{group_id}/name"): Row(ADMIN, 404, form={"name": "x"}),
    ("POST", "/admin/groups/{group_id}/members"): Row(ADMIN, 404, form={"add": "user"}),
    ("POST", "/admin/groups/{group_id}/deletion"): Row(ADMIN, 404, form={"confirmed": "1"}),
    ("GET", "/admin/sources"): Row(ADMIN, 200),
    ("GET", "/admin/sources/new"): Row(ADMIN, 200),
    ("POST", "/admin/sources"): Row(ADMIN, 422, form={"kind": "sqlite"}),
    ("GET", "/admin/sources/{source}/edit"): Row(ADMIN, 200),
    ("POST", "/admin/sources/{source}/edit"): Row(ADMIN, 422, form={"kind": "sqlite"}),
    ("POST", "/admin/sources/{source}/deletion"): Row(ADMIN, 200),
    ("GET", "/admin/datasets"): Row(ADMIN, 200),
    ("GET", "/admin/datasets/new"): Row(ADMIN, 200),
    ("POST", "/admin/datasets/new"): Row(ADMIN, 422, form={"sql": "SELECT 1"}),
    ("POST", "/admin/datasets/new/draft"): Row(ADMIN, 200, form={"sql": "SELECT 1"}),
    ("GET", "/admin/datasets/{name}/edit"): Row(ADMIN, 200),
    ("POST", "/admin/datasets/{name}/edit"): Row(ADMIN, 422),
    ("POST", "/admin/datasets/{name}/edit/draft"): Row(ADMIN, 200),
    ("GET", "/admin/datasets/{name}"): Row(ADMIN, 200),
    ("POST", "/admin/datasets/{name}/deletion"): Row(ADMIN, 200),
    ("POST", "/admin/datasets/{name}/grants"): Row(ADMIN, 422, form={"person": "nobody"}),
    ("POST", "/admin/datasets/{name}/withdrawal"): Row(ADMIN, 404),
    ("POST", "/admin/datasets/{name}/opening"): Row(ADMIN, 303),
    ("GET", "/admin/tokens"): Row(ADMIN, 200),
    ("POST", "/admin/tokens/{token_id}/revocation"): Row(ADMIN, 303, form={"confirmed": "1"}),
    ("GET", "/admin/audit"): Row(ADMIN, 200),
    ("GET", "/admin/audit.csv"): Row(ADMIN, 200),
    ("GET", "/api/v1/account"): Row(SIGNED_IN, 200),
    ("GET", "/api/v1/tokens"): Row(SIGNED_IN, 200),
    ("POST", "/api/v1/tokens"): Row(SIGNED_IN, 201, json={"name": "x"}),
    ("GET", "/api/v1/tokens/{token_id}"): Row(SIGNED_IN, 404),
    ("DELETE", "/api/v1/tokens/{token_id}"): Row(SIGNED_IN, 404),
    ("GET", "/api/v1/callbacks"): Row(ADMIN, 200),
    ("POST", "/api/v1/callbacks"): Row(ADMIN, 201, json=HOOK),
    ("GET", "/api/v1/callbacks/hosts"): Row(ADMIN, 200),
    ("PUT", "/api/v1/callbacks/hosts"): Row(ADMIN, 200, json={"hosts": []}),
    ("POST", "/api/v1/callbacks/test"): Row(ADMIN, 503, json=HOOK | TRIAL),
    ("GET", "/api/v1/callbacks/{endpoint_id}"): Row(ADMIN, 200),
    ("PATCH", "/api/v1/callbacks/{endpoint_id}"): Row(ADMIN, 200, json={"rate": 3}),
    ("DELETE", "/api/v1/callbacks/{endpoint_id}"): Row(ADMIN, 204),
    ("POST", "/api/v1/callbacks/{endpoint_id}/test"): Row(ADMIN, 503, json=TRIAL),
    ("POST", "/api/v1/callbacks/{endpoint_id}/rotation"): Row(ADMIN, 200, json={}),
    ("GET", "/api/v1/callbacks/{endpoint_id}/recovery"): Row(ADMIN, 200, query="?since=2026-01-31"),
    ("POST", "/api/v1/callbacks/{endpoint_id}/recovery"): Row(ADMIN, 202, json={"since": "2026-01-31"}),
    ("POST", "/api/v1/callbacks/{endpoint_id}/pause"): Row(ADMIN, 200),
    ("POST", "/api/v1/callbacks/{endpoint_id}/resumption"): Row(ADMIN, 200),
    ("GET", "/api/v1/workers"): Row(ADMIN, 200),
    ("GET", "/api/v1/workers/{worker_id}"): Row(ADMIN, 200),
    ("POST", "/api/v1/workers/{worker_id}/drain"): Row(ADMIN, 202, json={}),
    ("POST", "/api/v1/workers/{worker_id}/drain/cancellation"): Row(ADMIN, 200),
    ("GET", "/api/v1/queues"): Row(ADMIN, 200),
    ("POST", "/api/v1/queues/{queue}/pause"): Row(ADMIN, 200),
    ("POST", "/api/v1/queues/{queue}/resumption"): Row(ADMIN, 200),
    ("GET", "/api/v1/users"): Row(ADMIN, 200),
    ("POST", "/api/v1/users"): Row(ADMIN, 422, json={"name": "-"}),
    ("GET", "/api/v1/users/{user_id}"): Row(ADMIN, 404),
    ("PATCH", "/api/v1/users/{user_id}"): Row(ADMIN, 404, json={"role": "admin"}),
    ("DELETE", "/api/v1/users/{user_id}"): Row(ADMIN, 404),
    ("POST", "/api/v1/users/{user_id}/reset"): Row(ADMIN, 404),
    ("POST", "/api/v1/users/{user_id}/disabling"): Row(ADMIN, 404),
    ("POST", "/api/v1/users/{user_id}/enabling"): Row(ADMIN, 404),
    ("GET", "/api/v1/groups"): Row(ADMIN, 200),
    ("POST", "/api/v1/groups"): Row(ADMIN, 201, json={"name": "readers"}),
    ("GET", "/api/v1/groups/{group_id}"): Row(ADMIN, 404),
    ("PATCH", "/api/v1/groups/{group_id}"): Row(ADMIN, 404, json={"name": "x"}),
    ("DELETE", "/api/v1/groups/{group_id}"): Row(ADMIN, 404),
    ("GET", "/api/v1/groups/{group_id}/members"): Row(ADMIN, 404),
    ("PUT", "/api/v1/groups/{group_id}/members/{user_id}"): Row(ADMIN, 404),
    ("DELETE", "/api/v1/groups/{group_id}/members/{user_id}"): Row(ADMIN, 404),
    ("GET", "/api/v1/grants"): Row(ADMIN, 200),
    ("POST", "/api/v1/grants"): Row(ADMIN, 422, json={"dataset": "things"}),
    ("GET", "/api/v1/grants/{grant_id}"): Row(ADMIN, 404),
    ("DELETE", "/api/v1/grants/{grant_id}"): Row(ADMIN, 404),
    ("GET", "/api/v1/grants/datasets"): Row(ADMIN, 200),
    ("GET", "/api/v1/grants/datasets/{name}"): Row(ADMIN, 200),
    ("POST", "/api/v1/grants/datasets/{name}/opening"): Row(ADMIN, 200),
    ("GET", "/api/v1/audit"): Row(ADMIN, 200),
    ("GET", "/api/v1/deliveries"): Row(ADMIN, 200),
    ("GET", "/api/v1/deliveries/{delivery_id}"): Row(ADMIN, 200),
    ("POST", "/api/v1/deliveries/redelivery"): Row(ADMIN, 202, json={"status": "dead"}),
    ("POST", "/api/v1/deliveries/{delivery_id}/redelivery"): Row(ADMIN, 202),
}


def addresses(found: Iterable[BaseRoute], prefix: str = "") -> set[tuple[str, str]]:
    """Every method and address the application answers. HEAD comes with each GET."""
    table: set[tuple[str, str]] = set()
    for route in found:
        if isinstance(route, Route):
            table |= {(method, prefix + route.path) for method in (route.methods or {"GET"}) if method != "HEAD"}
        elif isinstance(route, WebSocketRoute):
            continue  # see tests/live/test_socket.py
        elif isinstance(route, Mount) and route.routes:
            table |= addresses(route.routes, prefix + route.path)
        elif isinstance(route, Mount):
            table.add(("GET", f"{prefix}{route.path}/{{path}}"))
        else:
            table.add((type(route).__name__, getattr(route, "path", "?")))
    return table


def test_every_address_has_its_row() -> None:
    assert addresses(routes()) == set(ROWS), "a new route needs a line in ROWS that says who may use it"


@asynccontextmanager
async def without_a_right(
    make_client: ClientMaker, resources: Resources, user: Viewer
) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """Everybody who is nobody. A wrong token is nobody even beside a good cookie."""
    found = await people.user_named(resources, user.name)

    async def with_token(token: str, scheme: str = "Bearer") -> httpx.AsyncClient:
        client = await make_client(user)
        client.headers["Authorization"] = f"{scheme} {token}"
        return client

    token_id, revoked = await people.create_token(resources, found, "revoked", actor="tests")
    await people.revoke_token(resources, token_id, actor="tests")
    _, good = await people.create_token(resources, found, "good", actor="tests")
    link = (await people.make_sign_in_link(resources, found)).rsplit("/", 1)[1]
    expired = await make_client(user)
    async with resources.store.transaction():
        now = await resources.store.now()
        await resources.store.execute(update(sessions).values(expires_at=now - timedelta(seconds=1)))
    signed_out = await make_client(user)
    await signed_out.post("/sign-out")
    signed_out.cookies.set(SESSION_COOKIE, "0" * 43)
    yield {
        "anonymous": await make_client(None),
        "expired session": expired,
        "signed out": signed_out,
        "revoked token": await with_token(revoked),
        "garbage token": await with_token("exd_" + "x" * 43),
        "short token": await with_token("x"),
        "sign-in link as token": await with_token(link),
        "token as password": await with_token(good, "Basic"),
        "token twice": await with_token(f"{good}, {good}"),
    }


async def named(resources: Resources, path: str, export: Export) -> str:
    """The address with ids of what there is: each time an endpoint and a delivery of their own."""
    ids = {
        "name": "things",
        "source": "shop",
        "parameter": "most",
        "person": "nobody",
        "token": "t" * 43,
        "token_id": "tok_" + "0" * 26,
        "user_id": "usr_" + "0" * 26,
        "group_id": "grp_" + "0" * 26,
        "grant_id": "grt_" + "0" * 26,
        "path": "app.css",
        "export_id": export.id,
        "table": "ends",
        "queue": "exports",
        "tag": "zh-CN",
    }
    if "{worker_id}" in path:
        ids["worker_id"] = (await workers.begin(resources, [Queue.EXPORTS])).id
    if "{endpoint_id}" in path or "{delivery_id}" in path:
        endpoint = await register(resources, HOOK["url"])
        [ids["delivery_id"]] = await owe(resources, endpoint)
        ids["endpoint_id"] = endpoint.id
    if "saved-orders" in path:
        ids["saved_order_id"] = await saved_order(resources, export)
    return path.format(**ids)


async def saved_order(resources: Resources, export: Export) -> str:
    """The id of a new one of the export's owner, in the place of those there were."""
    owner = Viewer(export.owner, "", Role.USER)
    for before in await saved_orders.list_own(resources, owner):
        await saved_orders.delete(resources, owner, before.id)
    order = exports.Order("things", {}, "csv", {})
    saved = await saved_orders.save(resources, owner, "Saved", order, defaults=API_DEFAULTS)
    await schedules.put(resources, owner, saved.id, "0 8 * * *", "UTC")
    return saved.id


async def ask(client: httpx.AsyncClient, method: str, path: str, row: Row) -> httpx.Response:
    url = path + row.query
    data: dict[str, Any] = {"json": row.json} if row.json is not None else {"data": row.form} if row.form else {}
    async with client.stream(method, url, **data) as response:
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            await response.aread()
        return response


@pytest.mark.parametrize(("method", "path"), list(ROWS))
async def test_who_has_no_right_gets_nothing(
    make_client: ClientMaker, make_export: ExportMaker, resources: Resources, user: Viewer, method: str, path: str
) -> None:
    row = ROWS[method, path]
    export = await make_export(row.status)
    address = await named(resources, path, export)
    before = await rows_written(resources)
    async with without_a_right(make_client, resources, user) as callers:
        for name, client in callers.items():
            response = await ask(client, method, address, row)
            assert not (export.id in response.text and row.who != OPEN and method == "POST"), name
            if row.who == OPEN:
                assert response.status_code == row.answers, name
            elif path.startswith("/api/"):
                problem_of(response, 401, "SIGN_IN_NEEDED")
                assert response.headers["www-authenticate"] == "Bearer"
            elif path.endswith(("/live", "/stream")) or method == "POST":
                assert response.status_code == 401, name
                assert "location" not in response.headers, name
            else:
                assert response.status_code == 303, name
                assert response.headers["location"].startswith(f"/sign-in?next={quote(address, safe='')}"), name
    assert await rows_written(resources) == before


@pytest.mark.parametrize(("method", "path"), list(ROWS))
async def test_who_is_signed_in_gets_what_is_theirs(
    make_client: ClientMaker,
    resources: Resources,
    user: Viewer,
    other: Viewer,
    admin: Viewer,
    method: str,
    path: str,
) -> None:
    row = ROWS[method, path]
    found = await people.user_named(resources, user.name)
    _, token = await people.create_token(resources, found, "mine", actor="tests")
    program = await make_client(None)
    program.headers["Authorization"] = f"bearer  {token}"
    clients = {
        "owner": await make_client(user),
        "owner's token": program,
        "admin": await make_client(admin),
        "other": await make_client(other),
    }
    for name, client in clients.items():
        export = await stored_export(resources, user, row.status)
        response = await ask(client, method, await named(resources, path, export), row)
        if row.who == ADMIN and name != "admin":
            assert response.status_code == 403, name
        elif name in OTHERS.get(row.who, ()):
            assert response.status_code == 404, name
            async with resources.store.connection():
                assert await exports.get(resources, user, export.id) == export
        elif path.startswith("/sign-in") and method == "GET" and row.answers == 200:
            assert response.status_code in {200, 303}, name
        elif path == "/exports" and method == "POST" and name == "owner's token":
            assert response.status_code == 303, name
        else:
            expected = {row.answers, 200} if row.answers == 202 and name == "owner's token" else {row.answers}
            assert response.status_code in expected, (name, response.text[:200])


@pytest.mark.parametrize("path", ["/exports", "/exports/new?dataset=things", "/exports/exp_x", "/exports?q=a%26b"])
async def test_a_page_leads_to_signing_in_and_back(anonymous: httpx.AsyncClient, path: str) -> None:
    response = await anonymous.get(path)
    assert response.status_code == 303
    assert str(httpx.URL(response.headers["location"]).params["next"]) == path


@pytest.mark.parametrize("headers", [{"HX-Request": "true"}, {"Accept": "text/event-stream"}, {}])
async def test_parts_of_pages_are_refused_barely(
    anonymous: httpx.AsyncClient, other_client: httpx.AsyncClient, make_export: ExportMaker, headers: dict[str, str]
) -> None:
    at = f"/exports/{(await make_export()).id}"
    for url in ("/exports/live", "/exports/stream", f"{at}/live", f"{at}/stream", f"{at}/stream?after=5"):
        response = await anonymous.get(url, headers=headers)
        assert (response.status_code, response.headers["content-type"]) == (401, "text/plain; charset=utf-8"), url
        assert "<" not in response.text
    for url in (f"{at}/live", f"{at}/stream"):
        response = await other_client.get(url, headers=headers)
        assert (response.status_code, response.headers["content-type"]) == (404, "text/plain; charset=utf-8"), url


async def test_any_fragment_is_refused_barely(anonymous: httpx.AsyncClient) -> None:
    for path in ("/exports", "/exports/new", "/exports/new/preview?dataset=things"):
        response = await anonymous.get(path, headers={"HX-Request": "true"})
        assert response.status_code == 401
        assert "location" not in response.headers
        assert "<" not in response.text


async def test_a_person_who_was_disabled_is_nobody(
    client: httpx.AsyncClient, make_client: ClientMaker, resources: Resources, user: Viewer
) -> None:
    found = await people.user_named(resources, user.name)
    _, token = await people.create_token(resources, found, "mine", actor="tests")
    async with resources.store.transaction():
        await resources.store.execute(update(users).values(disabled_at=found.created_at))
    assert (await client.get("/api/v1/exports")).status_code == 401
    program = await make_client(None)
    assert (await program.get("/api/v1/exports", headers={"Authorization": f"Bearer {token}"})).status_code == 401


async def test_a_role_that_was_taken_away_counts_at_once(
    admin_client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    from webapp.domain.access import Role

    export = await make_export()
    assert (await admin_client.get(f"/api/v1/exports/{export.id}")).status_code == 200
    await people.add_user(resources, "second", Role.ADMIN, actor="tests")
    await people.set_role(resources, "admin", Role.USER, actor="tests")
    assert (await admin_client.get(f"/api/v1/exports/{export.id}")).status_code == 404
    assert (await admin_client.get("/api/v1/exports?all=1")).json()["items"] == []


@pytest.mark.parametrize("cookie", ["", "x", "\xff\xfe", "a" * 5000, "%00", '"', ";;;=", "exd_" + "x" * 40])
async def test_a_broken_cookie_is_nobody(anonymous: httpx.AsyncClient, cookie: str) -> None:
    headers = [(b"cookie", f"{SESSION_COOKIE}={cookie}".encode("latin-1"))]
    problem_of(await anonymous.get("/api/v1/exports", headers=headers), 401, "SIGN_IN_NEEDED")


@pytest.mark.parametrize(
    "value", ["Bearer", "Bearer ", "bearer \xff" * 9, "Basic eDp5", "x", " ", "Bearer " + "x" * 9000]
)
async def test_a_broken_authorization_is_nobody(client: httpx.AsyncClient, value: str) -> None:
    headers = [(b"authorization", value.encode("latin-1"))]
    problem_of(await client.get("/api/v1/exports", headers=headers), 401, "SIGN_IN_NEEDED")


# Another site's pages

CROSS_SITE: list[dict[str, str]] = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
    {"Sec-Fetch-Site": "nonsense"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://testserver.evil.example"},
    {"Origin": "http://testserver:81"},
    {"Origin": "http://evil.example/http://testserver"},
    {"Origin": "http://testserver@evil.example"},
    {"Origin": "testserver"},
    {"Origin": "http://[testserver"},
    {"Origin": "https://evil.example", "Authorization": ""},
]
SAME_SITE: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "http://testserver"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://testserver"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
]


@pytest.mark.parametrize("headers", CROSS_SITE)
async def test_another_site_cannot_make_a_browser_write(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, headers: dict[str, str]
) -> None:
    export = await make_export(Status.QUEUED)
    before = await rows_written(resources)
    at = f"/exports/{export.id}"
    for answer in (
        await client.post("/api/v1/exports", json=THINGS, headers=headers),
        await client.post(f"/api/v1{at}/cancellation", headers=headers),
        await client.delete(f"/api/v1{at}", headers=headers),
        await client.request("PUT", f"/api/v1{at}", headers=headers),
    ):
        problem_of(answer, 403, "CROSS_SITE")
    for url, form in (("/exports", THINGS), (f"{at}/cancellation", {}), ("/sign-out", {}), ("/sign-in", {"name": "x"})):
        answer = await client.post(url, data=form, headers=headers)
        assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)
    assert await rows_written(resources) == before
    assert (await client.get("/api/v1/exports", headers=headers)).status_code == 200


@pytest.mark.parametrize("headers", SAME_SITE)
async def test_ones_own_page_and_programs_may_write(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await client.post("/api/v1/exports", json=THINGS, headers=headers)).status_code == 202
    assert (await client.post("/exports", data={**THINGS, "p.most": "1"}, headers=headers)).status_code == 303


async def test_a_token_is_no_browser(anonymous: httpx.AsyncClient, resources: Resources, user: Viewer) -> None:
    found = await people.user_named(resources, user.name)
    _, token = await people.create_token(resources, found, "t", actor="tests")
    headers = {"Authorization": f"Bearer {token}", "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert (await anonymous.post("/api/v1/exports", json=THINGS, headers=headers)).status_code == 202
    answer = await anonymous.options("/api/v1/exports", headers=headers)
    assert not [name for name in answer.headers if name.startswith("access-control-")], "no other site may read it"


# Headers


async def boom(*_args: object, **_more: object) -> None:
    raise RuntimeError("Traceback: unix:///tmp/redis.sock SELECT exd_abcdefghijkl /srv/app.py")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours, in what the export pages and the API both call."""
    monkeypatch.setattr("webapp.actions.exports.read", boom)
    monkeypatch.setattr("webapp.actions.exports.place", boom)


async def answers(client: httpx.AsyncClient, export: Export) -> dict[str, httpx.Response]:
    """One of every kind."""
    at, json = f"/exports/{export.id}", {"content-type": "application/json"}
    return {
        "200 page": await client.get("/exports"),
        "200 page of an export": await client.get(at),
        "200 fragment": await client.get(f"{at}/live"),
        "200 json": await client.get(f"/api/v1{at}"),
        "200 file": await client.get(f"/api/v1{at}/file"),
        "206 file": await client.get(f"/api/v1{at}/file", headers={"Range": "bytes=0-3"}),
        "304 file": await client.get(f"/api/v1{at}/file", headers={"If-None-Match": "*"}),
        "416 file": await client.get(f"/api/v1{at}/file", headers={"Range": "bytes=99-"}),
        "200 static": await client.get("/static/app.css"),
        "404 static": await client.get("/static/nothing.css"),
        "200 health": await client.get("/healthz"),
        "303 home": await client.get("/"),
        "307 slash": await client.get("/exports/"),
        "400": await client.post("/api/v1/exports", content=b"{", headers=json),
        "401": await client.get("/api/v1/exports", headers={"Authorization": "Bearer x"}),
        "403": await client.post("/exports", headers={"Origin": "https://evil.example"}),
        "404": await client.get("/api/v1/nothing"),
        "404 page": await client.get("/nothing"),
        "405": await client.put("/api/v1/exports"),
        "405 page": await client.put("/exports"),
        "409": await client.post(f"/api/v1{at}/cancellation"),
        "413": await client.post("/api/v1/exports", content=b"x" * 1_000_000, headers=json),
        "413 page": await client.post("/exports", content=b"x" * 1_000_000),
        "415": await client.post("/api/v1/exports"),
        "422": await client.post("/api/v1/exports", json={}),
    }


def check_headers(name: str, response: httpx.Response) -> None:
    for header, value in SECURITY_HEADERS.items():
        assert response.headers.get(header) == value, (name, header)
    assert response.headers["cache-control"], name
    assert re.fullmatch(r"req_[0-9a-z]{26}", response.headers["x-request-id"]), name
    assert "server" not in response.headers
    assert "x-powered-by" not in response.headers


async def test_every_kind_of_answer_has_the_headers(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    for name, response in (await answers(client, await make_export(Status.SUCCESS))).items():
        assert response.status_code == int(name[:3]), (name, response.status_code)
        check_headers(name, response)
        if response.status_code >= 400:
            assert response.headers["cache-control"] == "no-store", name
            assert not SECRETS.search(response.text), name


async def test_streams_have_the_headers_too(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.QUEUED)
    for url in (f"/exports/{export.id}/stream", "/exports/stream", f"/api/v1/exports/{export.id}/events"):
        async with client.stream("GET", url, headers={"Accept": "text/event-stream"}) as response:
            check_headers(url, response)
            assert response.headers["cache-control"] == "no-store"


def test_the_policy_allows_no_inline_script_and_no_other_site() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    rules = dict(cast(tuple[str, str], rule.split(" ", 1)) for rule in policy.split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["form-action"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in policy
    assert "*" not in policy


async def test_pages_keep_to_the_policy(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.QUEUED)
    for path in ("/exports", f"/exports/{export.id}", "/exports/new?dataset=things", "/exports/new", "/nothing"):
        text = (await client.get(path)).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:|https?://", text), path


# Faults of ours


@pytest.mark.usefixtures("broken")
async def test_a_fault_tells_nothing_and_has_all_headers(
    client: httpx.AsyncClient, make_export: ExportMaker, caplog: pytest.LogCaptureFixture
) -> None:
    export = await make_export(Status.SUCCESS)
    caplog.set_level(logging.INFO)
    for path in (
        f"/api/v1/exports/{export.id}",
        f"/api/v1/exports/{export.id}/file",
        f"/api/v1/exports/{export.id}/events",
    ):
        response = await client.get(path)
        problem_of(response, 500, "INTERNAL")
        check_headers(path, response)
    problem_of(await client.post("/api/v1/exports", json=THINGS), 500, "INTERNAL")
    for path in (f"/exports/{export.id}", f"/exports/{export.id}/live", f"/exports/{export.id}/stream"):
        response = await client.get(path)
        assert response.status_code == 500
        assert not SECRETS.search(response.text), path
        check_headers(path, response)
    logged = [record for record in caplog.records if record.name == "webapp.app"]
    assert len(logged) == 7
    assert all(record.exc_info for record in logged), "what went wrong is in the log"
    lines = [record.getMessage() for record in caplog.records if record.name == "exportdesk.access"]
    assert [line.split()[3] for line in lines] == ["500"] * 7


async def test_a_fault_while_asking_who_it_is(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.actions.people.viewer_of_session", boom)
    response = await client.get("/api/v1/exports")
    problem_of(response, 500, "INTERNAL")
    check_headers("identity", response)
    page = await client.get("/exports")
    assert page.status_code == 500
    assert not SECRETS.search(page.text)


async def test_a_database_that_is_away_is_said_to_be(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    async def locked(*_args: object) -> None:
        raise sqlite3.OperationalError("unable to open database file: /tmp/exportdesk.db")

    monkeypatch.setattr("webapp.actions.people.viewer_of_session", locked)
    response = await client.get("/api/v1/exports")
    problem_of(response, 503, "UNAVAILABLE")
    assert response.headers["retry-after"] == "2"
    check_headers("503", response)
    assert (await client.get("/exports")).status_code == 503


async def test_who_waits_when_the_server_has_to_stop_is_told_to_come_back(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def cancelled(*_args: object) -> None:
        raise asyncio.CancelledError("Task cancelled, timeout graceful shutdown exceeded")

    monkeypatch.setattr("webapp.actions.people.viewer_of_session", cancelled)
    response = await client.get("/api/v1/exports")
    problem_of(response, 503, "UNAVAILABLE")
    assert response.headers["retry-after"] == "2"
    check_headers("stopping", response)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


# Logs


async def test_the_request_log_keeps_no_token_and_no_query(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "exportdesk.access")
    found = await people.user_named(resources, user.name)
    _, token = await people.create_token(resources, found, "t", actor="tests")
    link = (await people.make_sign_in_link(resources, found)).rsplit("/", 1)[1]
    answer = await client.get(f"/exports?q=secret&token={token}", headers={"Authorization": f"Bearer {token}"})
    await client.get(f"/sign-in/once/{link}?next=/exports")
    await client.post(f"/sign-in/once/{link}")
    await client.get(f"/sign-in/once/{link}/more")
    lines = [record.getMessage() for record in caplog.records if record.name == "exportdesk.access"]
    assert len(lines) == 4
    assert re.fullmatch(r"req_[0-9a-z]{26} GET /exports 200 \d+\.\d ms", lines[0])
    assert lines[0].startswith(answer.headers["x-request-id"])
    for secret in (token, link, "secret", "next="):
        assert all(secret not in line for line in lines)


async def test_a_client_cannot_write_lines_into_the_log(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "exportdesk.access")
    await client.get("/a%0d%0areq_x GET /admin 200%1b[2J%e2%80%ae")
    await client.get("/" + "a" * 60_000)
    lines = [record.getMessage() for record in caplog.records if record.name == "exportdesk.access"]
    assert all(line.isprintable() and line.isascii() and len(line) < 1000 for line in lines)
    assert " /a%0D%0Areq_x%20GET%20/admin%20200%1B%5B2J%E2%80%AE 404 " in lines[0]


async def test_a_fault_does_not_log_a_sign_in_link(
    anonymous: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("webapp.actions.people.sign_in_once", boom)
    assert (await anonymous.post("/sign-in/once/very-secret-token")).status_code == 500
    assert "very-secret-token" not in "".join(record.getMessage() for record in caplog.records)
