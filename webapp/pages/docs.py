"""`/docs`: how programs order exports, follow them on each channel, download, and verify callbacks. Open to all."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from webapp.domain import callbacks, limits
from webapp.domain.access import Viewer
from webapp.domain.alerts import Alert
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.events import EVENT_TYPES, TERMINAL_TYPES
from webapp.domain.sentences import say, say_many
from webapp.domain.signing import TOLERANCE_SECONDS
from webapp.language import gettext as _
from webapp.live import socket
from webapp.live.socket import Close
from webapp.pages.callback_snippets import snippets
from webapp.pages.callback_wording import told_waits
from webapp.pages.docs_examples import examples
from webapp.resources import Resources
from webapp.web.context import resources, viewer_or_none
from webapp.web.problem_codes import PROBLEMS
from webapp.web.render import page
from webapp.web.words import duration, number

DEMO_DATASET = "orders"


@dataclass(frozen=True, slots=True)
class Ending:
    """A close code of the WebSocket, what has happened, and what a client does then."""

    code: int
    happened: str
    advice: str


ENDINGS = (
    Ending(
        1006,
        say("The connection broke; or it was refused, as with a wrong token."),
        say("Connect again, waiting longer."),
    ),
    Ending(
        Close.RESTART, say("The server stops, or its database does not answer."), say("Connect again in a few seconds.")
    ),
    Ending(Close.BAD_MESSAGE, say("What you sent cannot be read."), say("Do not connect again: mend the client.")),
    Ending(
        Close.SIGNED_OUT,
        say("The token was revoked or the session ended."),
        say("Do not connect again: get a new token."),
    ),
    Ending(
        Close.NOT_ALLOWED,
        say("Only an admin may subscribe to everybody’s."),
        say("Do not connect again: leave out all."),
    ),
    Ending(Close.SILENT, say("You did not subscribe in time, or do not read."), say("Connect again.")),
    Ending(
        Close.TOO_MANY, say("You sent too many messages in a second."), say("Acknowledge in lists, and connect again.")
    ),
)


@dataclass(frozen=True, slots=True)
class Limit:
    what: str
    most: str


async def show(request: Request) -> Response:
    desk = f"{resources(request).settings.base_url}/api/v1"
    dataset = _dataset(resources(request), viewer_or_none(request))
    return page(
        request,
        "docs/index.html",
        desk=desk,
        dataset=dataset,
        examples=examples(desk, dataset),
        snippets=snippets(is_encrypted=False),
        heartbeat=resources(request).settings.stream_heartbeat.total_seconds(),
        event_types=EVENT_TYPES,
        terminal_types=TERMINAL_TYPES,
        tolerance=TOLERANCE_SECONDS,
        waits=told_waits(callbacks.STANDARD),
        alerts=[alert.value for alert in Alert],
        endings=ENDINGS,
        problems=PROBLEMS,
        export_errors=[export_error(code, limit=_("(limit)"), detail=_("(detail)")) for code in ErrorCode],
        longest_poll=limits.LONG_POLL_SECONDS,
        limits=_limits(resources(request)),
    )


def _dataset(resources: Resources, viewer: Viewer | None) -> str:
    """One that this person can order as it is; names of datasets are not for everybody."""
    if viewer is None:
        return DEMO_DATASET
    allowed = resources.catalog.datasets_for(viewer)
    usable = (dataset for dataset in allowed if not any(p.must_be_given for p in dataset.parameters))
    return next((dataset.name for dataset in usable), DEMO_DATASET)


def _limits(resources: Resources) -> list[Limit]:
    settings = resources.settings
    return [
        Limit(say("Your exports that wait or run"), number(settings.max_active_per_user)),
        Limit(say("Your exports that run at the same time"), number(settings.max_running_per_user)),
        Limit(say("How long a finished file is kept"), duration(settings.file_retention.total_seconds())),
        Limit(say("How long events are kept, to resume from"), duration(settings.event_retention.total_seconds())),
        Limit(say("How long an Idempotency-Key is remembered"), duration(limits.IDEMPOTENCY_KEY_LIFETIME)),
        Limit(say("The body of a request"), f"{limits.REQUEST_BODY_BYTES // 1024} KiB"),
        Limit(say("A text parameter"), say("{n} characters", n=limits.PARAMETER_TEXT_LENGTH)),
        Limit(say("A list parameter"), say("{n} items", n=limits.LIST_ITEMS)),
        Limit(
            say("limit of a list"),
            say("{usual} unless you ask for more, {most} at most", usual=limits.PAGE_SIZE, most=limits.MAX_PAGE_SIZE),
        ),
        Limit(say("wait of a poll"), duration(limits.LONG_POLL_SECONDS)),
        Limit(say("A WebSocket message of yours"), say_many("{n} byte", "{n} bytes", socket.MESSAGE_BYTES)),
        Limit(
            say("WebSocket messages of yours"),
            say("{rate} a second, {burst} in a burst", rate=socket.MESSAGES_PER_SECOND, burst=socket.BURST),
        ),
        Limit(say("Time to subscribe on a WebSocket"), duration(socket.SUBSCRIBE_SECONDS)),
    ]
