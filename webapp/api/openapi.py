"""The OpenAPI 3.1 document of the API, made of the types that parse requests and of those that answers are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from webapp.api import answers
from webapp.api.examples import called_back, examples, plain
from webapp.api.operations import LINKS, OPERATIONS, PATH_PARAMETERS, TAGS, Operation, Parameter, Reply
from webapp.api.polls import is_known
from webapp.domain.access import NotFound, QuotaExceeded, Scope
from webapp.domain.alerts import ALERT_TYPES
from webapp.domain.callbacks import CALLBACK_TYPES
from webapp.domain.errors import ErrorCode, FieldError, Invalid
from webapp.domain.exports import IllegalTransition, Status
from webapp.language import ENGLISH, speaking
from webapp.web.context import AdminNeeded, ScopeNeeded, SignInNeeded, resources
from webapp.web.failures import INTERNAL, UNAVAILABLE, failure_of
from webapp.web.problem_codes import PROBLEMS
from webapp.web.problems import document as problem_document
from webapp.web.security import SESSION_COOKIE

API_VERSION = "1.0.0"
"""By the rules that /docs has for versions: a field more is a minor one, /api/v2 would be the next major one."""
SCHEMAS = "#/components/schemas/"
STATUS_OF = {problem.code: problem.status for problem in PROBLEMS}
ADVICE = {problem.code: problem.advice for problem in PROBLEMS}
DESCRIPTION = """\
Order data exports, follow them, and fetch files that are right. The guide with examples that run is at `/docs`.

