"""The OpenAPI document: of every route, of every code, true in its examples, and cheap to ask for again."""

from __future__ import annotations

import json
from typing import Any

import httpx
import jsonschema_rs
import pytest
from api.contract import strict
from schemathesis.specs.openapi.definitions import OPENAPI_31
from starlette.routing import Route, WebSocketRoute

from webapp.api.openapi import openapi
from webapp.domain.callbacks import CALLBACK_TYPES
from webapp.routes import api
from webapp.settings import Settings
from webapp.web.problem_codes import PROBLEMS

DOCUMENT: dict[str, Any] = json.loads(openapi("https://desk.example").body)
STRICT = strict(DOCUMENT)
CALLS = {
    (method.upper(), path): operation for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
}
OUTSIDE = {"BAD_RANGE", "METHOD_NOT_ALLOWED"}
"""Codes of no call: of pages, and of methods that there are not."""


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    found: Any = part
    while "$ref" in found:
        target: Any = STRICT
        for step in found["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        found = target
    return found


def validator(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.validator_for(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "components": STRICT["components"]},
        validate_formats=True,
    )


def test_it_is_openapi_3_1() -> None:
    jsonschema_rs.validator_for(OPENAPI_31).validate(DOCUMENT)


def test_every_route_is_in_it_and_nothing_else() -> None:
    routes = {
        (method, route.path)
        for route in api()
        for method in (["GET"] if isinstance(route, WebSocketRoute) else (getattr(route, "methods", None) or ()))
        if method != "HEAD" and isinstance(route, Route | WebSocketRoute)
    }
    assert set(CALLS) == routes, "a new route needs its Operation in webapp/api/operations.py"


def test_each_address_has_one_route_so_that_a_wrong_method_is_405() -> None:
    paths = [route.path for route in api() if isinstance(route, Route)]
    assert len(paths) == len(set(paths))


def test_every_code_is_of_some_call() -> None:
    told = {
        code
        for operation in CALLS.values()
        for response in operation["responses"].values()
        for media in resolved(response).get("content", {}).values()
        for part in media["schema"].get("allOf", ())
        for code in part.get("properties", {}).get("code", {}).get("enum", ())
    }
    assert {problem.code for problem in PROBLEMS} - told == OUTSIDE


def test_names_are_used_once_and_links_lead_to_calls() -> None:
    names = [operation["operationId"] for operation in CALLS.values()]
    assert len(names) == len(set(names))
    links = [
        link
        for operation in CALLS.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    taken = {
        operation["operationId"]: {parameter["name"] for parameter in operation.get("parameters", ())}
        for operation in CALLS.values()
    }
    assert links
    for link in links:
        assert set(link["parameters"]) <= taken[link["operationId"]]


def contents() -> list[tuple[str, dict[str, Any]]]:
    """Every body and answer, by where it is."""
    found: list[tuple[str, dict[str, Any]]] = []
    for (method, path), operation in CALLS.items():
        bodies = {"body": operation.get("requestBody", {}), **operation["responses"]}
        for name, part in bodies.items():
            for media, content in resolved(part).get("content", {}).items():
                found.append((f"{method} {path} {name} {media}", content))
    for event, item in DOCUMENT["webhooks"].items():
        found.append((event, item["post"]["requestBody"]["content"]["application/json"]))
    return found


@pytest.mark.parametrize(("place", "content"), contents(), ids=[place for place, _ in contents()])
def test_examples_are_what_their_schemas_say(place: str, content: dict[str, Any]) -> None:
    shown = [content["example"]] if "example" in content else []
    shown += [example["value"] for example in content.get("examples", {}).values()]
    is_json = "application/json" in place and "openapi.json" not in place
    assert shown or not is_json, "every body and answer in JSON has an example"
    for example in shown:
        validator(content["schema"]).validate(example)


def test_strictly_read_it_knows_a_member_that_is_not_there() -> None:
    schema = {"$ref": "#/components/schemas/Reminder"}
    assert validator(schema).is_valid({"type": "export.created", "deliveries": 0})
    assert not validator(schema).is_valid({"type": "export.created", "deliveries": 0, "more": 1})


def test_each_event_has_its_webhook_with_the_headers_that_prove_it() -> None:
    assert tuple(DOCUMENT["webhooks"]) == CALLBACK_TYPES
    for item in DOCUMENT["webhooks"].values():
        names = {parameter["name"] for parameter in item["post"]["parameters"]}
        assert names == {"webhook-id", "webhook-timestamp", "webhook-signature", "X-Signature"}


async def test_all_may_have_it_and_nobody_needs_it_twice(anonymous: httpx.AsyncClient, settings: Settings) -> None:
    first = await anonymous.get("/api/v1/openapi.json")
    assert (first.status_code, first.headers["content-type"]) == (200, "application/json")
    assert first.json()["servers"] == [{"url": f"{settings.base_url}/api/v1"}]
    again = await anonymous.get("/api/v1/openapi.json", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/callbacks/hosts", "GET, HEAD, PUT"),
        ("PATCH", "/callbacks/test", "POST"),
        ("GET", "/deliveries/redelivery", "POST"),
        ("TRACE", "/exports", "GET, HEAD, POST"),
        ("POST", "/ws", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_405_and_told_which_are_right(
    admin_client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await admin_client.request(method, f"/api/v1{path}")
    assert (response.status_code, response.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert sorted(response.headers["allow"].split(", ")) == sorted(allowed.split(", "))


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/exports?all=yes", "all"),
        ("/events?all=", "all"),
        (f"/exports?dataset={'x' * 201}", "dataset"),
        (f"/datasets/things/choices/search?q={'x' * 201}", "q"),
    ],
)
async def test_what_an_address_asks_for_has_limits(client: httpx.AsyncClient, path: str, field: str) -> None:
    response = await client.get(f"/api/v1{path}")
    assert (response.status_code, [error["field"] for error in response.json()["errors"]]) == (422, [field])


async def test_the_socket_s_address_tells_a_plain_request_so(client: httpx.AsyncClient) -> None:
    response = await client.get("/api/v1/ws")
    assert (response.status_code, response.json()["code"]) == (426, "UPGRADE_REQUIRED")
    assert response.headers["upgrade"] == "websocket"
