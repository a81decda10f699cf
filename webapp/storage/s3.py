"""Finished files in a bucket that speaks S3, by way of obstore.

What is stored is what was promised: the file is hashed again while it is read for the upload, and each request
carries the SHA-256 of its body, which the store compares. Only when the whole hash is right is the upload completed;
then the store is asked for the size.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from webapp.domain.dispositions import content_disposition
from webapp.domain.errors import AttemptFailed, ErrorCode, storage_failure
from webapp.domain.exports import ExportFile
from webapp.domain.ids import new_id
from webapp.storage.interface import Elsewhere, Place, Relayed, Storage, StorageUnusable
from webapp.storage.local import old_in
from webapp.storage.s3_errors import unusable

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

log = logging.getLogger(__name__)

LINK_LIFETIME = timedelta(hours=6)
"""Longer than a slow download and its retries take. A link signed by temporary credentials ends with them."""
PART = 8 * 1024 * 1024
MOST_PARTS = 10_000
PARTS_AT_ONCE = 4
ABORT_SECONDS = 8.0
"""How long an upload that is not wanted any more may take to take itself back."""
LISTED_AT_ONCE = 1_000
LISTED_EVERY = 60.0
"""Seconds between two looks for orphans, each of so many objects; the next one goes on behind them."""
ASKED_AT_ONCE = 20
WORK = ".work/"
ABANDONED = 86_400.0
"""Seconds after which a temporary file that nobody wrote to is a dead worker's."""

NONE_GIVEN: Mapping[str, str] = {}
STORE_ERRORS = (BaseError, FileNotFoundError)
UPLOADS: ClientConfig = {"timeout": timedelta(minutes=5), "connect_timeout": timedelta(seconds=5)}
UPLOAD_RETRIES: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(minutes=1),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
CALLS: ClientConfig = {"timeout": timedelta(seconds=20), "connect_timeout": timedelta(seconds=3)}
CALL_RETRIES: RetryConfig = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=8),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}


class _Altered(Exception):
    """The temporary file is not what its child said it had written."""


class _Stopped(Exception):
    """The upload is not wanted any more."""


