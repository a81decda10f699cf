"""Which events a reader has still to be told: nothing skipped, nothing told twice, whatever order they commit in."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import Event
from webapp.domain.ids import is_id
from webapp.store import events
from webapp.store.database import Store

OVERLAP = 100
"""How many events before the newest one told are read again: a transaction may commit after one that drew a later
number."""
LATE = timedelta(seconds=10)
"""How much older than the cursor's event one that was committed after it may be. A reader who resumes is told such
events again, since nobody knows which of them it saw; it drops the ids that it knows."""
BATCH = 500
REMEMBERED = 5_000


async def position(store: Store, text: str | None) -> int | None:
    """The number of the event with this id (or this number); None when that event is no longer kept. Raises Invalid."""
    if not text:
        return 0
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    if not is_id(text, "evt"):
        raise Invalid([FieldError("after", "Must be the id of an event.")])
    event = await events.get(store, text)
    return event.seq if event else None


async def replay_from(store: Store, given: str | None, *, owner: str | None, export: str | None = None) -> Replay:
    """From the event with the id `given`; without one, from the start of one export, or from now on for all.

    Raises Invalid, so it is asked before a stream begins: one that breaks off is asked for again for ever.
    """
    replay = Replay(store, owner=None if export else owner, export=export)
    async with store.connection():
        start = await position(store, given)
        if given is None and export is None:
            start = await events.latest_seq(store)
        replay.is_reset = start is None
        await replay.begin_at(start or 0, is_resumed=given is not None)
    return replay


async def late_events(store: Store, seq: int, *, owner: str | None, export: str | None) -> Sequence[Event]:
    """Events just before the number `seq` that may have been committed after it. Their reader may know them already,
    and drops the ids that it knows. None where what came before is certain: SQLite, and events of some time ago."""
    if store.is_sqlite or not seq:
        return ()
    certain = await store.now() - LATE
    before = await _up_to(store, seq, owner=owner, export=export)
    return [event for event in before if event.seq < seq and event.timestamp >= certain]


async def _up_to(store: Store, seq: int, *, owner: str | None, export: str | None) -> Sequence[Event]:
    """The events among the last `OVERLAP` numbers up to this one."""
    found = await events.page(store, owner=owner, export_id=export, after=max(0, seq - OVERLAP), limit=OVERLAP)
    return [event for event in found if event.seq <= seq]


class Replay:
    """What one reader was told already, so that a late commit is told too and nothing is told twice."""

    def __init__(self, store: Store, *, owner: str | None, export: str | None) -> None:
        self.seq = 0
        self.is_reset = False
        self._store, self._owner, self._export = store, owner, export
        self._told: deque[str] = deque(maxlen=REMEMBERED)

    async def begin_at(self, position: int, *, is_resumed: bool) -> None:
        """SQLite draws and commits the numbers in one order, so that nothing comes late there."""
        self.seq = position
        before = await _up_to(self._store, position, owner=self._owner, export=self._export)
        certain = before[-1].timestamp - LATE if before and is_resumed and not self._store.is_sqlite else None
        self._told += [
            event.id for event in before if certain is None or event.seq == position or event.timestamp < certain
        ]

    async def news(self) -> AsyncIterator[list[Event]]:
        """Events after the last one told, and those just before it that were committed later; a batch at a time."""
        start = max(0, self.seq - OVERLAP)
        while True:
            async with self._store.connection():
                batch = await self._page(start, BATCH)
            told = set(self._told)
            fresh = [event for event in batch if event.id not in told]
            self._told += [event.id for event in fresh]
            self.seq = max([self.seq, *(event.seq for event in fresh)])
            yield fresh
            if len(batch) < BATCH:
                return
            start = batch[-1].seq

    async def _page(self, after: int, limit: int) -> Sequence[Event]:
        return await events.page(self._store, owner=self._owner, export_id=self._export, after=after, limit=limit)
