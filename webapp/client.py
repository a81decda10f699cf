"""A small client of the HTTP API: order, look, wait, cancel, download. Its calls block.

It needs msgspec and the standard library, and nothing else of this package:

    from webapp.client import Client

    desk = Client("https://desk.example", token)
    answer = desk.order("orders", format="csv", params={"country": "DE"})
    while answer.export.is_active:
        answer = desk.get(answer.export.id, wait=20, known=answer)
    with open("orders.csv", "w+b") as file:
        desk.download(answer.export, file)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import http.client
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import IO, Any, BinaryIO, Generic, Literal, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

T = TypeVar("T")
Status = Literal["PENDING", "QUEUED", "PROCESSING", "SUCCESS", "FAILED", "EXPIRED", "CANCELLED"]
ACTIVE = frozenset({"PENDING", "QUEUED", "PROCESSING"})
SILENCE = 30.0
"""Seconds without a byte after which a connection counts as broken."""
CHUNK = 256 * 1024
OVERLAP = 64 * 1024
"""Bytes before the place where a download goes on that are fetched again: they show that it is the same file."""
TOKEN = re.compile(r"[\x21-\x7e]+")


class File(msgspec.Struct, frozen=True):
    """A finished file."""

    name: str
    size: int
    rows: int
    sha256: str
    content_type: str
    expires_at: datetime
    download_url: str


class ExportError(msgspec.Struct, frozen=True):
    """Why an export failed; `retriable` when the cause may pass by itself."""

    code: str
    message: str
    retriable: bool


class Warned(msgspec.Struct, frozen=True):
    """Something the format could not hold as it was, in `count` cells or columns."""

    code: str
    message: str
    count: int


class Export(msgspec.Struct, frozen=True):
    """One order, as the API tells it."""

    id: str
    dataset: str
    params: dict[str, Any]
    format: str
    options: dict[str, Any]
    status: Status
    version: int
    attempt: int
    progress: float | None
    rows_done: int
    rows_total: int | None
    bytes: int
    eta_seconds: float | None
    queue_position: int | None
    created_at: datetime
    file: File | None
    error: ExportError | None
    owner: str
    warnings: tuple[Warned, ...] = ()
    phase: str | None = None
    retry_at: datetime | None = None
    queue_paused: bool | None = None
    expected_start_at: datetime | None = None
    name: str = ""
    note: str = ""
    queued_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    expired_at: datetime | None = None
    cancelled_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that were chosen, in the order of the file; empty when it has all of the dataset's."""
        return tuple(self.options.get("columns", ()))


class Attempt(msgspec.Struct, frozen=True):
    """One try at executing an export. While it runs, `ended_at` and `outcome` are None."""

    number: int
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    error: ExportError | None
    rows: int | None
    worker: str


class SavedOrder(msgspec.Struct, frozen=True):
    """An order that is kept under a name; no other one of its owner has it. A date among its `params` may be words
    that move with the day. `export_id` is what was last ordered by it."""

    id: str
    name: str
    dataset: str
    params: dict[str, Any]
    format: str
    options: dict[str, Any]
    zone: str
    created_at: datetime
    updated_at: datetime
    ordered_at: datetime | None
    export_id: str | None
    owner: str


class Schedule(msgspec.Struct, frozen=True):
    """When a saved order is ordered by itself: by a cron line in a time zone. `next` are its next dates, none while it
    is paused or has stopped."""

    cron: str
    zone: str
    next: tuple[datetime, ...]
    paused_at: datetime | None
    stopped_at: datetime | None
    stopped_reason: str | None
    failures: int
    last_due_at: datetime | None
    last_export_id: str | None
    last_outcome: str | None


class Event(msgspec.Struct, frozen=True):
    """Something that happened to an export; `data` is the export as it was then. An `id` may come twice."""

    id: str
    seq: int
    type: str
    export_id: str
    version: int
    timestamp: datetime
    data: Export


