"""What an exception means to whoever asked: one status, one code, one sentence, for pages and API alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.exceptions import HTTPException

from webapp.actions.changes import Contended
from webapp.actions.deliveries import CannotRedeliver
from webapp.actions.exports import AlreadyActive, KeyReused
from webapp.domain.access import NotFound, QuotaExceeded
from webapp.domain.errors import AttemptFailed, FieldError, Invalid, export_error
from webapp.domain.exports import IllegalTransition
from webapp.sealing import Unsealable
from webapp.store.database import DATABASE_ERRORS
from webapp.web.context import AdminNeeded, SignInNeeded


class Refused(Exception):
    """A request that is turned away before it is looked at."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code


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
        return HTTPStatus(self.status).phrase


UNAVAILABLE = Failure(
    503, "UNAVAILABLE", "The database is busy or restarting. Nothing was lost; try again shortly.", {"Retry-After": "2"}
)
KEY_MISSING = Failure(
    503, "KEY_MISSING", "An endpoint's secrets were sealed under a key that is not here; `exportdesk doctor` says more."
)
RESTARTING = Failure(503, "UNAVAILABLE", "The desk is being restarted. Try again shortly.", {"Retry-After": "2"})
INTERNAL = Failure(500, "INTERNAL", "Something went wrong on our side. It was logged; try again in a moment.")


def failure_of(error: Exception) -> Failure:
    """Never quotes an exception that was not written for people."""
    match error:
        case Invalid():
            return Failure(422, "INVALID", "Some of what was sent cannot be used.", errors=tuple(error.errors))
        case NotFound():
            return Failure(404, "NOT_FOUND", "There is no such thing, or it is not yours.")
        case SignInNeeded():
            return Failure(401, "SIGN_IN_NEEDED", "Sign in, or send a valid token.", {"WWW-Authenticate": "Bearer"})
        case AdminNeeded():
            return Failure(403, "FORBIDDEN", "Only an admin may do this.")
        case IllegalTransition():
            extra = {"status_of_export": error.current.value}
            return Failure(409, "ILLEGAL_TRANSITION", f"The export is {error.current.value}, so this cannot be done.",
                           extra=extra)  # fmt: skip
        case CannotRedeliver():
            return Failure(409, "DELIVERY_CANCELLED", "Its endpoint was deleted, so it cannot be sent again.")
        case AlreadyActive():
            return Failure(409, "ALREADY_ACTIVE", str(error), extra={"export_id": error.export.id})
        case QuotaExceeded():
            return Failure(429, "QUOTA_EXCEEDED", str(error), {"Retry-After": str(error.retry_after)})
        case KeyReused():
            return Failure(422, "IDEMPOTENCY_KEY_REUSED", "This Idempotency-Key was used for a different order.")
        case Refused():
            return Failure(error.status, error.code, str(error))
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
        404: "There is nothing at this address.",
        405: "This address does not take that method.",
        416: "The file ends before the part that was asked for.",
    }.get(status, f"{HTTPStatus(status).description or HTTPStatus(status).phrase}.")
