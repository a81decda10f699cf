"""One thread that takes items in order, so that compressing runs beside building: deflate lets go of the GIL."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from threading import Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")

PENDING = 4
"""Items that may wait; the builder stops when the thread is that far behind, so memory stays flat."""


class Lane(Generic[Item]):
    """Calls `take` with what was put, one after the other; what it raises comes out of the next `put` or `drain`."""

    def __init__(self, take: Callable[[Item], None]) -> None:
        self._take = take
        self._queue: Queue[Item | None] = Queue(PENDING)
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="lane", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        self._queue.put(item)
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
        while (item := self._queue.get()) is not None:
            try:
                if self._error is None:
                    self._take(item)
            except BaseException as error:
                self._error = error
            finally:
                self._queue.task_done()
