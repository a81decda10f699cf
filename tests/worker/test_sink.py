"""The sink: what lands in the file is what it counted and hashed."""

from __future__ import annotations

import errno
import gzip
import hashlib

import pytest

from webapp.domain.errors import AttemptFailed, ErrorCode
from worker.sink import Sink


@pytest.fixture
def part(tmp_path):
    return tmp_path / "file.csv.part"


def failure(action, *args) -> AttemptFailed:
    with pytest.raises(AttemptFailed) as caught:
        action(*args)
    return caught.value


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_size_and_hash_are_those_of_the_file(part, compression):
    sink = Sink(part, compression=compression)
    for _ in range(1000):
        sink.write(b"a line of text\r\n")
    result = sink.close()
    data = part.read_bytes()
    assert (result.size, result.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (gzip.decompress(data) if compression == "gzip" else data) == b"a line of text\r\n" * 1000


def test_the_same_bytes_give_the_same_gzip(tmp_path):
    def digest(name):
        sink = Sink(tmp_path / name, compression="gzip")
        sink.write(b"same" * 100)
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


def test_a_missing_folder_is_an_error_of_the_storage(tmp_path):
    assert failure(Sink, tmp_path / "gone" / "x.part").code is ErrorCode.STORAGE_ERROR


def test_a_compression_that_is_not_there_is_refused_before_a_file_appears(part):
    with pytest.raises(AttemptFailed, match="FORMAT_LIMIT"):
        Sink(part, compression="zstd")
    assert not part.exists()
