"""What a person sees when something cannot be shown or done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from webapp.web.render import is_fragment, page, sign_in_url


class Failure(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def code(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


TITLES: Mapping[int, str] = {
    400: "This request cannot be understood",
    401: "You are not signed in",
    403: "This was not carried out",
    404: "Nothing is here",
    405: "This address cannot do that",
    409: "This cannot be done now",
    410: "This is gone",
    413: "This is too much at once",
    422: "Something is not right yet",
    429: "Too much at once",
    500: "Something went wrong on our side",
    503: "One moment, please",
}
NEXT_STEPS: Mapping[int, str] = {
    400: "Go back, reload the page and try again.",
    401: "Sign in again; your exports carry on meanwhile.",
    403: "Open the page from here and try again.",
    404: "The address may be mistyped, or what was here has been deleted.",
    409: "Go back and reload the page to see how things stand.",
    413: "Shorten what you sent and try again.",
    422: "Go back and check what you filled in.",
    429: "Wait a little, or cancel an export that is still waiting.",
    503: "Reload the page in a few seconds.",
}


def error_page(request: Request, failure: Failure) -> Response:
    """A part of a page gets the bare sentence: swapped in or not, it never becomes a page within a page."""
    if is_fragment(request):
        return PlainTextResponse(failure.detail, failure.status, dict(failure.headers))
    if failure.status == 401 and request.method in {"GET", "HEAD"}:
        return RedirectResponse(sign_in_url(request), status_code=303)
    return page(
        request,
        "errors/error.html",
        failure.status,
        failure.headers,
        failure=failure,
        title=TITLES.get(failure.status, failure.title),
        next_step=NEXT_STEPS.get(failure.status, ""),
    )
