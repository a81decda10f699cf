"""Whose turn it is: the order in which waiting exports are claimed, and when each will be. Pure.

The claim itself is the store's, see `webapp.store.turns`, in the same order: of the person with the fewest running;
small or aged before large; of the person who has waited longest since they ordered it or were last served; the oldest.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from webapp.domain import limits
from webapp.domain.exports import Lane


@dataclass(frozen=True, slots=True)
class Waiting:
    """An export that may be claimed, as far as its own time goes."""

    id: str
    owner: str
    dataset: str
    format: str
    lane: Lane | None
    queued_at: datetime

    @property
    def is_small(self) -> bool:
        return self.lane is Lane.SMALL


@dataclass(frozen=True, slots=True)
class Running:
    """`left`: seconds until it ends, infinite when nobody can say."""

    owner: str
    dataset: str
    is_small: bool = False
    left: float = math.inf


@dataclass(frozen=True, slots=True)
class Place:
    """1 is next; a small export's place is among the small ones where a slot is kept for them.

    `starts_at` is None when nobody can say, when a slot is free for it already, and while exports are paused.
    """

    position: int
    starts_at: datetime | None = None
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """How many more may run of what has a limit, a dataset or its source; `limited` names these by dataset."""

    limited: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    left: dict[str, int] = field(default_factory=dict[str, int])

    def has(self, dataset: str) -> bool:
        return all(self.left[name] > 0 for name in self.limited.get(dataset, ()))

    def take(self, dataset: str, count: int = 1) -> None:
        """Gives back with a count below nought."""
        for name in self.limited.get(dataset, ()):
            self.left[name] -= count

    def copy(self) -> Room:
        return Room(self.limited, dict(self.left))

    @property
    def full(self) -> frozenset[str]:
        """The datasets that may have no other export running now."""
        return frozenset(dataset for dataset in self.limited if not self.has(dataset))


def aged_before(now: datetime) -> datetime:
    """What was queued by then waits as long as a large one lets small ones go first."""
    return now - timedelta(seconds=limits.LARGE_AGES_AFTER)


def in_order(
    waiting: Iterable[Waiting], running: Iterable[Running], served: Mapping[str, datetime], room: Room, *, now: datetime
) -> list[Waiting]:
    """In the order in which they would be claimed if slots became free and nothing that runs ended meanwhile.

    `served`: when this person's latest attempt began. What a limit of its dataset keeps back comes after all others,
    in the turns of their owners too.
    """
    running = list(running)
    claimed, kept_back = _turns(waiting, running, served, room.copy(), now=now)
    later, _ = _turns(kept_back, running, served, Room(), now=now)
    return claimed + later


def _turns(
    waiting: Iterable[Waiting], running: Iterable[Running], served: Mapping[str, datetime], room: Room, *, now: datetime
) -> tuple[list[Waiting], list[Waiting]]:
    """Those that there is room for, in their order, and the others. The room is taken."""

    def lets_go_first(export: Waiting) -> bool:
        return not (export.is_small or export.queued_at <= aged_before(now))

    lines: dict[str, list[Waiting]] = defaultdict(list)
    for export in sorted(waiting, key=lambda e: (lets_go_first(e), e.queued_at, e.id), reverse=True):
        lines[export.owner].append(export)
    load = Counter(export.owner for export in running)
    claims = dict.fromkeys(lines, 0)

    def turn(owner: str) -> tuple[int, bool, int, datetime, datetime, str, str]:
        head = lines[owner][-1]
        since = max(head.queued_at, served.get(owner, head.queued_at))
        return load[owner], lets_go_first(head), claims[owner], since, head.queued_at, head.id, owner

    turns = [turn(owner) for owner in lines]
    heapq.heapify(turns)
    claimed: list[Waiting] = []
    kept_back: list[Waiting] = []
    while turns:
        owner = heapq.heappop(turns)[-1]
        export = lines[owner].pop()
        if room.has(export.dataset):
            room.take(export.dataset)
            claimed.append(export)
            load[owner] += 1
            claims[owner] = len(claimed)
        else:
            kept_back.append(export)
        if lines[owner]:
            heapq.heappush(turns, turn(owner))
    return claimed, kept_back


def position(export_id: str, order: Sequence[Waiting], *, slots: int) -> int | None:
    """None when it does not wait for its turn."""
    found = next((export for export in order if export.id == export_id), None)
    if found is None:
        return None
    line = [export for export in order if export.is_small] if found.is_small and slots > 1 else order
    return line.index(found) + 1


def starts(
    order: Sequence[Waiting],
    running: Iterable[Running],
    room: Room,
    duration: Callable[[Waiting], float],
    *,
    slots: int,
    most: int,
) -> Iterator[tuple[str, float]]:
    """(id, seconds until it starts) of as many as can be told, by how long each takes (infinite when unknown).

    With `slots` in all, one of them for small exports alone where there are several, and at most `most` a person. More
    running than slots means that there are other workers too, with at least as many slots as that.
    """
    waiting, now = list(order[: limits.STARTS_FORETOLD]), 0.0
    ends = [(export.left, export.owner, export.dataset, export.is_small) for export in running]
    heapq.heapify(ends)
    capacity = max(slots, len(ends))
    common = max(1, capacity - 1)
    load, large = Counter(end[1] for end in ends), sum(not end[3] for end in ends)
    room = room.copy()

    def may_start(export: Waiting) -> bool:
        return load[export.owner] < most and room.has(export.dataset) and (export.is_small or large < common)

    while waiting:
        export = next(filter(may_start, waiting), None) if len(ends) < capacity else None
        if export is not None:
            waiting.remove(export)
            yield export.id, now
            heapq.heappush(ends, (now + duration(export), export.owner, export.dataset, export.is_small))
            count = 1
            owner, dataset, is_small = export.owner, export.dataset, export.is_small
        else:
            now, owner, dataset, is_small = heapq.heappop(ends)
            if math.isinf(now):
                return
            count = -1
        load[owner] += count
        large += 0 if is_small else count
        room.take(dataset, count)
