"""Status polls: most of what the desk is asked, so those that this process can answer itself pass by all the rest."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from webapp.actions import people, polls
from webapp.domain.access import may_see
from webapp.resources import Resources
from webapp.status_cache import MOST_COPIES, Answer
from webapp.web.security import bearer_token

CACHE_RULE = "private, no-cache"
PREFIX = "/api/v1/exports/"
UNASKED: Set[str] = frozenset({""})


class KeptPolls:
    """Answers a poll with a token when who asks and what is asked for are both among the copies of this process.
    Everything else, mistakes included, goes on to the application, which answers the same, only later."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (_kept(scope) or self.app)(scope, receive, send)


def _kept(scope: Scope) -> Response | None:
    if scope["type"] != "http" or scope["method"] != "GET" or scope["query_string"]:
        return None
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    if not path.startswith(PREFIX):
        return None
    resources: Resources = scope["app"].state.resources
    if not resources.statuses.is_usable:
        return None
    answer = resources.statuses.answer(path[len(PREFIX) :])
    if answer is None:
        return None
    authorization, known = _asked(scope)
    token = bearer_token(authorization)
    viewer = token and people.kept_viewer(resources, token)
    if not viewer or not may_see(viewer, answer) or not polls.suffices(answer, known):
        return None
    return told(answer, is_known=names(known, answer.etag))


def _asked(scope: Scope) -> tuple[str, Set[str]]:
    """The first `Authorization`, and the tags of the first `If-None-Match`."""
    authorization, known = "", UNASKED
    for name, value in reversed(scope["headers"]):
        if name == b"authorization":
            authorization = value.decode("latin-1")
        elif name == b"if-none-match":
            known = tags(value.decode("latin-1"))
    return authorization, known


@lru_cache(MOST_COPIES)
def told(answer: Answer, *, is_known: bool) -> Response:
    """Made once for all who are told the same: it is never changed."""
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
