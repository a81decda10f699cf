"""Downloads: whole, in ranges, again after a cut, under their real names, and gone."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from urllib.parse import unquote

import httpx
import pytest
from api.problem_documents import problem_of
from factories import CONTENT, changed

from webapp.actions.sweep import sweep
from webapp.api.files import content_disposition
from webapp.domain.errors import FILE_LOST
from webapp.domain.exports import Export, Status
from webapp.resources import Resources

ExportMaker = Callable[..., Awaitable[Export]]
SIZE = len(CONTENT)
TAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'


@pytest.fixture
async def done(make_export: ExportMaker) -> Export:
    return await make_export(Status.SUCCESS)


async def get(client: httpx.AsyncClient, export: Export, **headers: str) -> httpx.Response:
    """`if_range="…"` is sent as If-Range."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.get(f"/api/v1/exports/{export.id}/file", headers=named)


async def test_the_whole_file(client: httpx.AsyncClient, done: Export) -> None:
    response = await get(client, done)
    assert (response.status_code, response.content) == (200, CONTENT)
    headers = response.headers
    assert headers["content-type"] == "text/csv; charset=utf-8"
    assert headers["content-length"] == str(SIZE)
    assert headers["accept-ranges"] == "bytes"
    assert headers["etag"] == TAG
    assert headers["cache-control"] == "private, no-cache"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"].startswith("attachment;")


async def test_the_digest_is_that_of_the_bytes(client: httpx.AsyncClient, done: Export) -> None:
    response = await get(client, done)
    match = re.fullmatch(r"sha-256=:([A-Za-z0-9+/=]+):", response.headers["repr-digest"])
    assert match
    assert base64.b64decode(match[1]) == hashlib.sha256(response.content).digest()
    assert done.file is not None
    assert base64.b64decode(match[1]).hex() == done.file.sha256


async def test_head_tells_without_sending(client: httpx.AsyncClient, done: Export) -> None:
    whole = await get(client, done)
    response = await client.head(f"/api/v1/exports/{done.id}/file")
    assert (response.status_code, response.content) == (200, b"")
    told = {name: value for name, value in response.headers.items() if name != "x-request-id"}
    assert told == {name: value for name, value in whole.headers.items() if name != "x-request-id"}


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-3", 0, 3),
        ("bytes=4-", 4, SIZE - 1),
        ("bytes=-5", SIZE - 5, SIZE - 1),
        ("bytes=-9999", 0, SIZE - 1),
        ("bytes=2-9999", 2, SIZE - 1),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE - 1),
        ("bytes=0-0", 0, 0),
        ("Bytes = 0-3", 0, 3),
        ("bytes=3-999999999999999999", 3, SIZE - 1),
    ],
)
async def test_a_range(client: httpx.AsyncClient, done: Export, asked: str, first: int, last: int) -> None:
    response = await get(client, done, range=asked)
    assert (response.status_code, response.content) == (206, CONTENT[first : last + 1])
    assert response.headers["content-range"] == f"bytes {first}-{last}/{SIZE}"
    assert response.headers["content-length"] == str(last + 1 - first)
    assert response.headers["etag"] == TAG
    assert response.headers["repr-digest"], (
        "of the whole representation (RFC 9530), so that a resumed file can be checked"
    )


async def test_a_cut_download_is_made_whole(client: httpx.AsyncClient, done: Export) -> None:
    first = await get(client, done, range="bytes=0-6")
    rest = await get(client, done, range="bytes=7-", if_range=first.headers["etag"])
    assert first.content + rest.content == CONTENT


async def test_several_ranges(client: httpx.AsyncClient, done: Export) -> None:
    response = await get(client, done, range="bytes=0-1, 5-6")
    assert response.status_code == 206
    assert response.headers["content-type"].startswith("multipart/byteranges; boundary=")
    assert CONTENT[0:2] in response.content
    assert int(response.headers["content-length"]) == len(response.content)


NO_RANGES = [
    "rows=0-3", "bytes", "bytes=", "bytes=-", "bytes=x-y", "bytes=5-2", "bytes=1-2-3", "bytes=--5", "bytes=0x1-2",
    "0-3", "bytes=²-", "bytes=+1-3", "bytes=" + "9" * 5000 + "-", "bytes=" + ",".join(["0-1"] * 500), "bytes=0-1,x",
]  # fmt: skip


async def test_what_is_no_range_is_ignored(client: httpx.AsyncClient, done: Export) -> None:
    for asked in NO_RANGES:
        response = await client.get(f"/api/v1/exports/{done.id}/file", headers=[(b"range", asked.encode("latin-1"))])
        assert (response.status_code, response.content) == (200, CONTENT), asked


@pytest.mark.parametrize("asked", [f"bytes={SIZE}-", "bytes=9999-", "bytes=-0", f"bytes={SIZE}-{SIZE}"])
async def test_a_range_beyond_the_end(client: httpx.AsyncClient, done: Export, asked: str) -> None:
    response = await get(client, done, range=asked)
    problem_of(response, 416, "REQUESTED_RANGE_NOT_SATISFIABLE")
    assert response.headers["content-range"] == f"bytes */{SIZE}"


@pytest.mark.parametrize("known", ['"another"', f"W/{TAG}", TAG.strip('"'), "Wed, 21 Oct 2015 07:28:00 GMT", "x"])
async def test_a_part_of_something_else_is_answered_by_the_whole(
    client: httpx.AsyncClient, done: Export, known: str
) -> None:
    for asked in ("bytes=4-", "bytes=9999-"):
        response = await get(client, done, range=asked, if_range=known)
        assert (response.status_code, response.content) == (200, CONTENT)


