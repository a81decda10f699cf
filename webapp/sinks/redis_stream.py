"""A Redis stream: an entry for each event, with the fields `key`, `id`, `type` and `event`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError

from webapp.domain.sink_targets import SinkTarget
from webapp.sinks.interface import EventSink, Message, SinkUnusable

CONNECT_SECONDS = 2.0
SOCKET_SECONDS = 5.0
ERRORS = (RedisError, OSError, TimeoutError)


class RedisStream(EventSink):
    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        host, _, port = target.hosts[0].rpartition(":")
        encryption: dict[str, Any] = {"ssl": True, "ssl_ca_certs": target.ca} if target.is_encrypted else {}
        self._redis: Any = Redis(
            host=host.strip("[]"),
            port=int(port),
            db=target.database,
            username=target.user,
            password=target.password,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=SOCKET_SECONDS,
            **encryption,
        )

    async def send(self, messages: Sequence[Message]) -> None:
        """All or nothing, so that less is sent twice."""
        async with self._redis.pipeline(transaction=True) as pipeline:
            for message in messages:
                fields = {"key": message.key, "id": message.id, "type": message.type, "event": message.body}
                pipeline.xadd(self._target.name, fields, maxlen=self._target.maxlen, approximate=True)
            try:
                await pipeline.execute()
            except ERRORS as error:
                raise self._unusable(error) from None

    async def check(self) -> str:
        try:
            kind = (await self._redis.type(self._target.name)).decode()
            entries = await self._redis.xlen(self._target.name) if kind == "stream" else 0
        except ERRORS as error:
            raise self._unusable(error) from None
        if kind not in ("stream", "none"):
            raise SinkUnusable(f"{self._target.name} is a {kind} there, not a stream", "name another stream")
        return f"{self._target} answers, {entries:,} entries"

    async def close(self) -> None:
        await self._redis.aclose(close_connection_pool=True)

    def _unusable(self, error: Exception) -> SinkUnusable:
        mend = "start it, or check EXPORTDESK_EVENT_SINK_URL"
        if isinstance(error, AuthenticationError):
            mend = "check the user and the password in EXPORTDESK_EVENT_SINK_URL"
        return SinkUnusable(f"{self._target}: {str(error).rstrip('.') or type(error).__name__}", mend)
