"""How many streams all web processes hold open, over Redis: each tells its own, and what a dead one told runs out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

PROCESSES = "exportdesk:streams"
"""The set of those that told something; what each told is kept under this name and its own."""
TOLD_EVERY = 5.0
KEPT_FOR = 15
"""Seconds. What is told may get lost twice in a row."""

_decoder = msgspec.json.Decoder(dict[str, int])


async def tell(redis: Any, process: str, counts: Mapping[str, int]) -> None:
    """By kind. May raise QUEUE_ERRORS."""
    async with redis.pipeline(transaction=False) as commands:
        commands.set(_key(process), msgspec.json.encode(dict(counts)), ex=KEPT_FOR)
        commands.sadd(PROCESSES, process)
        await commands.execute()


async def count(redis: Any) -> Counter[str]:
    """By kind, of the processes that are alive. May raise QUEUE_ERRORS."""
    processes: list[str] = [name.decode() for name in await redis.smembers(PROCESSES)]
    told: list[bytes | None] = await redis.mget(map(_key, processes)) if processes else []
    if gone := [name for name, counts in zip(processes, told, strict=True) if counts is None]:
        await redis.srem(PROCESSES, *gone)
    return sum((Counter(_decoder.decode(counts)) for counts in told if counts), Counter[str]())


def _key(process: str) -> str:
    return f"{PROCESSES}:{process}"
