"""Signing in and out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from webapp.actions import people
from webapp.web.context import resources, viewer_or_none
from webapp.web.flash import flash, redirect
from webapp.web.forms import read_form
from webapp.web.render import local_path, page
from webapp.web.security import SESSION_COOKIE


async def show_sign_in(request: Request) -> Response:
    following = local_path(request.query_params.get("next"))
    if viewer_or_none(request):
        return RedirectResponse(following, status_code=303)
    return page(request, "session/sign_in.html", following=following, name="", wrong=False)


async def sign_in(request: Request) -> Response:
    form = await read_form(request)
    following, name = local_path(form.text("next")), form.text("name").strip()
    session = await people.sign_in(resources(request), name, form.text("password"))
    if session is None:
        return page(request, "session/sign_in.html", 401, following=following, name=name[:100], wrong=True)
    return await _enter(request, session, following)


async def show_sign_in_once(request: Request) -> Response:
    """Only shows a button: mail and chat programs open links to preview them, and must not spend this one."""
    following = local_path(request.query_params.get("next"))
    return page(request, "session/sign_in_once.html", following=following, spent=False)


async def sign_in_once(request: Request) -> Response:
    following = local_path((await read_form(request)).text("next"))
    session = await people.sign_in_once(resources(request), request.path_params["token"])
    if session is None:
        return page(request, "session/sign_in_once.html", 401, following=following, spent=True)
    return await _enter(request, session, following)


async def sign_out(request: Request) -> Response:
    if who := viewer_or_none(request):
        await people.sign_out(resources(request), who)
    response = redirect(request, "/sign-in", flash("signed-out"))
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="lax")
    return response


async def _enter(request: Request, session: people.NewSession, following: str) -> Response:
    """Always with a fresh session; the one that this browser had before ends."""
    if who := viewer_or_none(request):
        await people.sign_out(resources(request), who)
    response = RedirectResponse(following, status_code=303)
    response.set_cookie(
        SESSION_COOKIE,
        session.token,
        max_age=session.max_age,
        path="/",
        httponly=True,
        samesite="lax",
        secure=resources(request).settings.base_url.startswith("https://"),
    )
    return response
