"""One `up` per data folder: a lock that the kernel gives back however its holder ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from webapp.commands.failures import Failure


@contextlib.contextmanager
def lock(path: Path) -> Generator[None]:
    """Held until the block is left, then the file is removed. Raises Failure naming the process that holds it."""
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            folder = path.parent.parent
            raise Failure(f"exportdesk up is already running on {folder} (process {holder}). Stop it first.") from None
        if _is_still_there(path, descriptor):
            return descriptor
        os.close(descriptor)


def _is_still_there(path: Path, descriptor: int) -> bool:
    """False when the holder before us removed the file after we had opened it."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    return False
