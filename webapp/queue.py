"""Job names and `enqueue`: all that the web side knows of arq.

A job is a wake-up: the truth about what is queued, running or owed is in the database, and the sweep makes good
what Redis forgot.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from arq.connections import ArqRedis
from arq.constants import health_check_key_suffix, in_progress_key_prefix
from arq.jobs import ResultNotFound, SerializationError
from redis.asyncio import BlockingConnectionPool
from redis.exceptions import RedisError

from webapp.domain.exports import Export

Broker = ArqRedis
"""The client of the broker, under the name by which everything else knows it."""

QUEUE_ERRORS: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
RUN_EXPORT = "run_export"
TRY_OUT = "try_out"
RESULT_KEPT = 60.0
RESULT_POLLED_EVERY = 0.03
SOCKET_TIMEOUT = 5.0
WAKE_CHANNEL = "exportdesk:wake:{queue}"
AT_ONCE = datetime.fromtimestamp(1, UTC)
"""Due by whichever clock a worker goes by. As arq has it, a job is due when its worker's clock is at what the clock of
whoever queued it was. It takes none at 0."""
KEPT_FOR = timedelta(days=1)


class NoAnswer(Exception):
    """No worker did the job in time, or it failed there."""


class QueueName(StrEnum):
    EXPORTS = "exportdesk:exports"
    CALLBACKS = "exportdesk:callbacks"


def serialize(value: dict[str, Any]) -> bytes:
    return msgspec.msgpack.encode(value)


def deserialize(data: bytes) -> dict[str, Any]:
    return msgspec.msgpack.decode(data)


def connect(url: str, *, max_connections: int = 50) -> ArqRedis:
    """A client that connects on first use, with short time-outs: a request must not hang because Redis does."""
    pools: Any = BlockingConnectionPool
    pool = pools.from_url(
        url, max_connections=max_connections, timeout=2, socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=2
    )
    return ArqRedis(
        pool_or_conn=pool,
        job_serializer=serialize,
        job_deserializer=deserialize,
        default_queue_name=QueueName.EXPORTS,
    )


def job_id(export: Export, salt: str = "") -> str:
    """One id per attempt to come, so that queueing the same attempt twice is one job."""
    return f"export:{export.id}:{export.attempt + 1}" + (f":{salt}" if salt else "")


async def enqueue_export(
    redis: ArqRedis, export: Export, *, not_before: datetime | None = None, salt: str = ""
) -> None:
    """Wakes a worker for this export, now or at its retry time. May raise QUEUE_ERRORS; the sweep makes good."""
    await redis.enqueue_job(
        RUN_EXPORT,
        export.id,
        _job_id=job_id(export, salt),
        _queue_name=QueueName.EXPORTS,
        _defer_until=not_before or AT_ONCE,
        _expires=KEPT_FOR,
    )
    if not_before is None:
        await wake(redis, QueueName.EXPORTS)


async def has_wake_up(redis: ArqRedis) -> bool:
    """Whether one is in the queue for the next slot that is free. Those do not count that a worker has begun, or died
    with, nor those of retries, for which each worker's own clock decides. May raise QUEUE_ERRORS."""
    broker: Any = redis
    due: list[bytes] = await broker.zrangebyscore(QueueName.EXPORTS, 0, AT_ONCE.timestamp() * 1000)
    return bool(due) and None in await broker.mget([in_progress_key_prefix + job.decode() for job in due])


async def ask(redis: ArqRedis, name: str, *arguments: Any, queue: QueueName, timeout: float) -> Any:
    """Has a worker do a job and gives back its result. Raises NoAnswer, and QUEUE_ERRORS when there is no broker.

    A job that nobody has begun by then is dropped.
    """
    job = await redis.enqueue_job(name, *arguments, _queue_name=queue, _defer_until=AT_ONCE, _expires=timeout)
    if job is None:
        raise NoAnswer
    await wake(redis, queue)
    try:
        return await job.result(timeout, poll_delay=RESULT_POLLED_EVERY)
    except (TimeoutError, ResultNotFound, SerializationError) as error:
        raise NoAnswer from error


async def wake(redis: Any, queue: QueueName) -> None:
    """Tells idle workers to look now, so that they need not poll often."""
    await redis.publish(WAKE_CHANNEL.format(queue=queue), b"1")


async def ping(redis: Any) -> None:
    await redis.execute_command("PING")


async def worker_is_alive(redis: ArqRedis, queue: QueueName) -> bool:
    """Workers renew this key every few seconds, and it runs out when they stop."""
    return bool(await redis.exists(queue + health_check_key_suffix))
