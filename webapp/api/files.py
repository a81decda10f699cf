"""Downloading a finished file: whole, in ranges, and again after a cut."""

from __future__ import annotations

import base64
import unicodedata
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from webapp.actions import exports
from webapp.domain.exports import ExportFile, Status
from webapp.web.context import export_id, resources, viewer
from webapp.web.failures import Refused


async def download(request: Request) -> Response:
    """200 or 206; 409 while the export is active or did not succeed, 410 once the file is gone."""
    export = await exports.get(resources(request), viewer(request), export_id(request))
    if export.status is Status.EXPIRED:
        raise Refused(410, "GONE", "The file was removed when its retention time was over. Order the export again.")
    if export.file is None:
        raise Refused(409, "NOT_READY", f"There is no file: the export is {export.status.value}.")
    path = resources(request).storage.path(export.file.key)
    if not path.is_file():
        raise Refused(410, "GONE", "The file is no longer in the storage. Order the export again.")
    headers = file_headers(export.file)
    if headers["ETag"] in {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    return FileResponse(path, headers=headers, media_type=export.file.content_type)


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
    stem = fallback.split(".", 1)[0].strip("_ ")
    if not stem:
        fallback = "export" + name[name.find(".") :] if "." in name and name[name.find(".") :].isascii() else "export"
    return f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe='')}"
