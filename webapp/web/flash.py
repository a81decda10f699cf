"""One message for the page after a redirect. The cookie names a sentence; it never carries one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from webapp.domain.sentences import Text, say
from webapp.language import gettext, ngettext

COOKIE = "exportdesk_flash"
MAX_AGE = 60
MOST_MESSAGES = 8
VALUE_LENGTH = 80

SENTENCES: Mapping[str, tuple[str, Text]] = {
    "signed-out": ("good", say("You are signed out.")),
    "signed-in-elsewhere": ("note", say("A proxy in front of this desk signs you in. Sign out there.")),
    "password-changed": (
        "good",
        say("Your password is changed; everywhere else you are signed out, and one-time links no longer let in."),
    ),
    "tokens-go-on": ("note", say("It ends no API token: {tokens} of yours, listed below, can be revoked there.")),
    "preferences-saved": ("good", say("Saved.")),
    "email-asked": ("note", say("A mail is on its way. Follow its link, and the address counts.")),
    "email-not-asked": ("good", say("Cancelled: the link that was sent is no good any more.")),
    "no-mail": ("bad", say("Give and confirm an address on the page of your account first.")),
    "email-confirmed": ("good", say("The address is confirmed.")),
    "email-removed": ("good", say("The address is forgotten. Nothing is mailed any more.")),
    "sessions-ended": ("good", say("{browsers} signed out.")),
    "no-other-sessions": ("note", say("You are signed in nowhere else.")),
    "token-gone": ("note", say("This token was revoked already.")),
    "user-saved": ("good", say("Saved.")),
    "user-disabled": ("good", say("Disabled: signed out everywhere, and tokens are refused.")),
    "user-enabled": ("good", say("Let in again.")),
    "user-deleted": ("good", say("Deleted, with exports and files.")),
    "last-admin": ("bad", say("This is the only admin. Make somebody else an admin first.")),
    "group-saved": ("good", say("Saved.")),
    "group-deleted": ("good", say("The group is deleted.")),
    "source-saved": ("good", say("The source answers, and is written into the file.")),
    "source-deleted": ("good", say("The source is no longer in the file.")),
    "dataset-saved": ("good", say("Saved: it can be ordered now. Below you may say for whom it is.")),
    "dataset-deleted": ("good", say("The dataset is no longer in the file.")),
    "granted": ("good", say("Granted. It counts at once.")),
    "withdrawn": ("good", say("Withdrawn. It counts at once.")),
    "opened": ("good", say("All its grants are withdrawn; its roles alone decide again.")),
    "token-revoked": ("good", say("The token is revoked. Programs that use it are refused.")),
    "order-taken": ("good", say("Order taken.")),
    "order-active": ("note", say("You already have this export running; here it is.")),
    "cancelled": ("good", say("{exports} cancelled.")),
    "retried": ("good", say("{exports} put back in the queue.")),
    "deleted": ("good", say("{exports} deleted.")),
    "annotated": ("good", say("Saved.")),
    "shared": ("good", say("Shared with {name}, who is told of it.")),
    "unshared": ("good", say("It is shared with them no more.")),
    "nothing-to-share": ("bad", say("Only a finished file can be shared, and only while it is there.")),
    "order-saved": ("good", say("Order saved.")),
    "saved-order-renamed": ("good", say("Renamed.")),
    "saved-order-restored": ("good", say("It is back.")),
    "saved-order-unfit": (
        "bad",
        say("This order no longer fits its dataset. Look at what is marked, then save it again."),
    ),
    "schedule-saved": ("good", say("Schedule saved.")),
    "schedule-paused": ("good", say("Paused. What falls due meanwhile is left out.")),
    "schedule-resumed": ("good", say("Resumed.")),
    "schedule-removed": ("good", say("It is no longer ordered by itself.")),
    "saved-order-taken": ("bad", say("Left as before: another saved order has that name.")),
    "saved-orders-full": ("bad", say("You have as many saved orders as you may have. Delete one first.")),
    "left-quota-saved": (
        "bad",
        say("You have as many exports waiting or running as you may have. Try again shortly."),
    ),
    "left-alone": ("bad", say("{exports} left as before, because the status is {status}.")),
    "left-missing": ("bad", say("{exports} left out: not there any more.")),
    "left-quota": (
        "bad",
        say("{exports} left as before: you have as many exports waiting or running as you may have."),
    ),
    "left-active": ("bad", say("{exports} left as before: the same order is already waiting or running.")),
    "left-busy": ("bad", say("{exports} left as before: the desk was busy. Try again in a moment.")),
    "left-ended": ("note", say("{exports} left as before: ended only after you were asked.")),
    "left-for-later": ("note", say("That took long enough for one go: {exports} left for the next. Do it once more.")),
    "nothing-selected": ("note", say("Nothing was selected. Tick the exports that are meant, then choose what to do.")),
    "inspectors-full": ("bad", say("There are as many inspectors as there may be. Throw one away first.")),
    "inspector-changed": ("good", say("Saved.")),
    "inspector-cleared": ("good", say("What had arrived is cleared.")),
    "inspector-deleted": ("good", say("The inspector was thrown away. Its URL answers 404 from now on.")),
    "illegal": ("bad", say("This export is {status}, so this cannot be done any more.")),
    "endpoint-saved": ("good", say("Endpoint saved.")),
    "endpoint-unresolved": (
        "note",
        say("The host's name leads nowhere at the moment; it is looked up again at each request."),
    ),
    "endpoint-paused": ("good", say("Endpoint paused. What happens meanwhile is kept, and sent once it is resumed.")),
    "endpoint-resumed": ("good", say("Endpoint resumed.")),
    "endpoint-deleted": ("good", say("Endpoint deleted. Its deliveries that were still waiting are cancelled.")),
    "hosts-saved": ("good", say("Hosts saved.")),
    "redelivered": ("good", say("{deliveries} put in line to be sent again.")),
    "not-redelivered": (
        "bad",
        say("{deliveries} left as before: being sent just now, cancelled, or not there any more."),
    ),
    "no-delivery-selected": ("note", say("Nothing was selected. Tick the deliveries that are meant.")),
    "recovered": ("good", say("{deliveries} put in line to be sent again, each as on its first try.")),
    "reminded": ("good", say("Told again to open pages and connected programs.")),
    "reminded-callbacks": (
        "good",
        say("Told again to open pages and connected programs, and {deliveries} put in line to be sent again."),
    ),
    "nothing-to-remind": ("note", say("Its events are no longer kept, so there is nothing to tell again.")),
    "nothing-to-recover": ("note", say("Nothing was missed since then.")),
    "many-secrets": (
        "bad",
        say("As many secrets are in force as there may be. Wait for one to end, or end the old ones at once."),
    ),
    "exports-paused": ("good", say("Exports are paused. Orders are still taken; none is started.")),
    "exports-resumed": ("good", say("Exports are resumed.")),
    "callbacks-paused": ("good", say("Callbacks are paused. What happens meanwhile is kept, and sent later.")),
    "callbacks-resumed": ("good", say("Callbacks are resumed.")),
    "worker-drained": ("good", say("{process} takes nothing new, and ends once it has nothing in hand.")),
    "worker-kept": ("good", say("{process} goes on.")),
    "worker-gone": ("bad", say("The worker has ended, or gives no sign of life any more.")),
    "no-time": ("bad", say("Say since when, as a date and a time.")),
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
        counts = {
            "exports": ngettext("{n} export", "{n} exports", n),
            "deliveries": ngettext("{n} delivery", "{n} deliveries", n),
            "browsers": ngettext("{n} browser", "{n} browsers", n),
            "tokens": ngettext("{n} API token", "{n} API tokens", n),
        }
        return gettext(
            SENTENCES[self.code][1],
            **{**self.values, **counts, "status": gettext(str(self.values.get("status", ""))).lower()},
        )


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
