"""Templates and static files: where they are, how a page is made of them, and what every page knows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from webapp.web import flash, words
from webapp.web.context import resources, viewer_or_none
from webapp.web.edge import with_prefix

PACKAGE = Path(__file__).resolve().parent.parent


def _folder(name: str) -> Path:
    """Inside the package when it was installed from a wheel, else beside it."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def template_folder() -> Path:
    return _folder("templates")


def static_folder() -> Path:
    return _folder("static")


def static_url(name: str) -> str:
    """With a digest of the content, so that the file may be cached for ever and a new one is fetched at once."""
    path = static_folder() / name
    try:
        version = _digest(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return f"/static/{name}"
    return f"/static/{name}?v={version}"


@lru_cache(maxsize=256)
def _digest(path: Path, modified: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    open_to_all: Any = environment  # Jinja's stubs allow no filters and globals but its own
    open_to_all.filters.update(
        number=words.number,
        bytes=words.size,
        duration=words.duration,
        ordinal=words.ordinal,
        counted=words.counted,
    )
    open_to_all.globals.update(static_url=static_url, time=words.time_element)
    return environment


environment = _environment()


def is_fragment(request: Request) -> bool:
    """Whether htmx asks, for a part of a page."""
    return request.headers.get("HX-Request") == "true"


def render(template: str, context: Mapping[str, Any]) -> str:
    return with_prefix(environment.get_template(template).render(context))


def page(
    request: Request, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """A whole page. Messages that were waiting for it are shown, this once."""
    messages = flash.read(request)
    viewer = viewer_or_none(request)
    state = resources(request).holder.state if viewer and viewer.is_admin else None
    shared = {
        "viewer": viewer,
        "path": request.url.path,
        "messages": messages,
        "catalog_state": state if state and state.problems else None,
    }
    response = HTMLResponse(render(template, {**shared, **context}), status, dict(headers or {}))
    if messages:
        response.delete_cookie(flash.COOKIE, path="/", httponly=True, samesite="lax")
    return response


def fragment(
    template: str, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """A part of a page: the very template that the page includes."""
    return HTMLResponse(render(template, context), status, dict(headers or {}))


def local_path(text: str | None, default: str = "/exports") -> str:
    """The text if it is a path on this site, else the default: a link never leads a person away from it."""
    if not text or len(text) > 2000 or not text.startswith("/") or text.startswith(("//", "/\\", "/sign-")):
        return default
    return default if any(character < " " or character == "\\" for character in text) else text


def sign_in_url(request: Request) -> str:
    """Where to sign in, and come back from to here."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"/sign-in?next={quote(request.url.path + query, safe='')}"
