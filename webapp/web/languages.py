"""Which request is answered in which language: what this browser chose, else what its Accept-Language asks for, else
what the desk is set to. Of a program with a token the header counts alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webapp.language import LANGUAGES, Language, current, speak

COOKIE = "exportdesk_language"
COOKIE_SECONDS = 365 * 86400
CHOSEN = re.compile(rf"(?:^|;\s*){COOKIE}=({'|'.join(LANGUAGES)})(?:;|$)")
LONGEST_HEADER = 500
RANGE = re.compile(
    r"\s*([a-z]{1,8}(?:-[a-z0-9]{1,8})*|\*)\s*(?:;\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?\s*", re.IGNORECASE
)
DECIDING = frozenset({b"authorization", b"cookie", b"accept-language"})
KNOWN = {name: tag for tag in LANGUAGES for name in (tag.lower(), tag.partition("-")[0])}
TOLD = (b"text/html", b"text/plain", b"application/problem+json")
"""Kinds of answers that are sentences. Everything else is data, and the same for all."""


class Languages:
    """Puts the language in force for the request, and says on the answer which it was and what decided."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        speak(LANGUAGES[asked_for(scope)])

        async def send_and_say(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_told(message["headers"]):
                language = (b"content-language", current().tag.encode())
                message["headers"] = [*message["headers"], language, (b"vary", b"Accept-Language, Cookie")]
            await send(message)

        await self.app(scope, receive, send_and_say)


def _is_told(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-type" and value.startswith(TOLD) for name, value in headers)


def asked_for(scope: Scope) -> str:
    """By the request alone, before it is known whose it is."""
    given = {name: value.decode("latin-1") for name, value in scope["headers"] if name in DECIDING}
    chosen = None if b"authorization" in given else CHOSEN.search(given.get(b"cookie", ""))
    if chosen:
        return chosen[1]
    accepted = accepted_language(given.get(b"accept-language", "")[:LONGEST_HEADER])
    return accepted or scope["app"].state.resources.settings.language


@lru_cache(1000)
def accepted_language(header: str) -> str | None:
    """The best that there is, by RFC 4647's lookup: `zh-TW` is shortened to `zh`. None when none is wanted."""
    weighed: list[tuple[float, int, str]] = []
    for index, part in enumerate(header.split(",")):
        if match := RANGE.fullmatch(part):
            weighed.append((-float(match[2] or 1), index, match[1].lower()))
    for weight, _, tag in sorted(weighed):
        if weight and (found := KNOWN.get(tag) or KNOWN.get(tag.partition("-")[0])):
            return found
    return None


def speak_for(scope: Scope, tag: str | None) -> None:
    """The language that the person chose for all browsers, where this one has no choice of its own."""
    cookies = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
    if tag and not CHOSEN.search(cookies):
        speak(LANGUAGES[tag])


def forget(response: Response) -> None:
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")


def remember(response: Response, request: Request, language: Language) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, language.tag, max_age=COOKIE_SECONDS, path="/", httponly=True, samesite="lax", secure=secure
    )
