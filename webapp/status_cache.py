"""Answers to status polls that need not be read from the store: in Redis for all processes, and copies in this one.

**In Redis** lies what the last commit made of an export, progress included, put there by who committed it and never
over a newer version or over progress that is further on (the script compares). Who waits in the queue is not kept
there: its place changes with other exports.

**Copies** are held by a web process whose hub is subscribed. A hint drops them; whoever changes something drops
those of its own process before it answers. A copy is filled through the slot that was opened before the read: when
a hint came in between, that slot is no longer in use, and what was read is not kept.

How old an answer can be: neither is used longer than LIFETIME after the commit or the read it comes from, and a copy
of what was in Redis only as long as it would have lasted there. So when hints or writes to Redis are lost, a process
may, for at most a second, show the status, progress, owner or place in the queue of just before, let in a token that
was revoked elsewhere, or show an export that was deleted elsewhere; with hints it is the milliseconds that they take.
That is harmless: an answer is as old on its way through a slow network, every change is decided by the store, and a
client that sends `If-None-Match` is never shown less than it knows (see `webapp.actions.polls`). While the hub has
no subscription nothing of all this is used.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from webapp.domain.access import Viewer

LIFETIME = 1.0
"""Seconds."""
VERSION_LIFETIME = 60.0
"""For so long Redis knows which version was the newest, so that nobody's late write brings back an older one."""
PATIENCE = 0.25
"""Seconds to wait for Redis: the store knows it too."""
MOST_COPIES = 10_000

T = TypeVar("T")

_KEEP = """
local version, moved = tonumber(ARGV[1]), tonumber(ARGV[2])
local newest, furthest = string.match(redis.call('GET', KEYS[2]) or '0 0', '(%d+) (%d+)')
newest, furthest = tonumber(newest), tonumber(furthest)
if version < newest or (version == newest and moved < furthest) then return 0 end
redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[4])
if ARGV[3] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[5]) end
return 1
"""

_READ = "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What a poll is told. `moved` grows with the progress within a version; `body` is the JSON.

    `is_waiting`: it tells a place in the queue, which other exports change too.
    """

    owner: str
    version: int
    moved: int
    etag: str
    retry_after: int | None
    body: bytes
    is_waiting: bool = False
    dataset: str = ""


_encode = msgspec.msgpack.encode
_decoder = msgspec.msgpack.Decoder(Answer)


async def keep(redis: Any, export_id: str, version: int, answer: Answer | None) -> None:
    """Puts it into Redis; None says only that older ones are out of date. May raise what `redis` raises."""
    moved, content = (answer.moved, _encode(answer)) if answer else (0, b"")
    lifetimes = round(VERSION_LIFETIME * 1000), round(LIFETIME * 1000)
    async with asyncio.timeout(PATIENCE):
        await redis.eval(_KEEP, 2, *_keys(export_id), version, moved, content, *lifetimes)


async def read(redis: Any, export_id: str) -> tuple[Answer, float] | None:
    """What is in Redis, and for how many seconds yet. May raise what `redis` raises."""
    async with asyncio.timeout(PATIENCE):
        content, milliseconds = await redis.eval(_READ, 1, _keys(export_id)[0])
    try:
        return (_decoder.decode(content), milliseconds / 1000) if content and milliseconds > 0 else None
    except msgspec.MsgspecError:
        return None  # another release wrote it


def _keys(export_id: str) -> tuple[str, str]:
    key = f"exportdesk:status:{{{export_id}}}"
    return key, f"{key}:version"


@dataclass(slots=True, eq=False)
class Slot(Generic[T]):
    """A place for what is about to be read. `floor` is the oldest version that may still be shown."""

    opened_at: float
    floor: int = 0
    turn: int = 0
    until: float = 0.0
    value: T | None = None
    _reading: asyncio.Event | None = None

    @property
    def is_awaited(self) -> bool:
        return self.value is None and time.monotonic() < self.opened_at + LIFETIME

    @asynccontextmanager
    async def turn_to_read(self) -> AsyncGenerator[None]:
        """One reads, and who comes meanwhile waits a moment for its result: a thousand polls are one read. When there
        is none then, they read for themselves."""
        if self._reading is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reading.wait(), PATIENCE)
            yield
            return
        self._reading = asyncio.Event()
        try:
            yield
        finally:
            self._reading.set()

    def fill(self, value: T, lifetime: float = LIFETIME) -> None:
        self.value, self.until = value, self.opened_at + min(lifetime, LIFETIME)


class Copies(Generic[T]):
    """Values by key, for a moment each."""

    def __init__(self) -> None:
        self.turn = 0
        self._slots: dict[str, Slot[T]] = {}

    def get(self, key: str) -> Slot[T] | None:
        """The filled slot, if it may still be used."""
        slot = self._slots.get(key)
        return slot if slot is not None and slot.until > time.monotonic() else None

    def open(self, key: str) -> Slot[T]:
        """To be called before the read whose result will fill it. Who reads at the same time shares it: were each to
        open a new one, under many requests none would be in use any more when it is filled."""
        before = self._slots.get(key)
        if before is not None and before.is_awaited and before.turn == self.turn:
            return before
        return self._put(key, before.floor if before else 0)

    def drop(self, key: str, version: int = 0) -> None:
        """Nothing older than this version may be shown any more, and no copy at all of what was read before."""
        before = self._slots.get(key)
        self._put(key, max(version, before.floor if before else 0))

    def clear(self) -> None:
        self._slots.clear()

    def _put(self, key: str, floor: int) -> Slot[T]:
        if len(self._slots) >= MOST_COPIES:
            self._slots.clear()
        slot = self._slots[key] = Slot[T](time.monotonic(), floor, self.turn)
        return slot


@dataclass(slots=True, eq=False)
class StatusCache:
    """The copies of this process. Nothing is kept or believed but while hints arrive, and not before what was in Redis
    when they began to has run out: while there was no subscription a change may have been lost on its way there."""

    usable_from: float = math.inf
    answers: Copies[Answer] = field(default_factory=Copies[Answer])
    viewers: Copies[Viewer] = field(default_factory=Copies[Viewer])

    @property
    def is_usable(self) -> bool:
        return time.monotonic() >= self.usable_from

    def feed(self, is_fed: bool) -> None:
        """The subscription is in force again, or gone: either way hints may have been lost."""
        self.usable_from = time.monotonic() + LIFETIME if is_fed else math.inf
        self.answers.clear()
        self.viewers.clear()

    def hear(self, export_id: str, version: int) -> None:
        """A hint or a change of this process: no export, some person; no version, only progress."""
        if self.usable_from == math.inf:
            return
        if not export_id:
            self.viewers.clear()
            return
        self.answers.drop(export_id, version)
        if version:
            self.answers.turn += 1

    def answer(self, export_id: str) -> Answer | None:
        """The copy, unless it tells a place in the queue and the queue has moved since."""
        slot = self.answers.get(export_id)
        if slot is None or slot.value is None:
            return None
        return None if slot.value.is_waiting and slot.turn != self.answers.turn else slot.value
