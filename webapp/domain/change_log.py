"""How far the change log was sent, and who may send it: one value, changed by compare-and-set alone.

Numbers of events are drawn in one order and may be committed in another. A number that is missing below the last one
sent is a gap: its event may still come, and is then sent late. An export's own events never do: the one after it is
written only when it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

LEASE = 15_000
"""Milliseconds: so long after the process that sends was killed another one goes on."""
GAPS_KEPT = 600_000
"""Milliseconds. A transaction takes far less; what is missing then was rolled back, or is no longer kept."""
MOST_GAPS = 1_000


@dataclass(frozen=True, slots=True)
class Progress:
    """Sent: up to `seq`, but for the `gaps` (number, since when it is missing). `holder` alone may send, `until` then.

    Times in milliseconds since 1970, by the database's clock.
    """

    seq: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    holder: str = ""
    until: int = 0

    def missing(self, at: int) -> list[int]:
        """Numbers whose events may still come."""
        return [number for number, since in self.gaps if at - since < GAPS_KEPT]


def hold(progress: Progress, holder: str, *, at: int) -> Progress | None:
    """Held by `holder` for a lease from now on; None while somebody else holds it."""
    if progress.holder not in ("", holder) and progress.until > at:
        return None
    return replace(progress, holder=holder, until=at + LEASE)


def needs_hold(progress: Progress, holder: str, *, at: int) -> bool:
    """A third of a lease after it began."""
    return progress.holder != holder or progress.until - at < LEASE * 2 // 3


def let_go(progress: Progress) -> Progress:
    return replace(progress, holder="", until=0)


def move_on(progress: Progress, sent: Iterable[int], *, at: int) -> Progress:
    """After these numbers were sent; the lease begins anew."""
    numbers = frozenset(sent)
    last = max(progress.seq, *numbers)
    known = dict(progress.gaps)
    first = max(progress.seq + 1, last - MOST_GAPS)
    missing = [*progress.missing(at), *(number for number in range(first, last))]
    gaps = tuple((number, known.get(number, at)) for number in missing if number not in numbers)
    return replace(progress, seq=last, gaps=gaps[-MOST_GAPS:], until=at + LEASE)
