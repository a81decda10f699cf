"""The sink: what lands in the file is what it counted and hashed."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import threading
import time

import pytest
from backports import zstd
from patience import PATIENCE

from webapp.domain.errors import AttemptFailed, ErrorCode
from worker.filehash import STEP
from worker.formats.lane import PENDING
from worker.sink import BLOCK, Sink

UNPACK = {"none": bytes, "gzip": gzip.decompress, "zstd": zstd.decompress}


@pytest.fixture
def part(tmp_path):
    return tmp_path / "file.csv.part"


def failure(action, *args) -> AttemptFailed:
    with pytest.raises(AttemptFailed) as caught:
        action(*args)
    return caught.value


@pytest.mark.parametrize("compression", UNPACK)
def test_size_and_hash_are_those_of_the_file(part, compression):
    sink = Sink(part, compression=compression)
    for _ in range(1000):
        sink.write(b"a line of text\r\n")
    result = sink.close()
    data = part.read_bytes()
    assert (result.size, result.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert UNPACK[compression](data) == b"a line of text\r\n" * 1000


@pytest.mark.parametrize("compression", UNPACK)
def test_the_same_bytes_give_the_same_file(tmp_path, compression):
    def digest(name):
        sink = Sink(tmp_path / name, compression=compression)
        for _ in range(100):
            sink.write(b"same" * 10_000)
        return sink.close().sha256

    assert digest("one") == digest("two")


def test_an_empty_file_is_a_file(part):
    assert Sink(part).close().size == 0
    assert part.read_bytes() == b""


def test_abort_removes_the_file_and_may_come_twice(part):
    sink = Sink(part)
    sink.write(b"x")
    sink.abort()
    sink.abort()
    assert not part.exists()


def test_more_than_allowed_is_too_large(part):
    sink = Sink(part, max_bytes=2 * 1024 * 1024)
    sink.write(b"x" * 2 * 1024 * 1024)
    error = failure(sink.write, b"x")
    assert (error.code, error.details) == (ErrorCode.TOO_LARGE, {"limit": "2 MiB"})
    sink.abort()


def test_a_full_disk_says_so(part):
    part.symlink_to("/dev/full")
    sink = Sink(part)
    error = failure(lambda: (sink.write(b"x" * 1_000_000), sink.close()))
    assert error.code is ErrorCode.DISK_FULL
    sink.abort()
    assert not part.is_symlink()


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "DISK_FULL"), (errno.EDQUOT, "DISK_FULL"), (errno.EIO, "STORAGE_ERROR")],
)
def test_a_failing_flush_to_disk_is_an_error_of_the_storage(part, monkeypatch, number, code):
    def fail(descriptor):
        raise OSError(number, "broken")

    monkeypatch.setattr("worker.sink.os.fsync", fail)
    sink = Sink(part)
    sink.write(b"x")
    assert failure(sink.close).code == code
    sink.abort()


def test_a_disk_that_breaks_on_the_way_is_told_by_a_later_write(part, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr("worker.filehash.os.fsync", fail)
    monkeypatch.setattr("worker.filehash.UNSTORED", STEP)
    sink = Sink(part)
    error = failure(lambda: [sink.write(b"x" * STEP) for _ in range(PENDING + 2)])
    assert error.code is ErrorCode.STORAGE_ERROR
    sink.abort()
    assert not part.exists()


def test_a_missing_folder_is_an_error_of_the_storage(tmp_path):
    assert failure(Sink, tmp_path / "gone" / "x.part").code is ErrorCode.STORAGE_ERROR


def test_a_compression_that_is_not_there_is_refused_before_a_file_appears(part):
    with pytest.raises(AttemptFailed, match="FORMAT_LIMIT"):
        Sink(part, compression="brotli")
    assert not part.exists()


@pytest.mark.parametrize("compression", UNPACK)
@pytest.mark.parametrize("size", [1, 1000, BLOCK - 1, BLOCK, 3 * BLOCK + 7])
def test_pieces_of_any_size_come_out_in_order(part, compression, size):
    pieces = [bytes([number]) * size for number in range(12)]
    sink = Sink(part, compression=compression)
    for piece in pieces:
        sink.write(piece)
    result = sink.close()
    data = part.read_bytes()
    assert (result.size, result.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert UNPACK[compression](data) == b"".join(pieces)


def fed(sink, seconds=PATIENCE) -> AttemptFailed:
    """What comes out of a later write or of close when the thread fails."""

    def feed():
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            sink.write(os.urandom(100_000))
        sink.close()

    return failure(feed)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_what_goes_wrong_in_the_thread_comes_out_of_the_sink(part, compression):
    sink = Sink(part, compression=compression, max_bytes=2 * BLOCK)
    assert fed(sink).code is ErrorCode.TOO_LARGE
    sink.abort()
    part.symlink_to("/dev/full")
    sink = Sink(part, compression=compression)
    assert fed(sink).code is ErrorCode.DISK_FULL
    sink.abort()
    assert not part.is_symlink()


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_too_large_is_also_found_by_the_last_bytes(part, compression):
    sink = Sink(part, compression=compression, max_bytes=10)
    sink.write(b"something" * 10)
    assert failure(sink.close).code is ErrorCode.TOO_LARGE
    sink.abort()
    assert not part.exists()


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_abort_ends_the_thread_whatever_waits(part, compression):
    before = threading.active_count()
    sink = Sink(part, compression=compression)
    for _ in range(40):
        sink.write(os.urandom(BLOCK // 4))
    sink.abort()
    sink.abort()
    assert threading.active_count() == before
    assert not part.exists()


def test_scratch_has_no_name(part):
    sink = Sink(part)
    with sink.scratch() as scratch:
        scratch.write(b"x")
        assert os.listdir(part.parent) == [part.name]
    sink.abort()


def test_restart_gives_what_was_written_and_an_empty_file(part):
    sink = Sink(part)
    sink.write(b"first")
    with sink.restart() as written:
        sink.write(b"second")
        assert written.read() == b"first"
    result = sink.close()
    assert (part.read_bytes(), result.size) == (b"second", 6)
    assert result.sha256 == hashlib.sha256(b"second").hexdigest()
    assert os.listdir(part.parent) == [part.name]
