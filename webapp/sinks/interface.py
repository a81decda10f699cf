"""What takes the change log in, wherever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


class SinkUnusable(Exception):
    """What is wrong with the sink, and the mend. Neither holds a secret."""

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem)
        self.mend = mend


@dataclass(frozen=True, slots=True)
class Message:
    """One event: its id and type, the id of its export, and the whole of it as JSON."""

    id: str
    type: str
    key: str
    body: bytes


class EventSink(ABC):
    """Connects when it is first used. After a failure it is closed and a new one is opened."""

    @abstractmethod
    async def send(self, messages: Sequence[Message]) -> None:
        """Returns when all are acknowledged, in their order. Raises SinkUnusable: any of them may have arrived."""

    @abstractmethod
    async def check(self) -> str:
        """Says what is there; writes nothing. Raises SinkUnusable."""

    @abstractmethod
    async def close(self) -> None: ...
