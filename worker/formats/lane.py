"""One thread that takes data in order, so that compressing runs beside building: deflate lets go of the GIL."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from threading import Thread

PENDING = 4
"""Blocks that may wait; the builder stops when the compressor is that far behind, so memory stays flat."""


class Lane:
    """Calls `take` with what was put, one after the other; what it raises comes out of the next `put` or `drain`."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._queue: Queue[bytes | None] = Queue(PENDING)
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="lane", daemon=True)
        self._thread.start()

    def put(self, data: bytes) -> None:
        self._queue.put(data)
        self._check()

    def drain(self) -> None:
        """Everything put so far has been taken when this returns."""
        self._queue.join()
        self._check()

    def close(self) -> None:
        """Ends the thread; raises nothing."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            try:
                if self._error is None:
                    self._take(data)
            except BaseException as error:
                self._error = error
            finally:
                self._queue.task_done()
