"""The change log out: every event also goes to a Kafka topic or a Redis stream."""

from __future__ import annotations

from webapp.domain.sink_targets import SinkKind, SinkTarget
from webapp.sinks.interface import EventSink, Message, SinkUnusable
from webapp.sinks.redis_stream import RedisStream

__all__ = ["EventSink", "Message", "SinkUnusable", "open_sink"]


def open_sink(target: SinkTarget) -> EventSink:
    """Connects to nothing yet. Raises SinkUnusable."""
    if target.kind is SinkKind.REDIS:
        return RedisStream(target)
    try:
        from webapp.sinks.kafka import KafkaTopic  # only who sends there needs the package
    except ImportError:
        mend = "install exportdesk with its extra kafka: pip install '.[kafka]'"
        raise SinkUnusable("EXPORTDESK_EVENT_SINK_URL needs the package confluent-kafka", mend) from None
    return KafkaTopic(target)
