"""Files in a bucket: whole or not there at all, whatever happens to the upload; and sentences without secrets."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from buckets import SECRET, Bucket, Fault, Hold, cutting, failing, in_bucket, is_completion, is_part
from buckets import bucket as bucket
from buckets import s3_server as s3_server

from webapp.domain.errors import AttemptFailed, ErrorCode
from webapp.domain.exports import ExportFile
from webapp.settings import Settings
from webapp.storage import Elsewhere, Storage, StorageUnusable, open_storage, s3

EXPORT = "exp_01m8mtv6eyecta8qms1nden14k"
BIG = random.Random(3).randbytes(17_000_000)
SIZES = [0, 1000, s3.PART, s3.PART + 1, len(BIG)]


def is_put(request: Any) -> bool:
    return request.method == "PUT"


@pytest.fixture
def storage(settings: Settings, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Its patience is short."""
    retries = {"max_retries": 2, "backoff": {"init_backoff": timedelta(milliseconds=5), "base": 2}}
    monkeypatch.setattr(s3, "UPLOAD_RETRIES", retries)
    monkeypatch.setattr(s3, "CALL_RETRIES", retries)
    opened = open_storage(in_bucket(settings, bucket))
    opened.prepare()
    return opened


def written(storage: Storage, content: bytes, **changes: Any) -> tuple[Path, ExportFile]:
    """A temporary file and what its child says of it."""
    path = storage.temporary(EXPORT, 1)
    path.write_bytes(content)
    file = ExportFile(
        key=storage.key(EXPORT, 1, ".csv"),
        name="Dinge 東京.csv",
        size=len(content),
        rows=1,
        sha256=hashlib.sha256(content).hexdigest(),
        content_type="text/csv; charset=utf-8",
        expires_at=datetime.now(UTC),
    )
    return path, replace(file, **changes)


async def is_empty(bucket: Bucket) -> bool:
    return (await bucket.keys(), await bucket.uploads()) == ([], [])


@pytest.mark.parametrize("size", SIZES)
async def test_the_object_is_the_file(storage: Storage, bucket: Bucket, size: int) -> None:
    path, file = written(storage, BIG[:size])
    await storage.keep(path, file)
    assert await bucket.keys() == [f"desk/files/{file.key}"]
    assert await bucket.content(f"desk/files/{file.key}") == BIG[:size]
    assert await bucket.uploads() == []


@pytest.mark.parametrize("size", [1000, len(BIG)])
async def test_every_byte_is_sent_with_its_hash(storage: Storage, bucket: Bucket, size: int) -> None:
    await storage.keep(*written(storage, BIG[:size]))
    sent = [asked for asked in bucket.seen if asked.method == "PUT"]
    assert len(sent) == -(-size // s3.PART)
    assert all(asked.is_checked for asked in sent)


@pytest.mark.parametrize("size", [1000, len(BIG)])
@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"size": 1_000_000_000}, {"size": 999}])
async def test_a_file_that_is_not_what_was_written_is_not_stored(
    storage: Storage, bucket: Bucket, size: int, change: dict[str, Any]
) -> None:
    with pytest.raises(AttemptFailed) as caught:
        await storage.keep(*written(storage, BIG[:size], **change))
    assert caught.value.code is ErrorCode.STORAGE_ERROR
    assert await is_empty(bucket)


