"""Orders and previews with chosen columns: what is kept, what is refused, and what the export says of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from api.problem_documents import fields_of, problem_of, rows_written

from webapp.actions import exports
from webapp.actions.exports import Order
from webapp.domain.access import Viewer
from webapp.domain.errors import Invalid
from webapp.domain.formats import API_DEFAULTS, FORMATS
from webapp.domain.limits import COLUMNS_MOST
from webapp.resources import Resources

URL = "/api/v1/exports"


def order(columns: Any, **more: Any) -> dict[str, Any]:
    return {"dataset": "things", "options": {"columns": columns}, **more}


@pytest.mark.parametrize("format", FORMATS)
async def test_an_export_says_which_columns_were_chosen(client: httpx.AsyncClient, format: str) -> None:
    taken = await client.post(URL, json=order(["price", "id"], format=format))
    assert taken.status_code == 202
    assert taken.json()["options"]["columns"] == ["price", "id"]
    assert (await client.get(taken.headers["location"])).json()["options"] == taken.json()["options"]
    whole = await client.post(URL, json={"dataset": "things", "format": format})
    assert "columns" not in whole.json()["options"]


async def test_another_order_of_the_columns_is_another_export(client: httpx.AsyncClient) -> None:
    first = await client.post(URL, json=order(["price", "id"]))
    again = await client.post(URL, json=order(["price", "id"]))
    turned = await client.post(URL, json=order(["id", "price"]))
    assert (first.status_code, again.status_code, turned.status_code) == (202, 200, 202)
    assert first.json()["id"] == again.json()["id"] != turned.json()["id"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "weight"], "There is no column weight; there are: id, name, price, made"),
        (["ID"], "There is no column ID; there are: id, name, price, made"),
        (["id", "name", "id"], "names a column twice: id"),
        ([], "choose at least one column"),
        ([str(n) for n in range(COLUMNS_MOST + 1)], "must have at most 1,000 columns"),
        *[
            (wrong, "must be a list of column names, in the order of the file")
            for wrong in (None, "id", {"id": 1}, 7, [1], [["id"]], ["id\0"], ["x" * 1001], [None])
        ],
    ],
)
async def test_what_cannot_be_chosen_is_refused_in_orders_and_previews(
    client: httpx.AsyncClient, resources: Resources, columns: Any, message: str
) -> None:
    for path in (URL, "/api/v1/datasets/things/preview"):
        body = order(columns) if path == URL else {"options": {"columns": columns}}
        refused = await client.post(path, json=body)
        assert fields_of(refused) == ["options.columns"]
        assert refused.json()["errors"][0]["message"] == message
    assert await rows_written(resources) == (0, 0, 0)


async def test_a_source_that_gives_no_answer_refuses_no_columns(client: httpx.AsyncClient) -> None:
    broken = await client.post(URL, json={"dataset": "broken", "options": {"columns": ["whatever"]}})
    assert broken.status_code == 202
    shown = await client.post("/api/v1/datasets/broken/preview", json={"options": {"columns": ["x"]}})
    problem_of(shown, 422, "QUERY_ERROR")


async def test_a_preview_has_the_chosen_columns_in_their_order(client: httpx.AsyncClient) -> None:
    body = {"params": {"most": 2}, "options": {"columns": ["made", "id"]}}
    shown = (await client.post("/api/v1/datasets/things/preview", json=body)).json()
    assert [column["name"] for column in shown["columns"]] == ["made", "id"]
    assert shown["rows"] == [["2026-01-31", 1], ["2026-01-31", 2]]
    assert shown["rows_estimate"] == 2


async def test_a_saved_order_keeps_them_and_says_when_one_is_gone(
    client: httpx.AsyncClient, resources: Resources, shop: Path
) -> None:
    body = {"name": "Prices", "dataset": "things", "options": {"columns": ["price", "id"]}}
    saved = (await client.post("/api/v1/saved-orders", json=body)).json()
    assert saved["options"]["columns"] == ["price", "id"]
    ordered = await client.post(f"/api/v1/saved-orders/{saved['id']}/exports")
    assert ordered.json()["options"]["columns"] == ["price", "id"]
    things = resources.catalog.datasets["things"]
    fewer = replace(things, sql=things.sql.replace("*", "id, name"))
    assert fewer.sql != things.sql
    resources.catalog.datasets["things"] = fewer  # type: ignore[index]
    gone = await client.post(f"/api/v1/saved-orders/{saved['id']}/exports")
    assert fields_of(gone) == ["options.columns"]
    assert gone.json()["errors"][0]["message"] == "There is no column price; there are: id, name"


async def test_columns_may_be_called_anything(resources: Resources, user: Viewer, shop: Path) -> None:
    names = ['a "b"', "c,d", "", "東京", "id ", "; DROP TABLE things"]
    with closing(sqlite3.connect(shop)) as connection:
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        connection.execute(f"CREATE TABLE odd ({columns})")
        connection.commit()
    odd = replace(resources.catalog.datasets["things"], name="odd", sql="SELECT * FROM odd", parameters=())
    resources.catalog.datasets["odd"] = odd  # type: ignore[index]
    export, _ = await exports.order(
        resources, user, Order("odd", {}, "csv", {"columns": names[::-1]}), defaults=API_DEFAULTS
    )
    assert export.options["columns"] == names[::-1]
    with pytest.raises(Invalid):
        await exports.order(resources, user, Order("odd", {}, "csv", {"columns": ["id"]}), defaults=API_DEFAULTS)
