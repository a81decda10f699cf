"""How often a password may be tried: by name and address, by address, and by name. Counted in Redis for all web
processes, and in this one while there is none. What was right does not count."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable
from typing import Any

from webapp import queue
from webapp.domain.access import TooManyTries
from webapp.domain.tries import LIMITS, WINDOW_SECONDS
from webapp.resources import Resources

PATIENCE = 0.5
"""Seconds to wait for Redis."""

_COUNT = """
local longest = 0
for i, key in ipairs(KEYS) do
  local count = redis.call('INCR', key)
  if count == 1 then redis.call('EXPIRE', key, ARGV[1]) end
  if count > tonumber(ARGV[i + 1]) then longest = math.max(longest, redis.call('TTL', key)) end
end
return longest
"""
_FORGIVE = "for i, key in ipairs(KEYS) do if redis.call('EXISTS', key) == 1 then redis.call('DECR', key) end end"


async def count(resources: Resources, name: str, address: str) -> None:
    """Before the password is looked at. Raises TooManyTries."""
    redis: Any = resources.redis
    keys = _keys(name, address)
    try:
        async with asyncio.timeout(PATIENCE):
            wait = await redis.eval(_COUNT, len(keys), *keys, WINDOW_SECONDS, *LIMITS.values())
    except queue.QUEUE_ERRORS:
        wait = resources.tries.count(keys, time.monotonic())
    if wait:
        raise TooManyTries(max(1, int(wait)))


async def forgive(resources: Resources, name: str, address: str) -> None:
    """It was right."""
    redis: Any = resources.redis
    keys = _keys(name, address)
    resources.tries.forgive(keys)
    try:
        async with asyncio.timeout(PATIENCE):
            await redis.eval(_FORGIVE, len(keys), *keys)
    except queue.QUEUE_ERRORS:
        return


def _keys(name: str, address: str) -> list[str]:
    """No names in Redis, and none of any length; one name, whatever its case."""
    name = name.lower()
    parts: Iterable[tuple[str, str]] = zip(LIMITS, (f"{name}\0{address}", address, name), strict=True)
    return [f"exportdesk:tries:{kind}:{hashlib.sha256(text.encode()).hexdigest()[:32]}" for kind, text in parts]
