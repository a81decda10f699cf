"""The hub: one Redis subscription per web process, many readers.

A reader does not queue hints; it keeps the set of exports that changed since it last looked, so a slow one costs no
memory: it reads the store once for many hints. Beyond a bound the set becomes "everything".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field

from webapp import bus, queue
from webapp.status_cache import StatusCache

log = logging.getLogger(__name__)

MAX_CHANGED = 1000
RECONNECT_SECONDS = (0.2, 5.0)
BLIND_POLL_SECONDS = 1.0
EVERYBODY = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What to read again: these exports, or (after a lost connection, or too many changes) everything."""

    ids: frozenset[str] = frozenset()
    everything: bool = False
    again: frozenset[str] = frozenset()
    """Of these the newest event is to be told once more."""


@dataclass(eq=False, slots=True)
class Reader:
    """One page, stream or long poll. `ids` None means every export of its owner."""

    ids: frozenset[str] | None
    _changed: set[str] = field(default_factory=set[str])
    _again: set[str] = field(default_factory=set[str])
    _everything: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, export_id: str, *, again: bool = False) -> None:
        if self.ids is not None and export_id and export_id not in self.ids:
            return
        if len(self._changed) < MAX_CHANGED:
            self._changed.add(export_id)
            if again:
                self._again.add(export_id)
        else:
            self._everything = True
        self._wake.set()

    def tell_everything(self) -> None:
        self._everything = True
        self._wake.set()

    async def changes(self, timeout: float) -> Changes | None:
        """What changed since the last call, or None when nothing did for that many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout)
        if not self._wake.is_set():
            return None
        self._wake.clear()
        found = Changes(frozenset(self._changed), self._everything, frozenset(self._again))
        self._changed.clear()
        self._again.clear()
        self._everything = False
        return found


class Hub:
    """Subscribe (`reader`) first, then read the store: what changes in between is told. `statuses` hears it first, so
    that readers do not find old copies."""

    def __init__(self, redis: queue.Broker, statuses: StatusCache | None = None) -> None:
        self._redis = redis
        self._statuses = statuses or StatusCache()
        self._readers: defaultdict[str, set[Reader]] = defaultdict(set)
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
        self, *, owner: str | None, ids: frozenset[str] | None = None, viewer: str | None = None
    ) -> Generator[Reader]:
        """Hears of one person's exports, or of everybody's (`owner` None). `viewer` looks at somebody else's export:
        the reader hears of that person's sign-out too."""
        keys = {owner or EVERYBODY} | ({viewer} if viewer and ids is not None else set[str]())
        reader = Reader(ids)
        for key in keys:
            self._readers[key].add(reader)
        try:
            yield reader
        finally:
            for key in keys:
                self._readers[key].discard(reader)
                if not self._readers[key]:
                    del self._readers[key]

    def patience(self, heartbeat: float) -> float:
        """How long a reader may wait before it reads the store by itself: briefly while no hints can come."""
        return heartbeat if self._connected else min(heartbeat, BLIND_POLL_SECONDS)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[Hub]:
        self._task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._statuses.feed(False)

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
        for key in (hint.owner,) if hint.owner in bus.SUBJECTS else (hint.owner, EVERYBODY):
            for reader in self._readers.get(key, ()):
                reader.tell(hint.export_id, again=hint.again)

    def _tell_everybody(self) -> None:
        for readers in self._readers.values():
            for reader in readers:
                reader.tell_everything()
