"""Which events a reader has still to be told: nothing skipped, nothing told twice, whatever order they commit in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from sse_starlette import ServerSentEvent

from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import Event, event_json
from webapp.domain.ids import is_id
from webapp.domain.sentences import say
from webapp.store import events
from webapp.store.database import Store

T = TypeVar("T")
Given = TypeVar("Given", contravariant=True)
OVERLAP = 100
"""How many events before the newest one told are read again at least: a transaction may commit after one that drew a
later number."""
LATE = timedelta(seconds=10)
"""How much older than the cursor's event one that was committed after it may be. A reader who resumes is told such
events again, since nobody knows which of them it saw; it drops the ids that it knows."""
BATCH = 500
MOST_FRAMES = 1000


class Page(NamedTuple):
    """Numbers in their order, at most `BATCH`, and of these events those that were not told yet."""

    numbers: frozenset[int]
    last: int
    is_last: bool
    fresh: Sequence[Event]


class Waiting(Protocol[Given]):
    """As futures do."""

    def done(self) -> bool: ...

    def set_result(self, result: Given, /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


class Together:
    """Who wants the same at the same moment shares one doing. It begins after everybody who shares it has asked, so
    that nobody misses what was committed before."""

    def __init__(self) -> None:
        self._due: dict[Hashable, list[Waiting[Any]]] = {}
        self._doing = set[asyncio.Task[None]]()

    async def do(self, key: Hashable, work: Callable[[], Coroutine[None, None, T]]) -> T:
        """`key` says what is wanted, whoever asks."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.join(key, work, future)
        return await future

    def join(self, key: Hashable, work: Callable[[], Coroutine[None, None, T]], one: Waiting[T]) -> None:
        """The same for who waits already, and is given the result."""
        waiting = self._due.get(key)
        if waiting is None:
            waiting = self._due[key] = []
            task = asyncio.create_task(self._do(key, work))
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)
        waiting.append(one)

    async def _do(self, key: Hashable, work: Callable[[], Coroutine[None, None, T]]) -> None:
        waiting = self._due.pop(key)
        try:
            result = await work()
        except Exception as error:
            for one in waiting:
                if not one.done():
                    one.set_exception(error)
        else:
            for one in waiting:
                if not one.done():
                    one.set_result(result)


