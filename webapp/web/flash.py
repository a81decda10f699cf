"""One message for the page after a redirect. The cookie names a sentence; it never carries one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from webapp.web.words import counted

COOKIE = "exportdesk_flash"
MAX_AGE = 60
MOST_MESSAGES = 8
VALUE_LENGTH = 80

SENTENCES: Mapping[str, tuple[str, str]] = {
    "signed-out": ("good", "You are signed out."),
    "order-taken": ("good", "Order taken."),
    "order-active": ("note", "You already have this export running; here it is."),
    "cancelled": ("good", "{exports} cancelled."),
    "retried": ("good", "{exports} put back in the queue."),
    "deleted": ("good", "{exports} deleted."),
    "left-alone": ("bad", "{exports} left as before, because the status is {status}."),
    "left-missing": ("bad", "{exports} left out: not there any more."),
    "left-quota": ("bad", "{exports} left as before: you have as many exports waiting or running as you may have."),
    "left-active": ("bad", "{exports} left as before: the same order is already waiting or running."),
    "left-busy": ("bad", "{exports} left as before: the desk was busy. Try again in a moment."),
    "nothing-selected": ("note", "Nothing was selected. Tick the exports that are meant, then choose what to do."),
    "inspectors-full": ("bad", "There are as many inspectors as there may be. Throw one away first."),
    "inspector-changed": ("good", "Saved."),
    "inspector-cleared": ("good", "What had arrived is cleared."),
    "inspector-deleted": ("good", "The inspector was thrown away. Its URL answers 404 from now on."),
    "illegal": ("bad", "This export is {status}, so this cannot be done any more."),
    "endpoint-saved": ("good", "Endpoint saved."),
    "endpoint-unresolved": (
        "note",
        "The host's name leads nowhere at the moment; it is looked up again at each request.",
    ),
    "endpoint-paused": ("good", "Endpoint paused. What happens meanwhile is kept, and sent once it is resumed."),
    "endpoint-resumed": ("good", "Endpoint resumed."),
    "endpoint-deleted": ("good", "Endpoint deleted. Its deliveries that were still waiting are cancelled."),
    "hosts-saved": ("good", "Hosts saved."),
    "redelivered": ("good", "{deliveries} put in line to be sent again."),
    "not-redelivered": ("bad", "{deliveries} left as before: being sent just now, cancelled, or not there any more."),
    "no-delivery-selected": ("note", "Nothing was selected. Tick the deliveries that are meant."),
    "recovered": ("good", "{deliveries} put in line to be sent again, each as on its first try."),
    "reminded": ("good", "Told again to open pages and connected programs."),
    "reminded-callbacks": (
        "good",
        "Told again to open pages and connected programs, and {deliveries} put in line to be sent again.",
    ),
    "nothing-to-remind": ("note", "Its events are no longer kept, so there is nothing to tell again."),
    "nothing-to-recover": ("note", "Nothing was missed since then."),
    "many-secrets": (
        "bad",
        "As many secrets are in force as there may be. Wait for one to end, or end the old ones at once.",
    ),
    "no-time": ("bad", "Say since when, as a date and a time."),
}
"""Tone and sentence. `{exports}` and `{deliveries}` count the value `n`."""


@dataclass(frozen=True, slots=True)
class Flash:
    """A sentence's code and the values for its blanks."""

    code: str
    values: Mapping[str, str | int]

    @property
    def tone(self) -> str:
        return SENTENCES[self.code][0]

    @property
    def text(self) -> str:
        count = self.values.get("n", 1)
        n = count if isinstance(count, int) else 1
        counts = {"exports": counted(n, "export"), "deliveries": counted(n, "delivery", "deliveries")}
        return SENTENCES[self.code][1].format_map({"status": "", **self.values, **counts})


def flash(code: str, **values: str | int) -> Flash:
    return Flash(code, values)


def redirect(request: Request, to: str, *messages: Flash) -> Response:
    """303: the browser fetches the page, which shows the messages."""
    response = RedirectResponse(to, status_code=303)
    if messages:
        content = quote(
            json.dumps([[message.code, dict(message.values)] for message in messages], separators=(",", ":"))
        )
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, content, max_age=MAX_AGE, path="/", httponly=True, samesite="lax", secure=secure)
    return response


def read(request: Request) -> Sequence[Flash]:
    """What the cookie holds; a cookie that is not one of ours holds nothing."""
    try:
        content = json.loads(unquote(request.cookies.get(COOKIE, "")))
    except (ValueError, RecursionError):
        return ()
    items = cast(list[Any], content) if isinstance(content, list) else []
    return tuple(filter(None, map(_message, items[:MOST_MESSAGES])))


def _message(item: Any) -> Flash | None:
    if not isinstance(item, list) or len(cast(list[Any], item)) != 2:
        return None
    code, values = cast(list[Any], item)
    if not isinstance(code, str) or code not in SENTENCES or not isinstance(values, dict):
        return None
    return Flash(code, {str(name): _value(value) for name, value in cast(dict[Any, Any], values).items()})


def _value(value: Any) -> str | int:
    return value if isinstance(value, int) else str(value)[:VALUE_LENGTH]
