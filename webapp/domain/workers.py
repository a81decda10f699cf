"""Worker processes as everybody sees them: which are alive, what they may take, how they are drained. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from webapp.domain import limits


class Queue(StrEnum):
    """What may be paused. Paused callbacks are those to endpoints; tests of them and the sweep go on."""

    EXPORTS = "exports"
    CALLBACKS = "callbacks"


class WorkerState(StrEnum):
    ALIVE = "alive"
    DRAINING = "draining"
    LOST = "lost"
    """It gave no sign of life for `HEARTBEAT_LOST_AFTER` seconds."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Load:
    """What a worker has in hand: slots that execute an export, callbacks being sent, and its memory in bytes,
    its child processes included."""

    slots_taken: int = 0
    sending: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """One process. All its times are the database's. `slots` is 0 for one that executes no exports."""

    id: str
    queues: tuple[Queue, ...]
    host: str
    pid: int
    version: str
    slots: int
    started_at: datetime
    heartbeat_at: datetime
    load: Load = Load()
    drain_until: datetime | None = None
    ended_at: datetime | None = None

    @property
    def process(self) -> str:
        """As attempts name it."""
        return process_name(self.host, self.pid)

    def state(self, now: datetime) -> WorkerState:
        if self.ended_at is not None:
            return WorkerState.ENDED
        if now - self.heartbeat_at > timedelta(seconds=limits.HEARTBEAT_LOST_AFTER):
            return WorkerState.LOST
        return WorkerState.DRAINING if self.drain_until is not None else WorkerState.ALIVE


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when nothing new of a queue is started, and who wanted that."""

    since: datetime
    by: str


class WorkerGone(Exception):
    """The worker has ended or is lost, so it can neither be drained nor kept."""


def process_name(host: str, pid: int) -> str:
    return f"{host}:{pid}"