FAULTS = {
    "the store fails": failing(500, is_put),
    "the store fails at the second part": failing(500, lambda request: is_part(request, 2)),
    "a part is refused": failing(400, lambda request: is_part(request, 2), body="<Code>BadDigest</Code>"),
    "the connection breaks": cutting(is_put),
    "the connection breaks at the third part": cutting(lambda request: is_part(request, 3)),
    "it cannot be completed": failing(500, is_completion),
    "it is denied": failing(403, is_put, body="<Code>AccessDenied</Code>"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_broken_upload_leaves_nothing(storage: Storage, bucket: Bucket, fault: str) -> None:
    bucket.fault = FAULTS[fault]
    with pytest.raises(AttemptFailed) as caught:
        await storage.keep(*written(storage, BIG))
    assert caught.value.code is ErrorCode.STORAGE_ERROR
    bucket.fault = None
    assert await is_empty(bucket)


@pytest.mark.parametrize("fault", [failing(500, is_put), cutting(is_put), failing(404, is_put)])
async def test_nor_does_a_small_one(storage: Storage, bucket: Bucket, fault: Fault) -> None:
    bucket.fault = fault
    with pytest.raises(AttemptFailed) as caught:
        await storage.keep(*written(storage, BIG[:1000]))
    assert caught.value.code is ErrorCode.STORAGE_ERROR
    assert await is_empty(bucket)


@pytest.mark.parametrize("fault", [failing(503, is_part, times=2), cutting(is_part, times=2)])
async def test_what_passes_is_tried_again(storage: Storage, bucket: Bucket, fault: Fault) -> None:
    bucket.fault = fault
    path, file = written(storage, BIG)
    await storage.keep(path, file)
    assert await bucket.content(f"desk/files/{file.key}") == BIG


async def test_a_store_that_has_another_size_is_not_believed(storage: Storage, bucket: Bucket) -> None:
    async def cut_short(request: Any) -> None:
        if request.method == "HEAD":
            await bucket.put(f"desk/files/{storage.key(EXPORT, 1, '.csv')}", b"half")

    bucket.fault = cut_short
    with pytest.raises(AttemptFailed):
        await storage.keep(*written(storage, b"not half"))
    assert await is_empty(bucket)


@pytest.mark.parametrize("size", [1000, len(BIG)])
async def test_an_upload_that_is_cancelled_takes_itself_back(storage: Storage, bucket: Bucket, size: int) -> None:
    bucket.fault = hold = Hold(is_put)
    keeping = asyncio.create_task(storage.keep(*written(storage, BIG[:size])))
    await hold.reached.wait()
    keeping.cancel()
    await asyncio.sleep(0.05)
    hold.let_go()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert await is_empty(bucket)


async def test_the_link_gives_the_file_under_its_name_to_whoever_has_it(storage: Storage, bucket: Bucket) -> None:
    path, file = written(storage, BIG[:1000])
    await storage.keep(path, file)
    place = await storage.place(file.key, method="GET")
    assert isinstance(place, Elsewhere)
    async with httpx.AsyncClient() as anybody:
        answer = await anybody.get(place.url)
    assert answer.content == BIG[:1000]
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].endswith("filename*=UTF-8''Dinge%20%E6%9D%B1%E4%BA%AC.csv")
    assert "X-Amz-Expires=21600" in place.url
    assert SECRET not in place.url


async def test_what_is_gone_is_nowhere_and_can_be_deleted_again(storage: Storage, bucket: Bucket) -> None:
    path, file = written(storage, b"x")
    await storage.keep(path, file)
    assert [await storage.delete(file.key), await storage.delete(file.key)] == [True, True]
    assert await storage.place(file.key, method="GET") is None


async def test_what_cannot_be_deleted_now_is_left_to_the_sweep(storage: Storage, bucket: Bucket) -> None:
    bucket.fault = failing(500, lambda request: True)
    assert not await storage.delete(storage.key(EXPORT, 1, ".csv"))


async def test_a_bucket_is_listed_bit_by_bit_and_not_all_the_time(
    storage: Storage, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [storage.key(f"exp_{number:026}", 1, ".csv") for number in range(5)]
    for key in [*keys, "ab/README", "ab/exp_of_somebody_else.csv"]:
        await bucket.put(f"desk/files/{key}")
    await bucket.put("exp_of_another_prefix")
    monkeypatch.setattr(s3, "LISTED_AT_ONCE", 3)
    found: list[str] = []
    for _ in range(3):
        bit = await storage.old_files(older_than=-60)
        assert len(bit) <= 3
        assert await storage.old_files(older_than=-60) == []
        found += [key for _, key in bit]
        storage._list_again_at = 0.0  # type: ignore[attr-defined]
    assert sorted(found) == sorted(keys)
    assert await storage.old_files(older_than=60) == []


async def test_temporary_files_of_dead_workers_go(storage: Storage, bucket: Bucket) -> None:
    written(storage, b"x")
    assert await storage.old_files(older_than=60) == []
    [(export_id, key)] = await storage.old_files(older_than=-60)
    assert export_id == EXPORT
    assert await storage.delete(key)
    assert list(storage.work.iterdir()) == []


async def test_a_bucket_that_can_be_used(storage: Storage, bucket: Bucket) -> None:
    assert await storage.check() == f"the bucket {bucket.name} can be written and read by signed links"
    assert await is_empty(bucket)


DENIED = f"<Error><Code>SignatureDoesNotMatch</Code><Message>{SECRET}</Message><StringToSign>…</StringToSign></Error>"


@pytest.mark.parametrize(
    ("fault", "problem", "mend"),
    [
        (failing(403, is_put, body=DENIED), "refuses the secret key", "check AWS_SECRET_ACCESS_KEY"),
        (failing(403, is_put, body="<Code>InvalidAccessKeyId</Code>"), "access key", "check AWS_ACCESS_KEY_ID"),
        (failing(403, is_put, body="<Code>AccessDenied</Code>"), "is denied", "s3:PutObject"),
        (failing(403, is_put), "is denied", "AWS_ACCESS_KEY_ID"),
        (failing(404, is_put, body="<Code>NoSuchBucket</Code>"), "no bucket files-", "EXPORTDESK_STORAGE_URL"),
        (failing(301, is_put), "another region", "AWS_REGION"),
        (failing(400, is_put, body="<Code>AuthorizationHeaderMalformed</Code>"), "another region", "AWS_REGION"),
        (failing(500, is_put), "answers 500", "the network"),
        (failing(400, is_put, body="<Code>EntropyTooLow</Code>"), "answers EntropyTooLow", "AWS_ENDPOINT_URL"),
        (failing(403, lambda request: request.method == "GET"), "signed link to the bucket", "EXPORTDESK_DOWNLOADS"),
        (cutting(is_put), "cannot be reached", "the network"),
    ],
)
async def test_what_is_wrong_is_told_without_a_secret(
    storage: Storage, bucket: Bucket, caplog: pytest.LogCaptureFixture, fault: Fault, problem: str, mend: str
) -> None:
    bucket.fault = fault
    with pytest.raises(StorageUnusable) as caught:
        await storage.check()
    assert problem in str(caught.value)
    assert mend in caught.value.mend
    with contextlib.suppress(AttemptFailed):
        await storage.keep(*written(storage, b"x"))
    assert SECRET not in f"{caught.value}{caught.value.mend}{caplog.text}"


async def test_an_endpoint_without_tls_has_to_be_meant(settings: Settings, bucket: Bucket) -> None:
    careful = open_storage(replace(in_bucket(settings, bucket), s3_allow_http=False))
    with pytest.raises(StorageUnusable, match="http, not https"):
        await careful.check()


async def test_a_store_that_is_not_there(settings: Settings, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StorageUnusable, match="cannot be reached"):
        await open_storage(in_bucket(settings, bucket)).check()


async def test_without_the_extra_it_says_what_to_install(
    settings: Settings, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "webapp.storage.s3", None)
    with pytest.raises(StorageUnusable, match="needs the package obstore") as caught:
        open_storage(in_bucket(settings, bucket))
    assert caught.value.mend.endswith("pip install '.[s3]'")
