"""Signing in and out."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from webapp.actions import people
from webapp.actions.people import Browser
from webapp.domain.access import TooManyTries
from webapp.domain.sentences import say, sentence_of
from webapp.web.context import resources, viewer_or_none
from webapp.web.flash import Flash, flash, redirect
from webapp.web.forms import read_form
from webapp.web.proxies import PROXY_USER
from webapp.web.render import local_path, page
from webapp.web.security import SESSION_COOKIE


async def show_sign_in(request: Request) -> Response:
    following = local_path(request.query_params.get("next"))
    if viewer_or_none(request):
        return RedirectResponse(following, status_code=303)
    if name := request.scope.get(PROXY_USER):  # no password would help: what the proxy says counts before a session
        return page(request, "session/kept_out.html", 403, name=name[:100])
    return form_page(request, following=following, name="", trouble="")


async def sign_in(request: Request) -> Response:
    form = await read_form(request)
    following, name = local_path(form.text("next")), form.text("name").strip()
    try:
        session = await people.sign_in(resources(request), name, form.text("password"), browser_of(request))
    except TooManyTries as error:
        headers = {"Retry-After": str(error.retry_after)}
        return form_page(request, 429, headers, following=following, name=name[:100], trouble=sentence_of(error))
    if session is None:
        return form_page(
            request, 401, following=following, name=name[:100], trouble=say("The name or the password is wrong.")
        )
    return await enter(request, session, following)


def form_page(
    request: Request,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    following: str = "",
    name: str = "",
    trouble: str,
) -> Response:
    provider = resources(request).openid
    title = provider.settings.title or urlsplit(provider.settings.issuer).hostname if provider else None
    return page(
        request,
        "session/sign_in.html",
        status,
        headers,
        following=local_path(following),
        name=name,
        trouble=trouble,
        provider=title,
    )


async def show_sign_in_once(request: Request) -> Response:
    """Only shows a button: mail and chat programs open links to preview them, and must not spend this one."""
    following = local_path(request.query_params.get("next"))
    return page(request, "session/sign_in_once.html", following=following, spent=False)


async def sign_in_once(request: Request) -> Response:
    following = local_path((await read_form(request)).text("next"))
    session = await people.sign_in_once(resources(request), request.path_params["token"], browser_of(request))
    if session is None:
        return page(request, "session/sign_in_once.html", 401, following=following, spent=True)
    return await enter(request, session, following)


async def sign_out(request: Request) -> Response:
    """Who comes signed in by a proxy has nothing to end here, and is told so."""
    who = viewer_or_none(request)
    if who:
        await people.sign_out(resources(request), who)
    told = flash("signed-in-elsewhere") if who and who.session is None else flash("signed-out")
    response = redirect(request, "/sign-in", told)
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="lax")
    return response


def browser_of(request: Request) -> Browser:
    return Browser(request.client.host if request.client else "", request.headers.get("user-agent", ""))


async def enter(request: Request, session: people.NewSession, following: str, *messages: Flash) -> Response:
    """Always with a fresh session; the one that this browser had before ends."""
    if who := viewer_or_none(request):
        await people.sign_out(resources(request), who)
    response = redirect(request, following, *messages)
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
