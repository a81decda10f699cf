"""When a reader of a database server has to stop: cancelled, closed or out of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from webapp.datasets.reading import Cancelled
from webapp.domain.errors import AttemptFailed, ErrorCode

CANCEL_AGAIN_SECONDS = 0.25
MOST_CANCELS = 40


class Halt:
    """With `seconds`, everything must be over by then; `limit` is that in words, for an error's sentence."""

    def __init__(self, seconds: float | None) -> None:
        self.limit = None if seconds is None else f"{seconds:g} s"
        self.reason: Exception | None = None
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._closed = threading.Event()

    @property
    def seconds_left(self) -> float | None:
        """Below zero when the time is over; None without a limit."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def check(self) -> None:
        """Raises Cancelled, or AttemptFailed with TIMEOUT."""
        left = self.seconds_left
        if self.reason is None and left is not None and left < 0:
            self.reason = AttemptFailed(ErrorCode.TIMEOUT, limit=self.limit or "")
        if self.reason is not None:
            raise self.reason

    def cancel(self, interrupt: Callable[[], None]) -> None:
        """An interrupt that comes between two statements is lost, so it is sent again until the reader is closed."""
        self.reason = Cancelled()
        threading.Thread(target=self._insist, args=(interrupt,), daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _insist(self, interrupt: Callable[[], None]) -> None:
        for _ in range(MOST_CANCELS):
            interrupt()
            if self._closed.wait(CANCEL_AGAIN_SECONDS):
                return
