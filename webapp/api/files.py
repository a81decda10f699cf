"""Downloading a finished file: whole, in ranges, and again after a cut."""

from __future__ import annotations

import base64
import re
import stat
import unicodedata
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from webapp.actions import exports
from webapp.api.polls import is_known
from webapp.domain.exports import ExportFile, Status
from webapp.web.context import export_id, resources, viewer
from webapp.web.failures import Refused

RANGE = re.compile(r"(\d{1,18})-(\d{0,18})|-(\d{1,18})", re.ASCII)
MAX_RANGES = 20


async def download(request: Request) -> Response:
    """200 or 206; 409 while the export is active or did not succeed, 410 once the file is gone."""
    export = await exports.get(resources(request), viewer(request), export_id(request))
    if export.status is Status.EXPIRED:
        raise Refused(410, "GONE", "The file was removed when its retention time was over. Order the export again.")
    if export.file is None:
        raise Refused(409, "NOT_READY", f"There is no file: the export is {export.status.value}.")
    gone = Refused(410, "GONE", "The file is no longer in the storage. Order the export again.")
    path = resources(request).storage.path(export.file.key)
    try:
        found = path.stat()
    except FileNotFoundError:
        raise gone from None
    if not stat.S_ISREG(found.st_mode):
        raise gone
    headers = file_headers(export.file)
    if is_known(headers["ETag"], request):
        return Response(status_code=304, headers=headers)
    ranges = _ranges(request, headers["ETag"])
    if any(first >= found.st_size or last == 0 for first, last in ranges):
        raise HTTPException(416, headers={"Content-Range": f"bytes */{found.st_size}"})
    if not ranges:
        request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
    return FileResponse(path, headers=headers, media_type=export.file.content_type, stat_result=found)


def _ranges(request: Request, etag: str) -> list[tuple[int, int | None]]:
    """First byte and, of the last bytes of a file, how many. None at all where the header is to be ignored: it is no
    range of bytes (RFC 9110, 14.2; Starlette would answer 400), or it belongs to other content."""
    unit, _, text = request.headers.get("range", "").partition("=")
    parts = [RANGE.fullmatch(part.strip()) for part in text.split(",")]
    if unit.strip().lower() != "bytes" or len(parts) > MAX_RANGES or request.headers.get("if-range", etag) != etag:
        return []
    ranges: list[tuple[int, int | None]] = []
    for part in parts:
        if part is None or (part[1] and part[2] and int(part[1]) > int(part[2])):
            return []
        ranges.append((int(part[1]), None) if part[1] else (0, int(part[3])))
    return ranges


def file_headers(file: ExportFile) -> dict[str, str]:
    """The ETag is the content's hash, so it survives a restart and a move to another machine."""
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    return {
        "ETag": f'"{file.sha256}"',
        "Repr-Digest": f"sha-256=:{digest}:",
        "Content-Disposition": content_disposition(file.name),
        "Cache-Control": "private, no-cache",
    }


def content_disposition(name: str) -> str:
    """RFC 6266: an ASCII fallback for old clients, and the real name in UTF-8."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    fallback = "".join(c if c.isalnum() or c in " ._-" else "_" for c in plain).strip()
    stem, dot, extension = fallback.partition(".")
    if not stem.strip("_ "):
        fallback = f"export{dot}{extension}".rstrip(".")
    return f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe='')}"
