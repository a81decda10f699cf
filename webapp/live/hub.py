"""The hub: one Redis subscription per web process, many readers.

A reader does not queue hints; it keeps the set of exports that changed since it last looked, so a slow one costs no
memory: it reads the store once for many hints. Beyond a bound the set becomes "everything". Readers who are told the
same share what they read (`webapp.live.replay`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from typing import NamedTuple

from webapp import bus, queue
from webapp.ending import end
from webapp.live.direct import Direct
from webapp.live.identity import Identities
from webapp.live.replay import Frames, Page, Replay, Together
from webapp.status_cache import StatusCache

log = logging.getLogger(__name__)

MAX_CHANGED = 1000
RECONNECT_SECONDS = (0.2, 5.0)
BLIND_POLL_SECONDS = 1.0
STOP_POLL_SECONDS = 0.2
EVERYBODY = ""
CONNECTIONS = ("sse", "websocket", "long_poll")
NONE = frozenset[str]()


class Changes(NamedTuple):
    """What to read again: these exports, or (after a lost connection, or too many changes) everything."""

    ids: frozenset[str] = NONE
    everything: bool = False
    again: frozenset[str] = NONE
    """Of these the newest event is to be told once more."""


@dataclass(eq=False, slots=True)
class Reader:
    """One page, stream or long poll, waited for by one task. `ids` None means every export of its owner. With a
    `replay` it hears only of what has an event, and is woken when the events are read; where they can be told by the
    way of `direct`, it is not even woken."""

    ids: frozenset[str] | None
    replay: Replay | None = None
    direct: Direct | None = None
    _changed: set[str] = field(default_factory=set[str])
    _again: set[str] = field(default_factory=set[str])
    _everything: bool = False
    _is_told: bool = False
    _waiting: asyncio.Future[Page | None] | None = None
    _is_asked: bool = False
    _is_late: bool = False
    """Something changed after what is read just now was asked for."""
    _timeout: float = 0.0
    _until: float = 0.0
    _timer: asyncio.TimerHandle | None = None

    def tell(self, export_id: str, *, again: bool = False) -> None:
        if self.ids is not None and export_id and export_id not in self.ids:
            return
        if len(self._changed) < MAX_CHANGED:
            self._changed.add(export_id)
            if again:
                self._again.add(export_id)
        else:
            self._everything = True
        self._is_told = True
        self._wake()

    def tell_everything(self) -> None:
        self._everything = self._is_told = True
        self._wake()

    async def changes(self, timeout: float) -> Changes | None:
        """What changed since the last call, or None when nothing did for that many seconds."""
        if not self._is_told:
            await self._wait(timeout)
        if not self._is_told:
            return None
        found = Changes(frozenset(self._changed), self._everything, frozenset(self._again) if self._again else NONE)
        self._forget()
        return found

    def leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def done(self) -> bool:
        return self._waiting is None or self._waiting.done()

    def set_result(self, page: Page) -> None:
        """What was read ahead of waking it."""
        assert self._waiting is not None
        if self.direct is None or self._everything or EVERYBODY in self._changed or not self.direct.tell(page):
            self._waiting.set_result(page)
            return
        self._forget()
        self._put_off()
        self._is_asked = False
        if self._is_told:
            self._wake()

    def set_exception(self, error: Exception) -> None:
        assert self._waiting is not None
        self._waiting.set_exception(error)

    def _forget(self) -> None:
        """What is told now; what came while it was being read is still to be told."""
        self._changed.clear()
        self._again.clear()
        self._everything, self._is_told, self._is_late = False, self._is_late, False

    async def _wait(self, timeout: float) -> None:
        """The timer is left running for the next wait: with thousands of readers, setting one a change costs more than
        one that rings in vain now and then."""
        self._timeout = timeout
        self._put_off()
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            page = await self._waiting
        finally:
            self._waiting, self._is_asked = None, False
        if self.replay is not None:
            self.replay.take(page)

    def _put_off(self) -> None:
        loop = asyncio.get_running_loop()
        self._until = loop.time() + self._timeout
        if self._timer is None or self._timer.when() > self._until:
            self.leave()
            self._timer = loop.call_at(self._until, self._ring)

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if self._waiting is not None and loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._ring)
        else:
            self._wake()

    def _wake(self) -> None:
        if self._is_asked:
            self._is_late = True
        elif self._waiting is not None and not self._waiting.done():
            if self.replay is None:
                self._waiting.set_result(None)
            else:
                self._is_asked = True
                (self.direct or self.replay).ask(self)


class Hub:
    """Subscribe (`reader`) first, then read the store: what changes in between is told. `statuses` hears it first, so
    that readers do not find old copies."""

    def __init__(self, redis: queue.Broker, statuses: StatusCache | None = None) -> None:
        self._redis = redis
        self._statuses = statuses or StatusCache()
        self.together = Together()
        self.identities = Identities()
        self.frames = Frames()
        self._streams: set[Callable[[], None]] = set()
        self._readers: defaultdict[str, set[Reader]] = defaultdict(set)
        self.connections: Counter[str] = Counter(dict.fromkeys(CONNECTIONS, 0))
        self.is_stopping = False
        self.ending = 0
        self._connected = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        return self._connected

    @property
    def open_readers(self) -> int:
        return len(set[Reader]().union(*self._readers.values()))

    @contextlib.contextmanager
    def reader(
        self,
        *,
        owner: str | None,
        ids: frozenset[str] | None = None,
        viewer: str | None = None,
        replay: Replay | None = None,
        subject: str | None = None,
        direct: Direct | None = None,
    ) -> Generator[Reader]:
        """Hears of one person's exports, or of everybody's (`owner` None), and of the `subject` besides. `viewer` looks
        at somebody else's export: the reader hears of that person's sign-out too."""
        keys = {owner or EVERYBODY} | ({viewer} if viewer and ids is not None else set[str]())
        keys |= {subject} if subject else set[str]()
        reader = Reader(ids, replay, direct)
        for key in keys:
            self._readers[key].add(reader)
        try:
            yield reader
        finally:
            reader.leave()
            for key in keys:
                self._readers[key].discard(reader)
                if not self._readers[key]:
                    del self._readers[key]

    @contextlib.contextmanager
    def stream(self, end: Callable[[], None]) -> Generator[None]:
        """`end` is called when the server is about to stop."""
        self._streams.add(end)
        try:
            with self.connection("sse"):
                yield
        finally:
            self._streams.discard(end)

    @contextlib.contextmanager
    def connection(self, kind: str) -> Generator[None]:
        """Counted while it is open."""
        self.connections[kind] += 1
        try:
            yield
        finally:
            self.connections[kind] -= 1

    def patience(self, heartbeat: float) -> float:
        """How long a reader may wait before it reads the store by itself: briefly while no hints can come."""
        return heartbeat if self._connected else min(heartbeat, BLIND_POLL_SECONDS)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[Hub]:
        self._task = asyncio.create_task(self._run())
        self._look_for_stop()
        try:
            yield self
        finally:
            self._looking.cancel()
            await end(self._task)
            self._statuses.feed(False)

    def _look_for_stop(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(STOP_POLL_SECONDS, self._look_for_stop)
        if is_server_stopping():
            self._looking.cancel()
            self._end_streams()

    def _end_streams(self) -> None:
        self.is_stopping, self.ending = True, len(self._streams)
        for end_stream in list(self._streams):
            end_stream()
        self._tell_everybody()

    async def _run(self) -> None:
        """Listens for ever; whenever the subscription is new, readers are told to read everything again."""
        wait, longest = RECONNECT_SECONDS
        while True:
            try:
                async with bus.listen(self._redis, bus.CHANNEL) as channel:
                    while True:
                        message = await channel.get_message(timeout=queue.SOCKET_TIMEOUT / 2)
                        if message is None:
                            continue
                        if bus.is_confirmation(message):
                            self._connected, wait = True, RECONNECT_SECONDS[0]
                            self._statuses.feed(True)
                            self._tell_everybody()
                        elif hint := bus.decode(message):
                            self._tell(hint)
            except queue.QUEUE_ERRORS as error:
                if self._connected:
                    log.warning("the broker is gone (%s): pages read the store until it is back", type(error).__name__)
                    self._connected = False
                    self._statuses.feed(False)
                    self._tell_everybody()  # who waits for hints would go on to wait for a whole heartbeat
                await asyncio.sleep(wait)
                wait = min(wait * 2, longest)

    def _tell(self, hint: bus.Hint) -> None:
        if hint.owner not in bus.SUBJECTS:
            self._statuses.hear(hint.export_id, hint.version)
        if not hint.export_id and not hint.owner:
            self._tell_all_who_they_are()
            return
        is_event = hint.version or not hint.export_id
        for key in (hint.owner,) if hint.owner in bus.SUBJECTS else (hint.owner, EVERYBODY):
            for reader in self._readers.get(key, ()):
                if is_event or reader.replay is None:
                    reader.tell(hint.export_id, again=hint.again)

    def _tell_all_who_they_are(self) -> None:
        """Who may see what has changed, of nobody in particular."""
        for readers in list(self._readers.values()):
            for reader in readers:
                reader.tell("")

    def _tell_everybody(self) -> None:
        for readers in self._readers.values():
            for reader in readers:
                reader.tell_everything()


def is_server_stopping() -> bool:
    """uvicorn tells nobody that it was told to stop: it waits for the streams, which wait for it. But it is the server
    whose method handles the signal."""
    return getattr(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), "should_exit", False)
