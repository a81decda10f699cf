"""The client's types against the OpenAPI document: what it reads is there, of the same kind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from webapp import client
from webapp.api.openapi import openapi

SCHEMAS: dict[str, Any] = dict(openapi("https://desk.example").content["components"]["schemas"])
SHAPES = {
    client.File: "File",
    client.ExportError: "ExportError",
    client.Warned: "ExportWarning",
    client.Export: "Export",
    client.Attempt: "Attempt",
    client.SavedOrder: "SavedOrder",
    client.Schedule: "Schedule",
    client.Event: "Event",
    client.Column: "PreviewColumn",
    client.Notice: "Notice",
    client.Preview: "Preview",
    client.Dataset: "Dataset",
    client.Wrong: "FieldProblem",
}
NAMES = {kind.__name__: name for kind, name in SHAPES.items()}


def kinds(schema: dict[str, Any], schemas: dict[str, Any]) -> set[str]:
    """Of JSON: `null`, `string` and so on; an object with a name counts as that."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        target = schemas[name]
        return {"string"} if "enum" in target else {NAMES.get(name, name)}
    if "anyOf" in schema:
        return {kind for part in schema["anyOf"] for kind in kinds(part, schemas)}
    if "enum" in schema:
        return {"string" if isinstance(value, str) else "null" for value in schema["enum"]}
    return {schema.get("type", "anything")}


@pytest.mark.parametrize("kind", list(SHAPES), ids=lambda kind: kind.__name__)
def test_what_the_client_reads_is_what_the_document_says(kind: type) -> None:
    [_], own = msgspec.json.schema_components([kind], ref_template="#/{name}")
    reads, told = own[kind.__name__], SCHEMAS[SHAPES[kind]]
    assert set(reads["required"]) <= set(told["required"])
    for name, schema in reads["properties"].items():
        may_come = kinds(told["properties"][name], SCHEMAS)
        understood = kinds(schema, own)
        understood |= {"integer"} if "number" in understood else set()
        understood |= set(SCHEMAS) if "object" in understood else set()
        assert may_come <= understood, name


def test_it_knows_every_status() -> None:
    assert set(client.Status.__args__) == set(SCHEMAS["Status"]["enum"])
    assert set(client.File.__struct_fields__) == set(SCHEMAS["File"]["properties"])
