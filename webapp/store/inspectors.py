"""Rows of `inspectors` and `inspector_requests`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from webapp.domain.callbacks import Endpoint
from webapp.domain.receiving import Inspector, Received, Verdict
from webapp.sealing import Sealer
from webapp.store import endpoints as endpoint_rows
from webapp.store.database import Store
from webapp.store.tables import endpoints, inspector_requests, inspectors

requests = inspector_requests


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many requests came since a time, and when the first of them did."""

    count: int
    first_at: datetime | None


def from_row(row: Mapping[str, Any], base_url: str) -> Inspector:
    return Inspector(
        token=row["token"],
        url=f"{base_url}/inspect/{row['token']}",
        created_at=row["created_at"],
        created_by=row["created_by"],
        allowed=tuple(row["allowed"]),
        answer_status=row["answer_status"],
    )


async def add(store: Store, inspector: Inspector) -> None:
    values = {name: getattr(inspector, name) for name in ("token", "created_at", "created_by", "answer_status")}
    await store.execute(insert(inspectors).values(**values, allowed=list(inspector.allowed)))


async def get(store: Store, token: str, base_url: str, *, lock: bool = False) -> Inspector | None:
    """With `lock` its requests are received one after the other until the transaction ends."""
    query = select(inspectors).where(inspectors.c.token == token)
    row = await store.fetch_one(query.with_for_update() if lock else query)
    return from_row(row, base_url) if row else None


async def list_all(store: Store, base_url: str) -> Sequence[Inspector]:
    """Newest first."""
    rows = await store.fetch_all(select(inspectors).order_by(inspectors.c.created_at.desc(), inspectors.c.token))
    return [from_row(row, base_url) for row in rows]


async def count(store: Store) -> int:
    return int(await store.fetch_val(select(func.count()).select_from(inspectors)))


async def edit(store: Store, token: str, *, allowed: Sequence[str], answer_status: int) -> bool:
    """False when it is not there."""
    query = update(inspectors).where(inspectors.c.token == token)
    changed = query.values(allowed=list(allowed), answer_status=answer_status).returning(inspectors.c.token)
    return await store.fetch_one(changed) is not None


async def remove(store: Store, token: str) -> bool:
    """With its requests. False when it was not there."""
    query = delete(inspectors).where(inspectors.c.token == token).returning(inspectors.c.token)
    return await store.fetch_one(query) is not None


async def endpoints_at(store: Store, url: str, sealer: Sealer) -> Sequence[Endpoint]:
    """Those that are registered with exactly this URL."""
    query = select(endpoints).where(endpoints.c.url == url, endpoints.c.deleted_at.is_(None))
    return [endpoint_rows.from_row(row, sealer) for row in await store.fetch_all(query)]


async def endpoint_id_at(store: Store, url: str) -> str | None:
    """The newest of them, without its secrets."""
    query = select(endpoints.c.id).where(endpoints.c.url == url, endpoints.c.deleted_at.is_(None))
    row = await store.fetch_one(query.order_by(endpoints.c.created_at.desc()).limit(1))
    return row["id"] if row else None


async def traffic(store: Store, token: str, *, since: datetime, refused: bool) -> Traffic:
    """Of callers that were refused, or of the others."""
    is_refused = requests.c.verdict == Verdict.REFUSED.value
    query = select(func.count().label("count"), func.min(requests.c.received_at).label("first_at")).where(
        requests.c.token == token, requests.c.received_at > since, is_refused if refused else ~is_refused
    )
    row = await store.fetch_one(query)
    assert row is not None
    return Traffic(row["count"], row["first_at"])


async def has_come_before(store: Store, token: str, webhook_id: str, verdicts: frozenset[Verdict]) -> bool:
    query = select(requests.c.id).where(
        requests.c.token == token,
        requests.c.webhook_id == webhook_id,
        requests.c.verdict.in_([verdict.value for verdict in verdicts]),
    )
    return await store.fetch_one(query.limit(1)) is not None


async def add_request(store: Store, received: Received) -> None:
    values = {
        "id": received.id,
        "token": received.token,
        "received_at": received.received_at,
        "address": received.address,
        "headers": [list(pair) for pair in received.headers],
        "body": received.body,
        "is_cut": int(received.is_cut),
        "webhook_id": received.webhook_id,
        "verdict": received.verdict.value,
        "age_ms": None if received.age is None else round(received.age * 1000),
        "is_duplicate": int(received.is_duplicate),
    }
    await store.execute(insert(requests).values(**values))


async def drop_oldest(store: Store, token: str, *, keep: int) -> None:
    newest = select(requests.c.id).where(requests.c.token == token)
    newest = newest.order_by(requests.c.received_at.desc(), requests.c.id.desc())
    await store.execute(delete(requests).where(requests.c.id.in_(newest.offset(keep).scalar_subquery())))


async def requests_of(store: Store, token: str, *, limit: int) -> Sequence[Received]:
    """Newest first."""
    query = select(requests).where(requests.c.token == token)
    rows = await store.fetch_all(query.order_by(requests.c.received_at.desc(), requests.c.id.desc()).limit(limit))
    return [_request(row) for row in rows]


async def get_request(store: Store, token: str, request_id: str) -> Received | None:
    row = await store.fetch_one(select(requests).where(requests.c.token == token, requests.c.id == request_id))
    return _request(row) if row else None


async def clear(store: Store, token: str) -> None:
    await store.execute(delete(requests).where(requests.c.token == token))


async def purge(store: Store, *, before: datetime) -> int:
    """Deletes the requests that came earlier; gives back how many."""
    rows = await store.fetch_all(delete(requests).where(requests.c.received_at < before).returning(requests.c.id))
    return len(rows)


async def count_requests(store: Store) -> Mapping[str, int]:
    """How many are kept, by token."""
    query = select(requests.c.token, func.count().label("count")).group_by(requests.c.token)
    return {row["token"]: row["count"] for row in await store.fetch_all(query)}


def _request(row: Mapping[str, Any]) -> Received:
    return Received(
        id=row["id"],
        token=row["token"],
        received_at=row["received_at"],
        address=row["address"],
        headers=tuple((name, value) for name, value in row["headers"]),
        body=row["body"],
        is_cut=bool(row["is_cut"]),
        webhook_id=row["webhook_id"],
        verdict=Verdict(row["verdict"]),
        age=None if row["age_ms"] is None else row["age_ms"] / 1000,
        is_duplicate=bool(row["is_duplicate"]),
    )
