"""Rows of `endpoints`. Secrets, custom headers and encryption keys are sealed at rest."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, delete, exists, func, insert, or_, select, text, update

from webapp.domain.callbacks import Endpoint, EndpointSettings, Secret
from webapp.domain.emails import SCHEME
from webapp.sealing import Sealer, Unsealable
from webapp.store.database import Store
from webapp.store.tables import deliveries, endpoints, exports, is_unsuccessful

SEALED = ("sealed_headers", "sealed_secrets", "sealed_encryption_key")
REGISTERING = 4_270_001
"""A lock of PostgreSQL: whoever adds endpoints counts them first."""


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
    return _sealed(_plain(endpoint), sealer)


def _plain(endpoint: Endpoint) -> dict[str, Any]:
    """The row before anything is sealed."""
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
        "sealed_headers": msgspec.json.encode(settings.headers).decode(),
        "sealed_secrets": msgspec.json.encode(secrets).decode(),
        "sealed_encryption_key": settings.encryption_key,
        "created_by": endpoint.created_by,
        "created_at": endpoint.created_at,
        "updated_at": endpoint.updated_at,
        "version": endpoint.version,
        "export_id": endpoint.export_id,
        **health(endpoint),
    }


def _sealed(row: Mapping[str, Any], sealer: Sealer) -> dict[str, Any]:
    return {name: sealer.seal(value) if name in SEALED and value else value for name, value in row.items()}


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


async def get(store: Store, endpoint_id: str, sealer: Sealer, *, lock: bool = False) -> Endpoint | None:
    """None for one that was deleted. Locked until the transaction ends, if so wished."""
    query = select(endpoints).where(endpoints.c.id == endpoint_id, _is_there())
    row = await store.fetch_one(query.with_for_update() if lock else query)
    return from_row(row, sealer) if row else None


async def get_many(store: Store, ids: Sequence[str], sealer: Sealer) -> dict[str, Endpoint]:
    rows = await store.fetch_all(select(endpoints).where(endpoints.c.id.in_(ids), _is_there()))
    return {row["id"]: from_row(row, sealer) for row in rows}


async def names_of(store: Store, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Description and URL by id, without what was deleted. Nothing is opened, so it works under any key."""
    query = select(endpoints.c.id, endpoints.c.description, endpoints.c.url)
    rows = await store.fetch_all(query.where(endpoints.c.id.in_(ids), _is_there()))
    return {row["id"]: (row["description"], row["url"]) for row in rows}


async def resting(store: Store, ids: Sequence[str]) -> frozenset[str]:
    """Those of them that are paused or disabled: nothing is sent to them. Nothing is opened here either."""
    rests = or_(endpoints.c.paused_at.is_not(None), endpoints.c.disabled_at.is_not(None))
    rows = await store.fetch_all(select(endpoints.c.id).where(endpoints.c.id.in_(ids), rests))
    return frozenset(row["id"] for row in rows)


async def list_registered(store: Store, sealer: Sealer) -> Sequence[Endpoint]:
    """Newest first, without those of single exports."""
    query = select(endpoints).where(_is_registered(), _is_there())
    rows = await store.fetch_all(query.order_by(endpoints.c.created_at.desc(), endpoints.c.id.desc()))
    return [from_row(row, sealer) for row in rows]


async def of_export(store: Store, export_id: str, sealer: Sealer) -> Sequence[Endpoint]:
    """Those of this export alone, newest first."""
    query = select(endpoints).where(endpoints.c.export_id == export_id, _is_there()).order_by(endpoints.c.id.desc())
    return [from_row(row, sealer) for row in await store.fetch_all(query)]


async def count_registered(store: Store) -> int:
    """Without those of single exports. Inside a transaction nobody else adds one until it ends."""
    if not store.is_sqlite:
        await store.fetch_one(text(f"SELECT pg_advisory_xact_lock({REGISTERING})"))
    query = select(func.count()).where(_is_registered(), _is_there())
    return int(await store.fetch_val(query))


async def count_url(store: Store, url: str) -> int:
    """How many registered endpoints have exactly this URL."""
    query = select(func.count()).where(_is_registered(), endpoints.c.url == url, _is_there())
    return int(await store.fetch_val(query))


