"""Log files of the processes under `up`: kept small, and their warnings shown at the terminal."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

LARGEST = 20 * 1024 * 1024
CHUNK = 64 * 1024
RECORD = re.compile(r'\d{4}-\d\d-\d\dT\S+ (\w+) |\{"time": "[^"]*", "level": "(\w+)"')
LOUD = frozenset({"WARNING", "ERROR", "CRITICAL"})


class LogFile:
    """One process writes to it, appending; the supervisor reads what is new and cuts it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""
        self._loud = True

    def loud_lines(self) -> list[str]:
        """New lines of records from WARNING up, and of what is no log record at all: a crash, say."""
        return [line for line in self._new_lines() if self._is_loud(line)]

    def rotate(self) -> None:
        """Copies a large file to `.1` and empties it in place: its writer appends and need not know."""
        if self.path.exists() and self.path.stat().st_size > LARGEST:
            shutil.copyfile(self.path, self.path.with_name(self.path.name + ".1"))
            with self.path.open("r+b") as file:
                file.truncate(0)
            self._position = 0

    def last_lines(self, count: int) -> list[str]:
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - CHUNK))
            return file.read().decode(errors="replace").splitlines()[-count:]

    def _new_lines(self) -> list[str]:
        if not self.path.exists() or self.path.stat().st_size == self._position:
            return []
        with self.path.open("rb") as file:
            file.seek(self._position)
            data = file.read(CHUNK)
            self._position = file.tell()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def _is_loud(self, line: str) -> bool:
        """Lines that start no record, such as those of a traceback, go with the record before them."""
        if match := RECORD.match(line):
            self._loud = (match[1] or match[2]) in LOUD
        return self._loud
