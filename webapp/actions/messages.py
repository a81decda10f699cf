"""What is sent to an endpoint: the body, encrypted where it was asked for, and the headers that prove it is ours."""

from __future__ import annotations

import base64
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from joserfc import jwe
from joserfc.jwk import OctKey

from webapp.domain.alerts import ALERT_TYPES, RESOLVED, RULES, Alert, Watch, payload
from webapp.domain.callbacks import EndpointSettings, Message
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.events import rfc3339, snapshot
from webapp.domain.exports import (
    Export,
    ExportFile,
    Status,
    cancel,
    expire,
    fail,
    queue,
    start,
    succeed,
    time_out,
)
from webapp.domain.formats import FORMATS
from webapp.domain.ids import new_id
from webapp.domain.signing import signature_headers
from webapp.resources import Resources

ENCRYPTION = {"alg": "dir", "enc": "A256GCM"}
KEPT_SEALED = "(kept sealed)"
"""Stands in the delivery log for the value of a custom header, which may be a password."""


def _user_agent() -> str:
    try:
        return f"Exportdesk/{importlib.metadata.version('exportdesk')}"
    except importlib.metadata.PackageNotFoundError:
        return "Exportdesk"


PLAIN_HEADERS = (
    ("Content-Type", "application/json"),
    ("User-Agent", _user_agent()),
    ("Accept", "*/*"),
    ("Accept-Encoding", "identity"),
)


class Outgoing(NamedTuple):
    """One request as it is sent, but for `Host` and `Content-Length`. The URL is as it was registered."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def outgoing(settings: EndpointSettings, secrets: Sequence[str], message: Message, *, at: datetime) -> Outgoing:
    """Signed at this moment with every secret, the newest first. Ours replace custom headers of the same name."""
    body = _body(settings, message)
    ours = [*PLAIN_HEADERS, *signature_headers(secrets, message.id, at, body)]
    if settings.headers:
        taken = {name.lower() for name, _ in ours}
        ours = [*((name, value) for name, value in settings.headers if name.lower() not in taken), *ours]
    return Outgoing(settings.url, tuple(ours), body)


def shown_headers(settings: EndpointSettings, sent: Outgoing) -> tuple[tuple[str, str], ...]:
    """The headers for the delivery log: custom ones are sealed at rest, so their values are left out."""
    if not settings.headers:
        return sent.headers
    custom = {name.lower() for name, _ in settings.headers} - {name.lower() for name, _ in PLAIN_HEADERS}
    return tuple((name, KEPT_SEALED if name.lower() in custom else value) for name, value in sent.headers)


def _body(settings: EndpointSettings, message: Message) -> bytes:
    data: Any = message.data
    if settings.encryption_key is not None:
        data = encrypted(settings.encryption_key, data)
    return msgspec.json.encode({"type": message.type, "timestamp": rfc3339(message.timestamp), "data": data})


def encrypted(encryption_key: str, data: Any) -> str:
    """A compact JWE of the data as JSON, directly under the endpoint's key."""
    key = OctKey.import_key(base64.urlsafe_b64decode(encryption_key + "=" * (-len(encryption_key) % 4)))
    return jwe.encrypt_compact(ENCRYPTION, msgspec.json.encode(data), key)


async def sample(resources: Resources, event_type: str) -> Message:
    """An event of this type as it would be sent, about an export, or an alert, that there never was."""
    at = await resources.store.now()
    is_alert, url = event_type in ALERT_TYPES, resources.settings.base_url
    data = alert_sample(event_type, at, base_url=url) if is_alert else _export(resources, event_type, at)
    return Message(new_id("evt"), event_type, at, data)


def alert_sample(event_type: str, at: datetime, *, base_url: str) -> dict[str, Any]:
    threshold = RULES[Alert.QUEUE_TIME].usual
    watch = Watch(value=1.4 * threshold, firing_since=at)
    if event_type == RESOLVED:
        watch = Watch(0.5 * threshold, firing_since=at - timedelta(minutes=25), resolved_at=at)
    return payload(Alert.QUEUE_TIME, watch, threshold, base_url=base_url)


def _export(resources: Resources, event_type: str, at: datetime) -> dict[str, Any]:
    export = SAMPLES[event_type](_ordered(resources, at - timedelta(seconds=40)), at)
    return snapshot(export, base_url=resources.settings.base_url)


def _ordered(resources: Resources, at: datetime) -> Export:
    """A new order for the first dataset there is."""
    dataset = next(iter(resources.catalog.datasets), "sales")
    return Export(
        id=new_id("exp"),
        owner=new_id("usr"),
        dataset=dataset,
        params={},
        format="csv",
        options={},
        order_key="",
        status=Status.PENDING,
        version=1,
        created_at=at,
    )


def _started(export: Export, at: datetime) -> Export:
    started = start(queue(export, at=export.created_at), at=at - timedelta(seconds=30))
    return replace(started, rows_done=12_480, bytes=1_638_400)


def _succeeded(export: Export, at: datetime) -> Export:
    file = ExportFile(
        key="",
        name=f"{export.dataset}.csv",
        size=2_621_440,
        rows=20_000,
        sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        content_type=FORMATS["csv"].content_type,
        expires_at=at + timedelta(days=7),
    )
    return succeed(_started(export, at), file, (), at=at)


def _failed(export: Export, at: datetime) -> Export:
    return fail(_started(export, at), export_error(ErrorCode.SOURCE_UNREACHABLE), at=at)


def _timed_out(export: Export, at: datetime) -> Export:
    return time_out(_started(export, at), export_error(ErrorCode.TIMEOUT, limit="30 minutes"), at=at)


def _expired(export: Export, at: datetime) -> Export:
    return expire(_succeeded(export, at), export_error(ErrorCode.RETENTION), at=at)


SAMPLES: Mapping[str, Callable[[Export, datetime], Export]] = {
    "export.created": lambda export, at: export,
    "export.queued": lambda export, at: queue(export, at=at),
    "export.started": _started,
    "export.succeeded": _succeeded,
    "export.failed": _failed,
    "export.timed_out": _timed_out,
    "export.expired": _expired,
    "export.cancelled": lambda export, at: cancel(queue(export, at=export.created_at), at=at),
}
"""By event type of exports, what becomes of a new order until then."""
