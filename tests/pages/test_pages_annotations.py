"""An export's name and note on its page, in the list and in its search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import httpx
import pytest
from pages.dom import node, nodes, text, texts

from webapp.actions import exports as actions
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.limits import NAME_LENGTH
from webapp.resources import Resources
from webapp.store import exports as rows

ExportMaker = Callable[..., Awaitable[Export]]


async def annotate(client: httpx.AsyncClient, export: Export, **fields: str) -> httpx.Response:
    return await client.post(f"/exports/{export.id}/annotation", data=fields)


@pytest.mark.parametrize("status", list(Status))
async def test_a_name_and_a_note_in_every_status(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    export = await make_export(status)
    saved = await annotate(client, export, name="For <Ann>", note="first line\r\nsecond & last")
    assert (saved.status_code, saved.headers["location"]) == (303, f"/exports/{export.id}")
    shown = await client.get(f"/exports/{export.id}")
    assert text(shown, "h1") == "For <Ann> CSV"
    assert text(shown, "title").startswith("For <Ann>, ")
    assert node(shown, ".export-note").text() == "first line\nsecond & last"
    assert node(shown, "#annotation-name").attributes["value"] == "For <Ann>"
    assert node(shown, "#annotation-note").text() == "first line\nsecond & last"
    assert text(await client.get("/exports"), ".row-title") == "For <Ann>"
    assert text(await client.get("/exports"), ".row-dataset") == "Things"
    labels = [found.attributes["aria-label"] or "" for found in nodes(await client.get("/exports"), "tr [aria-label]")]
    assert [label for label in labels[1:] if "For <Ann>" not in label] == [], "each row is told by its own name"


async def test_an_empty_name_is_the_datasets_again(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS, name="Mine", note="noted")
    await annotate(client, export, name="", note="")
    shown = await client.get(f"/exports/{export.id}")
    assert text(shown, "h1") == "Things CSV"
    assert nodes(shown, ".export-note") == []
    assert text(await client.get("/exports"), ".row-title") == "Things"


async def test_a_mistake_comes_back_with_what_was_sent(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS, name="Mine")
    refused = await annotate(client, export, name="x" * (NAME_LENGTH + 1), note="kept")
    assert refused.status_code == 422
    field = node(refused, "#annotation-name")
    assert (field.attributes["value"], field.attributes["aria-invalid"]) == ("x" * (NAME_LENGTH + 1), "true")
    assert text(refused, f"#{field.attributes['aria-describedby']}") == f"Must have at most {NAME_LENGTH} characters."
    assert node(refused, "#annotation-note").text() == "kept"
    assert "open" in node(refused, "details.annotation").attributes
    assert text(refused, "h1") == "Mine CSV"


@pytest.mark.parametrize(
    ("searched", "found"),
    [
        ("quarterly", True),
        ("QUARTER", True),
        ('"final"', True),
        ("50 %", True),
        ("büro", True),
        ("für Ann\n", True),
        ("5_ %", False),
        ("report Mind", False),
    ],
)
async def test_the_list_is_searched_by_name_and_note(
    client: httpx.AsyncClient, make_export: ExportMaker, searched: str, found: bool
) -> None:
    named = await make_export(Status.SUCCESS, name='Quarterly "final" report', note="Mind the 50 %\nim büro für Ann")
    await make_export(Status.SUCCESS)
    response = await client.get("/exports", params={"q": searched})
    assert texts(response, ".row-title") == (['Quarterly "final" report'] if found else []), named.id
    api = await client.get("/api/v1/exports", params={"q": searched.strip()})
    assert [item["id"] for item in api.json()["items"]] == ([named.id] if found else [])


async def test_a_change_of_status_does_not_take_the_name_back(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    """A worker that read the export before it was named writes it after that."""
    before = await make_export(Status.QUEUED)
    await annotate(client, before, name="Mine", note="noted")
    async with resources.store.transaction():
        assert await rows.compare_and_set(resources.store, before, replace(before, version=before.version + 1))
    after = await actions.get(resources, user, before.id)
    assert (after.name, after.note, after.version) == ("Mine", "noted", before.version + 1)