class Column(msgspec.Struct, frozen=True):
    """Of a preview; `kind` is `text`, `integer`, `date` and so on."""

    name: str
    kind: str


class Notice(msgspec.Struct, frozen=True):
    """Something to know before ordering."""

    code: str
    message: str


class Preview(msgspec.Struct, frozen=True):
    """The first rows of an order, and what the whole file will probably come to; None where nobody can tell."""

    columns: tuple[Column, ...]
    rows: list[list[Any]]
    truncated: bool
    rows_estimate: int | None
    rows_estimate_is_exact: bool
    expected_bytes: int | None
    expected_seconds: float | None
    notices: tuple[Notice, ...]


class Dataset(msgspec.Struct, frozen=True):
    """What can be exported; `parameters` is the JSON Schema of an order's `params`."""

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    formats: tuple[str, ...]
    limits: dict[str, Any]


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    next_cursor: str | None = None


class Wrong(msgspec.Struct, frozen=True):
    """One thing wrong with one field of an order."""

    field: str
    message: str


class _Document(msgspec.Struct, frozen=True):
    code: str
    detail: str
    errors: tuple[Wrong, ...] = ()
    status_of_export: Status | None = None
    export_id: str | None = None
    scope: str | None = None


class Problem(Exception):
    """The desk's own refusal (RFC 9457). `code` is stable, `detail` is for people, `errors` names the fields."""

    def __init__(
        self, status: int, code: str, detail: str, errors: tuple[Wrong, ...] = (), retry_after: float | None = None
    ) -> None:
        super().__init__(" ".join([detail, *(f"{error.field}: {error.message}" for error in errors)]))
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.retry_after = retry_after
        self.status_of_export: Status | None = None
        """Which forbids it (409)."""
        self.export_id: str | None = None
        """The export that is in its way (409)."""
        self.scope: str | None = None
        """What the token lacks (403)."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered later."""
        return self.status in {429, 500, 502, 503, 504}


