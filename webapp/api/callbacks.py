"""The JSON API of endpoints: register, change, try out, rotate, pause, recover, delete. For admins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta
from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import callback_hosts, deliveries, endpoint_secrets, endpoint_settings, endpoints, messages
from webapp.actions.endpoint_settings import (
    DESCRIPTION_LENGTH,
    HEADER_NAME_LENGTH,
    HEADER_VALUE_BYTES,
    MOST_HEADERS,
    OWN,
    TOKEN,
    UNCHANGED,
)
from webapp.actions.trials import NoWorker, Trial, try_out
from webapp.api.exports import json_response
from webapp.api.requests import IN_ONE_LINE, SPAN, Moment, moment, query_name, query_since, read_body, span
from webapp.domain.callbacks import (
    CALLBACK_TYPES,
    IN_FLIGHT_RANGE,
    LONGEST_WAIT,
    MOST_RETRIES,
    RATE_RANGE,
    SCHEDULES,
    SENTENCES,
    TIME_LIMITS,
    Endpoint,
    EndpointSettings,
    Message,
)
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import rfc3339
from webapp.domain.sentences import say, sentence_of
from webapp.domain.signing import new_secret
from webapp.domain.targets import LONGEST_URL
from webapp.web.context import admin, resources
from webapp.web.failures import Refused


def _number(kind: str, limits: tuple[float, float], unit: str) -> Meta:
    low, high = limits
    return Meta(extra_json_schema={"type": kind, "minimum": low, "maximum": high, "description": unit})


def _checked_as(**schema: Any) -> Meta:
    """What a value has to be, where it is checked together with the others and not while it is read."""
    return Meta(extra_json_schema=schema)


def _names(schema: Mapping[str, Any]) -> Meta:
    items = {"type": "string", **schema}
    return Meta(extra_json_schema={"type": "array", "items": items, "description": "None of them means all."})


EventType = Annotated[str, _checked_as(enum=list(CALLBACK_TYPES))]


class EndpointBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be set about an endpoint. Its values are checked together, so that every mistake is named."""

    url: Annotated[Any, _checked_as(type="string", format="uri", maxLength=LONGEST_URL)] = UNSET
    description: Annotated[
        Any, _checked_as(type="string", maxLength=DESCRIPTION_LENGTH, pattern=f"^{IN_ONE_LINE}*$")
    ] = UNSET
    event_types: Annotated[Any, _names({"enum": list(CALLBACK_TYPES)})] = UNSET
    datasets: Annotated[Any, _names({"minLength": 1})] = UNSET
    schedule: Annotated[
        Any,
        _checked_as(
            anyOf=[
                {"enum": list(SCHEDULES)},
                {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MOST_RETRIES,
                    "items": {"type": "number", "minimum": 1, "maximum": LONGEST_WAIT},
                },
            ],
            description="By name, or the seconds to wait after each failure.",
        ),
    ] = UNSET
    time_limit: Annotated[Any, _number("number", TIME_LIMITS, "Seconds.")] = UNSET
    max_in_flight: Annotated[Any, _number("integer", IN_FLIGHT_RANGE, "Requests at the same time.")] = UNSET
    rate: Annotated[Any, _number("integer", RATE_RANGE, "Requests a second.")] = UNSET
    headers: Annotated[
        Any,
        _checked_as(
            type="object",
            maxProperties=MOST_HEADERS,
            propertyNames={"pattern": f"^{TOKEN.pattern}$", "maxLength": HEADER_NAME_LENGTH},
            additionalProperties={"type": "string", "maxLength": HEADER_VALUE_BYTES},
            description=f"Sent with each callback. `{UNCHANGED}` as a value keeps the one there is.",
        ),
    ] = UNSET
    encryption: Annotated[
        Any,
        _checked_as(
            anyOf=[{"enum": ["keep", "none", "new", None]}, {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}=?$"}],
            description="`none`, `new`, `keep`, or a key of 32 bytes in URL-safe base64.",
        ),
    ] = UNSET


class TrialBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Without `data` it is a sample's."""

    event_type: EventType
    data: dict[str, Any] | None = None


class UnsavedTrialBody(EndpointBody, kw_only=True):
    """A trial of settings that are saved nowhere."""

    event_type: EventType
    data: dict[str, Any] | None = None


class RotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """How long the old secret goes on signing: `24h`, `0s`, at most `7d`."""

    overlap: Annotated[str, _checked_as(pattern=SPAN)] = "24h"


class RecoveryBody(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that was given up since then is owed anew."""

    since: Moment


class HostsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Names or addresses, without port or path."""

    hosts: list[Annotated[str, _checked_as(minLength=1)]]


async def index(request: Request) -> Response:
    """All of them, newest first; with `export` those of that export alone."""
    admin(request)
    desk, export = resources(request), query_name(request, "export")
    found = await (endpoints.list_of_export(desk, export) if export else endpoints.list_registered(desk))
    return json_response({"items": [described(endpoint) for endpoint in found], "next_cursor": None})


async def create(request: Request) -> Response:
    """201. Its secret is in this answer and in no other."""
    actor, body = admin(request), await read_body(request, EndpointBody)
    made = await endpoints.create(resources(request), actor, given(body))
    location = f"{resources(request).settings.base_url}/api/v1/callbacks/{made.endpoint.id}"
    return json_response(_with_secrets(made, body), 201, {"Location": location})


async def show(request: Request) -> Response:
    admin(request)
    return json_response(described(await endpoints.get(resources(request), _id(request))))


async def edit(request: Request) -> Response:
    """Changes only what is given. A new encryption key is in this answer and in no other."""
    actor, body = admin(request), await read_body(request, EndpointBody)
    changed = await endpoints.edit(resources(request), actor, _id(request), given(body))
    return json_response(described(changed.endpoint, changed.notes) | _new_key(changed.endpoint, body))


async def delete(request: Request) -> Response:
    await endpoints.delete(resources(request), admin(request), _id(request))
    return Response(status_code=204)


async def pause(request: Request) -> Response:
    return json_response(described(await endpoints.pause(resources(request), admin(request), _id(request))))


async def resume(request: Request) -> Response:
    return json_response(described(await endpoints.resume(resources(request), admin(request), _id(request))))


async def rotate(request: Request) -> Response:
    """The new secret is in this answer and in no other."""
    actor, body = admin(request), await read_body(request, RotationBody)
    overlap = span(body.overlap, "overlap", say("Write a number and a unit, such as 24h, 7d or 0s."))
    rotated = await endpoint_secrets.rotate(resources(request), actor, _id(request), overlap=overlap)
    secrets = {
        "secret": rotated.secrets[0].value,
        "old_secrets_end_at": [rfc3339(secret.expires_at) for secret in rotated.secrets[1:]],
    }
    return json_response(described(rotated) | secrets)


async def recover(request: Request) -> Response:
    """202 with how many deliveries are owed anew."""
    actor, body = admin(request), await read_body(request, RecoveryBody)
    since = moment(body.since, "since")
    count = await deliveries.recover(resources(request), actor, _id(request), since=since)
    return json_response({"count": count}, 202)


async def recoverable(request: Request) -> Response:
    """How many deliveries a recovery would owe anew."""
    admin(request)
    since = query_since(request)
    if since is None:
        raise Invalid([FieldError("since", say("Say since when: a date or time such as 2026-01-31T08:00:00Z."))])
    return json_response({"count": await deliveries.count_recoverable(resources(request), _id(request), since=since)})


async def try_saved(request: Request) -> Response:
    """Sends a signed sample now, and answers with what came of it."""
    admin(request)
    body = await read_body(request, TrialBody)
    endpoint = await endpoints.get(resources(request), _id(request))
    now = await resources(request).store.now()
    secrets = [secret.value for secret in endpoint.valid_secrets(now)]
    return await _tried(request, endpoint.settings, secrets, await _message(request, body.event_type, body.data))


async def try_unsaved(request: Request) -> Response:
    """The same for settings that are saved nowhere, signed with a secret for this once."""
    admin(request)
    body = await read_body(request, UnsavedTrialBody)
    wrong = _wrong_type(body.event_type)
    try:
        checked = await endpoint_settings.check(resources(request), given(body))
    except Invalid as invalid:
        raise Invalid([*invalid.errors, *wrong]) from invalid
    message = await _message(request, body.event_type, body.data)
    return await _tried(request, checked.settings, [new_secret()], message)


async def hosts(request: Request) -> Response:
    """The hosts that an order's `callback_url` may name."""
    admin(request)
    return json_response({"hosts": list(await callback_hosts.listed(resources(request)))})


async def set_hosts(request: Request) -> Response:
    actor, body = admin(request), await read_body(request, HostsBody)
    return json_response({"hosts": list(await callback_hosts.change(resources(request), actor, body.hosts))})


def given(body: EndpointBody) -> dict[str, Any]:
    """Only what was sent."""
    values = {name: getattr(body, name) for name in EndpointBody.__struct_fields__}
    return {name: value for name, value in values.items() if value is not UNSET}


def described(endpoint: Endpoint, notes: Sequence[str] = ()) -> dict[str, Any]:
    """The endpoint as JSON, without anything secret."""
    settings = endpoint.settings
    return {
        "id": endpoint.id,
        "url": settings.url,
        "description": settings.description,
        "event_types": list(settings.event_types),
        "datasets": list(settings.datasets),
        "schedule": list(settings.waits) if settings.schedule == OWN else settings.schedule,
        "time_limit": settings.time_limit,
        "max_in_flight": settings.max_in_flight,
        "rate": settings.rate,
        "headers": {name: UNCHANGED for name, _ in settings.headers},
        "encrypted": settings.encryption_key is not None,
        "export_id": endpoint.export_id,
        "state": endpoint.state.value,
        "disabled_reason": endpoint.disabled_reason,
        "disables_at": rfc3339(endpoint.disables_at),
        "failures_in_row": endpoint.failures_in_row,
        "failing_since": rfc3339(endpoint.failing_since),
        "last_success_at": rfc3339(endpoint.last_success_at),
        "last_failure_at": rfc3339(endpoint.last_failure_at),
        "created_at": rfc3339(endpoint.created_at),
        "updated_at": rfc3339(endpoint.updated_at),
        "notes": list(map(str, notes)),
    }


def _with_secrets(made: endpoints.Created, body: EndpointBody) -> dict[str, Any]:
    secret = {"secret": made.endpoint.secrets[0].value}
    return described(made.endpoint, made.notes) | secret | _new_key(made.endpoint, body)


def _new_key(endpoint: Endpoint, body: EndpointBody) -> dict[str, Any]:
    return {"encryption_key": endpoint.settings.encryption_key} if body.encryption == "new" else {}


async def _message(request: Request, event_type: str, data: Mapping[str, Any] | None) -> Message:
    """Raises Invalid."""
    if wrong := _wrong_type(event_type):
        raise Invalid(wrong)
    message = await messages.sample(resources(request), event_type)
    return message if data is None else message._replace(data=data)


def _wrong_type(event_type: str) -> list[FieldError]:
    if event_type in CALLBACK_TYPES:
        return []
    return [FieldError("event_type", say("Must be one of {choices}.", choices=", ".join(CALLBACK_TYPES)))]


async def _tried(request: Request, settings: EndpointSettings, secrets: Sequence[str], message: Message) -> Response:
    try:
        trial = await try_out(resources(request), settings, secrets, message)
    except NoWorker as error:
        raise Refused(503, "NO_WORKER", sentence_of(error)) from error
    return json_response(_trial(trial))


def _trial(trial: Trial) -> dict[str, Any]:
    sent, answer = trial.sent, trial.answer
    return {
        "succeeded": answer.error is None,
        "error": answer.error.value if answer.error else None,
        "message": str(SENTENCES[answer.error]) if answer.error else None,
        "at": rfc3339(trial.at),
        "seconds": round(answer.seconds, 3),
        "request": {
            "url": sent.url,
            "headers": [list(pair) for pair in endpoint_settings.shown_headers(sent.headers)],
            "body": sent.body.decode(),
        },
        "response": None if answer.status is None else {
            "status": answer.status,
            "headers": [list(pair) for pair in answer.headers],
            "body": answer.body,
            "is_cut": answer.is_cut,
        },
    }  # fmt: skip


def _id(request: Request) -> str:
    return request.path_params["endpoint_id"]
