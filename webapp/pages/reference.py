"""`/docs/api`: every call of the API on one page, made of its OpenAPI document. Open to all."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.web.context import resources
from webapp.web.render import page

Part = Mapping[str, Any]
SCHEMAS = "#/components/schemas/"
WORDS = {
    "minimum": "from {}",
    "maximum": "to {}",
    "minLength": "at least {} long",
    "maxLength": "at most {} long",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "format": "{}",
    "default": "default {}",
}


@dataclass(frozen=True, slots=True)
class Member:
    """Of an object, or one parameter. `kind` is in words, and `shape` the name of what it is made of, if it has one."""

    name: str
    kind: str
    shape: str
    text: str
    is_required: bool
    place: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """One answer; `lines` say what it is, or which codes it may have."""

    status: str
    lines: Sequence[str]
    shape: str
    headers: Sequence[str]
    example: str


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    method: str
    path: str
    summary: str
    text: str
    parameters: Sequence[Member]
    body: str
    example: str
    answers: Sequence[Told]


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    text: str
    members: Sequence[Member]
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Reference:
    """`calls` by tag, which `tags` explain."""

    version: str
    tags: Mapping[str, str]
    calls: Mapping[str, Sequence[Call]]
    webhooks: Sequence[Call]
    shapes: Sequence[Shape]


def shown(document: Callable[[str], Part]) -> Callable[[Request], Awaitable[Response]]:
    """The page's handler. `document` gives the OpenAPI document of the desk at an address."""

    @lru_cache(8)
    def reference(base_url: str) -> Reference:
        return reference_of(document(base_url))

    async def show(request: Request) -> Response:
        base_url = resources(request).settings.base_url
        return page(request, "docs/api.html", desk=f"{base_url}/api/v1", reference=reference(base_url))

    return show


def reference_of(document: Part) -> Reference:
    calls = [
        _call(document, method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    tag_of = {
        operation["operationId"]: operation["tags"][0]
        for item in document["paths"].values()
        for operation in item.values()
    }
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    return Reference(
        version=document["info"]["version"],
        tags=tags,
        calls={tag: [call for call in calls if tag_of[call.id] == tag] for tag in tags},
        webhooks=[_call(document, "POST", event, item["post"]) for event, item in document["webhooks"].items()],
        shapes=[_shape(name, schema) for name, schema in sorted(document["components"]["schemas"].items())],
    )


def _call(document: Part, method: str, path: str, operation: Part) -> Call:
    content: Part = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return Call(
        id=operation["operationId"],
        method=method,
        path=path,
        summary=operation["summary"],
        text=operation.get("description", ""),
        parameters=[_parameter(parameter) for parameter in operation.get("parameters", ())],
        body=_name(content.get("schema", {})),
        example=_json(content.get("example")),
        answers=[_told(document, status, response) for status, response in operation["responses"].items()],
    )


def _parameter(parameter: Part) -> Member:
    schema = parameter["schema"]
    return Member(
        parameter["name"], _kind(schema), "", parameter["description"], parameter["required"], parameter["in"]
    )


def _told(document: Part, status: str, response: Part) -> Told:
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    content: Part = response.get("content", {}).get("application/json", {})
    return Told(
        status=status,
        lines=[line.removeprefix("- ") for line in response["description"].splitlines()],
        shape=_name(content.get("schema", {})),
        headers=[name for name in response.get("headers", {}) if name != "X-Request-ID"],
        example=_json(content.get("example")),
    )


def _shape(name: str, schema: Part) -> Shape:
    required = set(schema.get("required", ()))
    members = [
        Member(member, _kind(part), _name(part), part.get("description", ""), member in required)
        for member, part in schema.get("properties", {}).items()
    ]
    return Shape(name, schema.get("description", ""), members, [str(value) for value in schema.get("enum", ())])


def _name(schema: Part) -> str:
    """Of the shape that it is made of; empty for none."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(SCHEMAS)
    parts: list[Part] = [*schema.get("anyOf", ()), *schema.get("allOf", ())]
    parts += [schema["items"]] if schema.get("items") else []
    return next((name for part in parts if (name := _name(part))), "")


def _kind(schema: Part) -> str:
    """In words: `integer, from 1, to 200, default 25`; `a list of string`; `File or null`."""
    if "$ref" in schema:
        return _name(schema)
    if "enum" in schema:
        kind = " | ".join(json.dumps(value) for value in schema["enum"])
    elif "type" not in schema and "anyOf" in schema:
        kind = " or ".join(_kind(part) for part in schema["anyOf"])
    elif schema.get("type") == "array":
        kind = f"a list of {_kind(schema['items'])}" if schema.get("items") else "a list"
    else:
        kind = str(schema.get("type", "anything"))
    limits = [text.format(schema[word]) for word, text in WORDS.items() if schema.get(word) not in (None, {})]
    return ", ".join([kind, *limits])


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
