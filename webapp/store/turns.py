"""Whose turn it is, asked of the store: the order is that of `webapp.domain.turns`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, text, update

from webapp.domain.exports import Export, Lane, Status
from webapp.domain.turns import Waiting, aged_before
from webapp.domain.workers import Queue
from webapp.store.database import Store
from webapp.store.exports import from_row, get
from webapp.store.pauses import goes_on
from webapp.store.tables import exports
from webapp.store.types import from_milliseconds, to_milliseconds

CLAIMS_LOCK = 0x6578706F
"""Of PostgreSQL's advisory locks, the one that claims take where a limit counts exports of several people."""


GOES_ON = goes_on(Queue.EXPORTS)
NEXT = """
WITH waiting AS (
    SELECT id, owner, queued_at,
        CASE WHEN lane = 'small' OR queued_at <= :aged_before THEN 0 ELSE 1 END AS lets_go_first
    FROM exports
    WHERE status = 'QUEUED' AND (retry_at IS NULL OR retry_at <= :at) AND {goes_on} {only}
), lines AS (
    SELECT id, owner, queued_at, lets_go_first,
        row_number() OVER (PARTITION BY owner ORDER BY lets_go_first, queued_at, id) AS nth
    FROM waiting
), running AS (
    SELECT owner, count(*) AS load, count(CASE WHEN lane = 'small' THEN 1 END) AS small
    FROM exports
    WHERE status = 'PROCESSING'
    GROUP BY owner
), heads AS MATERIALIZED (
    SELECT lines.id, lines.queued_at, lines.lets_go_first, coalesce(running.load, 0) AS load,
        (SELECT max(started_at) FROM exports WHERE owner = lines.owner) AS served_at
    FROM lines LEFT JOIN running ON running.owner = lines.owner
    WHERE lines.nth = 1 AND (coalesce(running.load, 0) < :most {beside})
)
SELECT id
FROM heads
ORDER BY load, lets_go_first, CASE WHEN served_at > queued_at THEN served_at ELSE queued_at END, queued_at, id
LIMIT 1
"""
ONE_SMALL_BESIDE = "OR running.load = :most AND running.small = 0"


async def next_claimable(
    store: Store,
    *,
    at: datetime,
    max_running_per_user: int,
    full: frozenset[str] = frozenset(),
    lane: Lane | None = None,
) -> Export | None:
    """The export whose turn it is; None while exports are paused. `full`: datasets that may not have one more running.

    Of the lane of small exports, a person may have one running beside as many others as they may.
    """
    kept_back = {f"full_{number}": dataset for number, dataset in enumerate(sorted(full))}
    only = f"AND dataset NOT IN ({', '.join(f':{name}' for name in kept_back)})" if kept_back else ""
    if lane is not None:
        only += f" AND lane = '{lane.value}'"
    rows = await store.plain(
        NEXT.format(goes_on=GOES_ON, only=only, beside=ONE_SMALL_BESIDE if lane is Lane.SMALL else ""),
        at=to_milliseconds(at),
        aged_before=to_milliseconds(aged_before(at)),
        most=max_running_per_user,
        **kept_back,
    )
    return await get(store, rows[0][0]) if rows else None


async def lock_claims(store: Store) -> None:
    """Keeps claims apart until the transaction ends. SQLite has one writer anyway."""
    if not store.is_sqlite:
        await store.execute(text(f"SELECT pg_advisory_xact_lock({CLAIMS_LOCK})"))


async def waiting(store: Store, *, at: datetime) -> Sequence[Waiting]:
    """All that may be claimed now."""
    rows = await store.plain(
        "SELECT id, owner, dataset, format, lane, queued_at FROM exports "
        "WHERE status = 'QUEUED' AND (retry_at IS NULL OR retry_at <= :at)",
        at=to_milliseconds(at),
    )
    return [
        Waiting(export_id, owner, dataset, format, Lane(lane) if lane else None, from_milliseconds(queued_at))
        for export_id, owner, dataset, format, lane, queued_at in rows
    ]


async def running(store: Store) -> Sequence[Export]:
    rows = await store.fetch_all(select(exports).where(exports.c.status == Status.PROCESSING.value))
    return [from_row(row) for row in rows]


async def running_by_dataset(store: Store) -> dict[str, int]:
    rows = await store.plain("SELECT dataset, count(*) FROM exports WHERE status = 'PROCESSING' GROUP BY dataset")
    return {row[0]: row[1] for row in rows}


async def served(store: Store) -> dict[str, datetime]:
    """When the latest attempt of each person who waits began."""
    rows = await store.plain(
        "SELECT owner, (SELECT max(started_at) FROM exports WHERE owner = who.owner) "
        "FROM (SELECT DISTINCT owner FROM exports WHERE status = 'QUEUED') AS who"
    )
    return {owner: from_milliseconds(started_at) for owner, started_at in rows if started_at is not None}


UNSIZED = f"""
SELECT id FROM (
    SELECT id, queued_at, lane, count(lane) OVER (PARTITION BY owner) AS known
    FROM exports
    WHERE status = 'QUEUED' AND (retry_at IS NULL OR retry_at <= :at) AND {GOES_ON}
) AS line
WHERE lane IS NULL
ORDER BY known, queued_at DESC, id DESC
LIMIT 1
"""


async def unsized(store: Store, *, at: datetime) -> Export | None:
    """Of what waits and nobody knows the size of: of whom fewest are known, the newest one. None while paused."""
    rows = await store.plain(UNSIZED, at=to_milliseconds(at))
    return await get(store, rows[0][0]) if rows else None


async def set_lane(store: Store, export_id: str, lane: Lane) -> None:
    """No change of status, so neither version nor event. What has been claimed meanwhile keeps none."""
    query = update(exports).where(
        exports.c.id == export_id, exports.c.status == Status.QUEUED.value, exports.c.lane.is_(None)
    )
    await store.execute(query.values(lane=lane.value))
