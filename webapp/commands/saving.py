"""Where a downloaded file goes: a file by way of FILE.part, a folder, or a stream that cannot be taken back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from webapp.client import Client, Damaged, Download, Export, File
from webapp.commands.export_codes import EXIT_FILE
from webapp.commands.failures import Failure
from webapp.commands.patience import Patience
from webapp.commands.progress import Display
from webapp.web.words import size

PART = ".part"
LONGEST_NAME = 240
"""Bytes: file systems take 255, and `.part` has to fit too."""
READABLE = ("text/", "application/x-ndjson")


@dataclass(frozen=True, slots=True)
class Output:
    """What `-o` names: `-`, a folder, a file, or something like a pipe."""

    text: str
    force: bool

    @property
    def is_folder(self) -> bool:
        return Path(self.text).is_dir() or self.text.endswith("/")

    @property
    def is_stream(self) -> bool:
        path = Path(self.text)
        return self.text == "-" or (path.exists() and not path.is_file() and not path.is_dir())

    def check(self) -> None:
        """Raises Failure for what can be known before anything is ordered."""
        if self.is_stream:
            return
        folder = Path(self.text) if self.is_folder else Path(self.text).parent
        if not folder.is_dir():
            raise Failure(f"There is no folder {folder}. Make it, or choose another place.", EXIT_FILE)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Failure(f"The folder {folder} cannot be written to. Choose another place.", EXIT_FILE)
        if not self.is_folder:
            self.refuse_overwriting(Path(self.text))

    def path(self, file: File) -> Path:
        return Path(self.text) / safe_name(file.name) if self.is_folder else Path(self.text)

    def refuse_overwriting(self, path: Path) -> None:
        if path.exists() and not self.force:
            raise Failure(f"{path} exists already. Choose another name, or overwrite it with --force.", EXIT_FILE)


def save(output: Output, client: Client, export: Export, display: Display, patience: Patience) -> Path | None:
    """The path of the file, which is whole and right; None when it went into a stream. Raises Failure."""
    assert export.file is not None
    try:
        if output.is_stream:
            _pour(output, client, export, display, patience)
            return None
        return _write(output, client, export, display, patience)
    except BrokenPipeError:
        raise
    except OSError as error:
        place = error.filename or output.text
        raise Failure(f"{place} cannot be written: {error.strerror or error}.", EXIT_FILE) from None


def _write(output: Output, client: Client, export: Export, display: Display, patience: Patience) -> Path:
    assert export.file is not None
    path = output.path(export.file)
    output.refuse_overwriting(path)
    part = path.with_name(path.name + PART)
    with _opened(part) as file:
        try:
            _fetch(Download(client, export, file, on_bytes=_Meter(display, export.file)), display, patience)
        except Damaged as error:
            part.unlink(missing_ok=True)
            raise _damaged(error) from None
        file.flush()
        os.fsync(file.fileno())
        output.refuse_overwriting(path)
        part.replace(path)
    return path


def _pour(output: Output, client: Client, export: Export, display: Display, patience: Patience) -> None:
    """Into stdout, or into what `-o` names that is no file."""
    assert export.file is not None
    if output.text == "-" and sys.stdout.isatty() and not export.file.content_type.startswith(READABLE):
        raise Failure("This file is not text, and a terminal cannot show it. Use -o FILE, or a pipe.", EXIT_FILE)
    with _opened_stream(output) as stream:
        download = Download(client, export, stream, can_rewind=False, on_bytes=_Meter(display, export.file))
        try:
            _fetch(download, display, patience)
        except Damaged as error:
            raise _damaged(error) from None
        stream.flush()


def _opened_stream(output: Output) -> contextlib.AbstractContextManager[BinaryIO]:
    return contextlib.nullcontext(sys.stdout.buffer) if output.text == "-" else Path(output.text).open("wb")


def _fetch(download: Download, display: Display, patience: Patience) -> None:
    whole = size(download.file.size)
    if download.position:
        display.note(f"Downloading {whole}, of which {size(download.position)} are here.")
    elif not display.is_live:
        display.note(f"Downloading {whole}.")
    patience.call(download.run, gained=lambda: download.position)
    display.clear()


def _damaged(error: Damaged) -> Failure:
    return Failure(f"{error} The file is not right and was not kept. Order the export again.", EXIT_FILE)


class _Meter:
    """Shows how far a download is, and how fast it is since it began or went on."""

    def __init__(self, display: Display, file: File) -> None:
        self.display = display
        self.whole = file.size
        self._since: tuple[float, int] | None = None

    def __call__(self, position: int) -> None:
        now = time.monotonic()
        if self._since is None or position < self._since[1]:
            self._since = now, position
        began, at = self._since
        rate = (position - at) / (now - began) if now > began else 0.0
        self.display.show_download(position, self.whole, rate)


@contextlib.contextmanager
def _opened(part: Path) -> Generator[BinaryIO]:
    """The part with what it holds, for this process alone. Raises Failure when another one writes it."""
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "r+b") as file:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failure(
                    f"Another exportdesk is writing {part}. Let it, or choose another name.", EXIT_FILE
                ) from None
            if _is(part, descriptor):
                yield file
                return


def _is(path: Path, descriptor: int) -> bool:
    """False when the one before us made it the finished file after we had opened it."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    return False


def safe_name(name: str) -> str:
    """A file name that stays in its folder, whatever the desk says; its ending is kept when it is too long."""
    plain = "".join("_" if c in "/\\" or not c.isprintable() else c for c in name).strip().lstrip(".") or "export"
    stem, dot, ending = plain.partition(".")
    while len(os.fsencode(stem + dot + ending)) > LONGEST_NAME and len(stem) > 1:
        stem = stem[:-1]
    return stem + dot + ending
