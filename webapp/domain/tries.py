"""How often somebody may try: a count for each key, within a window that begins with its first try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WINDOW_SECONDS = 900
LIMITS: Mapping[str, int] = {"both": 10, "address": 100, "name": 300}
"""For a name from an address, an address, a name. By name alone it is many: few would let anybody keep a person out."""
MOST_KEYS = 10_000


class Tries:
    """The counts of one process. When there are too many keys, all are forgotten."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, float]] = {}

    def count(self, keys: Sequence[str], now: float) -> float:
        """Seconds to wait, 0 if there is nothing against it. The keys stand in the order of LIMITS."""
        waits = [self._count(key, limit, now) for key, limit in zip(keys, LIMITS.values(), strict=True)]
        return max(waits)

    def forgive(self, keys: Sequence[str]) -> None:
        for key in keys:
            count, ends_at = self._counts.get(key, (0, 0.0))
            if count:
                self._counts[key] = count - 1, ends_at

    def _count(self, key: str, limit: int, now: float) -> float:
        count, ends_at = self._counts.get(key, (0, 0.0))
        if now >= ends_at:
            count, ends_at = 0, now + WINDOW_SECONDS
        if len(self._counts) >= MOST_KEYS:
            self._counts.clear()
        self._counts[key] = count + 1, ends_at
        return ends_at - now if count + 1 > limit else 0.0
