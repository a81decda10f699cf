"""The SHA-256 of a file while it grows, beside whatever makes it grow, and its way to the disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from worker.formats.lane import Lane

STEP = 4 * 1024 * 1024
"""Bytes between two turns of the thread: each turn needs the GIL twice, so there should be few."""
BLOCK = 1024 * 1024
UNSTORED = 32 * 1024 * 1024
"""Bytes that may gather before the thread has them written to the disk; so little is left to wait for at the end."""


class FollowingHash:
    """Reads the file back from the page cache in a thread: reading, hashing and storing let go of the GIL.

    Raises OSError, also when the file is shorter than was told.
    """

    def __init__(self, path: Path) -> None:
        self._hash = hashlib.sha256()
        self._file = os.open(path, os.O_RDONLY)
        self._told = self._read = self._stored = 0
        self._block = memoryview(bytearray(BLOCK))
        self._lane = Lane[int](self._follow)

    def is_due(self, size: int) -> bool:
        return size - self._told >= STEP

    def follow(self, size: int) -> None:
        """So many bytes are in the file by now, none of them in a buffer of the process."""
        self._told = size
        self._lane.put(size)

    def close(self, size: int) -> str:
        """The hexadecimal digest of the whole file."""
        self.follow(size)
        self._lane.drain()
        self.abort()
        return self._hash.hexdigest()

    def abort(self) -> None:
        """Ends the thread. May come twice."""
        self._lane.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _follow(self, size: int) -> None:
        """In the thread."""
        while self._read < size:
            count = os.preadv(self._file, [self._block[: size - self._read]], self._read)
            if count == 0:
                raise OSError(f"the file ends at {self._read} bytes, but {size} were written")
            self._hash.update(self._block[:count])
            self._read += count
        if self._read - self._stored >= UNSTORED:
            os.fsync(self._file)
            self._stored = self._read
