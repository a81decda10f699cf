"""Where a writer's bytes go: a temporary file, hashed and counted on the way."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from webapp.domain.errors import NO_COMPRESSION, AttemptFailed, ErrorCode, storage_failure
from webapp.domain.sizes import told_size
from worker.filehash import FollowingHash
from worker.formats.lane import Lane

GZIP_LEVEL = 1
GZIP_WINDOW = 31
ZSTD_LEVEL = 2
BLOCK = 1024 * 1024
"""Bytes that go to the compressor at once. Smaller blocks would spend their time waiting for the GIL; at most five
of them exist at a time."""


@dataclass(frozen=True, slots=True)
class SinkResult:
    """`size` in bytes and `sha256` in hexadecimal, of the file as it lies on the disk."""

    size: int
    sha256: str


class Compressor(Protocol):
    def compress(self, data: bytes | memoryview, /) -> bytes: ...

    def flush(self) -> bytes: ...


class Sink:
    """Writes one file. Raises `AttemptFailed`: DISK_FULL, STORAGE_ERROR, TOO_LARGE (beyond `max_bytes`).

    What is compressed is compressed, hashed and stored in a thread of its own; what goes wrong there comes out of a
    later `write` or of `close`.
    """

    def __init__(self, path: Path, *, compression: str = "none", max_bytes: int | None = None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._compressor = _compressor(compression)
        self._aborted = False
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._start()
        self._lane = Lane[bytes](self._compress) if self._compressor else None

    @property
    def size(self) -> int:
        """Bytes in the file so far; a compressor may hold back some more."""
        return self._size

    def write(self, data: bytes) -> None:
        if self._lane is None:
            self._store(data)
            return
        self._waiting.append(data)
        self._waiting_size += len(data)
        if self._waiting_size >= BLOCK:
            self._pass_on(self._lane)

    def scratch(self) -> BinaryIO:
        """An unnamed file in the same folder, to write and read; it is gone when closed, also by a crash."""
        try:
            return tempfile.TemporaryFile(dir=self._path.parent)
        except OSError as error:
            raise storage_failure(error) from error

    def restart(self) -> BinaryIO:
        """Takes everything back: gives what was written, to be read, and the file is empty again. Not for compressed
        files. What is given has no name any more and is gone when closed."""
        assert self._compressor is None
        try:
            self._file.close()
            self._hash.abort()
            written = self._path.open("rb")
            self._path.unlink()
        except OSError as error:
            raise storage_failure(error) from error
        self._start()
        return written

    def close(self) -> SinkResult:
        """The file is whole and on the disk when this returns."""
        self._finish_compressing()
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            return SinkResult(self._size, self._hash.close(self._size))
        except OSError as error:
            raise storage_failure(error) from error

    def abort(self) -> None:
        """Removes the file. May be called at any time, also twice."""
        self._aborted = True
        if self._lane:
            self._lane.close()
        self._hash.abort()
        with contextlib.suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _start(self) -> None:
        self._size = 0
        try:
            self._file = self._path.open("wb")
            self._hash = FollowingHash(self._path)
        except OSError as error:
            raise storage_failure(error) from error

    def _pass_on(self, lane: Lane[bytes]) -> None:
        data = b"".join(self._waiting)
        self._waiting, self._waiting_size = [], 0
        for start in range(0, len(data), BLOCK):
            lane.put(data[start : start + BLOCK])

    def _compress(self, data: bytes) -> None:
        """In the thread."""
        if self._compressor and not self._aborted:
            self._store(self._compressor.compress(data))

    def _finish_compressing(self) -> None:
        if self._lane and self._compressor:
            self._pass_on(self._lane)
            self._lane.drain()
            self._lane.close()
            self._store(self._compressor.flush())

    def _store(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._max_bytes is not None and self._size > self._max_bytes:
            raise AttemptFailed(ErrorCode.TOO_LARGE, limit=told_size(self._max_bytes))
        try:
            self._file.write(data)
            if self._hash.is_due(self._size):
                self._file.flush()
                self._hash.follow(self._size)
        except OSError as error:
            raise storage_failure(error) from error


def _compressor(compression: str) -> Compressor | None:
    if compression == "none":
        return None
    if compression == "gzip":
        return _gzip()
    if compression == "zstd":
        return _zstd()
    raise AttemptFailed(ErrorCode.FORMAT_LIMIT, detail=NO_COMPRESSION.format(name=compression))


def _gzip() -> Compressor:
    from isal import isal_zlib  # only the orders that ask for it pay for the import

    return isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_WINDOW)  # pyright: ignore[reportUnknownMemberType]


def _zstd() -> Compressor:
    """Python 3.14 has it in its standard library; before, the same module comes as a package."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdCompressor(
        options={zstd.CompressionParameter.compression_level: ZSTD_LEVEL, zstd.CompressionParameter.checksum_flag: 1}
    )
