"""Downloads of files in a bucket: by a signed link, or through us; by browsers and by the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from api.problem_documents import problem_of
from buckets import Bucket, failing, in_bucket
from buckets import bucket as bucket
from buckets import s3_server as s3_server
from desks import CONTENT as BIG
from desks import Desk, with_content
from desks import desk as desk
from factories import CONTENT

from webapp import client as desk_client
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.settings import Downloads, Settings

ExportMaker = Callable[..., Awaitable[Export]]
SIZE = len(CONTENT)


@pytest.fixture
def downloads() -> Downloads:
    return Downloads.LINK


relayed = pytest.mark.parametrize("downloads", [Downloads.RELAY])


@pytest.fixture
def settings(settings: Settings, bucket: Bucket, downloads: Downloads) -> Settings:
    return in_bucket(settings, bucket, downloads=downloads)


@pytest.fixture
async def done(make_export: ExportMaker) -> Export:
    return await make_export(Status.SUCCESS)


async def get(client: httpx.AsyncClient, export: Export, method: str = "GET", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.request(method, f"/api/v1/exports/{export.id}/file", headers=named)


async def follow(answer: httpx.Response, method: str = "GET", **headers: str) -> httpx.Response:
    """As anybody who was given the link."""
    assert answer.status_code == 302
    async with httpx.AsyncClient() as anybody:
        return await anybody.request(method, answer.headers["location"], headers=headers)


async def test_each_click_leads_to_a_link_of_its_own(client: httpx.AsyncClient, done: Export, bucket: Bucket) -> None:
    first = await get(client, done)
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["location"].startswith(f"{bucket.endpoint}/{bucket.name}/desk/files/")
    await asyncio.sleep(1.1)  # a signature tells the second
    assert (await get(client, done)).headers["location"] != first.headers["location"]


async def test_the_link_gives_the_file_under_its_name(client: httpx.AsyncClient, done: Export) -> None:
    answer = await follow(await get(client, done))
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment; filename=\"Things.csv\"; filename*=UTF-8''Things.csv"
    assert done.file is not None
    assert answer.headers["x-amz-meta-sha256"] == done.file.sha256


async def test_the_link_gives_ranges(client: httpx.AsyncClient, done: Export) -> None:
    answer = await follow(await get(client, done, range="bytes=3-"), range="bytes=3-")
    assert (answer.status_code, answer.content) == (206, CONTENT[3:])
    assert answer.headers["content-range"] == f"bytes 3-{SIZE - 1}/{SIZE}"


async def test_head_is_led_to_a_link_for_head(client: httpx.AsyncClient, done: Export, bucket: Bucket) -> None:
    answer = await follow(await get(client, done, "HEAD"), "HEAD")
    assert (answer.status_code, answer.headers["content-length"]) == (200, str(SIZE))
    links = [(await get(client, done, method)).headers["location"] for method in ("GET", "HEAD")]
    assert links[0] != links[1]


async def test_who_has_the_file_is_not_sent_anywhere(client: httpx.AsyncClient, done: Export) -> None:
    assert done.file is not None
    answer = await get(client, done, if_none_match=f'"{done.file.sha256}"')
    assert (answer.status_code, answer.content) == (304, b"")


async def test_other_people_get_no_link(other_client: httpx.AsyncClient, done: Export) -> None:
    problem_of(await get(other_client, done), 404, "NOT_FOUND")


@pytest.mark.parametrize("downloads", list(Downloads))
async def test_a_file_that_is_gone_is_gone(
    client: httpx.AsyncClient, done: Export, resources: Resources, make_export: ExportMaker
) -> None:
    assert done.file is not None
    await resources.storage.delete(done.file.key)
    problem_of(await get(client, done), 410, "GONE")
    problem_of(await get(client, await make_export(aged_out=True)), 410, "GONE")


@pytest.mark.parametrize("downloads", list(Downloads))
async def test_a_store_that_is_away(client: httpx.AsyncClient, done: Export, bucket: Bucket) -> None:
    bucket.fault = failing(500, lambda request: True, body="<Code>Hush</Code>")
    problem = problem_of(await get(client, done), 503, "UNAVAILABLE")
    assert "Hush" not in problem["detail"]


@relayed
async def test_through_us_the_whole_file(client: httpx.AsyncClient, done: Export) -> None:
    answer = await get(client, done)
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert done.file is not None
    assert answer.headers["etag"] == f'"{done.file.sha256}"'
    assert answer.headers["content-length"] == str(SIZE)
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert answer.headers["repr-digest"].startswith("sha-256=:")


@relayed
@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=0-0", 0, 0), ("bytes=3-", 3, SIZE - 1), ("bytes=3-999", 3, SIZE - 1), ("bytes=-4", SIZE - 4, SIZE - 1),
     ("bytes=-999", 0, SIZE - 1)],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_through_us_a_range(
    client: httpx.AsyncClient, done: Export, asked: str, first: int, last: int, method: str
) -> None:
    answer = await get(client, done, method, range=asked)
    assert (answer.status_code, answer.headers["content-range"]) == (206, f"bytes {first}-{last}/{SIZE}")
    assert answer.headers["content-length"] == str(last - first + 1)
    assert answer.content == (CONTENT[first : last + 1] if method == "GET" else b"")


@relayed
@pytest.mark.parametrize(
    "headers",
    [
        {"range": "bytes=0-1,4-5"},
        {"range": "rows=1"},
        {"range": "bytes=4-1"},
        {"range": "bytes=0-1", "if_range": '"x"'},
    ],
)
async def test_through_us_ranges_that_are_ignored(
    client: httpx.AsyncClient, done: Export, headers: dict[str, str]
) -> None:
    assert (await get(client, done, **headers)).content == CONTENT


@relayed
@pytest.mark.parametrize("asked", [f"bytes={SIZE}-", "bytes=-0"])
async def test_through_us_a_range_behind_the_end(client: httpx.AsyncClient, done: Export, asked: str) -> None:
    answer = await get(client, done, range=asked)
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{SIZE}")


async def away(call: Callable[..., Any], *arguments: Any) -> Any:
    """The client blocks."""
    return await asyncio.to_thread(call, *arguments)


@pytest.fixture
async def big(resources: Resources, make_export: ExportMaker, desk: Desk) -> desk_client.Export:
    """A finished export of three million bytes, as its client knows it."""
    export = await with_content(resources, await make_export(Status.SUCCESS), BIG)
    return (await away(desk.client.get, export.id)).export


@pytest.mark.parametrize("downloads", list(Downloads))
async def test_the_client_saves_what_was_promised(
    desk: Desk, big: desk_client.Export, tmp_path: Path, downloads: Downloads
) -> None:
    with (tmp_path / "file").open("w+b") as file:
        await away(desk.client.download, big, file)
    assert (tmp_path / "file").read_bytes() == BIG


async def test_the_client_shows_its_token_to_the_desk_alone(
    desk: Desk, big: desk_client.Export, bucket: Bucket, tmp_path: Path
) -> None:
    with (tmp_path / "file").open("w+b") as file:
        await away(desk.client.download, big, file)
    fetched = [asked for asked in bucket.seen if asked.method == "GET" and "X-Amz-Signature" in asked.query]
    assert len(fetched) == 1
    assert "authorization" not in {name.lower() for name in fetched[0].headers}
    assert desk.token not in str(fetched)


def breaking_off(after: int) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    """The first download by a link ends after so many bytes."""
    left = [after]

    async def break_off(request: web.Request) -> web.StreamResponse | None:
        if "X-Amz-Signature" not in request.query or not left:
            return None
        answer = web.StreamResponse(headers={"Content-Length": str(len(BIG)), "ETag": '"of-the-store"'})
        await answer.prepare(request)
        await answer.write(BIG[: left.pop()])
        assert request.transport is not None
        request.transport.close()
        return answer

    return break_off


async def test_a_download_that_broke_off_goes_on_by_a_fresh_link(
    desk: Desk, big: desk_client.Export, bucket: Bucket, tmp_path: Path
) -> None:
    bucket.fault = breaking_off(2_000_000)
    with (tmp_path / "file").open("w+b") as file:
        download = desk_client.Download(desk.client, big, file)
        with pytest.raises(desk_client.Unreachable):
            await away(download.run)
        assert download.position == 2_000_000
        await away(download.run)
    assert (tmp_path / "file").read_bytes() == BIG
    asked = [seen.headers["Range"] for seen in bucket.seen if "X-Amz-Signature" in seen.query]
    assert asked == [f"bytes={2_000_000 - desk_client.OVERLAP}-"]


async def test_a_part_of_another_day_is_gone_on_with(
    desk: Desk, big: desk_client.Export, bucket: Bucket, tmp_path: Path
) -> None:
    """What is there was fetched by another process, which knew the store's ETag; the desk's says nothing there."""
    (tmp_path / "file").write_bytes(BIG[:1_000_000])
    with (tmp_path / "file").open("r+b") as file:
        await away(desk.client.download, big, file)
    assert (tmp_path / "file").read_bytes() == BIG
    [seen] = [seen for seen in bucket.seen if "X-Amz-Signature" in seen.query]
    assert seen.headers["Range"] == f"bytes={1_000_000 - desk_client.OVERLAP}-"
    assert "If-Range" not in seen.headers


@pytest.mark.parametrize(("status", "may_pass"), [(403, False), (404, False), (503, True)])
async def test_what_the_store_refuses_is_not_blamed_on_the_desk(
    desk: Desk, big: desk_client.Export, bucket: Bucket, status: int, may_pass: bool
) -> None:
    bucket.fault = failing(status, lambda request: "X-Amz-Signature" in request.query)
    with pytest.raises(desk_client.Problem, match=rf"^The storage at 127\.0\.0\.1:\d+ answers {status} ") as caught:
        await away(desk.client.open_file, big.id)
    assert (caught.value.status, caught.value.may_pass) == (status, may_pass)
    assert "Signature" not in str(caught.value)
