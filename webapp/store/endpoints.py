"""Rows of `endpoints`. Secrets, custom headers and encryption keys are sealed at rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, insert, or_, select, update

from webapp.domain.callbacks import Endpoint, EndpointSettings, Secret
from webapp.sealing import Sealer
from webapp.store.database import Store
from webapp.store.tables import endpoints


class SealedSecret(msgspec.Struct, array_like=True):
    """A secret as it lies in the sealed text; times in milliseconds since 1970 would lose nothing either."""

    value: str
    created_at: datetime
    expires_at: datetime | None


_secrets = msgspec.json.Decoder(list[SealedSecret])
_headers = msgspec.json.Decoder(list[tuple[str, str]])


def from_row(row: Mapping[str, Any], sealer: Sealer) -> Endpoint:
    """Raises `webapp.sealing.Unsealable`."""
    key = row["sealed_encryption_key"]
    settings = EndpointSettings(
        url=row["url"],
        description=row["description"],
        event_types=tuple(row["event_types"]),
        datasets=tuple(row["datasets"]),
        schedule=row["schedule"],
        waits=tuple(row["waits"]),
        time_limit=row["time_limit_ms"] / 1000,
        max_in_flight=row["max_in_flight"],
        rate=row["rate"],
        headers=tuple(_headers.decode(sealer.open(row["sealed_headers"]))),
        encryption_key=sealer.open(key) if key else None,
    )
    secrets = _secrets.decode(sealer.open(row["sealed_secrets"]))
    return Endpoint(
        id=row["id"],
        settings=settings,
        secrets=tuple(Secret(secret.value, secret.created_at, secret.expires_at) for secret in secrets),
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        version=row["version"],
        export_id=row["export_id"],
        paused_at=row["paused_at"],
        disabled_at=row["disabled_at"],
        disabled_reason=row["disabled_reason"],
        failures_in_row=row["failures_in_row"],
        failing_since=row["failing_since"],
        last_success_at=row["last_success_at"],
        last_failure_at=row["last_failure_at"],
    )


def to_row(endpoint: Endpoint, sealer: Sealer) -> dict[str, Any]:
    settings = endpoint.settings
    secrets = [SealedSecret(secret.value, secret.created_at, secret.expires_at) for secret in endpoint.secrets]
    return {
        "id": endpoint.id,
        "url": settings.url,
        "description": settings.description,
        "event_types": list(settings.event_types),
        "datasets": list(settings.datasets),
        "schedule": settings.schedule,
        "waits": list(settings.waits),
        "time_limit_ms": round(settings.time_limit * 1000),
        "max_in_flight": settings.max_in_flight,
        "rate": settings.rate,
        "sealed_headers": sealer.seal(msgspec.json.encode(settings.headers).decode()),
        "sealed_secrets": sealer.seal(msgspec.json.encode(secrets).decode()),
        "sealed_encryption_key": sealer.seal(settings.encryption_key) if settings.encryption_key else None,
        "created_by": endpoint.created_by,
        "created_at": endpoint.created_at,
        "updated_at": endpoint.updated_at,
        "version": endpoint.version,
        "export_id": endpoint.export_id,
        **health(endpoint),
    }


def health(endpoint: Endpoint) -> dict[str, Any]:
    """The columns that deliveries and pausing change."""
    return {
        "paused_at": endpoint.paused_at,
        "disabled_at": endpoint.disabled_at,
        "disabled_reason": endpoint.disabled_reason,
        "failures_in_row": endpoint.failures_in_row,
        "failing_since": endpoint.failing_since,
        "last_success_at": endpoint.last_success_at,
        "last_failure_at": endpoint.last_failure_at,
    }


async def add(store: Store, endpoint: Endpoint, sealer: Sealer) -> None:
    await store.execute(insert(endpoints).values(**to_row(endpoint, sealer)))


async def get(store: Store, endpoint_id: str, sealer: Sealer) -> Endpoint | None:
    """None for one that was deleted."""
    row = await store.fetch_one(select(endpoints).where(endpoints.c.id == endpoint_id, _is_there()))
    return from_row(row, sealer) if row else None


async def get_many(store: Store, ids: Sequence[str], sealer: Sealer) -> dict[str, Endpoint]:
    rows = await store.fetch_all(select(endpoints).where(endpoints.c.id.in_(ids), _is_there()))
    return {row["id"]: from_row(row, sealer) for row in rows}


async def compare_and_set(store: Store, before: Endpoint, after: Endpoint, sealer: Sealer) -> Endpoint | None:
    """What a person changed; the version counts those changes. None: somebody else was faster."""
    values = to_row(after, sealer) | {"version": before.version + 1}
    row = await store.fetch_one(
        update(endpoints)
        .where(endpoints.c.id == before.id, endpoints.c.version == before.version, _is_there())
        .values(**values)
        .returning(endpoints)
    )
    return from_row(row, sealer) if row else None


async def interested(store: Store, export_id: str) -> Sequence[Mapping[str, Any]]:
    """`id`, `event_types` and `datasets` of every endpoint that may want this export's events."""
    query = select(endpoints.c.id, endpoints.c.event_types, endpoints.c.datasets).where(
        or_(endpoints.c.export_id.is_(None), endpoints.c.export_id == export_id), _is_there()
    )
    return await store.fetch_all(query)


def _is_there() -> ColumnElement[bool]:
    return endpoints.c.deleted_at.is_(None)