async def compare_and_set(store: Store, before: Endpoint, after: Endpoint, sealer: Sealer) -> Endpoint | None:
    """What a person changed, and nothing else: a delivery that ends meanwhile writes the health of the same row.

    The version counts those changes. None: somebody else was faster.
    """
    old, new = _plain(before), _plain(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    row = await store.fetch_one(
        update(endpoints)
        .where(endpoints.c.id == before.id, endpoints.c.version == before.version, _is_there())
        .values(**_sealed(changed, sealer) | {"version": before.version + 1})
        .returning(endpoints)
    )
    return from_row(row, sealer) if row else None


async def wipe(store: Store, endpoint_id: str, sealer: Sealer, *, at: datetime) -> bool:
    """Takes it out of use with everything secret in it; its deliveries keep their row. False: it was gone already."""
    query = (
        update(endpoints)
        .where(endpoints.c.id == endpoint_id, _is_there())
        .values(
            deleted_at=at,
            updated_at=at,
            sealed_headers=sealer.seal("[]"),
            sealed_secrets=sealer.seal("[]"),
            sealed_encryption_key=None,
        )
        .returning(endpoints.c.id)
    )
    return await store.fetch_one(query) is not None


async def remove_unused(store: Store, *, limit: int) -> int:
    """Rows of deleted endpoints without a delivery, and of exports that are gone with all their deliveries over."""
    owed = deliveries.c.endpoint_id == endpoints.c.id
    is_empty = ~exists().where(owed)
    is_over = ~exists().where(owed, deliveries.c.state == "pending", is_unsuccessful)
    has_export = exists().where(exports.c.id == endpoints.c.export_id)
    unused = (
        select(endpoints.c.id)
        .where(
            or_(
                endpoints.c.deleted_at.is_not(None) & is_empty,
                endpoints.c.export_id.is_not(None) & ~has_export & is_over,
            )
        )
        .limit(limit)
    )
    rows = await store.fetch_all(
        delete(endpoints).where(endpoints.c.id.in_(unused.scalar_subquery())).returning(endpoints.c.id)
    )
    return len(rows)


async def changed_ones(store: Store, sealer: Sealer) -> Sequence[Endpoint]:
    """Those that a person changed after they were made: only they can have more than one secret.

    Without those that were sealed under a key that is not here.
    """
    found: list[Endpoint] = []
    for row in await store.fetch_all(select(endpoints).where(endpoints.c.version > 1, _is_there())):
        with contextlib.suppress(Unsealable):
            found.append(from_row(row, sealer))
    return found


async def sealed_after(
    store: Store, endpoint_id: str, *, limit: int, lock: bool = False
) -> Sequence[Mapping[str, Any]]:
    """`id` and every sealed column, deleted endpoints too, in the order of their ids."""
    columns = [endpoints.c[name] for name in SEALED]
    query = select(endpoints.c.id, *columns).where(endpoints.c.id > endpoint_id).order_by(endpoints.c.id).limit(limit)
    return await store.fetch_all(query.with_for_update() if lock else query)


async def set_sealed(store: Store, endpoint_id: str, values: Mapping[str, str | None]) -> None:
    """The same secrets under another key: no change of the endpoint."""
    await store.execute(update(endpoints).where(endpoints.c.id == endpoint_id).values(**values))


async def interested(store: Store, export_id: str | None) -> Sequence[Mapping[str, Any]]:
    """`id`, `event_types` and `datasets` of every endpoint that may want this export's events, or those of none."""
    query = select(endpoints.c.id, endpoints.c.event_types, endpoints.c.datasets).where(
        or_(_is_registered(), endpoints.c.export_id == export_id), _is_there()
    )
    return await store.fetch_all(query)


def _is_registered() -> ColumnElement[bool]:
    """By an admin: neither of a single export nor a person who is mailed."""
    return endpoints.c.export_id.is_(None) & endpoints.c.url.not_like(f"{SCHEME}%")


def _is_there() -> ColumnElement[bool]:
    return endpoints.c.deleted_at.is_(None)
