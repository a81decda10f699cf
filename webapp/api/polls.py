"""Status polls: most of what the desk is asked, so those that this process can answer itself pass by all the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from webapp.actions import people, polls
from webapp.domain.access import may_poll
from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.status_cache import MOST_COPIES, Answer
from webapp.web.security import SECURITY_HEADERS, access_log, bearer_token

CACHE_RULE = "private, no-cache"
PATH = "/api/v1/exports/"
COUNTED_SECONDS = 60
UNASKED: Set[str] = frozenset({""})


class KeptPolls:
    """Answers a poll with a token when who asks and what is asked for are both among the copies of this process.
    Everything else, mistakes included, goes on to the application, which answers the same, only later.

    It stands before all other middleware, so its answers bring the usual headers themselves. They are counted in the
    log, a line a minute, where others have a line each.
    """

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        self.app = app
        self._start = prefix + PATH
        self._answered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._kept(scope)
        if answer is None:
            await self.app(scope, receive, send)
            return
        self._count()
        headers = [*answer.raw_headers, (b"x-request-id", new_id("req").encode())]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _kept(self, scope: Scope) -> Response | None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["query_string"]:
            return None
        path: str = scope["path"]
        start = self._start if path.startswith(self._start) else PATH
        if not path.startswith(start):
            return None
        resources: Resources = scope["app"].state.resources
        if not resources.statuses.is_usable:
            return None
        answer = resources.statuses.answer(path[len(start) :])
        if answer is None:
            return None
        authorization, known = _asked(scope)
        token = bearer_token(authorization)
        viewer = token and people.kept_viewer(resources, token)
        if not viewer or not may_poll(viewer, answer) or not polls.suffices(answer, known):
            return None
        return _told_early(answer, is_known=names(known, answer.etag))

    def _count(self) -> None:
        if not self._answered:
            asyncio.get_running_loop().call_later(COUNTED_SECONDS, self._tell_count)
        self._answered += 1

    def _tell_count(self) -> None:
        access_log.info("%d status polls answered from copies in %d s", self._answered, COUNTED_SECONDS)
        self._answered = 0


@lru_cache(MOST_COPIES)
def _told_early(answer: Answer, *, is_known: bool) -> Response:
    response = told(answer, is_known=is_known)
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _asked(scope: Scope) -> tuple[str, Set[str]]:
    """The first `Authorization`, and the tags of the first `If-None-Match`."""
    authorization, known = "", UNASKED
    for name, value in reversed(scope["headers"]):
        if name == b"authorization":
            authorization = value.decode("latin-1")
        elif name == b"if-none-match":
            known = tags(value.decode("latin-1"))
    return authorization, known


def told(answer: Answer, *, is_known: bool) -> Response:
    headers = {"ETag": answer.etag, "Cache-Control": CACHE_RULE}
    if answer.retry_after is not None:
        headers["Retry-After"] = str(answer.retry_after)
    if is_known:
        return Response(status_code=304, headers=headers)
    return Response(answer.body, headers=headers, media_type="application/json")


def is_known(etag: str, request: Request) -> bool:
    return names(if_none_match(request), etag)


def if_none_match(request: Request) -> Set[str]:
    return tags(request.headers.get("if-none-match", ""))


def tags(if_none_match: str) -> Set[str]:
    return {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}


def names(known: Set[str], etag: str) -> bool:
    """Whether these tags hold this one, weakly compared (RFC 9110, 13.1.2)."""
    return etag in known or "*" in known
