"""`POST /api/v1/exports`: what an order answers, what a hostile or clumsy one gets, and that it leaves nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from api.problem_documents import fields_of, problem_of, rows_written
from factories import stored_export

from webapp import queue
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.formats import API_DEFAULTS, options_json
from webapp.resources import Resources

URL = "/api/v1/exports"
JSON = {"content-type": "application/json"}
ORDER: dict[str, Any] = {"dataset": "things", "params": {"most": 10}, "format": "csv"}
FIELDS = {
    "id", "dataset", "params", "format", "options", "name", "note", "status", "version", "attempt", "progress", "phase",
    "rows_done", "rows_total", "bytes", "eta_seconds", "queue_position", "expected_start_at", "queue_paused",
    "created_at", "queued_at", "started_at", "completed_at", "expired_at", "cancelled_at", "retry_at", "file", "error",
    "warnings", "owner",
}  # fmt: skip

ExportMaker = Callable[..., Awaitable[Export]]


async def send(client: httpx.AsyncClient, body: bytes, **headers: str) -> httpx.Response:
    return await client.post(URL, content=body, headers={**JSON, **headers})


async def test_an_order_is_accepted_and_tells_where_to_look_and_when(
    client: httpx.AsyncClient, user: Viewer, resources: Resources
) -> None:
    response = await client.post(URL, json=ORDER)
    export = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"http://testserver{URL}/{export['id']}"
    assert response.headers["retry-after"] == "1"
    assert response.headers["etag"]
    assert set(export) == FIELDS
    assert (export["status"], export["version"], export["attempt"], export["progress"]) == ("QUEUED", 2, 0, 0)
    assert export["params"] == {"search": None, "most": 10}
    assert export["options"] == options_json(API_DEFAULTS, "csv")
    assert (export["options"]["bom"], export["options"]["csv_text"]) == (False, "raw")
    assert (export["owner"], export["queue_position"]) == (user.id, 1)
    assert (export["file"], export["error"], export["warnings"]) == (None, None, [])
    assert export["created_at"].endswith("Z")
    assert (await client.get(response.headers["location"])).json()["id"] == export["id"]
    assert await resources.redis.zcard(queue.QueueName.EXPORTS) == 1


async def test_the_same_order_is_the_same_export(client: httpx.AsyncClient, resources: Resources) -> None:
    first = await client.post(URL, json=ORDER)
    again = await client.post(URL, json={"format": "csv", "params": {"search": "", "most": "10"}, "dataset": "things"})
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert again.headers["location"] == first.headers["location"]
    assert await rows_written(resources) == (1, 2, 0)


async def test_other_parameters_options_or_people_make_another_export(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient
) -> None:
    orders = [
        ORDER,
        {**ORDER, "params": {"most": 11}},
        {**ORDER, "options": {"bom": True}},
        {**ORDER, "format": "xlsx"},
    ]
    answers = [await client.post(URL, json=order) for order in orders] + [await other_client.post(URL, json=ORDER)]
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 5


async def test_ten_clicks_at_once_make_one_export(client: httpx.AsyncClient, resources: Resources) -> None:
    answers = await asyncio.gather(*(client.post(URL, json=ORDER) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert (await rows_written(resources))[0] == 1


async def test_an_order_that_is_over_can_be_made_again(client: httpx.AsyncClient) -> None:
    first = (await client.post(URL, json=ORDER)).json()["id"]
    await client.post(f"{URL}/{first}/cancellation")
    again = await client.post(URL, json=ORDER)
    assert again.status_code == 202
    assert again.json()["id"] != first


async def test_an_order_is_kept_while_the_broker_is_away(
    client: httpx.AsyncClient, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_args: object, **_more: object) -> None:
        raise ConnectionError("unix:///tmp/somewhere refused")

    monkeypatch.setattr(resources.redis, "execute_command", down)
    response = await client.post(URL, json=ORDER)
    assert response.status_code == 202
    assert response.json()["status"] == "QUEUED"


# Idempotency-Key


async def test_a_key_gives_its_export_even_when_that_is_over(client: httpx.AsyncClient) -> None:
    first = await client.post(URL, json=ORDER, headers={"Idempotency-Key": "k1"})
    await client.post(f"{URL}/{first.json()['id']}/cancellation")
    again = await client.post(URL, json=ORDER, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (202, 200)
    assert (again.json()["id"], again.json()["status"]) == (first.json()["id"], "CANCELLED")
    assert "retry-after" not in again.headers


async def test_a_key_for_another_order_is_refused(client: httpx.AsyncClient, resources: Resources) -> None:
    await client.post(URL, json=ORDER, headers={"Idempotency-Key": "k1"})
    before = await rows_written(resources)
    other = await client.post(URL, json={**ORDER, "format": "xlsx"}, headers={"Idempotency-Key": "k1"})
    problem_of(other, 422, "IDEMPOTENCY_KEY_REUSED")
    assert await rows_written(resources) == before


async def test_two_people_may_use_the_same_key(client: httpx.AsyncClient, other_client: httpx.AsyncClient) -> None:
    mine = await client.post(URL, json=ORDER, headers={"Idempotency-Key": "k1"})
    theirs = await other_client.post(URL, json={**ORDER, "format": "xlsx"}, headers={"Idempotency-Key": "k1"})
    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.json()["id"] != theirs.json()["id"]


async def test_a_key_whose_export_was_deleted_orders_anew(client: httpx.AsyncClient) -> None:
    first = (await client.post(URL, json=ORDER, headers={"Idempotency-Key": "k1"})).json()["id"]
    await client.post(f"{URL}/{first}/cancellation")
    assert (await client.delete(f"{URL}/{first}")).status_code == 204
    again = await client.post(URL, json=ORDER, headers={"Idempotency-Key": "k1"})
    assert again.status_code == 202
    assert again.json()["id"] != first


@pytest.mark.parametrize("key", ["", " ", "a b", "a" * 256, "schlüssel".encode(), b"a\tb"])
async def test_a_key_that_cannot_be_one_is_named(
    client: httpx.AsyncClient, resources: Resources, key: str | bytes
) -> None:
    raw = key if isinstance(key, bytes) else key.encode()
    response = await client.post(URL, json=ORDER, headers=[(b"Idempotency-Key", raw)])
    assert fields_of(response) == ["Idempotency-Key"]
    assert await rows_written(resources) == (0, 0, 0)


# What bad input gets

WRONG: list[tuple[str, dict[str, Any], list[str]]] = [
    ("no dataset", {"params": {}}, ["dataset"]),
    ("unknown dataset", {"dataset": "nothing"}, ["dataset"]),
    ("a dataset of others", {"dataset": "secret"}, ["dataset"]),
    ("dataset is a number", {"dataset": 5}, ["dataset"]),
    ("dataset is null", {"dataset": None}, ["dataset"]),
    ("dataset with NUL", {"dataset": "things\0"}, ["dataset"]),
    ("unknown parameter", {**ORDER, "params": {"nope": 1}}, ["params.nope"]),
    ("wrong type", {**ORDER, "params": {"most": "many"}}, ["params.most"]),
    ("a list for a number", {**ORDER, "params": {"most": [1]}}, ["params.most"]),
    ("an object for a text", {**ORDER, "params": {"search": {"a": 1}}}, ["params.search"]),
    ("true for a number", {**ORDER, "params": {"most": True}}, ["params.most"]),
    ("below the range", {**ORDER, "params": {"most": 0}}, ["params.most"]),
    ("above the range", {**ORDER, "params": {"most": 1001}}, ["params.most"]),
    ("not whole", {**ORDER, "params": {"most": 1.5}}, ["params.most"]),
    ("65 bits", {"dataset": "slow", "params": {"rows": 2**64}}, ["params.rows"]),
    ("300 digits", {"dataset": "slow", "params": {"rows": 10**300}}, ["params.rows"]),
    ("NUL in a text", {**ORDER, "params": {"search": "a\0b"}}, ["params.search"]),
    ("too long a text", {**ORDER, "params": {"search": "x" * 10_001}}, ["params.search"]),
    ("two at once", {**ORDER, "params": {"most": 0, "search": 1}, "format": "pdf"},
     ["params.search", "params.most", "format"]),
    ("params is a list", {**ORDER, "params": []}, ["params"]),
    ("params is null", {**ORDER, "params": None}, ["params"]),
    ("unknown format", {**ORDER, "format": "pdf"}, ["format"]),
    ("format is a list", {**ORDER, "format": ["csv"]}, ["format"]),
    ("unknown option", {**ORDER, "options": {"colour": "red"}}, ["options.colour"]),
    ("option of another type", {**ORDER, "options": {"bom": "yes"}}, ["options.bom"]),
    ("option out of its choices", {**ORDER, "options": {"delimiter": "||"}}, ["options.delimiter"]),
    ("an option that is a list", {**ORDER, "options": {"compression": ["gzip"]}}, ["options.compression"]),
    ("zone outside the folder", {**ORDER, "format": "xlsx", "options": {"timezone": "../../etc/passwd"}},
     ["options.timezone"]),
    ("zone with NUL", {**ORDER, "format": "xlsx", "options": {"timezone": "UTC\0"}}, ["options.timezone"]),
    ("zone that is a folder", {**ORDER, "format": "xlsx", "options": {"timezone": "Europe"}}, ["options.timezone"]),
    ("a very long zone", {**ORDER, "format": "xlsx", "options": {"timezone": "x" * 9000}}, ["options.timezone"]),
    ("unknown member", {**ORDER, "priority": 1}, ["priority"]),
    ("an id of their own", {**ORDER, "id": "exp_x", "owner": "usr_x"}, ["id"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "fields"), [pytest.param(*row[1:], id=row[0]) for row in WRONG])
async def test_every_mistake_is_named_and_nothing_written(
    client: httpx.AsyncClient, resources: Resources, body: dict[str, Any], fields: list[str]
) -> None:
    assert fields_of(await client.post(URL, json=body)) == fields
    assert await rows_written(resources) == (0, 0, 0)
    assert await resources.redis.zcard(queue.QueueName.EXPORTS) == 0


async def test_a_required_parameter_must_be_there(client: httpx.AsyncClient, resources: Resources, app: Any) -> None:
    catalog = resources.catalog
    things = catalog.datasets["things"]
    needed = replace(things, parameters=tuple(replace(p, required=True) for p in things.parameters))
    changed = replace(catalog, datasets={**catalog.datasets, "things": needed})
    app.state.resources = resources.with_catalog(changed)
    assert fields_of(await client.post(URL, json={"dataset": "things"})) == ["params.search", "params.most"]


NOT_JSON = {
    "nothing": b"",
    "blank": b"   ",
    "broken": b'{"dataset": "things"',
    "trailing": b'{"dataset": "things"} true',
    "NaN": b'{"dataset": "things", "params": {"most": NaN}}',
    "infinite": b'{"dataset": "things", "params": {"most": -Infinity}}',
    "comment": b'{"dataset": "things" /* hi */}',
    "single quotes": b"{'dataset': 'things'}",
    "invalid UTF-8": b'{"dataset": "thin\xffgs"}',
    "invalid UTF-8 in a name": b'{"dataset": "things", "params": {"\xc3": 1}}',
    "overlong UTF-8": b'{"dataset": "\xc0\xaf"}',
    "UTF-16": '{"dataset": "things"}'.encode("utf-16"),
    "a BOM": b'\xef\xbb\xbf{"dataset": "things"}',
    "lone surrogate": b'{"dataset": "things", "params": {"search": "\\ud800"}}',
    "raw NUL": b'{"dataset": "thi\x00ngs"}',
    "deep lists": b'{"dataset": "things", "params": {"search": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "deep objects": b'{"dataset": "things", "params": ' + b'{"a":' * 40_000 + b"1" + b"}" * 40_001,
    "the same name twice": b'{"dataset": "slow", "dataset": "things"}',
    "the same parameter twice": b'{"dataset": "things", "params": {"most": 1, "most": 1000}}',
    "the same name spelt twice": b'{"dataset": "things", "format": "csv", "f\\u006frmat": "xlsx"}',
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in NOT_JSON.items()])
async def test_what_is_no_json_is_refused(client: httpx.AsyncClient, resources: Resources, body: bytes) -> None:
    problem_of(await send(client, body), 400, "BAD_JSON")
    assert await rows_written(resources) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[]", "body"),
        (b"null", "body"),
        (b'"things"', "body"),
        (b"5", "body"),
        (b'{"dataset": "slow", "params": {"rows": 1e400}}', "params[...]"),
        (b'{"dataset": "slow", "params": {"rows": ' + b"9" * 5000 + b"}}", "params[...]"),
        (b'{"dataset": "slow", "params": {"rows": 1e308}}', "params.rows"),
        (b'{"dataset": "slow", "params": {"rows": ' + b"9" * 4000 + b"}}", "params.rows"),
    ],
)
async def test_json_of_another_shape_is_named(
    client: httpx.AsyncClient, resources: Resources, body: bytes, field: str
) -> None:
    assert fields_of(await send(client, body)) == [field]
    assert await rows_written(resources) == (0, 0, 0)


async def test_a_thousand_mistakes_do_not_make_a_huge_answer(client: httpx.AsyncClient) -> None:
    many = {f"o{n}": n for n in range(10_000)}
    for body in ({**ORDER, "options": many}, {**ORDER, "params": many}, {**ORDER, "x" * 200_000: 1}):
        response = await client.post(URL, json=body)
        assert response.status_code == 422
        assert len(response.content) < 20_000


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json",
     "application/jsonx", "application/json-patch+json", "json"],
)  # fmt: skip
async def test_another_content_type_is_refused(
    client: httpx.AsyncClient, resources: Resources, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    response = await client.post(URL, content=json.dumps(ORDER).encode(), headers=headers)
    problem_of(response, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert await rows_written(resources) == (0, 0, 0)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x"])
async def test_json_may_be_named_in_any_way(client: httpx.AsyncClient, content_type: str) -> None:
    response = await client.post(URL, content=json.dumps(ORDER).encode(), headers={"content-type": content_type})
    assert response.status_code == 202


# Length

MEGABYTE = json.dumps({**ORDER, "params": {"search": "x" * 1_000_000}}).encode()


async def test_a_megabyte_of_json_is_refused_unread(client: httpx.AsyncClient, resources: Resources) -> None:
    problem_of(await send(client, MEGABYTE), 413, "TOO_LARGE")
    assert await rows_written(resources) == (0, 0, 0)


@pytest.mark.parametrize("length", [b"-1", b"abc", b"1e3", b"\xb2", b"9" * 5000, b"0x10", b"+5", b" "])
async def test_a_length_that_is_none_is_refused(app: Any, resources: Resources, length: bytes) -> None:
    sent = await call(app, [(b"content-type", b"application/json"), (b"content-length", length)], [b"{}"])
    assert sent[0]["status"] == 413
    assert await rows_written(resources) == (0, 0, 0)


async def test_chunks_are_counted_while_they_arrive(app: Any, resources: Resources, client: httpx.AsyncClient) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items()).encode()
    chunks = [MEGABYTE[start : start + 10_000] for start in range(0, len(MEGABYTE), 10_000)]
    taken: list[int] = []
    sent = await call(app, [(b"content-type", b"application/json"), (b"cookie", cookie)], chunks, taken)
    problem = json.loads(sent[1]["body"])
    assert (sent[0]["status"], problem["code"]) == (413, "TOO_LARGE")
    assert len(taken) < 30, "the rest is not even read"
    assert await rows_written(resources) == (0, 0, 0)


async def call(
    app: Any, headers: list[tuple[bytes, bytes]], chunks: list[bytes], taken: list[int] | None = None
) -> list[dict[str, Any]]:
    """The application as a server calls it, for what an HTTP client would not send."""

    async def bodies() -> AsyncIterator[dict[str, Any]]:
        for number, chunk in enumerate(chunks):
            if taken is not None:
                taken.append(number)
            yield {"type": "http.request", "body": chunk, "more_body": number < len(chunks) - 1}
        yield {"type": "http.disconnect"}

    arriving, sent = bodies(), list[dict[str, Any]]()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": URL, "raw_path": URL.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"testserver"), *headers], "server": ("testserver", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, arriving.__anext__, send)
    await arriving.aclose()
    return sent


# Too many


async def test_too_many_orders_are_told_when_to_come_back(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    limit = resources.settings.max_active_per_user
    for _ in range(limit):
        await make_export(Status.QUEUED)
    before = await rows_written(resources)
    response = await client.post(URL, json=ORDER, headers={"Idempotency-Key": "k"})
    detail = problem_of(response, 429, "QUOTA_EXCEEDED")["detail"]
    assert int(response.headers["retry-after"]) > 0
    assert response.headers["retry-after"] in detail
    assert str(limit) in detail
    assert await rows_written(resources) == before
    assert (await other_client.post(URL, json=ORDER)).status_code == 202


async def test_what_is_over_does_not_count(client: httpx.AsyncClient, resources: Resources, user: Viewer) -> None:
    for _ in range(resources.settings.max_active_per_user):
        await stored_export(resources, user, Status.FAILED)
    assert (await client.post(URL, json=ORDER)).status_code == 202


async def test_a_full_desk_still_answers_an_order_that_is_active(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    first = await client.post(URL, json=ORDER)
    for _ in range(resources.settings.max_active_per_user):
        await make_export(Status.QUEUED)
    again = await client.post(URL, json=ORDER)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


async def test_a_hundred_orders_at_once_stay_within_the_quota(client: httpx.AsyncClient, resources: Resources) -> None:
    orders = [{**ORDER, "params": {"most": n}} for n in range(1, 41)]
    answers = await asyncio.gather(*(client.post(URL, json=order) for order in orders))
    taken = [answer.status_code for answer in answers].count(202)
    assert taken == resources.settings.max_active_per_user
    assert {answer.status_code for answer in answers} == {202, 429}
    assert (await rows_written(resources))[0] == taken
