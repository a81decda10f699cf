"""Every code of the API's problem documents, for the docs and for the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.domain.sentences import say


@dataclass(frozen=True, slots=True)
class Problem:
    """A code of the API's problem documents, and what a client does about it."""

    status: int
    code: str
    advice: str


PROBLEMS = (
    Problem(400, "BAD_RANGE", say("The monitor's numbers are told for 1h, 24h, 7d or 30d. Ask for one of these.")),
    Problem(400, "BAD_JSON", say("The body is not JSON, or names something twice. Mend the client.")),
    Problem(401, "SIGN_IN_NEEDED", say("The token is missing, wrong or revoked. Ask for a new one.")),
    Problem(403, "FORBIDDEN", say("Only an admin may do this.")),
    Problem(
        403, "SCOPE_NEEDED", say("The token was made for less than this; scope names what it lacks. Take another.")
    ),
    Problem(403, "CROSS_SITE", say("A browser was made to send this by another site. Programs send a token instead.")),
    Problem(404, "NOT_FOUND", say("There is no such thing, or it is somebody else’s.")),
    Problem(405, "METHOD_NOT_ALLOWED", say("The header Allow names the methods that the address takes.")),
    Problem(409, "NOT_READY", say("There is no file: the export is active, or ended without one. Look at its status.")),
    Problem(409, "ILLEGAL_TRANSITION", say("The export’s status forbids it; status_of_export says which it has.")),
    Problem(409, "ALREADY_ACTIVE", say("The same order is waiting or running already; export_id names it.")),
    Problem(409, "LAST_ADMIN", say("It would leave the desk without an admin. Make somebody else one first.")),
    Problem(409, "DELIVERY_CANCELLED", say("Its endpoint was deleted, so that it cannot be sent again.")),
    Problem(409, "WORKER_GONE", say("The worker has ended or is lost. Ask which workers there are.")),
    Problem(410, "GONE", say("The file is no longer kept. Order the export again.")),
    Problem(413, "TOO_LARGE", say("The body is too long.")),
    Problem(415, "UNSUPPORTED_MEDIA_TYPE", say("Send JSON, with Content-Type: application/json.")),
    Problem(416, "REQUESTED_RANGE_NOT_SATISFIABLE", say("The file ends before the part that was asked for.")),
    Problem(422, "INVALID", say("errors names each field that is wrong, and why. Mend the request.")),
    Problem(422, "IDEMPOTENCY_KEY_REUSED", say("This Idempotency-Key was used for a different order. Take a new one.")),
    Problem(426, "UPGRADE_REQUIRED", say("This is a WebSocket: open it with a WebSocket client.")),
    Problem(429, "QUOTA_EXCEEDED", say("Too many of your exports are waiting. Try again after Retry-After.")),
    Problem(
        429, "TOO_MANY_TRIES", say("Too many wrong passwords, or too much shared within an hour. Mind Retry-After.")
    ),
    Problem(
        500, "INTERNAL", say("Our fault, and logged. Try again; if it happens twice, quote the header X-Request-ID.")
    ),
    Problem(503, "UNAVAILABLE", say("The desk restarts or its database is busy. Nothing was lost; mind Retry-After.")),
    Problem(503, "NO_WORKER", say("No worker is there to send the test. Try again shortly.")),
    Problem(503, "KEY_MISSING", say("The desk cannot read an endpoint’s secrets. Tell the person who runs it.")),
)
