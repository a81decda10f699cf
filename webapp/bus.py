"""Hints over Redis pub/sub: "export X is now at version N". Losing or doubling one is harmless."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

CHANNEL = "exportdesk:hints"
CALLBACKS = "callbacks"
INSPECTORS = "inspectors"
MONITOR = "monitor"
SUBJECTS = frozenset({CALLBACKS, INSPECTORS, MONITOR})
"""Stand in a hint's `owner` for what belongs to no person; its `export_id` is then an endpoint's id, an inspector's
token, or empty. Only a reader of just that owner hears such a hint."""


class Hint(msgspec.Struct, frozen=True, array_like=True):
    """Who hears it reads the store. `version` is 0 for progress, which is not a change of status. With `again`, the
    newest event is told once more to those who were told it already."""

    export_id: str
    owner: str
    version: int
    again: bool = False


_decoder = msgspec.msgpack.Decoder(Hint)


async def publish(redis: Any, *hints: Hint) -> None:
    """All of them in one round trip."""
    if len(hints) == 1:
        await redis.publish(CHANNEL, msgspec.msgpack.encode(hints[0]))
        return
    async with redis.pipeline(transaction=False) as commands:
        for hint in hints:
            commands.publish(CHANNEL, msgspec.msgpack.encode(hint))
        await commands.execute()


@asynccontextmanager
async def listen(redis: Any, *channels: str) -> AsyncGenerator[Any]:
    """A subscription. Its first message says that it is in force; the same message again, that it was interrupted."""
    pubsub = redis.pubsub()
    try:
        await pubsub.subscribe(*channels)
        yield pubsub
    finally:
        await pubsub.aclose()


def is_confirmation(message: dict[str, Any]) -> bool:
    return message["type"] == "subscribe"


def decode(message: dict[str, Any]) -> Hint | None:
    """None for what is not a hint: other programs may share the Redis."""
    try:
        return _decoder.decode(message["data"])
    except (msgspec.MsgspecError, TypeError):
        return None
