"""`/api/v1/datasets`: what can be ordered, its JSON Schema, and its first rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
import pytest
from api.problem_documents import fields_of, problem_of, rows_written
from factories import changed

from webapp.datasets.declaration import Parameter, ParameterType
from webapp.domain.exports import Export, Status
from webapp.domain.formats import FORMATS
from webapp.resources import Resources

URL = "/api/v1/datasets"


async def preview(client: httpx.AsyncClient, name: str, **params: object) -> httpx.Response:
    return await client.post(f"{URL}/{name}/preview", json={"params": params})


async def test_the_list_has_what_this_role_may_order(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient
) -> None:
    listed = (await client.get(URL)).json()
    assert listed["next_cursor"] is None
    assert {item["name"] for item in listed["items"]} == {"things", "slow", "broken"}
    everything = (await admin_client.get(URL)).json()["items"]
    assert "secret" in {item["name"] for item in everything}


async def test_a_dataset_tells_its_parameters_formats_and_limits(client: httpx.AsyncClient) -> None:
    told = (await client.get(f"{URL}/things")).json()
    assert (told["name"], told["title"], told["description"]) == ("things", "Things", "Everything in the shop.")
    assert told["formats"] == list(FORMATS)
    assert told["limits"] == {"rows": None, "bytes": None, "execution_seconds": 1800, "memory_mib": 512}
    schema = told["parameters"]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    most = schema["properties"]["most"]
    assert (most["minimum"], most["maximum"]) == (1, 1000)
    assert "sql" not in told
    assert "source" not in told


@pytest.mark.parametrize("name", ["secret", "nothing", "%00", "%2e%2e%2fx", "THINGS", "things%20", "a" * 300])
async def test_what_is_not_there_and_what_is_not_for_this_role_look_alike(client: httpx.AsyncClient, name: str) -> None:
    problem_of(await client.get(f"{URL}/{name}"), 404, "NOT_FOUND")
    problem_of(await preview(client, name), 404, "NOT_FOUND")


async def test_a_preview_has_the_first_rows_and_counts_all(client: httpx.AsyncClient) -> None:
    shown = (await preview(client, "things")).json()
    assert [column["name"] for column in shown["columns"]] == ["id", "name", "price", "made"]
    assert (len(shown["rows"]), shown["truncated"], shown["rows_estimate"]) == (20, True, 1000)
    assert shown["rows"][0] == [1, "thing 1 – 東京", 0.25, "2026-01-31"]


async def test_a_preview_keeps_to_its_parameters(client: httpx.AsyncClient) -> None:
    shown = (await preview(client, "things", most=3)).json()
    assert (len(shown["rows"]), shown["truncated"], shown["rows_estimate"]) == (3, False, 3)
    injected = (await preview(client, "things", search="' OR 1=1 --")).json()
    assert (injected["rows"], injected["rows_estimate"]) == ([], 0)


async def test_a_count_that_takes_too_long_is_left_out(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.domain.limits.COUNT_SECONDS", 0.0)
    shown = (await preview(client, "slow", rows=5_000_000)).json()
    assert (len(shown["rows"]), shown["truncated"], shown["rows_estimate"]) == (20, True, None)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"most": "many"}, "params.most"),
        ({"most": 0}, "params.most"),
        ({"most": True}, "params.most"),
        ({"search": 5}, "params.search"),
        ({"search": "a\0b"}, "params.search"),
        ({"nope": 1}, "params.nope"),
    ],
)
async def test_a_wrong_parameter_is_named(client: httpx.AsyncClient, params: dict[str, object], field: str) -> None:
    assert fields_of(await preview(client, "things", **params)) == [field]


async def test_a_preview_needs_a_json_body(client: httpx.AsyncClient) -> None:
    url = f"{URL}/things/preview"
    problem_of(await client.post(url, content=b"{}"), 415, "UNSUPPORTED_MEDIA_TYPE")
    problem_of(await client.post(url, content=b"{", headers={"content-type": "application/json"}), 400, "BAD_JSON")
    assert fields_of(await client.post(url, json={"sql": "SELECT 1"})) == ["sql"]
    assert (await client.post(url, json={})).status_code == 200


async def test_a_vanished_table_is_a_problem_without_its_query(client: httpx.AsyncClient) -> None:
    problem_of(await preview(client, "broken"), 422, "QUERY_ERROR")


async def test_a_source_that_is_down_is_a_problem_without_its_path(client: httpx.AsyncClient, shop: Path) -> None:
    shop.unlink()
    detail = problem_of(await preview(client, "things"), 422, "SOURCE_UNREACHABLE")["detail"]
    assert "shop" not in detail


async def test_a_source_that_is_garbage_is_a_problem(client: httpx.AsyncClient, shop: Path) -> None:
    shop.write_bytes(b"this is no database" * 100)
    problem_of(await preview(client, "things"), 422, "SOURCE_UNREACHABLE")


async def test_a_query_that_takes_too_long_is_stopped(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.domain.limits.PREVIEW_SECONDS", 0.01)
    monkeypatch.setattr("webapp.datasets.readers.sqlite.STEPS_BETWEEN_CHECKS", 100)
    monkeypatch.setattr("webapp.domain.limits.PREVIEW_ROWS", 200_000)
    problem_of(await preview(client, "slow", rows=100_000_000), 422, "TIMEOUT")


async def test_nothing_is_written_by_looking(client: httpx.AsyncClient, resources: Resources) -> None:
    await client.get(URL)
    await preview(client, "things")
    await preview(client, "broken")
    assert await rows_written(resources) == (0, 0, 0)


def with_choices(resources: Resources, shop: Path) -> None:
    """`things` with a parameter whose values are the names of the things."""
    things = resources.catalog.datasets["things"]
    sql = "SELECT id, name FROM things ORDER BY id"
    thing = Parameter("thing", ParameterType.CHOICE, "Thing", choices_sql=sql)
    day = Parameter("day", ParameterType.DATE, "Day", default="today")
    changed = replace(things, sql="SELECT :thing AS thing, :day AS day", parameters=(thing, day))
    resources.catalog.datasets["things"] = changed  # type: ignore[index]


async def test_choices_of_a_query_have_an_address_of_their_own(
    client: httpx.AsyncClient, resources: Resources, shop: Path
) -> None:
    with_choices(resources, shop)
    schema = (await client.get(f"{URL}/things")).json()["parameters"]["properties"]["thing"]
    assert schema == {"title": "Thing", "type": "string", "x-choices-url": f"{URL}/things/choices/thing"}
    found = (await client.get(schema["x-choices-url"], params={"q": "thing 99", "limit": "3"})).json()
    assert found == {
        "items": [{"value": n, "label": f"thing {n} – 東京"} for n in ("99", "990", "991")],
        "next_cursor": None,
    }
    assert len((await client.get(schema["x-choices-url"])).json()["items"]) == 25
    assert (await client.get(schema["x-choices-url"], params={"q": "%00"})).json()["items"] == []
    assert fields_of(await client.get(schema["x-choices-url"], params={"limit": "0"})) == ["limit"]


@pytest.mark.parametrize("path", ["things/choices/day", "things/choices/nope", "secret/choices/thing", "no/choices/x"])
async def test_what_has_no_choices_is_not_there(
    client: httpx.AsyncClient, resources: Resources, shop: Path, path: str
) -> None:
    with_choices(resources, shop)
    problem_of(await client.get(f"{URL}/{path}"), 404, "NOT_FOUND")


async def test_an_order_with_a_value_that_is_gone_is_refused(
    client: httpx.AsyncClient, resources: Resources, shop: Path
) -> None:
    with_choices(resources, shop)
    body: dict[str, object] = {"dataset": "things", "params": {"thing": "1000"}}
    assert (await client.post("/api/v1/exports", json=body)).status_code == 202
    body["params"] = {"thing": "1001"}
    assert fields_of(await client.post("/api/v1/exports", json=body)) == ["params.thing"]
    assert fields_of(await preview(client, "things", thing="1001")) == ["params.thing"]


async def test_the_zone_of_the_options_decides_what_today_is(
    client: httpx.AsyncClient, resources: Resources, shop: Path
) -> None:
    with_choices(resources, shop)
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        today = datetime.now(ZoneInfo(zone)).date().isoformat()
        body = {"dataset": "things", "format": "xlsx", "options": {"timezone": zone}}
        assert (await client.post("/api/v1/exports", json=body)).json()["params"]["day"] == today
        shown = await client.post(f"{URL}/things/preview", json={"options": {"timezone": zone}})
        assert shown.json()["rows"] == [[None, today]]
    wrong = await client.post(f"{URL}/things/preview", json={"options": {"timezone": "Mars"}, "format": "csv"})
    assert fields_of(wrong) == ["options.timezone"]


async def test_a_preview_tells_what_the_file_will_come_to(
    client: httpx.AsyncClient, resources: Resources, make_export: Callable[..., Awaitable[Export]]
) -> None:
    nothing = (await preview(client, "things")).json()
    assert (nothing["rows_estimate"], nothing["rows_estimate_is_exact"]) == (1000, True)
    assert (nothing["expected_bytes"], nothing["expected_seconds"], nothing["notices"]) == (None, None, [])
    export = await make_export(Status.SUCCESS)
    assert export.file
    assert export.started_at
    file = replace(export.file, rows=10, size=400)
    await changed(resources, export, file=file, completed_at=export.started_at + timedelta(seconds=0.02))
    things = resources.catalog.datasets["things"]
    resources.catalog.datasets["things"] = replace(things, row_limit=5)  # type: ignore[index]
    told = (await preview(client, "things")).json()
    assert (told["expected_bytes"], told["expected_seconds"]) == (40_000, 2.0)
    assert told["notices"] == [
        {
            "code": "OVER_ROW_LIMIT",
            "message": "1,000 rows: more than the limit of 5 rows; narrow the parameters.",
        }
    ]
    other = (await client.post(f"{URL}/things/preview", json={"format": "xlsx"})).json()
    assert other["expected_bytes"] is None
    assert fields_of(await client.post(f"{URL}/things/preview", json={"format": "exe"})) == ["format"]
