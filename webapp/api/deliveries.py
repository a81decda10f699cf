"""The JSON API of deliveries: the log with its attempts, and redelivery. For admins; people see those of their own
exports to the `callback_url` they ordered with."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterable
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import deliveries, endpoint_settings, exports
from webapp.api.answers import id_pattern
from webapp.api.exports import json_response
from webapp.api.requests import Moment, moment, query_cursor, query_limit, query_name, query_since, read_body
from webapp.domain.access import Role
from webapp.domain.callbacks import (
    CALLBACK_TYPES,
    SENTENCES,
    UNREACHABLE,
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    ErrorClass,
)
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import rfc3339
from webapp.domain.ids import is_id
from webapp.domain.sentences import say
from webapp.store.deliveries import DeliveryFilter
from webapp.web import cursors
from webapp.web.context import AdminNeeded, admin, resources, viewer
from webapp.web.failures import Refused

MOST_IDS = 1000
OF_OUR_NETWORK = frozenset(
    {ErrorClass.DNS, ErrorClass.ADDRESS_FORBIDDEN, ErrorClass.REFUSED, ErrorClass.TLS, ErrorClass.TIMEOUT}
)
"""To who is no admin these are all UNREACHABLE: told apart, they would map our inside network."""
Choice = TypeVar("Choice", bound=StrEnum)


def _id_of(prefix: str) -> Meta:
    return Meta(extra_json_schema={"pattern": id_pattern(prefix)})


def _listed_of(names: Iterable[str]) -> Meta:
    """One of them, or several with commas."""
    one = "|".join(map(re.escape, names))
    return Meta(extra_json_schema={"pattern": f"^({one})(,({one}))*$"})


DeliveryStatus = Annotated[str, Meta(extra_json_schema={"enum": list(DeliveryState)})]
EventType = Annotated[str, Meta(extra_json_schema={"enum": list(CALLBACK_TYPES)})]


class RedeliveryBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which deliveries: these, or all that match. Something has to be given."""

    ids: Annotated[list[Annotated[str, _id_of("dlv")]], Meta(extra_json_schema={"maxItems": MOST_IDS})] | None = None
    endpoint: Annotated[str, _id_of("end")] | None = None
    status: list[DeliveryStatus] | Annotated[str, _listed_of(DeliveryState)] | None = None
    export: Annotated[str, _id_of("exp")] | None = None
    type: list[EventType] | Annotated[str, _listed_of(CALLBACK_TYPES)] | None = None
    error: Annotated[str, Meta(extra_json_schema={"enum": list(ErrorClass)})] | None = None
    since: Moment | None = None


async def index(request: Request) -> Response:
    """One page, newest first."""
    chosen, is_admin = await _chosen(request), viewer(request).role is Role.ADMIN
    page, more = await deliveries.list_page(
        resources(request), chosen, limit=query_limit(request), after=query_cursor(request, "dlv")
    )
    next_cursor = cursors.encode(page[-1].created_at, page[-1].id) if more else None
    items = [described(delivery, is_admin=is_admin) for delivery in page]
    return json_response({"items": items, "next_cursor": next_cursor})


async def show(request: Request) -> Response:
    """With its attempts, oldest first, as they were sent and answered."""
    admin(request)
    delivery, attempts = await deliveries.get(resources(request), _id(request))
    return json_response(described(delivery) | {"attempt_log": [attempted(attempt) for attempt in attempts]})


async def redeliver(request: Request) -> Response:
    actor = admin(request)
    return json_response(described(await deliveries.redeliver(resources(request), actor, _id(request))), 202)


async def redeliver_matching(request: Request) -> Response:
    """202 with how many are owed again."""
    actor, body = admin(request), await read_body(request, RedeliveryBody)
    chosen = _matching(body)
    count = await deliveries.redeliver_matching(resources(request), actor, chosen, ids=body.ids)
    return json_response({"count": count}, 202)


def described(delivery: Delivery, *, is_admin: bool = True) -> dict[str, Any]:
    error, message = _error(delivery.last_error, is_admin=is_admin)
    return {
        "id": delivery.id,
        "event_id": delivery.event_id,
        "type": delivery.event_type,
        "export_id": delivery.export_id,
        "endpoint_id": delivery.endpoint_id,
        "status": delivery.state.value,
        "attempts": delivery.attempts,
        "failures": delivery.failures,
        "created_at": rfc3339(delivery.created_at),
        "next_attempt_at": rfc3339(delivery.next_attempt_at),
        "last_attempt_at": rfc3339(delivery.last_attempt_at),
        "completed_at": rfc3339(delivery.completed_at),
        "last_status": delivery.last_status,
        "last_error": error,
        "message": message,
    }