@pytest.mark.parametrize("known", [TAG, f"W/{TAG}", f'"a", {TAG}', "*"])
async def test_who_has_it_gets_nothing(client: httpx.AsyncClient, done: Export, known: str) -> None:
    response = await get(client, done, if_none_match=known)
    assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", TAG)
    assert "content-length" not in response.headers or response.headers["content-length"] == "0"


async def test_the_tag_survives_a_copy_to_another_disk(
    client: httpx.AsyncClient, done: Export, resources: Resources
) -> None:
    assert done.file is not None
    os.utime(resources.storage.path(done.file.key), (1, 1))
    assert (await get(client, done, if_none_match=TAG)).status_code == 304
    assert (await get(client, done, range="bytes=4-", if_range=TAG)).status_code == 206


async def test_an_empty_file(client: httpx.AsyncClient, done: Export, resources: Resources) -> None:
    assert done.file is not None
    resources.storage.path(done.file.key).write_bytes(b"")
    response = await get(client, done)
    assert (response.status_code, response.content, response.headers["content-length"]) == (200, b"", "0")


# Names


def parsed(header: str) -> tuple[str, str]:
    """The fallback and the real name, read as RFC 6266 and RFC 8187 say."""
    match = re.fullmatch(
        r"attachment; filename=\"([\x20-\x7e]*)\"; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]+)", header
    )
    assert match, header
    assert not set(match[1]) & set('"\\/\r\n%;')
    return match[1], unquote(match[2], errors="strict")


NAMES = {
    "Things.csv": "Things.csv",
    "Umsätze 2026.csv": "Umsatze 2026.csv",
    "東京 2026-01-31.csv": "2026-01-31.csv",
    "東京.csv": "export.csv",
    "Größe.csv.gz": "Groe.csv.gz",
    "a/b\\c.csv": "a_b_c.csv",
    "../../etc/passwd": "export.._.._etc_passwd",
    'say "hi"; rm.csv': "say _hi__ rm.csv",
    "50%20off.csv": "50_20off.csv",
    "new\r\nSet-Cookie: x=1.csv": "new__Set-Cookie_ x_1.csv",
    "🚀.xlsx": "export.xlsx",
    "naïve – “quoted”.csv": None,
    "a'b*c.csv": "a_b_c.csv",
    "x" * 300 + ".csv": None,
    "\u202egpj.csv": None,
}


async def test_any_name_arrives_as_it_is(client: httpx.AsyncClient, done: Export, resources: Resources) -> None:
    assert done.file is not None
    for name, fallback in NAMES.items():
        done = await changed(resources, done, file=replace(done.file, name=name))
        assert done.file is not None
        response = await get(client, done)
        assert response.status_code == 200, name
        shown, real = parsed(response.headers["content-disposition"])
        assert real == name
        assert shown
        assert fallback is None or shown == fallback
        assert "set-cookie" not in response.headers


def test_a_fallback_is_never_a_path_or_hidden() -> None:
    for name in ("../../etc/passwd", "/etc/passwd", "..", ".", ".htaccess", "/"):
        shown, real = parsed(content_disposition(name))
        assert real == name
        assert not shown.startswith("."), shown


# Not there


@pytest.mark.parametrize("status", [Status.PENDING, Status.QUEUED, Status.PROCESSING, Status.FAILED, Status.CANCELLED])
async def test_without_a_file_it_is_a_conflict(
    client: httpx.AsyncClient, make_export: ExportMaker, status: Status
) -> None:
    detail = problem_of(await get(client, await make_export(status)), 409, "NOT_READY")["detail"]
    assert status.value in detail


async def test_an_aged_out_file_is_gone(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    detail = problem_of(await get(client, await make_export(Status.EXPIRED, aged_out=True)), 410, "GONE")["detail"]
    assert "retention" in detail


async def test_a_timed_out_export_says_so(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    detail = problem_of(await get(client, await make_export(Status.EXPIRED)), 410, "GONE")["detail"]
    assert "longer than its time limit" in detail


async def test_a_file_that_was_lost_is_gone(client: httpx.AsyncClient, done: Export, resources: Resources) -> None:
    assert done.file is not None
    path = resources.storage.path(done.file.key)
    path.unlink()
    problem_of(await get(client, done), 410, "GONE")
    problem_of(await get(client, done, range="bytes=4-"), 410, "GONE")
    path.parent.rmdir()
    problem_of(await get(client, done), 410, "GONE")
    path.mkdir(parents=True)
    problem_of(await get(client, done), 410, "GONE")


async def test_nor_is_it_there_once_the_sweep_has_missed_it(
    client: httpx.AsyncClient, done: Export, resources: Resources
) -> None:
    assert done.file is not None
    resources.storage.path(done.file.key).unlink()
    assert (await sweep(resources))["files lost"] == 1
    assert problem_of(await get(client, done), 410, "GONE")["detail"] == FILE_LOST.message
    told = (await client.get(f"/api/v1/exports/{done.id}")).json()
    assert (told["status"], told["file"], told["progress"]) == ("EXPIRED", None, None)
    assert told["error"] == {"code": "STORAGE_ERROR", "message": FILE_LOST.message, "retriable": False}


async def test_a_deleted_export_is_not_found(client: httpx.AsyncClient, done: Export) -> None:
    await client.delete(f"/api/v1/exports/{done.id}")
    problem_of(await get(client, done), 404, "NOT_FOUND")
