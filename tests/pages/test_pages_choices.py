"""Parameters with choices from a query: a list to choose from, a long one to search, also without JavaScript."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pages.dom import facts, node, nodes, text, texts

from webapp.datasets.declaration import Choice, Parameter, ParameterType
from webapp.domain.exports import Export
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import ListFilter


@pytest.fixture
def airports(shop: Path) -> Path:
    """1,000 airports, of which ten are in the south."""
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("CREATE TABLE airports (code TEXT, name TEXT)")
        named = [(f"A{n:03d}", f"{'South' if n % 100 == 0 else 'North'} <{n}>") for n in range(1000)]
        connection.executemany("INSERT INTO airports VALUES (?, ?)", named)
        connection.commit()
    return shop


def declare(resources: Resources, *, most: int = 1000, required: bool = False, table: str = "airports") -> None:
    sql = f"SELECT code, name FROM {table} ORDER BY code LIMIT {most}"
    dataset = replace(
        resources.catalog.datasets["things"],
        name="flights",
        title="Flights",
        sql="SELECT :origin AS origin, :others AS others",
        parameters=(
            Parameter("origin", ParameterType.CHOICE, "Origin", required=required, choices_sql=sql),
            Parameter("others", ParameterType.CHOICES, "Others", choices_sql=sql),
        ),
    )
    resources.catalog.datasets["flights"] = dataset  # type: ignore[index]


async def orders(resources: Resources) -> list[Export]:
    async with resources.store.connection():
        return list(await rows.list_page(resources.store, ListFilter(), limit=50, after=None))


def sent(**fields: Any) -> dict[str, Any]:
    return {"dataset": "flights", "format": "csv", "o.shown": "1"} | {
        k.replace("__", "."): v for k, v in fields.items()
    }


async def test_up_to_fifty_values_are_all_shown(
    client: httpx.AsyncClient, resources: Resources, airports: Path
) -> None:
    declare(resources, most=50)
    form = await client.get("/exports/new?dataset=flights")
    assert len(nodes(form, "select[name='p.origin'] option")) == 51
    assert texts(form, "select[name='p.origin'] option")[1] == "South <0>"
    assert len(nodes(form, "input[name='p.others'][type=checkbox]")) == 50
    assert nodes(form, "[data-combo]") == []


async def test_more_values_are_searched(client: httpx.AsyncClient, resources: Resources, airports: Path) -> None:
    declare(resources, most=51)
    form = await client.get("/exports/new?dataset=flights")
    assert [combo.attributes["data-combo"] for combo in nodes(form, "[data-combo]")] == ["one", "several"]
    assert text(form, "#param-origin-found .combo-count").startswith("20 of 51")
    assert len(nodes(form, "#param-origin-found input[type=radio][name='p.origin']")) == 20
    assert node(form, "input[name='p.origin'][checked]").attributes["value"] == ""
    assert node(form, "#param-origin").attributes["name"] == "q.origin"
    assert node(form, "label[for=param-origin]").text(strip=True) == "Origin"


async def test_a_search_without_javascript_keeps_what_was_filled_in(
    client: httpx.AsyncClient, resources: Resources, airports: Path
) -> None:
    declare(resources)
    found = await client.post(
        "/exports/new/choices", data=sent(q__origin="south", q__others="north 1", p__others=["A001", "A002"])
    )
    assert found.status_code == 200
    assert texts(found, "#param-origin-found li span")[:2] == ["South <0> A000", "A000"]
    assert len(nodes(found, "#param-origin-found input")) == 10
    chosen = nodes(found, ".combo-chosen input[name='p.others'][checked]")
    assert [box.attributes["value"] for box in chosen] == ["A001", "A002"]
    assert node(found, "#param-others").attributes["value"] == "north 1"
    assert "checked" not in node(found, "input[name='o.bom']").attributes


async def test_htmx_gets_the_list_alone(client: httpx.AsyncClient, resources: Resources, airports: Path) -> None:
    declare(resources)
    url = "/exports/new/choices?dataset=flights&parameter=origin"
    part = await client.get(f"{url}&q=south", headers={"HX-Request": "true"})
    assert nodes(part, "header, form") == []
    assert text(part, ".combo-count") == "10 matches."
    assert [item.attributes["data-label"] for item in nodes(part, "li")][:2] == ["South <0>", "South <100>"]
    typed = await client.get(f"{url}&q.origin=A5", headers={"HX-Request": "true"})
    assert nodes(typed, "li")[0].attributes["data-value"] == "A500"
    nothing = await client.get(f"{url}&q=nowhere", headers={"HX-Request": "true"})
    assert text(nothing, ".combo-count") == "Nothing fits."
    for wrong in ("dataset=secret&parameter=origin", "dataset=flights&parameter=nope", "dataset=things&parameter=most"):
        answer = await client.get(f"/exports/new/choices?{wrong}", headers={"HX-Request": "true"})
        assert answer.status_code == 404, wrong


async def test_a_chosen_value_is_ordered_and_one_that_is_gone_is_refused_at_its_field(
    client: httpx.AsyncClient, resources: Resources, airports: Path
) -> None:
    declare(resources)
    taken = await client.post("/exports", data=sent(p__origin="A100", p__others=["A003", "A001"]))
    assert taken.status_code == 303
    assert [export.params for export in await orders(resources)] == [{"origin": "A100", "others": ["A001", "A003"]}]
    gone = await client.post("/exports", data=sent(p__origin="ZZZ"))
    assert gone.status_code == 422
    assert text(gone, "#param-origin-error").startswith("Origin must be one of A000, A001,")
    assert len(await orders(resources)) == 1


async def test_an_order_says_what_its_choices_were_called_when_it_was_placed(
    client: httpx.AsyncClient, resources: Resources, airports: Path
) -> None:
    declare(resources)
    fixed = Parameter("carrier", ParameterType.CHOICE, "Carrier", choices=(Choice("DL", "Delta"), Choice("UA", "UA")))
    flights = resources.catalog.datasets["flights"]
    resources.catalog.datasets["flights"] = replace(flights, parameters=(*flights.parameters, fixed))  # type: ignore[index]
    taken = await client.post("/exports", data=sent(p__origin="A100", p__others=["A003", "A200"], p__carrier="DL"))
    with closing(sqlite3.connect(airports)) as connection:
        connection.execute("UPDATE airports SET name = 'Renamed'")
        connection.commit()
    resources.choices._kept.clear()
    told = facts(await client.get(taken.headers["location"]))
    assert (told["Origin"], told["Others"], told["Carrier"]) == ("South <100>", "North <3>, South <200>", "Delta")
    assert text(await client.get("/exports"), ".row-params") == (
        "Origin: South <100> · Others: North <3>, South <200> · Carrier: Delta"
    )
    resources.catalog.datasets["flights"] = replace(flights, parameters=())  # type: ignore[index]
    assert facts(await client.get(taken.headers["location"]))["carrier"] == "Delta"
    assert len(nodes(await client.get("/exports?q=south <200>"), ".row-params")) == 1
    assert [export.params for export in await orders(resources)] == [
        {"origin": "A100", "others": ["A003", "A200"], "carrier": "DL"}
    ]


async def test_a_list_that_cannot_be_read_is_told_at_its_field_and_stops_only_who_needs_it(
    client: httpx.AsyncClient, resources: Resources, airports: Path
) -> None:
    declare(resources, table="vanished")
    form = await client.get("/exports/new?dataset=flights")
    assert form.status_code == 200
    assert "cannot be read now" in text(form, "#param-origin-error")
    refused = await client.post("/exports", data=sent(p__origin="A100"))
    assert refused.status_code == 422
    assert "no such table: vanished" in text(refused, "#param-origin-error")
    assert (await client.post("/exports", data=sent())).status_code == 303
    part = await client.get("/exports/new/choices?dataset=flights&parameter=origin&q=a", headers={"HX-Request": "true"})
    assert "no such table: vanished" in text(part, ".combo-count")
