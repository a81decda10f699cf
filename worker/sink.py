"""Where a writer's bytes go: a temporary file, hashed and counted on the way."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from webapp.domain.errors import AttemptFailed, ErrorCode

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
GZIP_LEVEL = 1
GZIP_WINDOW = 31


@dataclass(frozen=True, slots=True)
class SinkResult:
    """`size` in bytes and `sha256` in hexadecimal, of the file as it lies on the disk."""

    size: int
    sha256: str


class Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class Sink:
    """Writes one file. Raises `AttemptFailed`: DISK_FULL, STORAGE_ERROR, TOO_LARGE (beyond `max_bytes`)."""

    def __init__(self, path: Path, *, compression: str = "none", max_bytes: int | None = None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._compressor = _compressor(compression)
        self._hash = hashlib.sha256()
        self._size = 0
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise _failure(error) from error

    @property
    def size(self) -> int:
        """Bytes in the file so far; a compressor may hold back some more."""
        return self._size

    def write(self, data: bytes) -> None:
        self._store(self._compressor.compress(data) if self._compressor else data)

    def close(self) -> SinkResult:
        """The file is whole and on the disk when this returns."""
        if self._compressor:
            self._store(self._compressor.flush())
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise _failure(error) from error
        return SinkResult(self._size, self._hash.hexdigest())

    def abort(self) -> None:
        """Removes the file. May be called at any time, also twice."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _store(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._max_bytes is not None and self._size > self._max_bytes:
            raise AttemptFailed(ErrorCode.TOO_LARGE, limit=_size_in_words(self._max_bytes))
        self._hash.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise _failure(error) from error


def _compressor(compression: str) -> Compressor | None:
    if compression == "none":
        return None
    if compression == "gzip":
        return _gzip()
    raise AttemptFailed(ErrorCode.FORMAT_LIMIT, detail=f"compression {compression} is not available")


def _gzip() -> Compressor:
    from isal import isal_zlib  # only the orders that ask for it pay for the import

    return isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_WINDOW)  # pyright: ignore[reportUnknownMemberType]


def _failure(error: OSError) -> AttemptFailed:
    return AttemptFailed(ErrorCode.DISK_FULL if error.errno in FULL else ErrorCode.STORAGE_ERROR)


def _size_in_words(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size = size // 1024 if size % 1024 == 0 else round(size / 1024)
    return f"{size:g} GiB"