class S3Storage(Storage):
    """Objects under one prefix of one bucket. Credentials, region and endpoint: the usual AWS_* environment variables.

    With `relays` downloads come through us, for a bucket that people cannot reach.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        work: Path,
        *,
        credentials: Mapping[str, str] = NONE_GIVEN,
        allow_http: bool = False,
        relays: bool = False,
    ) -> None:
        """obstore does not look for AWS_ALLOW_HTTP once it is given options of its client."""
        super().__init__(work)
        self.bucket = bucket
        self.relays = relays
        config: Any = {"checksum_algorithm": "SHA256", **credentials}
        open_store = partial(S3Store, bucket, prefix=prefix or None, config=config)
        self._uploads = open_store(client_options={**UPLOADS, "allow_http": allow_http}, retry_config=UPLOAD_RETRIES)
        self._calls = open_store(client_options={**CALLS, "allow_http": allow_http}, retry_config=CALL_RETRIES)
        self._listed_to: str | None = None
        self._list_again_at = 0.0

    def prepare(self) -> None:
        super().prepare()
        for _, name in old_in(self.work, "exp_*", older_than=ABANDONED):
            (self.work / name).unlink(missing_ok=True)

    async def keep(self, temporary: Path, file: ExportFile) -> None:
        """obstore aborts an upload whose source fails, but not one that is cancelled: so its source is made to fail."""
        stopped = asyncio.Event()
        upload = asyncio.create_task(self._upload(temporary, file, stopped))
        try:
            await asyncio.shield(upload)
        except asyncio.CancelledError:
            stopped.set()
            with contextlib.suppress(AttemptFailed, TimeoutError):
                await asyncio.wait_for(upload, ABORT_SECONDS)
            await self.delete(file.key)
            raise

    async def place(self, key: str, *, method: str) -> Place | None:
        try:
            found = await self._calls.head_async(key)
        except FileNotFoundError:
            return None
        except STORE_ERRORS as error:
            raise unusable(error, self.bucket) from None
        if not self.relays:
            with contextlib.suppress(BaseError):
                return Elsewhere(await self._sign(key, method))
        return Relayed(found["size"], partial(self._read, key))

    async def missing(self, keys: Sequence[str]) -> Sequence[str]:
        """The store answers alike for a bucket that is not there: so what is missing counts when that can be listed."""
        gone: list[str] = []
        try:
            for start in range(0, len(keys), ASKED_AT_ONCE):
                gone += await self._missing(keys[start : start + ASKED_AT_ONCE])
            if gone:
                await self._page(None)
        except STORE_ERRORS as error:
            raise unusable(error, self.bucket) from None
        return gone

    async def delete(self, key: str) -> bool:
        if key.startswith(WORK):
            await asyncio.to_thread((self.work / key.removeprefix(WORK)).unlink, missing_ok=True)
            return True
        try:
            await self._calls.delete_async(key)
        except FileNotFoundError:
            return True
        except STORE_ERRORS as error:
            log.warning("%s cannot be deleted now: %s", key, unusable(error, self.bucket))
            return False
        return True

    async def old_files(self, *, older_than: float) -> list[tuple[str, str]]:
        limit = datetime.now(UTC) - timedelta(seconds=older_than)
        old = [(i, WORK + name) for i, name in old_in(self.work, "exp_*", older_than=older_than)]
        for found in await self._listed():
            folder, _, name = found["path"].partition("/")
            export_id = name.partition(".")[0]
            if export_id.startswith("exp_") and export_id.endswith(folder) and found["last_modified"] < limit:
                old.append((export_id, found["path"]))
        return old

    async def check(self) -> str:
        """The link is fetched as a person would."""
        key, content = self.key(new_id("exp"), 0, ".check"), os.urandom(64)
        try:
            await self._calls.put_async(key, content, use_multipart=False)
            read = await self._read(key, 0, len(content)) if self.relays else await self._fetched(key)
            if read != content:
                raise StorageUnusable(f"the bucket {self.bucket} gives back other bytes", "look at what is in between")
            await self._calls.delete_async(key)
        except STORE_ERRORS as error:
            raise unusable(error, self.bucket) from None
        links = "read by us" if self.relays else "read by signed links"
        return f"the bucket {self.bucket} can be written and {links}"

    async def _upload(self, temporary: Path, file: ExportFile, stopped: asyncio.Event) -> None:
        """What went wrong is in the log; an object that came about all the same is deleted."""
        try:
            await self._put(temporary, file, stopped)
            size = (await self._calls.head_async(file.key))["size"]
            if size == file.size:
                return
            problem = f"the store has {size} bytes of {file.size}"
        except STORE_ERRORS as error:
            problem = str(unusable(error, self.bucket))
        except OSError as error:
            raise storage_failure(error) from error
        except _Altered as error:
            problem = str(error)
        except _Stopped:
            problem = "it is not wanted any more"
        log.warning("%s was not stored: %s", file.key, problem)
        await self.delete(file.key)
        raise AttemptFailed(ErrorCode.STORAGE_ERROR)

    async def _put(self, temporary: Path, file: ExportFile, stopped: asyncio.Event) -> None:
        """A small file in one request; a big one in parts, of which at most a few are in memory."""
        part_size = max(PART, math.ceil(file.size / MOST_PARTS))
        attributes = {
            "Content-Type": file.content_type,
            "Content-Disposition": content_disposition(file.name),
            "Cache-Control": "private, no-cache",
            "sha256": file.sha256,
        }
        with temporary.open("rb") as source:
            async with contextlib.aclosing(_parts(source, file, part_size, stopped)) as parts:
                if file.size > part_size:
                    await self._uploads.put_async(
                        file.key, parts, attributes=attributes, chunk_size=part_size, max_concurrency=PARTS_AT_ONCE
                    )
                else:
                    content = b"".join([part async for part in parts])
                    await self._uploads.put_async(file.key, content, attributes=attributes, use_multipart=False)

    async def _listed(self) -> Sequence[ObjectMeta]:
        """The next objects, by key. None at all when it was not long ago, or cannot be done now."""
        if time.monotonic() < self._list_again_at:
            return []
        self._list_again_at = time.monotonic() + LISTED_EVERY
        start, self._listed_to = self._listed_to, None
        try:
            page = await self._page(start)
            if len(page) == LISTED_AT_ONCE:
                self._listed_to = page[-1]["path"]
            return page
        except STORE_ERRORS as error:
            log.warning("the bucket cannot be listed now: %s", unusable(error, self.bucket))
        return []

    async def _page(self, start: str | None) -> Sequence[ObjectMeta]:
        """The objects behind this key, up to LISTED_AT_ONCE of them."""
        pages = self._calls.list(offset=start, chunk_size=LISTED_AT_ONCE)  # pyright: ignore[reportUnknownMemberType]
        async for page in pages:
            return page
        return []

    async def _missing(self, keys: Sequence[str]) -> Sequence[str]:
        answers = await asyncio.gather(*map(self._calls.head_async, keys), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, FileNotFoundError):
                raise answer
        return [key for key, answer in zip(keys, answers, strict=True) if isinstance(answer, FileNotFoundError)]

    async def _sign(self, key: str, method: str) -> str:
        return await obstore.sign_async(self._calls, "HEAD" if method == "HEAD" else "GET", key, LINK_LIFETIME)

    async def _read(self, key: str, start: int, end: int) -> bytes:
        try:
            return bytes(await self._calls.get_range_async(key, start=start, end=end))
        except STORE_ERRORS as error:
            raise unusable(error, self.bucket) from None

    async def _fetched(self, key: str) -> bytes:
        status, content = await asyncio.to_thread(_fetch, await self._sign(key, "GET"))
        if status == HTTPStatus.OK:
            return content
        raise StorageUnusable(
            f"a signed link to the bucket {self.bucket} {f'is answered by {status}' if status else 'leads nowhere'}",
            "check the region, the endpoint and the clock; or set EXPORTDESK_DOWNLOADS=relay",
        )


def _fetch(link: str) -> tuple[int, bytes]:
    """The status, 0 when there is no answer."""
    try:
        with urllib.request.urlopen(link, timeout=10) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, b""
    except OSError:
        return 0, b""


async def _parts(source: BinaryIO, file: ExportFile, size: int, stopped: asyncio.Event) -> AsyncGenerator[bytes]:
    """The file in parts. Raises _Altered behind the last one, before the upload is completed; and _Stopped."""
    digest, sent = hashlib.sha256(), 0
    while part := await asyncio.to_thread(_read_part, source, size, digest):
        if stopped.is_set():
            raise _Stopped
        sent += len(part)
        yield part
    if stopped.is_set():
        raise _Stopped
    if (sent, digest.hexdigest()) != (file.size, file.sha256):
        raise _Altered(f"the file has {sent} bytes and the SHA-256 {digest.hexdigest()}, which is not what was written")


def _read_part(source: BinaryIO, size: int, digest: Any) -> bytes:
    part = source.read(size)
    digest.update(part)
    return part
