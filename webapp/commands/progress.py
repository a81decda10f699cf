"""How an export and its download come along: a bar on a terminal, elsewhere a line for each change."""

from __future__ import annotations

import os
import time
from typing import TextIO

from webapp.client import Export
from webapp.settings import terminal_is_dumb
from webapp.web.words import counted, duration, number, ordinal, size

BAR_WIDTH = 24
DRAWN_EVERY = 0.1
PHASES = {"counting": "Counting the rows", "uploading": "Storing the file"}
STANDINGS = {"PENDING": "Ordered", "QUEUED": "Waiting in the queue", "PROCESSING": "Reading"}


class Display:
    """Writes to stderr alone: stdout belongs to the result. Quiet, it shows only what must not be missed."""

    def __init__(self, stream: TextIO, *, is_quiet: bool) -> None:
        self.stream = stream
        self.is_quiet = is_quiet
        self.is_live = not is_quiet and stream.isatty() and not terminal_is_dumb()
        self._shown = ""
        self._drawn_at = 0.0

    def note(self, text: str) -> None:
        """A line that stays."""
        if not self.is_quiet:
            self.insist(text)

    def insist(self, text: str) -> None:
        """A line that is written even by `--quiet`."""
        self.clear()
        print(text, file=self.stream, flush=True)

    def interrupt(self) -> None:
        """After Ctrl-C, which a terminal shows as `^C` where the cursor is."""
        if self.is_live and self._shown:
            self.clear()
        elif self.stream.isatty():
            print(file=self.stream)

    def show(self, text: str, *, share: float | None = None) -> None:
        """What holds now. `share`, from 0 to 1, is drawn as a bar where there is a terminal."""
        if self.is_live:
            line = text if share is None else f"{self._bar(share)} {text}"
            self.stream.write(f"\r\x1b[K{line[: self._width() - 1]}")
            self.stream.flush()
        elif text != self._shown:
            self.note(text)
        self._shown = text

    def show_export(self, export: Export) -> None:
        share = export.progress / 100 if export.status == "PROCESSING" and export.progress is not None else None
        self.show(standing(export), share=share)

    def show_download(self, position: int, whole: int, rate: float) -> None:
        """Only where there is a terminal, and not more often than the eye can follow."""
        now = time.monotonic()
        if self.is_live and (now - self._drawn_at >= DRAWN_EVERY or position == whole):
            self._drawn_at = now
            left = f", about {duration((whole - position) / rate)} left" if rate > 0 and position < whole else ""
            text = f"{100 * position // max(whole, 1)} %, {size(position)} of {size(whole)}{left}"
            self.show(text, share=position / max(whole, 1))

    def clear(self) -> None:
        if self.is_live and self._shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self._shown = ""

    def _bar(self, share: float) -> str:
        full, empty = ("█", "░") if (self.stream.encoding or "").lower().replace("-", "") == "utf8" else ("#", ".")
        done = round(min(max(share, 0), 1) * BAR_WIDTH)
        return full * done + empty * (BAR_WIDTH - done)

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 80
        except OSError:
            return 80


def standing(export: Export) -> str:
    """`43 %, 107,000 of 250,000 rows, about 12 s left`."""
    if export.status == "QUEUED" and export.retry_at is not None:
        return f"It failed and is tried again at {export.retry_at:%H:%M:%S}Z"
    if export.status == "QUEUED" and export.queue_position is not None:
        place = f"{STANDINGS['QUEUED']}, {ordinal(export.queue_position)} in line"
        if export.expected_start_at is not None:
            place += f", starts at about {export.expected_start_at:%H:%M}Z"
        return f"{place}; an admin has paused the queue" if export.queue_paused else place
    if export.status != "PROCESSING" or export.phase in PHASES:
        return PHASES.get(export.phase or "", STANDINGS.get(export.status, export.status))
    parts: list[str] = []
    if export.progress is not None:
        parts.append(f"{export.progress:.0f} %")
    if export.rows_total:
        parts.append(f"{number(export.rows_done)} of {counted(export.rows_total, 'row')}")
    elif export.rows_done:
        parts.append(counted(export.rows_done, "row"))
    if export.eta_seconds is not None:
        parts.append(f"about {duration(export.eta_seconds)} left")
    return ", ".join(parts) or STANDINGS["PROCESSING"]
