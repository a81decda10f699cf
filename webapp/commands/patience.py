"""Asking a desk again: what passes by itself is waited for, up to a bound and as the desk wishes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from webapp.client import Problem, Unreachable

T = TypeVar("T")
MOST = 300.0
"""Seconds that a desk may be away or busy."""
AT_FIRST = 5.0
"""Seconds that it may be away before it has ever answered: the address is probably wrong."""
WHEN_BROKEN = 30.0
"""Seconds after which an internal error (500) is believed."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
JITTER = 0.25


class Patience:
    """`trouble` is told what is waited for, `relief` that a desk which was away is back."""

    def __init__(self, trouble: Callable[[str], None], relief: Callable[[], None]) -> None:
        self._trouble = trouble
        self._relief = relief
        self._was_there = False

    def call(self, action: Callable[[], T], *, gained: Callable[[], int] = lambda: 0) -> T:
        """Calls until it succeeds. The bound starts anew whenever `gained` has grown: a download that was broken off
        has come further. Raises what it cannot wait for."""
        began, tries, reached, was_away = time.monotonic(), 0, gained(), False
        while True:
            try:
                result = action()
            except (Unreachable, Problem) as error:
                was_away = isinstance(error, Unreachable) and error.was_refused
                if gained() > reached:
                    began, tries, reached = time.monotonic(), 0, gained()
                pause = self._pause(error, tries, time.monotonic() - began)
                tries += 1
                time.sleep(pause)
            else:
                self._was_there = True
                if was_away and gained() == reached:
                    self._relief()
                return result

    def _pause(self, error: Unreachable | Problem, tries: int, passed: float) -> float:
        """Never shorter than the desk's Retry-After. Raises the error when there is nothing to wait for."""
        if isinstance(error, Problem) or not error.was_refused:
            self._was_there = True
        pause = min(FIRST_PAUSE * 2**tries, LONGEST_PAUSE)
        if isinstance(error, Problem) and error.retry_after is not None:
            pause = max(error.retry_after, FIRST_PAUSE)
        pause *= random.uniform(1, 1 + JITTER)  # noqa: S311
        if not error.may_pass or passed + pause > self._bound(error):
            raise error
        if isinstance(error, Problem):
            self._trouble(f"{error.detail} Asking again in {pause:.0f} s.")
        elif error.was_refused:
            self._trouble(f"The desk cannot be reached ({error}). Trying again.")
        else:
            self._trouble(f"{str(error)[0].upper()}{str(error)[1:]}. Trying again.")
        return pause

    def _bound(self, error: Unreachable | Problem) -> float:
        if isinstance(error, Problem):
            return WHEN_BROKEN if error.status == 500 else MOST
        return MOST if self._was_there else AT_FIRST
