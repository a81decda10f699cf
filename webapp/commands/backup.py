"""`exportdesk backup` and `restore`: a desk that keeps its store and its files on this machine, as one archive.

It is a tar file: the store, the finished files that it speaks of, the key that opens its secrets, the datasets file,
and last a manifest with the SHA-256 of each. What the broker holds is left out: it can be wiped at any moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote, urlsplit

import msgspec
from databases import DatabaseURL

from webapp.commands.failures import EXIT_PROBLEM, Failure
from webapp.commands.terminal import say
from webapp.settings import Settings
from webapp.web.words import counted

DATABASE, KEY, CONFIG, FILES, MANIFEST = "exportdesk.db", "secret.key", "exportdesk.toml", "files", "manifest.json"
FORMAT = 1
COPIED_AT_ONCE = 1024 * 1024


class Manifest(msgspec.Struct):
    """The last entry: the SHA-256 of each other one by its name."""

    format: int
    made_at: datetime
    sha256: dict[str, str]


def run_backup(settings: Settings, target: Path, *, overwrite: bool) -> int:
    """Safe while everything runs: the store is copied as it was at one moment, and files never change."""
    database, files = _local(settings)
    if target.exists() and not overwrite:
        raise Failure(f"{target} is there already. Choose another name, or say --force.")
    lost = 0
    with tempfile.TemporaryDirectory(dir=settings.data_dir) as work, _replacing(target) as output:
        copy = Path(work, DATABASE)
        _copy_database(database, copy)
        with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
            archive = _Archive(tar)
            archive.add(copy, DATABASE)
            for key in _kept_files(copy):
                try:
                    archive.add(files / key, f"{FILES}/{key}")
                except FileNotFoundError:  # its time was up, or it was deleted, since the store was copied
                    lost += 1
            for path, name in ((settings.data_dir / KEY, KEY), (settings.catalog_file, CONFIG)):
                if path.exists():
                    archive.add(path, name)
            archive.close()
    say(f"{target}: the store and {counted(len(archive.sums) - 1, 'other file')}, {target.stat().st_size:,} bytes.")
    if lost:
        say(f"{counted(lost, 'finished file')} went away meanwhile and will be swept from the restored store.")
    say("It holds the key that opens secrets: keep it as safe as the desk itself.")
    return 0


def run_restore(source: Path, folder: Path) -> int:
    """Into a folder that is new or empty. Nothing is kept of an archive that is not whole."""
    if folder.exists() and any(folder.iterdir()):
        raise Failure(f"{folder} is not empty. A desk is restored into a new folder: choose another one.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as work:
        whole = Path(work, "data")
        whole.mkdir(mode=0o700)
        try:
            with tarfile.open(source) as tar:
                count = _extract(tar, whole)
        except (tarfile.TarError, EOFError) as error:
            reason = str(error).partition("\n")[0]
            raise Failure(f"{source} is no backup, or not a whole one ({reason}).", EXIT_PROBLEM) from None
        if folder.exists():
            folder.rmdir()
        whole.rename(folder)
    say(f"{folder}: {counted(count, 'file')}, all as they were backed up.")
    say(f"Start it: EXPORTDESK_DATA_DIR={folder} exportdesk up")
    if (folder / CONFIG).exists():
        say(f"Its datasets are in {folder / CONFIG}: EXPORTDESK_CONFIG names that file, or yours.")
    return 0


def _local(settings: Settings) -> tuple[Path, Path]:
    """The store's file and the folder of files. Raises Failure where others have them."""
    if not settings.database_url.startswith("sqlite"):
        raise Failure("The store is PostgreSQL: back it up with pg_dump, and the files with the storage's own means.")
    if not settings.storage_url.startswith("file:"):
        raise Failure("The files are in object storage: back them up there, and the store with sqlite3's .backup.")
    database = Path(DatabaseURL(settings.database_url).database)
    if not database.exists():
        raise Failure(f"There is no store at {database} yet: nothing to back up.", EXIT_PROBLEM)
    return database, Path(unquote(urlsplit(settings.storage_url).path))


def _copy_database(database: Path, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))


def _kept_files(database: Path) -> Iterator[str]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        query = "SELECT json_extract(file, '$.key') FROM exports WHERE status = 'SUCCESS' AND file IS NOT NULL"
        yield from (key for (key,) in connection.execute(query))


class _Archive:
    """Adds files and remembers what they were."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.sums: dict[str, str] = {}

    def add(self, path: Path, name: str) -> None:
        with path.open("rb") as file:
            entry = self._tar.gettarinfo(arcname=name, fileobj=file)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            hashing = _Hashing(file)
            self._tar.addfile(entry, hashing)
        self.sums[name] = hashing.digest.hexdigest()

    def close(self) -> None:
        now = datetime.now(UTC)
        content = msgspec.json.format(msgspec.json.encode(Manifest(FORMAT, now, self.sums)))
        entry = tarfile.TarInfo(MANIFEST)
        entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o600
        self._tar.addfile(entry, io.BytesIO(content))


class _Hashing(io.RawIOBase):
    """What is read of the file goes into the digest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _extract(tar: tarfile.TarFile, folder: Path) -> int:
    """How many files. Raises Failure for what an archive of ours never holds, and for damage."""
    sums: dict[str, str] = {}
    manifest: Manifest | None = None
    for entry in tar:
        if entry.name == MANIFEST:
            manifest = _manifest(tar.extractfile(entry))
            continue
        path = PurePosixPath(entry.name)
        if not entry.isfile() or path.is_absolute() or ".." in path.parts:
            raise Failure(f"The archive holds {entry.name!r}, which no backup does.", EXIT_PROBLEM)
        content = tar.extractfile(entry)
        assert content is not None
        sums[entry.name] = _write(content, folder.joinpath(*path.parts), entry.size)
    if manifest is None or manifest.format != FORMAT:
        raise Failure("The archive has no manifest that this release knows: it is not whole.", EXIT_PROBLEM)
    if sums != manifest.sha256 or DATABASE not in sums:
        raise Failure("A file of the archive is missing or not as it was backed up.", EXIT_PROBLEM)
    return len(sums)


def _manifest(content: IO[bytes] | None) -> Manifest | None:
    try:
        return msgspec.json.decode(content.read(), type=Manifest) if content else None
    except msgspec.MsgspecError:
        return None


def _write(content: IO[bytes], path: Path, size: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while part := content.read(COPIED_AT_ONCE):
            digest.update(part)
            file.write(part)
        if file.tell() != size:
            raise EOFError(f"{path.name} ends early")
        os.fsync(file.fileno())
    return digest.hexdigest()


@contextlib.contextmanager
def _replacing(target: Path) -> Generator[IO[bytes]]:
    """Written beside its place, readable by its owner alone, and put there when it is whole."""
    part = target.with_name(f".{target.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
            yield output
            output.flush()
            os.fsync(output.fileno())
        shutil.move(part, target)
    finally:
        part.unlink(missing_ok=True)
