"""`/api/v1/exports`: lists, one export with its ETag, waiting for a change, and what can be done with it."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from api.problem_documents import fields_of, problem_of
from factories import changed, stored_export
from patience import PATIENCE

from webapp.actions import attempts, exports
from webapp.api.exports import etag
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Phase, Status
from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.store import events
from webapp.store import exports as rows
from webapp.store.exports import Progress

URL = "/api/v1/exports"
OVER = (Status.SUCCESS, Status.FAILED, Status.EXPIRED, Status.CANCELLED)
RUNNING = (Status.PENDING, Status.QUEUED, Status.PROCESSING)

ExportMaker = Callable[..., Awaitable[Export]]


def at(export: Export, part: str = "") -> str:
    return f"{URL}/{export.id}{part}"


async def ids(client: httpx.AsyncClient, query: str = "") -> list[str]:
    response = await client.get(f"{URL}{query}")
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.json()["items"]]


async def stored(resources: Resources, export: Export) -> Export | None:
    async with resources.store.connection():
        return await rows.get(resources.store, export.id)


# Lists


async def test_a_list_is_newest_first_and_ones_own(
    client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer, resources: Resources
) -> None:
    now = await resources.store.now()
    mine = [await make_export(Status.SUCCESS, created_at=now - timedelta(minutes=n)) for n in range(3)]
    await make_export(Status.SUCCESS, owner=other)
    assert await ids(client) == [export.id for export in mine]
    assert await ids(client, "?all=1") == [export.id for export in mine]


async def test_an_admin_sees_everybodys_when_asked(
    admin_client: httpx.AsyncClient, make_export: ExportMaker, admin: Viewer
) -> None:
    theirs, own = await make_export(), await make_export(owner=admin)
    assert await ids(admin_client) == [own.id]
    assert set(await ids(admin_client, "?all=1")) == {theirs.id, own.id}


async def test_filters_narrow_the_list(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    now = await resources.store.now()
    failed, done = await make_export(Status.FAILED), await make_export(Status.SUCCESS, format="xlsx")
    old = await make_export(Status.CANCELLED, dataset="slow", created_at=now - timedelta(days=9))
    assert await ids(client, "?status=failed") == [failed.id]
    assert set(await ids(client, "?status=FAILED,success")) == {failed.id, done.id}
    assert set(await ids(client, "?status=failed&status=cancelled")) == {failed.id, old.id}
    assert await ids(client, "?dataset=slow") == [old.id]
    assert await ids(client, "?format=xlsx") == [done.id]
    assert await ids(client, "?dataset=things&format=xlsx&status=failed") == []
    assert await ids(client, f"?since={(now - timedelta(days=1)):%Y-%m-%dT%H:%M:%SZ}&status=cancelled") == []
    assert len(await ids(client, f"?since={(now - timedelta(days=10)):%Y-%m-%d}")) == 3
    assert len(await ids(client, "?since=&status=&dataset=")) == 3


@pytest.mark.parametrize("since", ["2026-01-31T08:00:00+02:00", "2026-01-31T08:00:00%2B02:00", "2026-01-31 08:00:00"])
async def test_times_may_be_written_in_any_usual_way(client: httpx.AsyncClient, since: str) -> None:
    assert await ids(client, f"?since={since}") == []


async def test_pages_follow_each_other_without_gap_or_double(
    client: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    """Also where several exports were made in the same millisecond."""
    now = await resources.store.now()
    for n in range(7):
        await stored_export(resources, user, Status.CANCELLED, created_at=now - timedelta(milliseconds=n // 3))
    seen: list[str] = []
    query = "?limit=2"
    while True:
        page = (await client.get(URL + query)).json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        query = f"?limit=2&cursor={page['next_cursor']}"
    assert len(seen) == len(set(seen)) == 7
    assert seen == await ids(client, "?limit=200")


async def test_a_cursor_is_not_disturbed_by_new_exports(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    first, second = await make_export(Status.CANCELLED), await make_export(Status.CANCELLED)
    page = (await client.get(f"{URL}?limit=1")).json()
    await make_export(Status.CANCELLED)
    assert page["items"][0]["id"] == second.id
    assert await ids(client, f"?cursor={page['next_cursor']}") == [first.id]


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


NO_CURSORS = [
    "x", "%00", "!!!!", "a" * 10_000, "é", cursor("1"), cursor("1 "), cursor("1 exp_x"), cursor("x exp_x"),
    cursor(f"nan {new_id('exp')}"), cursor(f"inf {new_id('exp')}"), cursor(f"1e300 {new_id('exp')}"),
    cursor(f"-1e18 {new_id('exp')}"), cursor(f"1.0 {new_id('evt')}"), cursor(f"1.0 {new_id('exp')}\0"),
    cursor(f"1.0 {new_id('exp')}' OR 1=1"),
]  # fmt: skip


async def test_a_cursor_that_we_did_not_make_is_named(client: httpx.AsyncClient) -> None:
    for value in NO_CURSORS:
        assert fields_of(await client.get(f"{URL}?cursor={value}")) == ["cursor"], value


NO_LIMITS = ["0", "-1", "201", "1.5", "x", "", "+5", "1e2", "٣", "9" * 5000, "0000001000000000", "%00", "1%20"]


async def test_a_limit_out_of_bounds_is_named(client: httpx.AsyncClient) -> None:
    for limit in NO_LIMITS:
        assert fields_of(await client.get(f"{URL}?limit={limit}")) == ["limit"], limit
        assert fields_of(await client.get(f"/api/v1/events?limit={limit}")) == ["limit"], limit
    for limit in ("1", "200", "007"):
        assert (await client.get(f"{URL}?limit={limit}")).status_code == 200, limit


NO_FILTERS = {
    "status=done": "status", "status=failed,nope": "status", "status=%00": "status", "since=yesterday": "since",
    "since=2026-13-01": "since", "since=0001-01-01T00:00:00%2B23:59": "since", "since=" + "9" * 9000: "since",
    "since=%00": "since", "dataset=a%00b": "dataset", "format=a%00b": "format",
    "dataset=" + "x" * 201: "dataset",
}  # fmt: skip


async def test_a_filter_that_means_nothing_is_named(client: httpx.AsyncClient) -> None:
    for query, field in NO_FILTERS.items():
        assert fields_of(await client.get(f"{URL}?{query}")) == [field], query


async def test_a_filter_is_a_value_and_never_sql(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    await make_export()
    for query in ("dataset=%27%20OR%201=1--", "format=%25", "dataset=" + "x" * 200):
        assert await ids(client, f"?{query}") == [], query
    assert len(await ids(client, "?nonsense=1&=&&")) == 1


# One export


async def test_an_active_export_says_when_to_ask_again(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    now = await resources.store.now()
    for age, wait in ((0, "1"), (3, "2"), (9, "8"), (3600, "30")):
        export = await make_export(Status.QUEUED, created_at=now - timedelta(seconds=age))
        assert (await client.get(at(export))).headers["retry-after"] == wait
    assert "retry-after" not in (await client.get(at(await make_export(Status.SUCCESS)))).headers


async def test_a_finished_export_has_its_file(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS)
    shown = (await client.get(at(export))).json()
    assert (shown["status"], shown["progress"]) == ("SUCCESS", 100)
    file = shown["file"]
    assert set(file) == {"name", "size", "rows", "sha256", "content_type", "expires_at", "download_url"}
    assert file["download_url"] == f"http://testserver{URL}/{export.id}/file"
    assert export.file is not None
    assert export.file.key not in str(shown)


@pytest.mark.parametrize("status", list(Status))
async def test_the_same_state_is_not_sent_twice(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    export = await make_export(status)
    tag = (await client.get(at(export))).headers["etag"]
    for given in (tag, f"W/{tag}", f'"other", {tag}', "*", f'"x",W/{tag} , "y"'):
        again = await client.get(at(export), headers={"If-None-Match": given})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), given
        assert ("retry-after" in again.headers) == export.is_active
    for given in ('"other"', tag.strip('"'), '""', "", "W/"):
        assert (await client.get(at(export), headers={"If-None-Match": given})).status_code == 200, given


async def test_the_tag_changes_with_all_that_moves(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.PROCESSING)
    tags = [(await client.get(at(export))).headers["etag"]]
    for progress in (
        Progress(Phase.COUNTING, 0, None, 0),
        Progress(Phase.READING, 0, None, 0),
        Progress(Phase.READING, 0, 5, 0),
        Progress(Phase.READING, 5, 5, 0),
        Progress(Phase.READING, 5, 5, 100),
        Progress(Phase.READING, 5, None, 100),
    ):
        assert await attempts.report_progress(resources, export, progress)
        tags.append((await client.get(at(export))).headers["etag"])
    assert len(set(tags)) == len(tags)


async def test_the_tag_changes_with_the_place_in_the_queue(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    now = await resources.store.now()
    first = await make_export(Status.QUEUED, created_at=now - timedelta(seconds=9))
    second = await make_export(Status.QUEUED, created_at=now)
    before = await client.get(at(second))
    await client.post(at(first, "/cancellation"))
    after = await client.get(at(second), headers={"If-None-Match": before.headers["etag"]})
    assert (before.json()["queue_position"], after.json()["queue_position"]) == (2, 1)


def test_what_moves_cannot_be_mistaken_for_something_else() -> None:
    export = Export("e", "o", "d", {}, "csv", {}, "k", Status.PROCESSING, 3, datetime.now(UTC))
    assert etag(replace(export, rows_done=5), None) != etag(replace(export, bytes=5), None)
    assert etag(replace(export, rows_done=5), None) != etag(export, 5)


NO_IDS = [
    "", "x", "exp_", "exp_" + "U" * 26, "exp_" + "0" * 27, "evt_" + "0" * 26, "%00", "..%2fx",
    "exp_" + "0" * 26 + "%0a", "0", "null", "exp_" + "é" * 26, "a" * 5000,
]  # fmt: skip


async def test_what_is_no_id_is_not_found(client: httpx.AsyncClient) -> None:
    for name in NO_IDS:
        for part in ("", "/file", "/events"):
            if name or part:
                assert (await client.get(f"{URL}/{name}{part}")).status_code == 404, (name, part)
        for part in ("/cancellation", "/retry"):
            assert (await client.post(f"{URL}/{name}{part}")).status_code == 404, (name, part)


async def test_somebody_elses_export_is_as_if_it_were_not_there(
    other_client: httpx.AsyncClient, admin_client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.SUCCESS)
    missing = new_id("exp")
    for method, part in (
        ("GET", ""), ("GET", "?wait=5"), ("GET", "/file"), ("GET", "/events"), ("POST", "/cancellation"),
        ("POST", "/retry"), ("DELETE", ""),
    ):  # fmt: skip
        theirs = await other_client.request(method, at(export, part))
        nothing = await other_client.request(method, f"{URL}/{missing}{part}")
        problem_of(theirs, 404, "NOT_FOUND")
        assert theirs.json() == nothing.json()
        ours, none = (
            {name: value for name, value in answer.headers.items() if name != "x-request-id"}
            for answer in (theirs, nothing)
        )
        assert ours == none
    assert await stored(resources, export) == export
    assert (await admin_client.get(at(export))).json()["id"] == export.id
    assert (await admin_client.get(at(export, "/file"))).status_code == 200


# Waiting


LONG = 20
"""Seconds that a wait may take: one that ends before was ended."""


async def timed(answer: Awaitable[httpx.Response]) -> tuple[httpx.Response, float]:
    started = time.monotonic()
    return await answer, time.monotonic() - started


async def test_a_wait_ends_soon_after_the_change(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    export = await make_export(Status.QUEUED)
    waiting = asyncio.create_task(client.get(at(export, f"?wait={LONG}")))
    await asyncio.sleep(0.4)
    assert not waiting.done()
    await exports.cancel(resources, user, export.id)
    response, seconds = await timed(waiting)
    assert (response.json()["status"], response.json()["version"]) == ("CANCELLED", export.version + 1)
    assert seconds < LONG


async def test_a_wait_without_a_change_ends_in_time(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.QUEUED)
    response, seconds = await timed(client.get(at(export, "?wait=0.6")))
    assert response.json()["version"] == export.version
    assert 0.55 < seconds < LONG
    tag = response.headers["etag"]
    unchanged, seconds = await timed(client.get(at(export, "?wait=0.6"), headers={"If-None-Match": tag}))
    assert unchanged.status_code == 304
    assert 0.55 < seconds < LONG


@pytest.mark.parametrize("status", OVER)
async def test_what_is_over_is_not_waited_for(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    response, seconds = await timed(client.get(at(await make_export(status), f"?wait={LONG}")))
    assert response.json()["status"] == status.value
    assert seconds < LONG


@pytest.mark.parametrize("known", ['"1"', 'W/"1"', '"something else"', '"1-abc"'])
async def test_who_knows_an_older_version_does_not_wait(
    client: httpx.AsyncClient, make_export: ExportMaker, known: str
) -> None:
    export = await make_export(Status.QUEUED)
    response, seconds = await timed(client.get(at(export, f"?wait={LONG}"), headers={"If-None-Match": known}))
    assert (response.status_code, response.json()["version"]) == (200, export.version)
    assert seconds < LONG


async def test_a_change_between_reading_and_subscribing_is_not_missed(
    client: httpx.AsyncClient,
    make_export: ExportMaker,
    resources: Resources,
    user: Viewer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    export = await make_export(Status.QUEUED)
    get, reads = exports.get, list[int]()

    async def get_and_be_overtaken(*args: Any) -> Export:
        found = await get(*args)
        reads.append(found.version)
        if len(reads) == 1:
            await exports.cancel(resources, user, export.id)
        return found

    monkeypatch.setattr("webapp.api.exports.exports.get", get_and_be_overtaken)
    response, seconds = await timed(client.get(at(export, f"?wait={LONG}")))
    assert response.json()["status"] == "CANCELLED"
    assert seconds < LONG


async def test_a_wait_works_without_the_broker(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer, app: Any
) -> None:
    """Hints may be lost; then the store is read again by and by."""
    export = await make_export(Status.QUEUED)
    async with asyncio.timeout(PATIENCE):
        while not app.state.hub.is_connected:  # it would set it again
            await asyncio.sleep(0.02)
        app.state.hub._connected = False
        waiting = asyncio.create_task(client.get(at(export, f"?wait={LONG}")))
        while not app.state.hub.open_readers:
            await asyncio.sleep(0.02)
    async with resources.store.transaction():
        before = await rows.get(resources.store, export.id)
        assert before is not None
        after = replace(before, status=Status.CANCELLED, version=before.version + 1)
        assert await rows.compare_and_set(resources.store, before, after)
        await events.record(resources.store, after, at=before.created_at, base_url="")
    response, seconds = await timed(waiting)
    assert response.json()["status"] == "CANCELLED"
    assert seconds < LONG - 1, "it would have been answered at the end of the wait anyway"


async def test_a_wait_ends_when_the_export_is_deleted(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    waiting = asyncio.create_task(client.get(at(export, f"?wait={LONG}")))
    await asyncio.sleep(0.3)
    async with resources.store.transaction():
        assert await rows.remove(resources.store, export)
    await exports.hint_gone(resources, export)
    response, seconds = await timed(waiting)
    problem_of(response, 404, "NOT_FOUND")
    assert seconds < LONG


async def test_a_hundred_waiters_hear_of_one_change(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer, app: Any
) -> None:
    export = await make_export(Status.QUEUED)
    waiting = [asyncio.create_task(client.get(at(export, f"?wait={LONG}"))) for _ in range(100)]
    async with asyncio.timeout(PATIENCE):
        while app.state.hub.open_readers < 100:
            await asyncio.sleep(0.02)
    await exports.cancel(resources, user, export.id)
    answers, seconds = await timed(asyncio.gather(*waiting))  # type: ignore[arg-type]
    assert {answer.json()["status"] for answer in answers} == {"CANCELLED"}  # type: ignore[attr-defined]
    assert seconds < LONG
    assert app.state.hub.open_readers == 0


async def test_a_wait_that_is_no_number_is_named(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export()
    for wait in ("x", "-1", "", "1e9", "nan", "inf", "99999", "1.", "%00"):
        assert fields_of(await client.get(at(export, f"?wait={wait}"))) == ["wait"], wait


# Cancel, retry, delete


@pytest.mark.parametrize("status", RUNNING)
async def test_an_active_export_can_be_cancelled(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    export = await make_export(status)
    response = await client.post(at(export, "/cancellation"))
    assert (response.status_code, response.json()["status"]) == (202, "CANCELLED")
    assert response.headers["location"].endswith(at(export))
    assert response.json()["cancelled_at"]


@pytest.mark.parametrize("status", OVER)
async def test_what_is_over_cannot_be_cancelled(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, status: Status
) -> None:
    export = await make_export(status)
    response = await client.post(at(export, "/cancellation"))
    assert problem_of(response, 409, "ILLEGAL_TRANSITION")["status_of_export"] == status.value
    assert status.value in response.json()["detail"]
    assert await stored(resources, export) == export


@pytest.mark.parametrize("status", [Status.FAILED, Status.EXPIRED])
async def test_what_failed_can_be_tried_again(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    export = await make_export(status)
    response = await client.post(at(export, "/retry"))
    assert (response.status_code, response.json()["status"], response.json()["error"]) == (202, "QUEUED", None)
    assert response.json()["version"] == export.version + 1


@pytest.mark.parametrize("status", [*RUNNING, Status.SUCCESS, Status.CANCELLED])
async def test_nothing_else_can_be_tried_again(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, status: Status
) -> None:
    export = await make_export(status)
    response = await client.post(at(export, "/retry"))
    assert problem_of(response, 409, "ILLEGAL_TRANSITION")["status_of_export"] == status.value
    assert await stored(resources, export) == export


async def test_a_file_that_aged_out_cannot_be_tried_again(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.EXPIRED, aged_out=True)
    response = await client.post(at(export, "/retry"))
    assert problem_of(response, 409, "ILLEGAL_TRANSITION")["status_of_export"] == "EXPIRED"


async def test_a_retry_names_the_export_in_its_way(client: httpx.AsyncClient, resources: Resources) -> None:
    order = {"dataset": "things"}
    first = (await client.post(URL, json=order)).json()
    before = await exports.get(resources, Viewer(first["owner"], "", None), first["id"])  # type: ignore[arg-type]
    await changed(resources, before, status=Status.FAILED)
    second = (await client.post(URL, json=order)).json()
    response = await client.post(f"{URL}/{first['id']}/retry")
    assert problem_of(response, 409, "ALREADY_ACTIVE")["export_id"] == second["id"]


async def test_a_retry_counts_towards_the_quota(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.FAILED)
    for _ in range(resources.settings.max_active_per_user):
        await make_export(Status.QUEUED)
    response = await client.post(at(export, "/retry"))
    problem_of(response, 429, "QUOTA_EXCEEDED")
    assert response.headers["retry-after"]
    assert await stored(resources, export) == export


@pytest.mark.parametrize("status", OVER)
async def test_what_is_over_can_be_deleted_with_its_file(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, status: Status
) -> None:
    export = await make_export(status)
    response = await client.delete(at(export))
    assert (response.status_code, response.content) == (204, b"")
    problem_of(await client.get(at(export)), 404, "NOT_FOUND")
    problem_of(await client.delete(at(export)), 404, "NOT_FOUND")
    if export.file:
        assert not resources.storage.path(export.file.key).exists()
    kept = (await client.get("/api/v1/events")).json()["items"]
    assert [event["export_id"] for event in kept] == [export.id] * export.version


@pytest.mark.parametrize("status", RUNNING)
async def test_what_is_active_must_be_cancelled_before(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    export = await make_export(status)
    response = await client.delete(at(export))
    assert problem_of(response, 409, "ILLEGAL_TRANSITION")["status_of_export"] == status.value


async def test_of_many_cancellations_one_counts(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.PROCESSING)
    answers: Sequence[httpx.Response] = await asyncio.gather(
        *(client.post(at(export, "/cancellation")) for _ in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 7


async def test_an_admin_may_do_it_for_others(admin_client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.QUEUED)
    assert (await admin_client.post(at(export, "/cancellation"))).status_code == 202
    assert (await admin_client.delete(at(export))).status_code == 204


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", URL), ("DELETE", URL), ("PUT", f"{URL}/x"), ("GET", f"{URL}/x/cancellation"), ("TRACE", URL),
     ("POST", f"{URL}/x/file")],
)  # fmt: skip
async def test_other_methods_are_refused(client: httpx.AsyncClient, method: str, path: str) -> None:
    response = await client.request(method, path)
    problem_of(response, 405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"]
