"""Finished files in a local folder. A reader never sees half a file: it is renamed into place when it is whole."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from webapp.domain.errors import storage_failure


class Storage:
    """Files under one folder, `ab/exp_….1.csv`; work in progress is beside it, under `.part`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        (self.folder / ".part").mkdir(parents=True, exist_ok=True)

    def key(self, export_id: str, attempt: int, extension: str) -> str:
        """The attempt is part of the name, so that a worker that was given up cannot touch its successor's file."""
        return f"{export_id[-2:]}/{export_id}.{attempt}{extension}"

    def temporary(self, export_id: str, attempt: int) -> Path:
        return self.folder / ".part" / f"{export_id}.{attempt}"

    def path(self, key: str) -> Path:
        path = (self.folder / key).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError("not a key of this storage")
        return path

    async def keep(self, temporary: Path, key: str) -> None:
        """Moves a whole, synced file into place. Raises AttemptFailed with DISK_FULL or STORAGE_ERROR."""
        try:
            await asyncio.to_thread(self._rename, temporary, self.path(key))
        except OSError as error:
            raise storage_failure(error) from error

    async def delete(self, key: str) -> None:
        """Deleting what is gone already is no error."""
        await asyncio.to_thread(self.path(key).unlink, missing_ok=True)

    async def delete_temporary(self, export_id: str, attempt: int) -> None:
        await asyncio.to_thread(self.temporary(export_id, attempt).unlink, missing_ok=True)

    def old_files(self, *, older_than: float) -> Iterator[tuple[str, str]]:
        """(export id, key) of every finished or temporary file that was last written that many seconds ago."""
        limit = time.time() - older_than
        for path in self.folder.glob("*/exp_*"):
            try:
                if path.stat().st_mtime < limit:
                    yield path.name.split(".", 1)[0], str(path.relative_to(self.folder))
            except FileNotFoundError:
                continue

    def _rename(self, temporary: Path, final: Path) -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(final)
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_storage(url: str) -> Storage:
    return Storage(Path(unquote(urlsplit(url).path)))