Times are RFC 3339 in UTC. Lists are `{"items": […], "next_cursor": …}`. Whatever goes wrong is a problem document \
(RFC 9457) whose `code` is stable. Every answer has an `X-Request-ID`; quote it when you ask for help.
"""

REFUSALS: Iterable[Exception] = (
    SignInNeeded(),
    AdminNeeded(),
    ScopeNeeded(Scope.EXPORT),
    NotFound(),
    IllegalTransition(Status.SUCCESS, Status.CANCELLED),
    QuotaExceeded(20, 20, retry_after=30),
    Invalid([FieldError("dataset", "This field is required.")]),
)

HEADERS: Mapping[str, Mapping[str, Any]] = {
    "X-Request-ID": {
        "description": "Names this request in the desk's log.",
        "schema": {"type": "string", "pattern": "^req_[0-9a-z]{26}$"},
    },
    "ETag": {"description": "Send it back in `If-None-Match`.", "schema": {"type": "string"}},
    "Location": {"description": "Where to look.", "schema": {"type": "string", "format": "uri"}},
    "Retry-After": {
        "description": "Seconds to wait before asking again.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "Allow": {"description": "The methods that the address takes.", "schema": {"type": "string"}},
    "WWW-Authenticate": {"description": "Bearer.", "schema": {"type": "string"}},
    "Content-Language": {"description": "Of `detail` and `title`.", "schema": {"type": "string"}},
    "Upgrade": {"description": "websocket.", "schema": {"type": "string"}},
    "Accept-Ranges": {"description": "bytes.", "schema": {"type": "string"}},
    "Content-Range": {
        "description": "Which bytes these are, and of how many.",
        "schema": {"type": "string", "pattern": r"^bytes ([0-9]+-[0-9]+|\*)/[0-9]+$"},
    },
    "Content-Disposition": {
        "description": "The file's name (RFC 6266).",
        "schema": {"type": "string", "pattern": "^attachment; filename="},
    },
    "Repr-Digest": {
        "description": "The SHA-256 of the whole file (RFC 9530).",
        "schema": {"type": "string", "pattern": "^sha-256=:[A-Za-z0-9+/]+=*:$"},
    },
}
HEADERS_OF: Mapping[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    416: ("Content-Range",),
    426: ("Upgrade",),
    429: ("Retry-After",),
    503: ("Retry-After?",),
}
WEBHOOK_HEADERS: Mapping[str, str] = {
    "webhook-id": "The id of the event. It may arrive twice: act once for each.",
    "webhook-timestamp": "When it was sent, in seconds since 1970.",
    "webhook-signature": "Standard Webhooks: `v1,` and base64, one for each valid secret.",
    "X-Signature": "`sha256=` and the hexadecimal HMAC-SHA256 of the body, for receivers that know only that.",
}


@dataclass(frozen=True, slots=True)
class Document:
    """`content` is the document; `body` is how it is sent."""

    content: Mapping[str, Any]
    body: bytes
    etag: str


@lru_cache(8)
def openapi(base_url: str) -> Document:
    """For the desk at this address, in English, whatever language it was asked for in."""
    with speaking(ENGLISH):
        content = _content(base_url)
    body = msgspec.json.encode(content)
    return Document(content, body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


async def show(request: Request) -> Response:
    """Open to all; 304 for who has it."""
    found = openapi(resources(request).settings.base_url)
    headers = {"ETag": found.etag, "Cache-Control": "public, no-cache"}
    if is_known(found.etag, request):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type="application/json")


def _content(base_url: str) -> dict[str, Any]:
    kinds = [each for each in dict.fromkeys(_kinds()) if each]
    shapes, schemas = msgspec.json.schema_components(kinds, ref_template=SCHEMAS + "{name}")
    refs = dict(zip(kinds, shapes, strict=True))
    shown = examples(base_url)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, refs, shown)
    return plain(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Exportdesk",
                "version": API_VERSION,
                "description": DESCRIPTION,
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": f"{base_url}/api/v1"}],
            "externalDocs": {"url": f"{base_url}/docs", "description": "The guide"},
            "security": [{"token": []}, {"session": []}],
            "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
            "paths": paths,
            "webhooks": {event: {"post": _webhook(event, base_url)} for event in CALLBACK_TYPES},
            "components": {
                "schemas": schemas,
                "responses": {
                    _refusal_name(status, codes): _refusal(status, codes)
                    for operation in OPERATIONS
                    for status, codes in _by_status(operation)
                },
                "headers": HEADERS,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "description": "For programs."},
                    "session": {
                        "type": "apiKey",
                        "in": "cookie",
                        "name": SESSION_COOKIE,
                        "description": "For pages of the desk itself; other sites cannot write with it.",
                    },
                },
            },
        }
    )


def _kinds() -> Iterable[type | None]:
    for operation in OPERATIONS:
        yield operation.body
        yield from (reply.kind for reply in operation.replies)
    yield from (answers.Problem, answers.Callback, answers.AlertCallback)


def _operation(operation: Operation, refs: Mapping[type, Any], shown: Mapping[type, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": {
            **{
                str(reply.status): {**_reply(reply, refs, shown), **_links(operation, reply)}
                for reply in operation.replies
            },
            **_refusals(operation),
        },
    }
    words = [operation.description, "For admins." if operation.for_admins else ""]
    words += [f"A token needs the scope `{operation.scope.value}`."] if operation.scope else []
    if description := " ".join(filter(None, words)):
        found["description"] = description
    parameters = [*_path_parameters(operation.path), *map(_parameter, operation.parameters)]
    if parameters:
        found["parameters"] = parameters
    if operation.is_open:
        found["security"] = []
    if operation.body:
        schema = refs[operation.body]
        if operation.required:
            schema = {"allOf": [schema, {"required": list(operation.required)}]}
        content = {"schema": schema, "example": shown[operation.body]}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    return found


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": schema, "description": description}
        for name, (schema, description) in PATH_PARAMETERS.items()
        if f"{{{name}}}" in path
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "schema": parameter.schema,
        "description": parameter.description,
    }


def _reply(reply: Reply, refs: Mapping[type, Any], shown: Mapping[type, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {media: {"schema": schema} for media, schema in reply.media.items()}
    if reply.kind:
        content["application/json"] = {"schema": refs[reply.kind], "example": shown[reply.kind]}
    return {
        "description": reply.description,
        "headers": _headers(reply.headers),
        **({"content": content} if content else {}),
    }


def _links(operation: Operation, reply: Reply) -> dict[str, Any]:
    """Where to go on from here, by the name of the call."""
    found = {
        call: {"operationId": call, "parameters": {link.parameter: f"$response.body#{link.pointer}"}}
        for link in LINKS.get(operation.name, ())
        if link.status == reply.status
        for call in link.calls
    }
    return {"links": found} if found else {}


def _headers(names: Iterable[str]) -> dict[str, Any]:
    """A `?` behind the name says that it is not always there."""
    found: dict[str, Any] = {"X-Request-ID": {"$ref": "#/components/headers/X-Request-ID"}}
    for text in names:
        name = text.removesuffix("?")
        found[name] = {**HEADERS[name], "required": name == text}
    return found


def _refusals(operation: Operation) -> dict[str, Any]:
    return {
        str(status): {"$ref": f"#/components/responses/{_refusal_name(status, codes)}"}
        for status, codes in _by_status(operation)
    }


def _by_status(operation: Operation) -> Sequence[tuple[int, tuple[str, ...]]]:
    """The codes that it may refuse with."""
    found: dict[int, tuple[str, ...]] = {}
    for code in operation.codes:
        status = _status_of(code)
        found[status] = (*found.get(status, ()), code)
    return sorted(found.items())


def _refusal_name(status: int, codes: Sequence[str]) -> str:
    names = dict.fromkeys("AS_AN_EXPORT" if isinstance(code, ErrorCode) else code for code in codes)
    return f"{status}.{'.'.join(names)}"


def _refusal(status: int, codes: Sequence[str]) -> dict[str, Any]:
    """Says which codes it may have, and what to do about them."""
    schema = {
        "allOf": [
            {"$ref": SCHEMAS + answers.Problem.__name__},
            {"properties": {"status": {"const": status}, "code": {"enum": codes}}},
        ]
    }
    found = {code: {"value": _refused()[code]} for code in codes if code in _refused()}
    content = {"schema": schema, **({"examples": found} if found else {})}
    return {
        "description": "\n".join(f"- `{code}`: {_advice(code)}" for code in codes),
        "headers": _headers(("Content-Language", *HEADERS_OF.get(status, ()))),
        "content": {"application/problem+json": content},
    }


def _status_of(code: str) -> int:
    """A preview that fails is answered with the code of an export that would."""
    return 422 if isinstance(code, ErrorCode) else STATUS_OF.get(code) or HTTPStatus[code].value


def _advice(code: str) -> str:
    return "As the `error` of an export." if isinstance(code, ErrorCode) else ADVICE[code]


@lru_cache
def _refused() -> Mapping[str, Mapping[str, Any]]:
    """Problem documents by code, as they are answered."""
    failures = [*map(failure_of, REFUSALS), INTERNAL, UNAVAILABLE]
    return {failure.code: problem_document(failure) for failure in failures}


def _webhook(event: str, base_url: str) -> dict[str, Any]:
    kind = answers.AlertCallback if event in ALERT_TYPES else answers.Callback
    return {
        "operationId": "on" + event.title().replace(".", "").replace("_", ""),
        "tags": ["Callbacks"],
        "summary": f"`{event}`, sent to each endpoint that asked for it",
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "schema": {"type": "string"}, "description": text}
            for name, text in WEBHOOK_HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": SCHEMAS + kind.__name__},
                    "example": called_back(event, base_url),
                }
            },
        },
        "responses": {
            "2XX": {"description": "You have it."},
            "410": {"description": "You want no more: the endpoint is switched off."},
            "default": {"description": "Anything else is sent again, by the endpoint's schedule."},
        },
    }
