"""Downloading a finished file: whole, in ranges, and again after a cut."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import AsyncGenerator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from webapp.actions import exports, shares
from webapp.api.polls import is_known
from webapp.domain.dispositions import content_disposition
from webapp.domain.errors import FILE_LOST
from webapp.domain.exports import ExportFile, Status
from webapp.domain.sentences import say
from webapp.storage import Elsewhere, OnDisk, Relayed, StorageUnusable
from webapp.web.context import export_id, resources, viewer
from webapp.web.failures import Refused

RANGE = re.compile(r"(\d{1,18})-(\d{0,18})|-(\d{1,18})", re.ASCII)
MAX_RANGES = 20
RELAYED_AT_ONCE = 4 * 1024 * 1024

log = logging.getLogger(__name__)


async def download(request: Request) -> Response:
    """200 or 206, or 302 to a fresh link; 409 while the export is active or did not succeed, 410 once the file is gone,
    503 while its storage cannot be reached."""
    who = viewer(request)
    export = await exports.read(resources(request), who, export_id(request))
    if export.status is Status.EXPIRED:
        raise Refused(410, "GONE", export.error.message if export.error else FILE_LOST.message)
    if export.file is None:
        raise Refused(409, "NOT_READY", say("There is no file: the export is {status}.", status=export.status.value))
    try:
        place = await resources(request).storage.place(export.file.key, method=request.method)
    except StorageUnusable as error:
        log.warning("%s cannot be downloaded now: %s", export.file.key, error)
        sentence = say("The storage cannot be used at the moment. Nothing was lost; try again shortly.")
        raise Refused(503, "UNAVAILABLE", sentence) from None
    if place is None:
        raise Refused(410, "GONE", FILE_LOST.message)
    headers = file_headers(export.file)
    if is_known(headers["ETag"], request):
        return Response(status_code=304, headers=headers)
    wanted = _ranges(request, headers["ETag"], export.file.size)
    if request.method == "GET" and all(first <= last for first, last in wanted):
        await shares.count_download(resources(request), who, export, begins=_begins(wanted))
    if isinstance(place, Elsewhere):
        return Response(status_code=302, headers={"Location": place.url, "Cache-Control": "no-store"})
    size = place.found.st_size if isinstance(place, OnDisk) else place.size
    ranges = _ranges(request, headers["ETag"], size)
    if any(first > last for first, last in ranges):
        raise HTTPException(416, headers={"Content-Range": f"bytes */{size}"})
    if isinstance(place, Relayed):
        return _relayed(place, ranges, headers, export.file.content_type, is_head=request.method == "HEAD")
    if not ranges:
        request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
    return FileResponse(place.path, headers=headers, media_type=export.file.content_type, stat_result=place.found)


def _ranges(request: Request, etag: str, size: int) -> list[tuple[int, int]]:
    """First and last byte; the first is behind the last where there is nothing to send. None at all where the header
    is to be ignored: it is no range of bytes (RFC 9110, 14.2; Starlette would answer 400), or it belongs to other
    content."""
    unit, _, text = request.headers.get("range", "").partition("=")
    parts = [RANGE.fullmatch(part.strip()) for part in text.split(",")]
    if unit.strip().lower() != "bytes" or len(parts) > MAX_RANGES or request.headers.get("if-range", etag) != etag:
        return []
    ranges: list[tuple[int, int]] = []
    for part in parts:
        if part is None or (part[1] and part[2] and int(part[1]) > int(part[2])):
            return []
        if part[1]:
            ranges.append((int(part[1]), min(int(part[2] or size), size - 1)))
        else:
            ranges.append((size - min(int(part[3]), size), size - 1))
    return ranges


def _begins(ranges: list[tuple[int, int]]) -> bool:
    """Whether the file's first byte is among them."""
    return not ranges or any(first == 0 for first, _ in ranges)


def _relayed(
    place: Relayed, ranges: list[tuple[int, int]], headers: dict[str, str], media_type: str, *, is_head: bool
) -> Response:
    """One range, or the whole file: several ranges may be ignored (RFC 9110, 14.2)."""
    [(first, last)] = ranges if len(ranges) == 1 else [(0, place.size - 1)]
    headers |= {"Accept-Ranges": "bytes", "Content-Length": str(last - first + 1)}
    if len(ranges) == 1:
        headers["Content-Range"] = f"bytes {first}-{last}/{place.size}"
    status = 206 if len(ranges) == 1 else 200
    if is_head:
        return Response(status_code=status, headers=headers, media_type=media_type)
    return StreamingResponse(_pieces(place, first, last + 1), status, headers, media_type)


async def _pieces(place: Relayed, start: int, end: int) -> AsyncGenerator[bytes]:
    for at in range(start, end, RELAYED_AT_ONCE):
        yield await place.read(at, min(at + RELAYED_AT_ONCE, end))


def file_headers(file: ExportFile) -> dict[str, str]:
    """The ETag is the content's hash, so it survives a restart and a move to another machine."""
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    return {
        "ETag": f'"{file.sha256}"',
        "Repr-Digest": f"sha-256=:{digest}:",
        "Content-Disposition": content_disposition(file.name),
        "Cache-Control": "private, no-cache",
    }
