"""The file that declares sources and datasets, as forms change it: whole or not at all, and never over somebody else's
change. What it was before stands beside it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from webapp.datasets.catalog import DEMO, FILE_BYTES, read_text
from webapp.domain.sentences import Text, say, sentence_of

OWNER_ONLY = 0o600
BACKUP = ".bak"


class CannotSave(Exception):
    """Why the file stays as it is: a sentence for the person who wanted to change it."""

    def __init__(self, reason: Text) -> None:
        super().__init__(reason)

    @property
    def reason(self) -> str:
        return sentence_of(self)


@dataclass(frozen=True, slots=True)
class Content:
    """`digest` tells whether it is still the same; empty for a file that is not there yet."""

    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class CatalogFile:
    path: Path

    def read(self) -> Content:
        """A file that is not there yet would begin with the demo, so that the demo stays. Raises BadCatalog."""
        if not self.path.exists():
            return Content(DEMO.read_text(encoding="utf-8").replace("${DEMO_DB}", "demo.db"), "")
        return Content(read_text(self.path), _digest(self.path))

    def replace(self, text: str, *, seen: str) -> None:
        """`seen` is the digest of what the change began with. Raises CannotSave."""
        content = text.encode()
        if len(content) > FILE_BYTES:
            raise CannotSave(say("The file would be larger than {size} KiB.", size=FILE_BYTES // 1024))
        try:
            self._replace(content, seen)
        except OSError as error:
            raise CannotSave(
                say("{path} cannot be written ({reason}).", path=str(self.path), reason=error.strerror or "")
            ) from None

    def _replace(self, content: bytes, seen: str) -> None:
        path = self.path.resolve()
        with _locked(path.parent):
            if (_digest(path) if path.exists() else "") != seen:
                raise CannotSave(
                    say("The file was changed by somebody else meanwhile. Look at what you sent, then save it again.")
                )
            mode = OWNER_ONLY
            if path.exists():
                mode = stat.S_IMODE(path.stat().st_mode)
                if not mode & stat.S_IWUSR or not os.access(path, os.W_OK):
                    raise CannotSave(say("{path} is read-only: it is changed where it comes from.", path=str(path)))
                _write(path.with_name(path.name + BACKUP), path.read_bytes(), mode)
            _write(path, content, mode)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """One process at a time, of all that change files here by this module."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Whoever reads meanwhile finds the old content or the new."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