class Unreachable(Exception):
    """There was no answer, or half of one. `was_refused`: nobody was there at all; `may_pass`: later there may be."""

    def __init__(self, reason: str, *, was_refused: bool = False, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.was_refused = was_refused
        self.may_pass = may_pass


class NotADesk(Exception):
    """What answers at this address is no export desk, or it wants to be asked at another address."""


class Damaged(Exception):
    """What was downloaded is not the file that the desk promised."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`is_news` is False when nothing has changed (304) and when an order had been taken before (200)."""

    export: Export
    etag: str
    retry_after: float | None
    is_news: bool


class Client:
    """One desk, as one person. Every call raises Problem, Unreachable or NotADesk."""

    def __init__(self, url: str, token: str, *, silence: float = SILENCE) -> None:
        """`url` is where people reach the desk. Raises ValueError when it or the token cannot be one."""
        self.url = url.rstrip("/").removesuffix("/api/v1")
        parts = urlsplit(self.url)
        is_plain = not ({"@", " "} & set(self.url)) and self.url.isprintable() and not (parts.query or parts.fragment)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not is_plain:
            raise ValueError("The address of a desk looks like https://desk.example or http://localhost:8000.")
        if not TOKEN.fullmatch(token):
            raise ValueError("A token is one word of visible ASCII characters, exd_… for instance.")
        self._token = token
        self._silence = silence
        self._direct = urllib.request.build_opener(_NoRedirect)
        self._led = urllib.request.build_opener(_LeadElsewhere)

    def datasets(self) -> list[Dataset]:
        return list(self._pages("/datasets", {}, _Page[Dataset]))

    def dataset(self, name: str) -> Dataset:
        return self._decoded(self._ask("GET", f"/datasets/{quote(name, safe='')}"), Dataset)

    def order(
        self,
        dataset: str,
        *,
        format: str = "csv",
        params: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """`columns` are the file's, in its order; without, it has all. With a key the call can be repeated: it never
        makes two exports."""
        body = {"dataset": dataset, "format": format, "params": params or {}, "options": _options(options, columns)}
        body |= _given(name=name, note=note)
        return self._answer(self._send("POST", "/exports", body, headers=_key(idempotency_key)))

    def annotate(self, export_id: str, *, name: str | None = None, note: str | None = None) -> Answer:
        """Another name or note; None leaves it as it is."""
        return self._answer(self._send("PATCH", _path(export_id), _given(name=name, note=note)))

    def get(self, export_id: str, *, wait: float = 0, known: Answer | None = None) -> Answer:
        """The export now; with `wait`, at its next change or after so many seconds (the desk waits at most 30).
        With the answer that is `known`, the same again when nothing has changed."""
        query = f"?{urlencode({'wait': f'{wait:g}'})}" if wait else ""
        headers = {"If-None-Match": known.etag} if known else {}
        reply = self._ask("GET", _path(export_id) + query, headers=headers, wait=wait)
        if reply.status == HTTPStatus.NOT_MODIFIED and known:
            return replace(known, retry_after=reply.retry_after, is_news=False)
        return replace(self._answer(reply), is_news=True)

    def cancel(self, export_id: str) -> Answer:
        return self._answer(self._ask("POST", f"{_path(export_id)}/cancellation", body=b""))

    def retry(self, export_id: str) -> Answer:
        """Tries again what failed or took too long."""
        return self._answer(self._ask("POST", f"{_path(export_id)}/retry", body=b""))

    def delete(self, export_id: str) -> None:
        """The export and its file; one that is active has to be cancelled first."""
        self._ask("DELETE", _path(export_id))

    def preview(
        self,
        dataset: str,
        *,
        format: str | None = None,
        params: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Preview:
        body = {"format": format, "params": params or {}, "options": _options(options, columns)}
        return self._decoded(self._send("POST", f"/datasets/{quote(dataset, safe='')}/preview", body), Preview)

    def attempts(self, export_id: str) -> list[Attempt]:
        """Oldest first."""
        return list(self._pages(f"{_path(export_id)}/attempts", {}, _Page[Attempt]))

    def exports(
        self, *, status: Iterable[Status] = (), dataset: str | None = None, since: datetime | None = None
    ) -> Iterator[Export]:
        """One's own, newest first; further pages are asked for as they are needed."""
        asked = {"status": ",".join(status), "dataset": dataset, "since": since.isoformat() if since else None}
        return self._pages("/exports", asked, _Page[Export])

    def events(self, export_id: str | None = None, *, after: str | None = None) -> Iterator[Event]:
        """Those that are there, oldest first: of one export, or of all one's own after the event with this id."""
        path = f"{_path(export_id)}/events" if export_id else "/events"
        return self._pages(path, {"after": after}, _Page[Event])

    def saved_orders(self) -> list[SavedOrder]:
        """All of one's own, by name."""
        return list(self._pages("/saved-orders", {}, _Page[SavedOrder]))

    def save_order(
        self,
        name: str,
        dataset: str,
        *,
        format: str = "csv",
        params: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        zone: str | None = None,
    ) -> SavedOrder:
        """A date may be words, such as `start of last month`; in `zone`, as in `Europe/Berlin`, days begin and end."""
        body = {"name": name, "dataset": dataset, "format": format, "params": params or {}}
        body |= {"options": _options(options, columns), **_given(zone=zone)}
        return self._decoded(self._send("POST", "/saved-orders", body), SavedOrder)

    def order_saved(self, saved_order_id: str, *, idempotency_key: str | None = None) -> Answer:
        """As of today; otherwise as `order`. The export has the name of the saved order."""
        path = f"{_saved(saved_order_id)}/exports"
        return self._answer(self._ask("POST", path, headers=_key(idempotency_key), body=b""))

    def delete_saved_order(self, saved_order_id: str) -> None:
        """What was ordered by it stays."""
        self._ask("DELETE", _saved(saved_order_id))

    def schedule(self, saved_order_id: str) -> Schedule:
        """Raises Problem (404) where a saved order has none."""
        return self._decoded(self._ask("GET", f"{_saved(saved_order_id)}/schedule"), Schedule)

    def set_schedule(self, saved_order_id: str, cron: str, *, zone: str = "UTC") -> Schedule:
        """In the place of the one it had. `30 8 * * 1` is Mondays at half past eight."""
        body = {"cron": cron, "zone": zone}
        return self._decoded(self._send("PUT", f"{_saved(saved_order_id)}/schedule", body), Schedule)

    def pause_schedule(self, saved_order_id: str) -> Schedule:
        return self._decoded(self._ask("POST", f"{_saved(saved_order_id)}/schedule/pause", body=b""), Schedule)

    def resume_schedule(self, saved_order_id: str) -> Schedule:
        return self._decoded(self._ask("POST", f"{_saved(saved_order_id)}/schedule/resumption", body=b""), Schedule)

    def delete_schedule(self, saved_order_id: str) -> None:
        self._ask("DELETE", f"{_saved(saved_order_id)}/schedule")

    def _pages(self, path: str, asked: Mapping[str, str | None], kind: type[_Page[T]]) -> Iterator[T]:
        query = {name: value for name, value in asked.items() if value}
        while True:
            page = self._decoded(self._ask("GET", f"{path}?{urlencode(query)}" if query else path), kind)
            yield from page.items
            if page.next_cursor is None:
                return
            query = {**query, "cursor": page.next_cursor}

    def open_file(self, export_id: str, *, start: int = 0, etag: str | None = None) -> FileStream:
        """The file from this byte on, or from its first one when it no longer is the file with this ETag."""
        headers = {"Range": f"bytes={start}-"} if start else {}
        if start and etag:
            headers["If-Range"] = etag
        response = self._open("GET", f"{_path(export_id)}/file", headers, None, self._silence, opener=self._led)
        return FileStream(response)

    def download(self, export: Export, file: BinaryIO) -> None:
        """Goes on from what the file holds, which must be open for reading and writing. Also raises Damaged."""
        Download(self, export, file).run()

    def _answer(self, reply: _Reply) -> Answer:
        export = self._decoded(reply, Export)
        return Answer(export, reply.headers.get("ETag", ""), reply.retry_after, reply.status == HTTPStatus.ACCEPTED)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> _Reply:
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self._ask(method, path, headers=sent, body=msgspec.json.encode(body))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        wait: float = 0,
    ) -> _Reply:
        try:
            with self._open(method, path, headers or {}, body, self._silence + wait, opener=self._direct) as response:
                return _Reply(response.status, response.headers, response.read())
        except urllib.error.HTTPError as not_modified:
            with not_modified:
                return _Reply(not_modified.code, not_modified.headers, b"")
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(error) from error

    def _open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        silence: float,
        *,
        opener: urllib.request.OpenerDirector,
    ) -> http.client.HTTPResponse:
        """The token is not sent on to where a redirect leads. Lets HTTPError through for 304 alone."""
        request = urllib.request.Request(f"{self.url}/api/v1{path}", body, dict(headers), method=method)  # noqa: S310
        request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        request.add_header("Accept", "application/json, */*;q=0.5")
        request.add_header("User-Agent", "exportdesk")
        try:
            return opener.open(request, timeout=silence)
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_MODIFIED:
                raise
            raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(error) from error

    def _refusal(self, error: urllib.error.HTTPError) -> Problem | NotADesk | Unreachable:
        """A problem document; where there is none (a proxy or a storage answered), the status in words."""
        host = urlsplit(error.url or self.url).netloc
        asked = self.url if host == urlsplit(self.url).netloc else f"The storage at {host}"
        with error:
            if error.code in {301, 302, 303, 307, 308}:
                target = error.headers.get("Location", "another address").split("/api/v1")[0]
                return NotADesk(f"{self.url} sends on to {target}. If that is the desk, use that address.")
            try:
                body = error.read()
            except (OSError, http.client.HTTPException) as broken:
                return _unreachable(broken)
        retry_after = _seconds(error.headers.get("Retry-After"))
        try:
            document = msgspec.json.decode(body, type=_Document)
            problem = Problem(error.code, document.code, document.detail, document.errors, retry_after)
            problem.status_of_export = document.status_of_export
            problem.export_id, problem.scope = document.export_id, document.scope
            return problem
        except msgspec.MsgspecError:
            phrase = HTTPStatus(error.code).phrase if error.code in set(HTTPStatus) else "unknown status"
            if error.code == HTTPStatus.NOT_FOUND and asked == self.url:
                return NotADesk(f"There is no export desk at {self.url}: it answers {error.code} ({phrase}).")
            return Problem(error.code, "HTTP", f"{asked} answers {error.code} ({phrase}).", (), retry_after)

    def _decoded(self, reply: _Reply, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except msgspec.MsgspecError as error:
            raise NotADesk(f"{self.url} does not answer as an export desk does: {error}.") from error


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def retry_after(self) -> float | None:
        return _seconds(self.headers.get("Retry-After"))


class _LeadElsewhere(urllib.request.HTTPRedirectHandler):
    """To a storage, which has ETags of its own: that of the desk's would only make it send the file from its start."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        led = super().redirect_request(req, fp, code, msg, headers, newurl)
        if led is not None and led.host != req.host:
            led.remove_header("If-range")
        return led


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is led elsewhere would arrive as a GET."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class FileStream:
    """The bytes of a file from `start` on; `size` and `sha256` are the whole file's, None when not told."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.etag: str | None = response.headers.get("ETag")
        self.sha256 = _digest(response.headers.get("Repr-Digest"))
        self.start, self.size = 0, response.length
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
            if found is None:
                raise Unreachable("the answer has no usable Content-Range")
            self.start, self.size = int(found[1]), None if found[2] == "*" else int(found[2])
        self._position = self.start

    def read(self, size: int = CHUNK) -> bytes:
        """Up to so many bytes, none at the end. Raises Unreachable when the connection ends before the file."""
        try:
            data = self._response.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(error) from error
        self._position += len(data)
        if not data and self.size is not None and self._position < self.size:
            raise Unreachable("the connection broke off")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._response.close()


class Download:
    """A file on its way into `target`: `run` fetches what is missing, and can be called again when it was broken off.

    A target that can be rewound may hold a part already. Whatever else it holds is found out and overwritten.
    """

    def __init__(
        self,
        client: Client,
        export: Export,
        target: BinaryIO,
        *,
        can_rewind: bool = True,
        on_bytes: Callable[[int], None] = lambda position: None,
    ) -> None:
        if export.file is None:
            raise ValueError(f"The export {export.id} has no file.")
        self.client = client
        self.export_id = export.id
        self.file = export.file
        self.target = target
        self.can_rewind = can_rewind
        self.on_bytes = on_bytes
        self.position = 0
        self._etag = f'"{export.file.sha256}"'
        self._digest = hashlib.sha256()
        if can_rewind:
            self._take_up()

    def run(self) -> None:
        """Raises Problem, Unreachable, NotADesk, and Damaged when size or SHA-256 are not those that were promised."""
        was_begun = self.position > 0
        try:
            self._fetch()
            self._check()
        except Damaged:
            if not (was_begun and self.can_rewind):
                raise
            self._restart()
            self._fetch()
            self._check()

    def _take_up(self) -> None:
        """What is there counts as the first part of the file, until it turns out to be something else."""
        self.target.seek(0)
        while chunk := self.target.read(CHUNK):
            self._digest.update(chunk)
            self.position += len(chunk)
        if self.position > self.file.size:
            self._restart()

    def _restart(self) -> None:
        if not self.can_rewind:
            raise Damaged("The desk no longer sends the same file, and what was written cannot be taken back.")
        self.target.seek(0)
        self.target.truncate()
        self.position, self._digest = 0, hashlib.sha256()

    def _fetch(self) -> None:
        overlap = min(self.position, OVERLAP) if self.can_rewind else 0
        if self.position and self.position - overlap == self.file.size:
            return
        try:
            stream = self.client.open_file(self.export_id, start=self.position - overlap, etag=self._etag)
        except Problem as problem:
            if problem.status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            self._restart()
            stream = self.client.open_file(self.export_id)
        with stream:
            self._etag = stream.etag or self._etag
            if stream.start != self.position - overlap:
                self._restart()
            elif overlap and not self._continues(stream, overlap):
                raise Damaged("What had been downloaded before belongs to another file.")
            self._copy(stream)
        if stream.sha256 not in {None, self.file.sha256}:
            raise Damaged("The desk's file has another SHA-256 than its export.")

    def _continues(self, stream: FileStream, overlap: int) -> bool:
        """Whether the next bytes are those that the target ends with."""
        self.target.seek(-overlap, os.SEEK_END)
        there, sent = self.target.read(overlap), b""
        while len(sent) < overlap and (data := stream.read(overlap - len(sent))):
            sent += data
        return there == sent

    def _copy(self, stream: FileStream) -> None:
        while chunk := stream.read():
            self.target.write(chunk)
            self._digest.update(chunk)
            self.position += len(chunk)
            self.on_bytes(self.position)

    def _check(self) -> None:
        if self.position != self.file.size:
            raise Damaged(f"{self.position:,} bytes came instead of {self.file.size:,}.")
        if self._digest.hexdigest() != self.file.sha256:
            raise Damaged("The SHA-256 of what came is not the one that the desk promised.")


def _options(given: Mapping[str, Any] | None, columns: Sequence[str] | None) -> dict[str, Any]:
    return {**(given or {}), **({} if columns is None else {"columns": list(columns)})}


def _path(export_id: str) -> str:
    return f"/exports/{quote(export_id, safe='')}"


def _saved(saved_order_id: str) -> str:
    return f"/saved-orders/{quote(saved_order_id, safe='')}"


def _given(**members: str | None) -> dict[str, Any]:
    """Without those that are None."""
    return {name: value for name, value in members.items() if value is not None}


def _key(idempotency_key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}


def _digest(header: str | None) -> str | None:
    """The SHA-256 of a Repr-Digest (RFC 9530), in hexadecimal digits."""
    found = re.search(r"sha-256=:([A-Za-z0-9+/=]+):", header or "")
    try:
        return base64.b64decode(found[1], validate=True).hex() if found else None
    except binascii.Error:
        return None


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After is a number of seconds or a date."""
    if not retry_after:
        return None
    if re.fullmatch(r"[0-9]{1,9}", retry_after.strip()):
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
        return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _unreachable(error: BaseException) -> Unreachable:
    """In words; urllib hides what happened behind an error of its own."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Unreachable(f"its certificate cannot be trusted: {cause.verify_message}", may_pass=False)
    if isinstance(cause, ssl.SSLError):
        return Unreachable("what answers there does not speak TLS (https)", may_pass=False)
    if isinstance(cause, socket.gaierror):
        return Unreachable("there is no host of that name", was_refused=True)
    if isinstance(cause, ConnectionRefusedError):
        return Unreachable("connection refused", was_refused=True)
    if isinstance(cause, http.client.RemoteDisconnected | ConnectionResetError | http.client.IncompleteRead):
        return Unreachable("the connection broke off")
    if isinstance(cause, TimeoutError):
        return Unreachable("no answer in time")
    if isinstance(cause, http.client.HTTPException):
        return Unreachable("the answer was no HTTP")
    if isinstance(cause, OSError):
        return Unreachable((cause.strerror or str(cause)).lower(), was_refused=True)
    return Unreachable(str(cause))
