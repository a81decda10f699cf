"""`/api/v1/saved-orders`: save, change, order, delete, restore."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from api.problem_documents import fields_of, problem_of

URL = "/api/v1/saved-orders"
ORDER = {"name": "Mine", "dataset": "things", "params": {"most": "5"}, "format": "jsonl", "zone": "Asia/Tokyo"}


async def made(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    response = await client.post(URL, json=ORDER | changes)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"http://testserver{URL}/{response.json()['id']}"
    return dict(response.json())


async def test_the_whole_way(client: httpx.AsyncClient) -> None:
    saved = await made(client)
    assert saved["params"] == {"most": 5}
    assert (saved["zone"], saved["options"], saved["export_id"]) == ("Asia/Tokyo", {"compression": "none"}, None)
    assert (await client.get(URL)).json() == {"items": [saved], "next_cursor": None}
    ordered = await client.post(f"{URL}/{saved['id']}/exports")
    assert ordered.status_code == 202
    assert (ordered.json()["name"], ordered.json()["params"]) == ("Mine", {"search": None, "most": 5})
    assert (await client.post(f"{URL}/{saved['id']}/exports")).status_code == 200
    shown = (await client.get(f"{URL}/{saved['id']}")).json()
    assert shown["export_id"] == ordered.json()["id"]
    assert (await client.delete(f"{URL}/{saved['id']}")).status_code == 204
    problem_of(await client.get(f"{URL}/{saved['id']}"), 404, "NOT_FOUND")
    assert (await client.get(URL)).json()["items"] == []
    assert (await client.post(f"{URL}/{saved['id']}/restoration")).json()["name"] == "Mine"


async def test_an_idempotency_key_makes_one_export(client: httpx.AsyncClient) -> None:
    saved = await made(client)
    headers = {"Idempotency-Key": "monthly-2026-01"}
    first = await client.post(f"{URL}/{saved['id']}/exports", headers=headers)
    await client.post(f"/api/v1/exports/{first.json()['id']}/cancellation")
    again = await client.post(f"{URL}/{saved['id']}/exports", headers=headers)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        ({}, {}),
        ({"name": " Yours "}, {"name": "Yours"}),
        ({"params": {}}, {"params": {}}),
        ({"format": "csv", "options": {}, "zone": "UTC"}, {"format": "csv", "zone": "UTC"}),
        ({"name": "Yours", "params": {"search": "x"}}, {"name": "Yours", "params": {"search": "x"}}),
    ],
)
async def test_what_is_left_out_stays(client: httpx.AsyncClient, sent: dict[str, Any], changed: dict[str, Any]) -> None:
    before = await made(client)
    after = (await client.patch(f"{URL}/{before['id']}", json=sent)).json()
    names = ("name", "dataset", "params", "format", "zone", "created_at", "id")
    assert {name: after[name] for name in names} == {name: before[name] for name in names} | changed


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({"name": ""}, ["name"]),
        ({"name": None, "params": {"most": "x"}}, ["name", "params.most"]),
        ({"format": "pdf"}, ["format"]),
        ({"title": "x"}, ["title"]),
    ],
)
async def test_mistakes_are_named(client: httpx.AsyncClient, sent: dict[str, Any], fields: list[str]) -> None:
    assert fields_of(await client.post(URL, json=ORDER | sent)) == fields
    saved = await made(client)
    assert fields_of(await client.patch(f"{URL}/{saved['id']}", json=sent)) == fields


async def test_what_no_longer_fits_is_said(client: httpx.AsyncClient, admin_client: httpx.AsyncClient) -> None:
    """An admin's dataset is not one of this person's any more."""
    await made(client)
    assert fields_of(await client.post(URL, json=ORDER | {"name": "Mine"})) == ["name"]
    assert fields_of(await client.post(URL, json=ORDER | {"name": "b", "dataset": "secret"})) == ["dataset"]
    assert (await admin_client.get(URL)).json()["items"] == []
