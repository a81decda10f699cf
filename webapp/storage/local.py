"""Finished files in a local folder. A reader never sees half a file: it is renamed into place when it is whole."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from webapp.domain.errors import storage_failure
from webapp.domain.exports import ExportFile
from webapp.storage.interface import OnDisk, Storage, StorageUnusable


class LocalStorage(Storage):
    """Files under one folder, `ab/exp_….1.csv`; work in progress is beside it, under `.part`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / ".part")
        self.folder = folder

    def path(self, key: str) -> Path:
        path = (self.folder / key).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError("not a key of this storage")
        return path

    async def keep(self, temporary: Path, file: ExportFile) -> None:
        try:
            await asyncio.to_thread(self._rename, temporary, self.path(file.key))
        except OSError as error:
            raise storage_failure(error) from error

    async def place(self, key: str, *, method: str) -> OnDisk | None:
        path = self.path(key)
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        return OnDisk(path, found) if stat.S_ISREG(found.st_mode) else None

    async def missing(self, keys: Sequence[str]) -> Sequence[str]:
        return await asyncio.to_thread(lambda: [key for key in keys if self._is_missing(self.path(key))])

    async def delete(self, key: str) -> bool:
        await asyncio.to_thread(self.path(key).unlink, missing_ok=True)
        return True

    async def old_files(self, *, older_than: float) -> list[tuple[str, str]]:
        return await asyncio.to_thread(lambda: list(old_in(self.folder, "*/exp_*", older_than=older_than)))

    async def check(self) -> str:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            trial = self.folder / ".doctor"
            trial.touch()
            trial.unlink(missing_ok=True)
        except OSError as error:
            problem = f"{self.folder} cannot be written ({error.strerror})"
            raise StorageUnusable(problem, "give this user the folder") from None
        return f"{self.folder} can be written"

    def _is_missing(self, path: Path) -> bool:
        """We never remove a folder that a file was put into: where it is missing too, a volume is not mounted."""
        try:
            path.stat()
        except FileNotFoundError:
            if path.parent.is_dir():
                return True
            problem = f"{path.parent}, where files were put, is not there"
            raise StorageUnusable(problem, "mount its volume, or bring the folder back from a backup") from None
        except OSError as error:
            problem = f"{path.parent} cannot be read ({error.strerror})"
            raise StorageUnusable(problem, "give this user the folder, or mend its disk") from None
        return False

    def _rename(self, temporary: Path, final: Path) -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(final)
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def old_in(folder: Path, pattern: str, *, older_than: float) -> Iterator[tuple[str, str]]:
    """(export id, path below the folder) of what was last written that many seconds ago."""
    limit = time.time() - older_than
    for path in folder.glob(pattern):
        try:
            if path.stat().st_mtime < limit:
                yield path.name.split(".", 1)[0], str(path.relative_to(folder))
        except FileNotFoundError:
            continue
