"""The change log: every event is sent to the sink too, at least once, by one process at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from webapp.domain import change_log
from webapp.domain.change_log import Progress
from webapp.domain.events import Event
from webapp.domain.sink_targets import SinkTarget
from webapp.resources import Resources
from webapp.store import app_settings, events
from webapp.store.types import to_milliseconds

BATCH = 100
PREFIX = "change_log:"


@dataclass(frozen=True, slots=True)
class Lag:
    """How many events were not sent, by their numbers, and how long the oldest of them has waited."""

    events: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Held:
    """`text`: the progress as it is in the database."""

    target: SinkTarget
    progress: Progress
    text: str


async def hold(resources: Resources, target: SinkTarget, holder: str) -> Held | None:
    """Takes or renews the lease; None while somebody else has it."""
    store = resources.store
    async with store.connection():
        at = to_milliseconds(await store.now())
        held = await _read(resources, target)
        wanted = change_log.hold(held.progress, holder, at=at)
        if wanted is None:
            return None
        if not change_log.needs_hold(held.progress, holder, at=at):
            return held
        return await _write(resources, held, wanted)


async def unsent(resources: Resources, held: Held) -> Sequence[Event]:
    """The next ones, at most `BATCH`, by their numbers.

    The later ones are read first: whoever sees an export's event there finds the one before it among the late ones.
    """
    store = resources.store
    async with store.connection():
        found = await events.page(store, after=held.progress.seq, limit=BATCH)
        missing = held.progress.missing(to_milliseconds(await store.now()))
        late = await events.numbered(store, missing) if missing else ()
    return [*late, *found][:BATCH]


async def move_on(resources: Resources, held: Held, sent: Sequence[Event]) -> Held | None:
    """After these were acknowledged. None: the lease ran out, and somebody else has it."""
    at = to_milliseconds(await resources.store.now())
    moved = change_log.move_on(held.progress, [event.seq for event in sent], at=at)
    if resources.store.is_sqlite:
        moved = replace(moved, gaps=())  # it draws and commits the numbers in one order
    return await _write(resources, held, moved)


async def let_go(resources: Resources, target: SinkTarget, holder: str) -> None:
    """So that another process need not wait until the lease runs out."""
    held = await _read(resources, target)
    if held.progress.holder == holder:
        await _write(resources, held, change_log.let_go(held.progress))


async def sent_up_to(resources: Resources) -> int | None:
    """Events beyond this number are still to be sent. None where nothing is."""
    target = resources.settings.event_sink
    return None if target is None else (await _read(resources, target)).progress.seq


async def lag(resources: Resources, now: datetime) -> Lag | None:
    """None where nothing is to be sent."""
    sent = await sent_up_to(resources)
    if sent is None:
        return None
    oldest = await events.page(resources.store, after=sent, limit=1)
    if not oldest:
        return Lag(0, 0.0)
    latest = await events.latest_seq(resources.store)
    return Lag(latest - oldest[0].seq + 1, max((now - oldest[0].timestamp).total_seconds(), 0.0))


async def _read(resources: Resources, target: SinkTarget) -> Held:
    text = await app_settings.get_text(resources.store, PREFIX + target.place)
    progress = msgspec.json.decode(text, type=Progress) if text else Progress()
    return Held(target, progress, text or "")


async def _write(resources: Resources, held: Held, progress: Progress) -> Held | None:
    store, text = resources.store, msgspec.json.encode(progress).decode()
    async with store.transaction():
        name = PREFIX + held.target.place
        is_ours = await app_settings.move_on(store, name, held.text, text, at=await store.now())
    return Held(held.target, progress, text) if is_ours else None
