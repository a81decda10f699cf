"""Templates and static files: where they are, how a page is made of them, and what every page knows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from webapp import language
from webapp.folders import static_folder, template_folder
from webapp.language import Language
from webapp.web import flash, words
from webapp.web.context import resources, viewer_or_none
from webapp.web.edge import with_prefix


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


def words_url() -> str | None:
    """Where scripts find their sentences in the language in force; those in English they have already."""
    return _words_url(language.current())


@lru_cache
def _words_url(spoken: Language) -> str | None:
    digest = hashlib.sha256(repr(spoken.of_scripts).encode()).hexdigest()[:12]
    return f"/words/{spoken.tag}.js?v={digest}" if spoken.of_scripts else None


def link(url: str, text: str) -> Markup:
    """A value for a sentence, which is translated around it."""
    return Markup('<a href="{}">{}</a>').format(url, text)


def strong(text: str) -> Markup:
    return Markup("<strong>{}</strong>").format(text)


def code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=language.translated,
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
    open_to_all.globals.update(
        _=language.gettext,
        ngettext=language.ngettext,
        language=language.current,
        languages=language.LANGUAGES.values(),
        code=code,
        link=link,
        static_url=static_url,
        strong=strong,
        time=words.time_element,
        told_error=words.told_error,
        words_url=words_url,
    )
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
        "here": _here(request),
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


def local_path(text: str | None, default: str = "/exports", *, may_sign_in: bool = False) -> str:
    """The text if it is a path on this site, else the default: a link never leads a person away from it."""
    if not text or len(text) > 2000 or not text.startswith("/") or text.startswith(("//", "/\\")):
        return default
    if text.startswith("/sign-") and not may_sign_in:
        return default
    return default if any(character < " " or character == "\\" for character in text) else text


def _here(request: Request) -> str:
    """The address of this page, to come back to; where a form led to it, the one that always is there."""
    query = f"?{request.url.query}" if request.url.query else ""
    return request.url.path + query if request.method in {"GET", "HEAD"} else "/exports"


def sign_in_url(request: Request) -> str:
    """Where to sign in, and come back from to here."""
    return f"/sign-in?next={quote(_here(request), safe='')}"
