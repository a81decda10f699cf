"""`/api/v1/datasets`: what can be ordered, its JSON Schema, and its first rows."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from api.problem_documents import fields_of, problem_of, rows_written

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
    assert told["limits"] == {"rows": None, "bytes": None, "execution_seconds": 1800}
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
