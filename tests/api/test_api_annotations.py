"""`PATCH /exports/{id}`, names at the order, and what a poll is told of a new name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from api.problem_documents import fields_of

from webapp.actions import attempts
from webapp.domain.exports import Export, Phase, Status
from webapp.resources import Resources
from webapp.store.exports import Progress

URL = "/api/v1/exports"
ExportMaker = Callable[..., Awaitable[Export]]


async def test_what_is_left_out_stays(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS)
    for sent, kept in (
        ({"name": "Mine"}, ("Mine", "")),
        ({"note": "noted"}, ("Mine", "noted")),
        ({}, ("Mine", "noted")),
        ({"name": ""}, ("", "noted")),
    ):
        response = await client.patch(f"{URL}/{export.id}", json=sent)
        assert response.status_code == 200
        told = response.json()
        assert (told["name"], told["note"]) == kept
        assert told["version"] == export.version
        assert (await client.get(f"{URL}/{export.id}")).json() == told


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({"name": None}, ["name"]),
        ({"name": "x" * 121, "note": 5}, ["name", "note"]),
        ({"title": "x"}, ["title"]),
    ],
)
async def test_mistakes_are_named(
    client: httpx.AsyncClient, make_export: ExportMaker, sent: dict[str, Any], fields: list[str]
) -> None:
    export = await make_export(Status.SUCCESS)
    assert fields_of(await client.patch(f"{URL}/{export.id}", json=sent)) == fields


async def test_an_order_brings_its_name(client: httpx.AsyncClient) -> None:
    order = {"dataset": "things", "name": "Mine", "note": "noted"}
    made = await client.post(URL, json=order)
    assert made.status_code == 202
    assert (made.json()["name"], made.json()["note"]) == ("Mine", "noted")
    again = await client.post(URL, json=order | {"name": "Another"})
    assert (again.status_code, again.json()["name"]) == (200, "Mine")
    wrong = await client.post(URL, json={"dataset": "things", "format": "x", "name": "x" * 121})
    assert fields_of(wrong) == ["format", "name"]


@pytest.mark.parametrize("status", [Status.QUEUED, Status.PROCESSING, Status.SUCCESS])
async def test_a_new_name_is_a_new_etag(client: httpx.AsyncClient, make_export: ExportMaker, status: Status) -> None:
    export = await make_export(status)
    first = await client.get(f"{URL}/{export.id}")
    await client.patch(f"{URL}/{export.id}", json={"name": "Mine"})
    known = {"If-None-Match": first.headers["etag"]}
    second = await client.get(f"{URL}/{export.id}", headers=known)
    assert (second.status_code, second.json()["name"]) == (200, "Mine")
    known = {"If-None-Match": second.headers["etag"]}
    assert (await client.get(f"{URL}/{export.id}", headers=known)).status_code == 304


async def test_progress_of_a_running_export_tells_its_new_name(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    """The worker knows only the name from when it began."""
    export = await make_export(Status.PROCESSING)
    await client.patch(f"{URL}/{export.id}", json={"name": "Mine"})
    assert await attempts.report_progress(resources, export, Progress(Phase.READING, 5, 10, 100))
    told = (await client.get(f"{URL}/{export.id}")).json()
    assert (told["name"], told["rows_done"]) == ("Mine", 5)
