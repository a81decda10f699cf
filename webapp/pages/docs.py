"""`/docs`: how programs order exports, follow them on each channel, download, and verify callbacks. Open to all."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from webapp.domain import callbacks, limits
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.events import EVENT_TYPES, TERMINAL_TYPES
from webapp.domain.signing import TOLERANCE_SECONDS
from webapp.live import socket
from webapp.live.socket import Close
from webapp.pages.callback_snippets import snippets
from webapp.pages.docs_examples import examples
from webapp.resources import Resources
from webapp.web.context import resources, viewer_or_none
from webapp.web.render import page
from webapp.web.words import duration

DEMO_DATASET = "orders"


@dataclass(frozen=True, slots=True)
class Problem:
    """A code of the API's problem documents, and what a client does about it."""

    status: int
    code: str
    advice: str


PROBLEMS = (
    Problem(400, "BAD_RANGE", "The monitor's numbers are told for 1h, 24h, 7d or 30d. Ask for one of these."),
    Problem(400, "BAD_JSON", "The body is not JSON, or names something twice. Mend the client."),
    Problem(401, "SIGN_IN_NEEDED", "The token is missing, wrong or revoked. Ask for a new one."),
    Problem(403, "FORBIDDEN", "Only an admin may do this."),
    Problem(403, "CROSS_SITE", "A browser was made to send this by another site. Programs send a token instead."),
    Problem(404, "NOT_FOUND", "There is no such thing, or it is somebody else’s."),
    Problem(405, "METHOD_NOT_ALLOWED", "The header Allow names the methods that the address takes."),
    Problem(409, "NOT_READY", "There is no file: the export is active, or ended without one. Look at its status."),
    Problem(409, "ILLEGAL_TRANSITION", "The export’s status forbids it; status_of_export says which it has."),
    Problem(409, "ALREADY_ACTIVE", "The same order is waiting or running already; export_id names it."),
    Problem(409, "DELIVERY_CANCELLED", "Its endpoint was deleted, so that it cannot be sent again."),
    Problem(410, "GONE", "The file is no longer kept. Order the export again."),
    Problem(413, "TOO_LARGE", "The body is too long."),
    Problem(415, "UNSUPPORTED_MEDIA_TYPE", "Send JSON, with Content-Type: application/json."),
    Problem(416, "REQUESTED_RANGE_NOT_SATISFIABLE", "The file ends before the part that was asked for."),
    Problem(422, "INVALID", "errors names each field that is wrong, and why. Mend the request."),
    Problem(422, "IDEMPOTENCY_KEY_REUSED", "This Idempotency-Key was used for a different order. Take a new one."),
    Problem(429, "QUOTA_EXCEEDED", "Too many of your exports are waiting. Try again after Retry-After."),
    Problem(500, "INTERNAL", "Our fault, and logged. Try again; if it happens twice, quote the header X-Request-ID."),
    Problem(503, "UNAVAILABLE", "The desk restarts or its database is busy. Nothing was lost; mind Retry-After."),
    Problem(503, "NO_WORKER", "No worker is there to send the test. Try again shortly."),
    Problem(503, "KEY_MISSING", "The desk cannot read an endpoint’s secrets. Tell the person who runs it."),
)


@dataclass(frozen=True, slots=True)
class Ending:
    """A close code of the WebSocket, what has happened, and what a client does then."""

    code: int
    happened: str
    advice: str


ENDINGS = (
    Ending(1006, "The connection broke; or it was refused, as with a wrong token.", "Connect again, waiting longer."),
    Ending(Close.RESTART, "The server stops, or its database does not answer.", "Connect again in a few seconds."),
    Ending(Close.BAD_MESSAGE, "What you sent cannot be read.", "Do not connect again: mend the client."),
    Ending(Close.SIGNED_OUT, "The token was revoked or the session ended.", "Do not connect again: get a new token."),
    Ending(Close.NOT_ALLOWED, "Only an admin may subscribe to everybody’s.", "Do not connect again: leave out all."),
    Ending(Close.SILENT, "You did not subscribe in time, or do not read.", "Connect again."),
    Ending(Close.TOO_MANY, "You sent too many messages in a second.", "Acknowledge in lists, and connect again."),
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
        waits=callbacks.STANDARD,
        endings=ENDINGS,
        problems=PROBLEMS,
        export_errors=[export_error(code, limit="(limit)", detail="(detail)") for code in ErrorCode],
        longest_poll=limits.LONG_POLL_SECONDS,
        limits=_limits(resources(request)),
    )


def _dataset(resources: Resources, viewer: Viewer | None) -> str:
    """One that this person can order as it is; names of datasets are not for everybody."""
    if viewer is None:
        return DEMO_DATASET
    allowed = resources.catalog.datasets_for(viewer.role)
    usable = (dataset for dataset in allowed if not any(p.must_be_given for p in dataset.parameters))
    return next((dataset.name for dataset in usable), DEMO_DATASET)


def _limits(resources: Resources) -> list[Limit]:
    settings = resources.settings
    return [
        Limit("Your exports that wait or run", f"{settings.max_active_per_user}"),
        Limit("Your exports that run at the same time", f"{settings.max_running_per_user}"),
        Limit("How long a finished file is kept", duration(settings.file_retention.total_seconds())),
        Limit("How long events are kept, to resume from", duration(settings.event_retention.total_seconds())),
        Limit("How long an Idempotency-Key is remembered", duration(limits.IDEMPOTENCY_KEY_LIFETIME)),
        Limit("The body of a request", f"{limits.REQUEST_BODY_BYTES // 1024} KiB"),
        Limit("A text parameter", f"{limits.PARAMETER_TEXT_LENGTH:,} characters"),
        Limit("A list parameter", f"{limits.LIST_ITEMS:,} items"),
        Limit("limit of a list", f"{limits.PAGE_SIZE} unless you ask for more, {limits.MAX_PAGE_SIZE} at most"),
        Limit("wait of a poll", f"{limits.LONG_POLL_SECONDS:g} seconds"),
        Limit("A WebSocket message of yours", f"{socket.MESSAGE_BYTES:,} bytes"),
        Limit("WebSocket messages of yours", f"{socket.MESSAGES_PER_SECOND} a second, {socket.BURST} in a burst"),
        Limit("Time to subscribe on a WebSocket", f"{socket.SUBSCRIBE_SECONDS:g} seconds"),
    ]
