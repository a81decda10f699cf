"""Hints over Redis pub/sub: "export X is now at version N". Losing or doubling one is harmless."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from redis.asyncio import Redis

CHANNEL = "exportdesk:hints"


class Hint(msgspec.Struct, frozen=True, array_like=True):
    """Who hears it reads the store. `version` is 0 for progress, which is not a change of status."""

    export_id: str
    owner: str
    version: int


_decoder = msgspec.msgpack.Decoder(Hint)


async def publish(redis: Redis[bytes], hint: Hint) -> None:
    await redis.publish(CHANNEL, msgspec.msgpack.encode(hint))


@asynccontextmanager
async def listen(redis: Redis[bytes], *channels: str) -> AsyncIterator[Any]:
    """A subscription that is in force when the block is entered."""
    pubsub = redis.pubsub(ignore_subscribe_messages=True)
    try:
        await pubsub.subscribe(*channels)
        yield pubsub
    finally:
        await pubsub.aclose()


def decode(data: bytes) -> Hint | None:
    """None for what is not a hint: other programs may share the Redis."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
