"""What a storage of finished files does, wherever it keeps them."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from webapp.domain.exports import ExportFile


class StorageUnusable(Exception):
    """What is wrong with the storage, and the mend. Neither holds a secret."""

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem)
        self.mend = mend


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file of this machine."""

    path: Path
    found: os.stat_result


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A signed link: whoever has it may fetch the file until it runs out."""

    url: str


@dataclass(frozen=True, slots=True)
class Relayed:
    """A file that only we can fetch: `read(start, end)` gives bytes, `end` not among them. Raises StorageUnusable."""

    size: int
    read: Callable[[int, int], Awaitable[bytes]]


Place = OnDisk | Elsewhere | Relayed


class Storage(ABC):
    """Finished files by key, `ab/exp_….1.csv`. Work in progress is in a folder of this machine, `work`."""

    def __init__(self, work: Path) -> None:
        self.work = work

    def prepare(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)

    def key(self, export_id: str, attempt: int, extension: str) -> str:
        """The attempt is part of the name, so that a worker that was given up cannot touch its successor's file."""
        return f"{export_id[-2:]}/{export_id}.{attempt}{extension}"

    def temporary(self, export_id: str, attempt: int) -> Path:
        return self.work / f"{export_id}.{attempt}"

    async def delete_temporary(self, export_id: str, attempt: int) -> None:
        await asyncio.to_thread(self.temporary(export_id, attempt).unlink, missing_ok=True)

    @abstractmethod
    async def keep(self, temporary: Path, file: ExportFile) -> None:
        """Puts a whole, synced file into its place, all of it or nothing; cancelling takes it back.

        Raises AttemptFailed with DISK_FULL or STORAGE_ERROR.
        """

    @abstractmethod
    async def place(self, key: str, *, method: str) -> Place | None:
        """Where a download finds the file now, by GET or HEAD; None when it is gone. Raises StorageUnusable."""

    @abstractmethod
    async def missing(self, keys: Sequence[str]) -> Sequence[str]:
        """Those of the keys whose files are gone although the storage is there.

        Raises StorageUnusable when that cannot be told: a storage that is away must not be taken for lost files.
        """

    @abstractmethod
    async def delete(self, key: str) -> bool:
        """Deleting what is gone already is no error. False: it could not be deleted now, and the sweep will do it."""

    @abstractmethod
    async def old_files(self, *, older_than: float) -> list[tuple[str, str]]:
        """(export id, key) of finished or temporary files that were last written that many seconds ago.

        Not necessarily all: the next call goes on where this one ended.
        """

    @abstractmethod
    async def check(self) -> str:
        """Writes, reads and deletes a trial; says what it found. Raises StorageUnusable."""
