"""What a person sees when something cannot be shown or done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from webapp.domain.sentences import say
from webapp.language import gettext
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
    400: say("This request cannot be understood"),
    401: say("You are not signed in"),
    403: say("This was not carried out"),
    404: say("Nothing is here"),
    405: say("This address cannot do that"),
    409: say("This cannot be done now"),
    410: say("This is gone"),
    413: say("This is too much at once"),
    422: say("Something is not right yet"),
    429: say("Too much at once"),
    500: say("Something went wrong on our side"),
    503: say("One moment, please"),
}
NEXT_STEPS: Mapping[int, str] = {
    400: say("Go back, reload the page and try again."),
    401: say("Sign in again; your exports carry on meanwhile."),
    403: say("Open the page from here and try again."),
    404: say("The address may be mistyped, or what was here has been deleted."),
    409: say("Go back and reload the page to see how things stand."),
    413: say("Shorten what you sent and try again."),
    422: say("Go back and check what you filled in."),
    429: say("Wait a little, or cancel an export that is still waiting."),
    503: say("Reload the page in a few seconds."),
}


def error_page(request: Request, failure: Failure) -> Response:
    """A part of a page gets the bare sentence: swapped in or not, it never becomes a page within a page."""
    if is_fragment(request):
        return PlainTextResponse(gettext(failure.detail), failure.status, dict(failure.headers))
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
