"""What an exception means to whoever asked: one status, one code, one sentence, for pages and API alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.exceptions import HTTPException

from webapp.actions.changes import Contended
from webapp.actions.deliveries import CannotRedeliver
from webapp.actions.exports import AlreadyActive, KeyReused
from webapp.domain.access import LastAdmin, NotFound, QuotaExceeded, TooManyTries
from webapp.domain.errors import AttemptFailed, FieldError, Invalid, export_error
from webapp.domain.exports import IllegalTransition
from webapp.domain.sentences import say, sentence_of
from webapp.domain.shares import NothingToShare
from webapp.domain.workers import WorkerGone
from webapp.sealing import Unsealable
from webapp.store.database import DATABASE_ERRORS
from webapp.web.context import AdminNeeded, ScopeNeeded, SignInNeeded


class Refused(Exception):
    """A request that is turned away before it is looked at."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


class Restarting(Exception):
    """The server stops, and could wait no longer for what was to be answered."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`code` is stable; `detail` is for people and holds no secret. `extra` are further members of the problem."""

    status: int
    code: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: tuple[FieldError, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def title(self) -> str:
        return PHRASES.get(self.status) or HTTPStatus(self.status).phrase


PHRASES: Mapping[int, str] = {
    400: say("Bad Request"),
    401: say("Unauthorized"),
    403: say("Forbidden"),
    404: say("Not Found"),
    405: say("Method Not Allowed"),
    409: say("Conflict"),
    410: say("Gone"),
    413: say("Request Entity Too Large"),
    415: say("Unsupported Media Type"),
    416: say("Requested Range Not Satisfiable"),
    422: say("Unprocessable Entity"),
    429: say("Too Many Requests"),
    500: say("Internal Server Error"),
    503: say("Service Unavailable"),
}
"""What Python calls them, for those that there are here."""


UNAVAILABLE = Failure(
    503,
    "UNAVAILABLE",
    say("The database is busy or restarting. Nothing was lost; try again shortly."),
    {"Retry-After": "2"},
)
KEY_MISSING = Failure(
    503,
    "KEY_MISSING",
    say("An endpoint's secrets were sealed under a key that is not here; `exportdesk doctor` says more."),
)
RESTARTING = Failure(503, "UNAVAILABLE", say("The desk is being restarted. Try again shortly."), {"Retry-After": "2"})
INTERNAL = Failure(500, "INTERNAL", say("Something went wrong on our side. It was logged; try again in a moment."))


def failure_of(error: Exception) -> Failure:
    """Never quotes an exception that was not written for people."""
    match error:
        case Invalid():
            return Failure(422, "INVALID", say("Some of what was sent cannot be used."), errors=tuple(error.errors))
        case NotFound():
            return Failure(404, "NOT_FOUND", say("There is no such thing, or it is not yours."))
        case SignInNeeded():
            return Failure(
                401, "SIGN_IN_NEEDED", say("Sign in, or send a valid token."), {"WWW-Authenticate": "Bearer"}
            )
        case AdminNeeded():
            return Failure(403, "FORBIDDEN", say("Only an admin may do this."))
        case ScopeNeeded():
            return Failure(403, "SCOPE_NEEDED", sentence_of(error), extra={"scope": error.scope.value})
        case LastAdmin():
            return Failure(409, "LAST_ADMIN", sentence_of(error))
        case TooManyTries():
            return Failure(429, "TOO_MANY_TRIES", sentence_of(error), {"Retry-After": str(error.retry_after)})
        case IllegalTransition():
            extra = {"status_of_export": error.current.value}
            refused = say("The export is {status}, so this cannot be done.", status=error.current.value)
            return Failure(409, "ILLEGAL_TRANSITION", refused, extra=extra)
        case NothingToShare():
            return Failure(409, "NOT_READY", sentence_of(error))
        case CannotRedeliver():
            return Failure(409, "DELIVERY_CANCELLED", say("Its endpoint was deleted, so it cannot be sent again."))
        case AlreadyActive():
            return Failure(409, "ALREADY_ACTIVE", sentence_of(error), extra={"export_id": error.export.id})
        case QuotaExceeded():
            return Failure(429, "QUOTA_EXCEEDED", sentence_of(error), {"Retry-After": str(error.retry_after)})
        case KeyReused():
            return Failure(422, "IDEMPOTENCY_KEY_REUSED", say("This Idempotency-Key was used for a different order."))
        case WorkerGone():
            return Failure(409, "WORKER_GONE", say("The worker has ended, or gives no sign of life any more."))
        case Refused():
            return Failure(error.status, error.code, error.detail)
        case AttemptFailed():
            explained = export_error(error.code, **error.details)
            return Failure(422, explained.code.value, explained.message)
        case HTTPException():
            code = HTTPStatus(error.status_code).name
            return Failure(error.status_code, code, _http_detail(error.status_code), dict(error.headers or {}))
        case Contended():
            return UNAVAILABLE
        case Unsealable():
            return KEY_MISSING
        case Restarting():
            return RESTARTING
        case _:
            return UNAVAILABLE if isinstance(error, DATABASE_ERRORS) else INTERNAL


def _http_detail(status: int) -> str:
    return {
        404: say("There is nothing at this address."),
        405: say("This address does not take that method."),
        416: say("The file ends before the part that was asked for."),
        426: say("This is a WebSocket: open it with a WebSocket client."),
    }.get(status, f"{HTTPStatus(status).description or HTTPStatus(status).phrase}.")
