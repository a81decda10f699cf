"""The inspector: the receiver that keeps what arrives, and the page that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webapp import bus
from webapp.actions import inspectors
from webapp.domain import receiving
from webapp.domain.errors import Invalid
from webapp.domain.receiving import Arrival, Inspector
from webapp.pages.callback_wording import shown_body
from webapp.pages.inspector_wording import ANSWERS, told
from webapp.pages.live import Place, element_stream, live_element
from webapp.web.context import admin, resources
from webapp.web.flash import flash, redirect
from webapp.web.forms import Form, messages_by_field, read_form
from webapp.web.render import fragment, page

SHOWN = 50
"""Requests that the page lists before somebody asks for all of them."""


async def receive(request: Request) -> Response:
    """Open to whoever knows the token: no sign-in, and no check where the request comes from."""
    receipt = await inspectors.receive(resources(request), _token(request), await _arrival(request))
    headers = {"Retry-After": str(receipt.retry_after)} if receipt.retry_after else {}
    content = {"verdict": receipt.verdict.value if receipt.verdict else "rate_limited"}
    return JSONResponse(content, receipt.status, headers)


async def _arrival(request: Request) -> Arrival:
    address = request.client.host if request.client else ""
    return Arrival(address, tuple(request.headers.items()), await request.body())


async def index(request: Request) -> Response:
    admin(request)
    desk = resources(request)
    async with desk.store.connection():
        now = await desk.store.now()
    return page(
        request,
        "inspector/index.html",
        inspectors=await inspectors.list_all(desk),
        counts=await inspectors.count_requests(desk),
        most=receiving.MOST_INSPECTORS,
        now=now,
    )


async def create(request: Request) -> Response:
    who = admin(request)
    try:
        inspector = await inspectors.create(resources(request), who)
    except Invalid:
        return redirect(request, "/inspect", flash("inspectors-full"))
    return redirect(request, f"/inspect/{inspector.token}")


async def show(request: Request) -> Response:
    return page(request, "inspector/show.html", **await _shown(request, await _inspector(request)))


async def poll(request: Request) -> Response:
    context = await _shown(request, await _inspector(request), Place.of(request))
    return fragment("exports/_live.html", **context)


async def stream(request: Request) -> Response:
    """Ends with `gone` when the inspector was thrown away."""
    token = (await _inspector(request)).token

    async def read() -> Mapping[str, Any]:
        return await _shown(request, await _inspector(request))

    return await element_stream(request, read, owner=bus.INSPECTORS, ids=frozenset({token}))


async def settings(request: Request) -> Response:
    inspector = await _inspector(request)
    allowed = "\n".join(inspector.allowed)
    return _settings_page(request, inspector, allowed, inspector.answer_status, {})


async def change(request: Request) -> Response:
    """What the form leaves out stays as it is."""
    inspector, form = await _inspector(request), await read_form(request)
    allowed = form.text("allowed") if "allowed" in form else "\n".join(inspector.allowed)
    status = _status(form, inspector)
    try:
        await inspectors.edit(
            resources(request), admin(request), inspector.token, allowed=allowed.split(), answer_status=status
        )
    except Invalid as error:
        return _settings_page(request, inspector, allowed, status, messages_by_field(error.errors))
    return redirect(request, f"/inspect/{inspector.token}", flash("inspector-changed"))


def _status(form: Form, inspector: Inspector) -> int:
    text = form.text("answer_status", str(inspector.answer_status))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0


def _settings_page(
    request: Request, inspector: Inspector, allowed: str, status: int, messages: Mapping[str, str]
) -> Response:
    return page(
        request,
        "inspector/settings.html",
        422 if messages else 200,
        inspector=inspector,
        allowed=allowed[:5000],
        answer_status=status,
        answers=ANSWERS,
        mistakes=messages,
    )


async def clear(request: Request) -> Response:
    inspector = await _inspector(request)
    await inspectors.clear(resources(request), admin(request), inspector.token)
    return redirect(request, f"/inspect/{inspector.token}", flash("inspector-cleared"))


async def delete(request: Request) -> Response:
    await inspectors.delete(resources(request), admin(request), _token(request))
    return redirect(request, "/inspect", flash("inspector-deleted"))


def _token(request: Request) -> str:
    return request.path_params["token"]


async def _inspector(request: Request) -> Inspector:
    """Raises SignInNeeded, AdminNeeded and NotFound, in this order: a token is told to nobody else."""
    admin(request)
    return await inspectors.find(resources(request), _token(request))


async def _shown(request: Request, inspector: Inspector, place: Place | None = None) -> dict[str, Any]:
    """The newest requests, and one of them whole: the chosen one, or else the newest."""
    chosen, everything = request.query_params.get("request", ""), request.query_params.get("all") == "1"
    limit = receiving.REQUESTS_KEPT if everything else SHOWN
    found = await inspectors.arrived(resources(request), inspector, limit=limit, chosen=chosen)
    is_chosen = found.chosen is not None and found.chosen.id == chosen
    wanted = {"request": chosen if is_chosen else "", "all": "1" if everything else ""}
    live = live_element(
        request,
        partial="inspector/_arrived.html",
        path=f"/inspect/{inspector.token}",
        query=urlencode({name: value for name, value in wanted.items() if value}),
        cursor=round(found.at.timestamp() * 1000),
        moved=found.count,
        active=True,
        place=place or Place(),
    )
    return {
        "inspector": inspector,
        "answers": ANSWERS,
        "rows": [told(received) for received in found.newest],
        "count": found.count,
        "everything": everything,
        "shown": told(found.chosen) if found.chosen else None,
        "body": shown_body(found.chosen.body) if found.chosen else "",
        "is_chosen": is_chosen,
        "kept": receiving.REQUESTS_KEPT,
        "rate": receiving.RATE,
        "endpoint_url": f"/callbacks/{found.endpoint_id}" if found.endpoint_id else None,
        "register_url": "/callbacks/new?" + urlencode({"url": inspector.url}),
        "now": found.at,
        "live": live,
    }