class Frames:
    """Events as streams send them, each encoded once for everybody who is told it."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def of(self, event: Event) -> bytes:
        frame = self._kept.get(event.id)
        if frame is None:
            if len(self._kept) >= MOST_FRAMES:
                self._kept.clear()
            data = msgspec.json.encode(event_json(event)).decode()
            frame = ServerSentEvent(id=event.id, event=event.type, data=data, sep="\n").encode()
            self._kept[event.id] = frame
        return frame


async def position(store: Store, text: str | None) -> int | None:
    """The number of the event with this id (or this number); None when that event is no longer kept. Raises Invalid."""
    if not text:
        return 0
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    if not is_id(text, "evt"):
        raise Invalid([FieldError("after", say("Must be the id of an event."))])
    event = await events.get(store, text)
    return event.seq if event else None


async def replay_from(
    store: Store, given: str | None, *, owner: str | None, export: str | None = None, together: Together | None = None
) -> Replay:
    """From the event with the id `given`; without one, from the start of one export, or from now on for all. `together`
    are those who share what they read.

    Raises Invalid, so it is asked before a stream begins: one that breaks off is asked for again for ever.
    """
    replay = Replay(store, owner=None if export else owner, export=export, together=together)
    async with store.connection():
        start = await position(store, given)
        if given is None and export is None:
            start = await events.latest_seq(store)
        replay.is_reset = start is None
        await replay.begin_at(start or 0, is_resumed=given is not None)
    return replay


async def late_events(
    store: Store, seq: int, *, owner: str | None, export: str | None, told_at: datetime | None = None
) -> Sequence[Event]:
    """Events just before the number `seq` that may have been committed after it was told. Their reader may know them
    already, and drops the ids that it knows."""
    start = await certain(store, seq, owner=owner, export=export, told_at=told_at)
    if start == seq:
        return ()
    found = await events.page(store, owner=owner, export_id=export, after=start, limit=OVERLAP)
    return [event for event in found if event.seq < seq]


async def certain(
    store: Store, seq: int, *, owner: str | None = None, export: str | None = None, told_at: datetime | None = None
) -> int:
    """The number up to which all had been committed when `seq` was told: at this time, or no one knows when. On SQLite
    that is `seq` itself."""
    if store.is_sqlite or not seq:
        return seq
    found = await events.numbers(store, owner=owner, export_id=export, after=max(0, seq - OVERLAP), limit=OVERLAP)
    before = [each for each in found if each[0] <= seq]
    return min((number - 1 for number, at in before if at >= (told_at or before[-1][1]) - LATE), default=seq)


class Replay:
    """What one reader was told already, so that a late commit is told too and nothing is told twice."""

    def __init__(
        self, store: Store, *, owner: str | None, export: str | None, together: Together | None = None
    ) -> None:
        self.seq = 0
        self.is_reset = False
        self._store, self._owner, self._export = store, owner, export
        self._together = together or Together()
        self._ahead: Page | None = None
        self._told: frozenset[int] = frozenset()
        """Of the events behind `_start`; readers who were told the same have the same set."""

    async def begin_at(self, position: int, *, is_resumed: bool) -> None:
        """SQLite draws and commits the numbers in one order, so that nothing comes late there."""
        self.seq = position
        before = [each for each in await self._numbers(self._start) if each[0] <= position]
        certain = before[-1][1] - LATE if before and is_resumed and not self._store.is_sqlite else None
        self._told = frozenset(number for number, at in before if certain is None or number == position or at < certain)

    def news(self) -> AsyncIterator[Sequence[Event]]:
        """Events after the last one told, and those just before it that were committed later; a batch at a time."""
        return News(self)

    def ask(self, waiting: Waiting[Page], *, before: Callable[[], Coroutine[None, None, None]] | None = None) -> None:
        """Reads ahead for a stream that waits: it is woken when there is something to tell, not before. What has to
        come `before` is shared too, by those for whom it is the same."""
        key, read = self._reading(self._start)
        if before is None:
            self._together.join(key, read, waiting)
        else:
            self._together.join((key, before), lambda: self._after(before, key, read), waiting)

    async def _after(
        self,
        before: Callable[[], Coroutine[None, None, None]],
        key: Hashable,
        read: Callable[[], Coroutine[None, None, Page]],
    ) -> Page:
        await before()
        return await self._together.do(key, read)

    def take(self, page: Page | None) -> None:
        """What was read ahead, to be told next."""
        self._ahead = page

    async def batch(self, start: int | None) -> tuple[Sequence[Event], int | None]:
        """What is new behind this number, or from where late ones may be; and where the next batch begins, if any."""
        told, is_whole = self._told, start is None
        page, self._ahead = self._ahead, None
        if page is None or start is not None:
            page = await self._together.do(*self._reading(self._start if start is None else start))
        self.told(page)
        if not (is_whole and page.is_last):
            self._told = frozenset(number for number in told | page.numbers if number > self._start)
        return page.fresh, None if page.is_last else page.last

    def told(self, page: Page) -> None:
        """Of a page that has all there was from `_start` on."""
        if page.fresh:
            self.seq = max(self.seq, page.fresh[-1].seq)
        self._told = page.numbers

    def _reading(self, after: int) -> tuple[Hashable, Callable[[], Coroutine[None, None, Page]]]:
        """What it is known by to others who want the same, and how it is done."""
        told = self._told
        return (self._owner, self._export, after, told), lambda: self._page(after, told)

    @property
    def _start(self) -> int:
        """In steps, so that readers who are told the same ask for the same."""
        return max(0, self.seq // OVERLAP - 1) * OVERLAP

    async def _page(self, after: int, told: frozenset[int]) -> Page:
        async with self._store.connection():
            found = [number for number, _ in await self._numbers(after)]
            numbers = frozenset(found)
            fresh = await events.numbered(self._store, numbers - told) if numbers - told else ()
        return Page(numbers, found[-1] if found else after, len(found) < BATCH, fresh)

    async def _numbers(self, after: int) -> Sequence[tuple[int, datetime]]:
        return await events.numbers(self._store, owner=self._owner, export_id=self._export, after=after, limit=BATCH)


class News:
    """Batches as they are asked for. No async generator: the loop takes note of each one that begins, and one begins
    for every reader at every change."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._start: int | None = None
        self._is_over = False

    def __aiter__(self) -> News:
        return self

    async def __anext__(self) -> Sequence[Event]:
        if self._is_over:
            raise StopAsyncIteration
        batch, self._start = await self._replay.batch(self._start)
        self._is_over = self._start is None
        return batch
