"""Ordering: picking a dataset, the form for every type of parameter, the preview, and what bad input gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from factories import changed
from pages.dom import node, nodes, text, texts
from pages.zones import FIRST, LAST, day_in, in_zone

from webapp.datasets.declaration import Catalog, Choice, Dataset, Parameter, ParameterType
from webapp.domain.access import Role, Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import ListFilter

ExportMaker = Callable[..., Awaitable[Export]]
T = ParameterType
COLOURS = (Choice("r", "Red"), Choice("g", "Green"), Choice("b", "Blue"))


async def orders(resources: Resources) -> list[Export]:
    async with resources.store.connection():
        return list(await rows.list_page(resources.store, ListFilter(), limit=50, after=None))


async def post(client: httpx.AsyncClient, dataset: str = "things", **fields: Any) -> httpx.Response:
    data = {"dataset": dataset, "format": "csv", **fields}
    return await client.post("/exports", data={name.replace("__", "."): value for name, value in data.items()})


@pytest.fixture
def every_type(resources: Resources) -> Dataset:
    """A dataset with a parameter of each type, added to the catalog."""
    parameters = (
        Parameter("text", T.STRING, "Text", description="Any text.", max_length=20),
        Parameter("whole", T.INTEGER, "Whole", minimum=1, maximum=9, default=5),
        Parameter("share", T.NUMBER, "Share"),
        Parameter("flag", T.BOOLEAN, "Flag"),
        Parameter("sure", T.BOOLEAN, "Sure", default=True),
        Parameter("day", T.DATE, "Day", default="today - 1d", maximum="today"),
        Parameter("moment", T.DATETIME, "Moment", default="2026-01-31T10:00:00Z"),
        Parameter("one", T.CHOICE, "One", choices=COLOURS, required=True),
        Parameter("some", T.CHOICES, "Some", choices=COLOURS, default=["r", "b"]),
        Parameter("lines", T.LIST, "Lines", default=["a", "b"]),
    )
    columns = ", ".join(f":{parameter.name} AS {parameter.name}" for parameter in parameters)
    dataset = Dataset(
        name="every",
        title="Every type",
        description="One parameter each.",
        source="shop",
        sql=f"SELECT {columns}",
        parameters=parameters,
        roles=frozenset(Role),
        formats=("csv", "xlsx", "jsonl"),
    )
    catalog: Catalog = resources.catalog
    catalog.datasets["every"] = dataset  # type: ignore[index]
    return dataset


async def test_datasets_are_offered_to_the_roles_that_may_use_them(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient
) -> None:
    assert "For admins" not in texts(await client.get("/exports/new"), ".pick strong")
    assert "For admins" in texts(await admin_client.get("/exports/new"), ".pick strong")
    assert (await client.get("/exports/new?dataset=secret")).status_code == 404
    assert (await post(client, "secret")).status_code == 404


async def test_datasets_are_searched_by_name_and_description(client: httpx.AsyncClient) -> None:
    found = await client.get("/exports/new?q=LONG takes")
    assert texts(found, ".pick strong") == ["Slow things"]
    nothing = await client.get("/exports/new?q=unheard-of")
    assert texts(nothing, ".pick") == []
    assert "hidden" not in node(nothing, "[data-filter-empty]").attributes


async def test_each_type_has_its_control_with_its_default(
    client: httpx.AsyncClient, every_type: Dataset, resources: Resources
) -> None:
    form = await client.get("/exports/new?dataset=every")
    yesterday = ((await resources.store.now()).date() - timedelta(days=1)).isoformat()
    assert node(form, "input[name='p.text']").attributes["maxlength"] == "20"
    assert node(form, "input[name='p.whole']").attributes["value"] == "5"
    assert node(form, "input[name='p.day'][type=date]").attributes["value"] == yesterday
    assert node(form, "input[name='p.moment'][type=datetime-local]").attributes["value"] == "2026-01-31T10:00:00"
    assert [n.attributes["value"] for n in nodes(form, "input[name='p.flag'][type=radio]")] == ["", "true", "false"]
    assert node(form, "input[name='p.flag'][checked]").attributes["value"] == ""
    assert node(form, "input[name='p.sure'][checked]").attributes["value"] == "true"
    assert texts(form, "select[name='p.one'] option") == ["Choose one", "Red", "Green", "Blue"]
    assert [n.attributes["value"] for n in nodes(form, "input[name='p.some'][type=checkbox][checked]")] == ["r", "b"]
    assert node(form, "textarea[name='p.lines']").text() == "a\nb"
    assert text(form, "label[for=param-one] .required") == "required"
    described_by = node(form, "input[name='p.text']").attributes["aria-describedby"]
    assert text(form, f"#{described_by}") == "Any text."


async def test_every_control_has_a_label(client: httpx.AsyncClient, every_type: Dataset) -> None:
    form = await client.get("/exports/new?dataset=every")
    labelled = {label.attributes["for"] for label in nodes(form, "label[for]")}
    for control in nodes(form, "#order input:not([type=hidden]), #order select, #order textarea"):
        inside = control.parent is not None and control.parent.tag == "label"
        assert inside or control.attributes.get("id") in labelled


async def test_an_order_is_taken_and_shown(
    client: httpx.AsyncClient, every_type: Dataset, resources: Resources
) -> None:
    fields = {
        "p__text": "<b>&", "p__whole": "7", "p__share": "0.5", "p__flag": "false", "p__sure": "true",
        "p__day": "2026-01-02", "p__moment": "2026-01-02T03:04", "p__one": "g", "p__some": ["b", "r"],
        "p__lines": "x\r\ny\r\n",
    }  # fmt: skip
    response = await post(client, "every", **fields)
    [export] = await orders(resources)
    assert (response.status_code, response.headers["location"]) == (303, f"/exports/{export.id}")
    assert export.params == {
        "text": "<b>&", "whole": 7, "share": 0.5, "flag": False, "sure": True, "day": "2026-01-02",
        "moment": "2026-01-02T03:04:00Z", "one": "g", "some": ["r", "b"], "lines": ["x", "y"],
    }  # fmt: skip
    page = await client.get(response.headers["location"])
    assert texts(page, "[role=status] .flash") == ["Order taken."]
    assert texts(page, ".facts b") == []


async def test_the_same_order_twice_is_one_export(client: httpx.AsyncClient, resources: Resources) -> None:
    first, second = await post(client, p__search="x"), await post(client, p__search="x")
    assert first.headers["location"] == second.headers["location"]
    assert len(await orders(resources)) == 1
    page = await client.get(second.headers["location"])
    assert texts(page, ".flash") == ["You already have this export running; here it is."]


async def test_wrong_values_come_back_with_a_message_at_each_field(
    client: httpx.AsyncClient, every_type: Dataset, resources: Resources
) -> None:
    response = await post(client, "every", p__whole="many", p__day="2999-01-01", p__some=["g"])
    assert response.status_code == 422
    assert await orders(resources) == []
    whole = node(response, "input[name='p.whole']")
    assert (whole.attributes["value"], whole.attributes["aria-invalid"]) == ("many", "true")
    assert "param-whole-error" in (whole.attributes["aria-describedby"] or "").split()
    assert text(response, "#param-whole-error") == "Whole must be a whole number."
    assert text(response, "#param-one-error") == "One is required."
    links = [link.attributes["href"] for link in nodes(response, "[role=alert] a")]
    assert links == ["#param-whole", "#param-day", "#param-one"]
    assert [n.attributes["value"] for n in nodes(response, "input[name='p.some'][checked]")] == ["g"]


async def test_an_unknown_parameter_format_and_option_are_named(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    response = await post(client, format="exe", p__nonsense="1")
    assert response.status_code == 422
    assert len(texts(response, "[role=alert] li")) == 2
    wrong = await post(client, o__delimiter="|", o__extra="1")
    assert (wrong.status_code, len(texts(wrong, "[role=alert] li"))) == (422, 2)
    assert len(nodes(wrong, "#option-delimiter-error")) == 1
    assert "open" in node(wrong, "details.file-options").attributes
    assert await orders(resources) == []


async def test_a_person_gets_options_that_suit_excel_unless_they_say_otherwise(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    form = await client.get("/exports/new?dataset=things")
    assert "checked" in node(form, "input[name='o.bom']").attributes
    await post(client, p__search="default")
    await post(client, p__search="chosen", o__shown="1", o__csv_text="raw", o__delimiter="tab", o__compression="gzip")
    chosen, default = await orders(resources)
    assert default.options == {"bom": True, "csv_text": "safe", "delimiter": ",", "compression": "none"}
    assert chosen.options == {"bom": False, "csv_text": "raw", "delimiter": "\t", "compression": "gzip"}


async def test_options_of_another_format_are_left_out(client: httpx.AsyncClient, resources: Resources) -> None:
    await post(client, format="xlsx", o__shown="1", o__delimiter="tab", o__timezone="Asia/Tokyo")
    assert [export.options for export in await orders(resources)] == [{"timezone": "Asia/Tokyo"}]


async def test_too_many_orders_are_told_in_the_form(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    for _ in range(resources.settings.max_active_per_user):
        await make_export(Status.QUEUED)
    response = await post(client, p__search="one more")
    assert (response.status_code, response.headers["retry-after"]) == (429, "30")
    assert nodes(response, "#summary[tabindex]"), "where scripts lead the focus"
    assert "limit is 20" in text(response, "[role=alert]")
    assert node(response, "input[name='p.search']").attributes["value"] == "one more"


async def test_a_link_fills_in_the_form(client: httpx.AsyncClient, every_type: Dataset) -> None:
    form = await client.get("/exports/new?dataset=every&p.whole=3&p.some=g&format=jsonl")
    assert node(form, "input[name='p.whole']").attributes["value"] == "3"
    assert [n.attributes["value"] for n in nodes(form, "input[name='p.some'][checked]")] == ["g"]
    assert node(form, "input[name=format][checked]").attributes["value"] == "jsonl"
    assert node(form, "textarea[name='p.lines']").text() == "a\nb"


async def test_ordering_again_starts_from_what_was_ordered(
    client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer
) -> None:
    options = {"bom": False, "csv_text": "raw", "delimiter": "\t", "compression": "gzip"}
    export = await make_export(Status.SUCCESS, params={"search": "tea", "most": 3}, options=options)
    form = await client.get(f"/exports/new?from={export.id}")
    assert node(form, "input[name='p.search']").attributes["value"] == "tea"
    assert node(form, "input[name='p.most']").attributes["value"] == "3"
    assert "checked" not in node(form, "input[name='o.bom']").attributes
    assert node(form, "input[name='o.delimiter'][checked]").attributes["value"] == "tab"
    theirs = await make_export(Status.SUCCESS, owner=other)
    assert (await client.get(f"/exports/new?from={theirs.id}")).status_code == 404


async def preview(client: httpx.AsyncClient, *, part: bool = True, **fields: Any) -> httpx.Response:
    data = {"dataset": "things", "format": "csv", **fields}
    headers = {"HX-Request": "true"} if part else {}
    return await client.post("/exports/new/preview", data=data, headers=headers)


async def test_the_preview_shows_the_first_rows(client: httpx.AsyncClient) -> None:
    response = await preview(client)
    assert nodes(response, "header, #order") == []
    assert texts(response, "#preview thead th") == ["idwhole number", "nametext", "pricedecimal number", "madedate"]
    assert len(nodes(response, "#preview tbody tr")) == 20
    assert texts(response, "#preview .preview-head .small")[0] == "20 of 1,000 rows"
    few = await preview(client, **{"p.most": "2"})
    assert texts(few, "#preview .preview-head .small")[0] == "2 rows in all"


async def test_the_preview_without_javascript_is_the_whole_form(client: httpx.AsyncClient) -> None:
    response = await preview(client, part=False, **{"p.search": "thing 7", "o.shown": "1"})
    assert node(response, "#order input[name='p.search']").attributes["value"] == "thing 7"
    assert "checked" not in node(response, "input[name='o.bom']").attributes
    assert len(nodes(response, "#preview tbody tr")) == 20


async def test_the_preview_says_what_is_wrong(client: httpx.AsyncClient, resources: Resources) -> None:
    wrong = await preview(client, **{"p.most": "5000"})
    assert (wrong.status_code, text(wrong, "#preview .message")) == (422, "At most must be 1000 or less.")
    broken = await preview(client, dataset="broken")
    assert broken.status_code == 200
    assert "no such table: vanished" in text(broken, "#preview .message")
    nothing = await preview(client, **{"p.search": "no such thing"})
    assert len(nothing.text) > 0
    assert len(nodes(nothing, "#preview .preview-empty")) == 1


async def test_cells_are_text_and_missing_values_are_told_from_empty_ones(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    sql = "SELECT '<script>x</script>' AS html, NULL AS missing, '' AS blank, x'00ff' AS blob"
    things = resources.catalog.datasets["things"]
    resources.catalog.datasets["odd"] = replace(things, name="odd", sql=sql, parameters=())  # type: ignore[index]
    response = await preview(client, dataset="odd")
    assert texts(response, "#preview .message") == []
    assert texts(response, "#preview tbody td") == ["<script>x</script>", "no value", "", "2 bytes"]
    assert nodes(response, "#preview script") == []


async def test_the_persons_zone_decides_what_today_is(
    client: httpx.AsyncClient, every_type: Dataset, resources: Resources
) -> None:
    now = datetime.now(UTC)
    ahead, behind = day_in(FIRST, now) - timedelta(days=1), day_in(LAST, now) - timedelta(days=1)
    assert ahead != behind
    for zone, day in ((FIRST, ahead), (LAST, behind)):
        form = await client.get("/exports/new?dataset=every", headers=in_zone(client, zone))
        assert node(form, "input[name='p.day']").attributes["value"] == day.isoformat()
        await post(client, "every", p__one="r", zone=zone)
    assert {export.params["day"] for export in await orders(resources)} == {ahead.isoformat(), behind.isoformat()}


async def test_a_workbook_has_the_persons_zone_unless_they_choose_another(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    form = await client.get("/exports/new?dataset=things", headers=in_zone(client, "Asia/Tokyo"))
    assert node(form, "#option-timezone option[selected]").text() == "Asia/Tokyo"
    assert node(form, "input[name=zone]").attributes["value"] == "Asia/Tokyo"
    await post(client, format="xlsx", zone="Asia/Tokyo", p__search="a")
    await post(client, format="xlsx", zone="Asia/Tokyo", o__timezone="UTC", p__search="b")
    await post(client, format="xlsx", zone="Nowhere/At_all", p__search="c")
    zones = {export.params["search"]: export.options["timezone"] for export in await orders(resources)}
    assert zones == {"a": "Asia/Tokyo", "b": "UTC", "c": "UTC"}


async def test_the_preview_tells_what_the_file_will_come_to(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.SUCCESS)
    assert export.file
    assert export.started_at
    ran = {"rows": 10, "size": 400_000}
    ended = export.started_at + timedelta(seconds=0.04)
    await changed(resources, export, file=replace(export.file, **ran), completed_at=ended)
    response = await preview(client, **{"o.compression": "none"})
    assert [(n.attributes["data-formats"], n.text(strip=True)) for n in nodes(response, ".outlook")] == [
        ("csv", "File: about 40.0 MB, about 4 s")
    ]
    assert texts(await preview(client, **{"o.compression": "gzip"}), ".outlook") == ["File: about 4 s"]


async def test_limits_are_told_before_the_order_and_the_order_is_taken_all_the_same(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    things = resources.catalog.datasets["things"]
    resources.catalog.datasets["things"] = replace(things, row_limit=999)  # type: ignore[index]
    response = await preview(client)
    told = nodes(response, ".preview-notices .message[data-formats=csv]")
    assert [n.text(strip=True) for n in told] == ["1,000 rows: more than the limit of 999 rows; narrow the parameters."]
    assert (await post(client)).status_code == 303


async def test_a_guess_of_the_source_is_marked_as_one(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.domain.limits.COUNT_SECONDS", 0.0)
    monkeypatch.setattr("webapp.datasets.readers.sqlite.SqliteReader.estimate", lambda _: 3_000_000)
    response = await preview(client, dataset="slow", **{"p.rows": "5000000"})
    assert texts(response, "#preview .preview-head .small")[0] == "20 of about 3,000,000 rows"
    [notice] = nodes(response, ".preview-notices .message")
    assert notice.attributes["data-formats"] == "xlsx"
    assert "3 sheets" in notice.text()
