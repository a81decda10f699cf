"""A Kafka topic: a message for each event, its key the export's id, so that an export's events keep their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from webapp.domain.sink_targets import SinkTarget
from webapp.sinks.interface import EventSink, Message, SinkUnusable

log = logging.getLogger(__name__)

ACKNOWLEDGED_SECONDS = 6.0
METADATA_SECONDS = 5.0
SLACK_SECONDS = 1.0
CRITICAL = 2
"""What librdkafka logs by itself: that a host cannot be reached is told by what is sent."""
MENDS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic",
    KafkaError._UNKNOWN_TOPIC: "create the topic",  # type: ignore[reportPrivateUsage]
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "let the user write to the topic",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check the user, the password and the mechanism",
    KafkaError._AUTHENTICATION: "check the user, the password and the mechanism",  # type: ignore[reportPrivateUsage]
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic",
}
SILENCE = {KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT}  # type: ignore[reportPrivateUsage]


class KafkaTopic(EventSink):
    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        self._last: KafkaError | None = None
        self._producer = Producer(configuration(target) | {"error_cb": self._note}, logger=log)

    async def send(self, messages: Sequence[Message]) -> None:
        """A producer that is told to give up does so at once: nobody waits for its thread."""
        try:
            await asyncio.to_thread(self._send, messages)
        except asyncio.CancelledError:
            self._purge()
            raise

    async def check(self) -> str:
        try:
            found = await asyncio.to_thread(self._producer.list_topics, self._target.name, METADATA_SECONDS)
        except KafkaException as error:
            self._producer.poll(0)
            raise self._unusable(error.args[0]) from None
        topic = found.topics[self._target.name]
        if topic.error is not None:
            raise self._unusable(topic.error)
        return f"{self._target} answers, {len(topic.partitions)} partitions"

    async def close(self) -> None:
        self._purge()
        await asyncio.to_thread(self._producer.flush, SLACK_SECONDS)

    def _send(self, messages: Sequence[Message]) -> None:
        failures: list[KafkaError] = []

        def told(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        try:
            for message in messages:
                headers: list[tuple[str, str | bytes | None]] = [("id", message.id), ("type", message.type)]
                self._producer.produce(
                    self._target.name, message.body, message.key.encode(), headers=headers, on_delivery=told
                )
            left = self._producer.flush(ACKNOWLEDGED_SECONDS + SLACK_SECONDS)
        except KafkaException as error:
            raise self._unusable(error.args[0]) from None
        except BufferError:
            raise SinkUnusable(f"{self._target} takes too much time", "look into its brokers") from None
        if failures or left:
            raise self._unusable(failures[0] if failures else None)

    def _note(self, error: KafkaError) -> None:
        """Of the connection: says more than a message that timed out."""
        if self._last is None or error.code() != KafkaError._ALL_BROKERS_DOWN:  # type: ignore[reportPrivateUsage]
            self._last = error

    def _purge(self) -> None:
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _unusable(self, error: KafkaError | None) -> SinkUnusable:
        if error is None or error.code() in SILENCE:
            error = self._last or error
        mend = MENDS.get(error.code(), "start it, or check EXPORTDESK_EVENT_SINK_URL") if error else "look into it"
        return SinkUnusable(f"{self._target}: {error.str() if error else 'no answer'}", mend)


def configuration(target: SinkTarget) -> dict[str, Any]:
    """For librdkafka. The partitioner is that of other clients, so that theirs and ours agree."""
    chosen: dict[str, Any] = {
        "bootstrap.servers": ",".join(target.hosts),
        "client.id": "exportdesk",
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "linger.ms": 0,
        "delivery.timeout.ms": int(ACKNOWLEDGED_SECONDS * 1000),
        "socket.connection.setup.timeout.ms": 5000,
        "reconnect.backoff.max.ms": 2000,
        "log_level": CRITICAL,
    }
    if target.user:
        chosen |= {"sasl.mechanism": target.mechanism, "sasl.username": target.user, "sasl.password": target.password}
    if target.ca:
        chosen["ssl.ca.location"] = target.ca
    protocol = ("SASL_" if target.user else "") + ("SSL" if target.is_encrypted else "PLAINTEXT")
    return chosen | {"security.protocol": protocol}
