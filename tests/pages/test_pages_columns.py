"""Choosing columns on the order form without JavaScript, and what pages say of the choice."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from pages.dom import facts, node, nodes, text, texts
from selectolax.lexbor import LexborNode

from webapp.actions import saved_orders
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.pages.order_columns import Columns
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import ListFilter

ExportMaker = Callable[..., Awaitable[Export]]
OWN = ["id", "name", "price", "made"]


async def newest(resources: Resources) -> Export:
    async with resources.store.connection():
        return (await rows.list_page(resources.store, ListFilter(), limit=1, after=None))[0]


def value(found: LexborNode) -> str:
    return found.attributes["value"] or ""


def shown(form: httpx.Response) -> list[str]:
    """The columns of the list from top to bottom, those left out in brackets."""
    boxes = nodes(form, ".columns input[name='o.columns'][type=checkbox]")
    return [value(box) if "checked" in box.attributes else f"({value(box)})" for box in boxes]


def sent(*columns: str, known: list[str] = OWN, **more: str) -> dict[str, Any]:
    """What a browser sends that has the list open, with these ticked."""
    return {"dataset": "things", "format": "csv", "o.columns": columns, "columns.known": json.dumps(known), **more}


async def pressed(client: httpx.AsyncClient, button: str, *columns: str) -> list[str]:
    return shown(await client.post("/exports/new/columns", data=sent(*columns, columns=button)))


async def test_all_columns_until_somebody_wants_to_choose(client: httpx.AsyncClient) -> None:
    form = await client.get("/exports/new?dataset=things")
    assert text(form, "#columns .quiet") == "All of them, in the dataset’s order."
    assert shown(form) == []
    opened = await client.post("/exports/new/columns", data={"dataset": "things", "format": "xlsx", "p.search": "tea"})
    assert shown(opened) == OWN
    assert node(opened, "input[name='p.search']").attributes["value"] == "tea"
    assert value(node(opened, "input[name=format][checked]")) == "xlsx"
    part = await client.post("/exports/new/columns", data={"dataset": "things"}, headers={"HX-Request": "true"})
    assert nodes(part, "form, header") == []
    assert shown(part) == OWN


async def test_the_buttons_move_reset_and_clear(client: httpx.AsyncClient) -> None:
    assert await pressed(client, "up:price", *OWN) == ["id", "price", "name", "made"]
    assert await pressed(client, "down:id", "id", "price") == ["price", "id", "(name)", "(made)"]
    assert await pressed(client, "up:id", "id", "price") == ["id", "price", "(name)", "(made)"]
    assert await pressed(client, "down:nothing", "id") == ["id", "(name)", "(price)", "(made)"]
    assert await pressed(client, "none", *OWN) == ["(id)", "(name)", "(price)", "(made)"]
    assert await pressed(client, "all", "price") == OWN


@pytest.mark.parametrize("format", ["csv", "parquet"])
async def test_the_choice_is_ordered_told_and_there_again(
    client: httpx.AsyncClient, resources: Resources, format: str
) -> None:
    taken = await client.post("/exports", data=sent("price", "id", format=format))
    assert taken.status_code == 303
    export = await newest(resources)
    assert export.options["columns"] == ["price", "id"]
    assert facts(await client.get(f"/exports/{export.id}"))["Columns"] == "price, id"
    again = await client.get(f"/exports/new?from={export.id}")
    assert shown(again) == ["price", "id", "(name)", "(made)"]
    await client.post("/exports", data=sent(*OWN, format=format))
    assert "columns" not in (await newest(resources)).options


async def test_none_and_unknown_ones_are_refused_at_the_list(client: httpx.AsyncClient) -> None:
    nothing = await client.post("/exports", data=sent())
    assert nothing.status_code == 422
    assert text(nothing, "#columns-error") == "Choose at least one column."
    assert node(nothing, "#summary a").attributes["href"] == "#field-options-columns"
    assert shown(nothing) == ["(id)", "(name)", "(price)", "(made)"]
    gone = await client.post("/exports", data=sent("id", "weight"))
    assert text(gone, "#columns-error") == "There is no column weight; there are: id, name, price, made."
    assert texts(gone, ".columns .error") == ["no longer in the dataset"]
    assert shown(gone) == ["id", "weight", "(name)", "(price)", "(made)"]


async def test_the_preview_has_them_in_their_order(client: httpx.AsyncClient) -> None:
    part = {"HX-Request": "true"}
    response = await client.post("/exports/new/preview", data=sent("price", "id"), headers=part)
    assert texts(response, "#preview thead th") == ["pricedecimal number", "idwhole number"]
    assert texts(response, "#preview tbody tr:first-child td") == ["0.25", "1"]
    nothing = await client.post("/exports/new/preview", data=sent(), headers=part)
    assert "choose at least one column" in text(nothing, "#preview .message").lower()
    whole = await client.post("/exports/new/preview", data=sent("price", "id"))
    assert shown(whole) == ["price", "id", "(name)", "(made)"]


async def test_a_link_can_choose_and_a_source_without_an_answer_keeps_the_choice(client: httpx.AsyncClient) -> None:
    linked = await client.get("/exports/new?dataset=things&o.columns=made&o.columns=id")
    assert shown(linked) == ["made", "id", "(name)", "(price)"]
    broken = await client.get("/exports/new?dataset=broken&o.columns=b&o.columns=a")
    assert shown(broken) == ["b", "a"]
    assert "no such table" in text(broken, "#columns .error")
    assert text(broken, "#columns button[value=all]") == "Show all columns"


async def test_a_saved_order_keeps_them(client: httpx.AsyncClient, resources: Resources, user: Viewer) -> None:
    naming = await client.post("/saved-orders/new", data=sent("price", "id"))
    kept = {"columns.known": json.dumps(OWN), "o.columns": ["price", "id"]}
    hidden = nodes(naming, "main form input[type=hidden]")
    assert [value(field) for field in hidden if field.attributes["name"] == "o.columns"] == kept["o.columns"]
    await client.post("/saved-orders", data={"dataset": "things", "format": "csv", "name": "Prices", **kept})
    [saved] = await saved_orders.list_own(resources, user)
    assert saved.options["columns"] == ["price", "id"]
    assert texts(await client.get("/saved-orders"), ".saved-what p") == ["Things · Columns: price, id"]
    assert shown(await client.get(f"/exports/new?saved={saved.id}")) == ["price", "id", "(name)", "(made)"]
    fewer = replace(resources.catalog.datasets["things"], sql="SELECT id FROM things", parameters=())
    resources.catalog.datasets["things"] = fewer  # type: ignore[index]
    unfit = await client.post(f"/saved-orders/{saved.id}/exports")
    assert unfit.headers["location"] == f"/exports/new?saved={saved.id}"
    form = await client.get(unfit.headers["location"])
    assert (shown(form), texts(form, ".columns .error")) == (["price", "id"], ["no longer in the dataset"])


async def test_a_dataset_of_very_many_columns_is_not_listed(
    client: httpx.AsyncClient, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COLUMNS_MOST", 3)
    many = await client.post("/exports/new/columns", data={"dataset": "things"})
    assert shown(many) == []
    assert text(many, "#columns .error").startswith("The dataset has 4 columns, too many to list.")


async def test_as_many_as_may_be_chosen_are_sent_beside_a_long_list(client: httpx.AsyncClient) -> None:
    many = [f"c{number}" for number in range(limits.COLUMNS_MOST)]
    form = sent(*many, known=many) | {"p.search": ["tea"] * limits.LIST_ITEMS}
    assert shown(await client.post("/exports/new/columns", data=form)) == many


@pytest.mark.parametrize("known", ["", "{", '{"a": 1}', "[1]", "null"])
async def test_a_list_that_is_none_is_looked_up(client: httpx.AsyncClient, known: str) -> None:
    data = sent("price") | {"columns.known": known}
    assert shown(await client.post("/exports/new/columns", data=data)) == ["price", "(id)", "(name)", "(made)"]


async def test_parameters_that_are_not_right_yet_do_not_hide_the_columns(client: httpx.AsyncClient) -> None:
    assert shown(await client.post("/exports/new/columns", data={"dataset": "things", "p.most": "many"})) == OWN


async def test_an_export_of_long_ago_without_a_choice_says_none(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    assert "Columns" not in facts(await client.get(f"/exports/{export.id}"))


def test_a_name_with_a_colon_moves() -> None:
    assert Columns(("a:b", "c")).pressed("down:a:b").chosen == ("c", "a:b")