def _error(error: ErrorClass | None, *, is_admin: bool) -> tuple[str | None, str | None]:
    """The class and its sentence."""
    if error is None:
        return None, None
    if error in OF_OUR_NETWORK and not is_admin:
        return "UNREACHABLE", str(UNREACHABLE)
    return error.value, str(SENTENCES[error])


def attempted(attempt: DeliveryAttempt) -> dict[str, Any]:
    answer = attempt.answer
    error, message = _error(answer.error if answer else None, is_admin=True)
    return {
        "number": attempt.number,
        "started_at": rfc3339(attempt.started_at),
        "finished_at": rfc3339(attempt.finished_at),
        "seconds": round(answer.seconds, 3) if answer else None,
        "error": error,
        "message": message,
        "request": {
            "url": attempt.url,
            "headers": [list(pair) for pair in endpoint_settings.shown_headers(attempt.request_headers)],
            "body": attempt.request_body,
        },
        "response": None if answer is None or answer.status is None else {
            "status": answer.status,
            "headers": [list(pair) for pair in answer.headers],
            "body": answer.body,
            "is_cut": answer.is_cut,
        },
    }  # fmt: skip


async def _chosen(request: Request) -> DeliveryFilter:
    """What the address asks for. Who is no admin has to name an export of their own, and cannot ask for an error:
    that would tell what the masked ones were."""
    who, export = viewer(request), query_name(request, "export")
    error = query_name(request, "error")
    if who.role is not Role.ADMIN:
        if export is None:
            raise AdminNeeded
        if error is not None:
            raise Refused(403, "FORBIDDEN", say("Only an admin may filter by error."))
        await exports.get(resources(request), who, export)
    return DeliveryFilter(
        endpoint_id=query_name(request, "endpoint"),
        states=_each(DeliveryState, "status", _listed(request.query_params.getlist("status"))),
        export_id=export,
        event_types=_types(_listed(request.query_params.getlist("type"))),
        since=query_since(request),
        error=_each(ErrorClass, "error", [error])[0] if error else None,
        of_its_own=who.role is not Role.ADMIN,
    )


def _matching(body: RedeliveryBody) -> DeliveryFilter:
    """Raises Invalid with every mistake."""
    errors, since = _wrong_ids(body), None
    states: tuple[DeliveryState, ...] = ()
    types: tuple[str, ...] = ()
    kinds: tuple[ErrorClass, ...] = ()
    with _collected(errors):
        states = _each(DeliveryState, "status", _listed(body.status))
    with _collected(errors):
        types = _types(_listed(body.type))
    with _collected(errors):
        kinds = _each(ErrorClass, "error", _one(body.error))
    with _collected(errors):
        since = moment(body.since, "since") if body.since is not None else None
    if errors:
        raise Invalid(errors)
    chosen = DeliveryFilter(body.endpoint, states, body.export, types, since, kinds[0] if kinds else None)
    if body.ids is None and chosen == DeliveryFilter():
        raise Invalid(
            [FieldError("body", say("Say which: give ids, or endpoint, status, export, type, error or since."))]
        )
    return chosen


def _wrong_ids(body: RedeliveryBody) -> list[FieldError]:
    errors = [
        FieldError(field, say("Must be an id: {prefix}_ and 26 characters.", prefix=prefix))
        for field, values, prefix in (
            ("ids", body.ids or [], "dlv"),
            ("endpoint", _one(body.endpoint), "end"),
            ("export", _one(body.export), "exp"),
        )
        if not all(is_id(value, prefix) for value in values)
    ]
    if body.ids is not None and len(body.ids) > MOST_IDS:
        errors.append(FieldError("ids", say("At most {most} can be selected at once.", most=MOST_IDS)))
    return errors


@contextlib.contextmanager
def _collected(errors: list[FieldError]) -> Generator[None]:
    """Keeps what Invalid says, and goes on behind the block."""
    try:
        yield
    except Invalid as invalid:
        errors += invalid.errors


def _one(value: str | None) -> list[str]:
    return [] if value is None else [value]


def _listed(values: Iterable[str] | str | None) -> list[str]:
    """Several values, or one with commas."""
    given = [values] if isinstance(values, str) else list(values or ())
    return [part for value in given for part in value.split(",") if part]


def _each(kind: type[Choice], field: str, names: list[str]) -> tuple[Choice, ...]:
    try:
        return tuple(kind(name.lower() if kind is DeliveryState else name.upper()) for name in names)
    except ValueError as error:
        raise Invalid([FieldError(field, say("Must be one of {choices}.", choices=", ".join(kind)))]) from error


def _types(names: list[str]) -> tuple[str, ...]:
    if not set(names) <= set(CALLBACK_TYPES):
        raise Invalid([FieldError("type", say("Must be one of {choices}.", choices=", ".join(CALLBACK_TYPES)))])
    return tuple(names)


def _id(request: Request) -> str:
    return request.path_params["delivery_id"]
