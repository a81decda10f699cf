"""What the monitor counts, one row each: ends and starts of attempts, requests to endpoints, confirmations.

The same conditions count and list, so that a number and the list behind it agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from webapp.domain.events import TERMINAL_TYPES
from webapp.domain.tallies import BOUNDS, Metric
from webapp.store.monitor import Key
from webapp.store.plain import PlainSQL, json_text
from webapp.store.tallies import SEPARATOR
from webapp.store.types import from_milliseconds, to_milliseconds

STEP_MS = 300_000
"""The shortest period; the others begin where one of these does."""
CALLBACK = "callback"
BOUNDS_MS = [round(bound * 1000) for bound in BOUNDS[Metric.NOTIFICATION_LATENCY]]


class Kind(StrEnum):
    """What is counted. `runs` are ends of attempts that had been started."""

    ENDS = "ends"
    RUNS = "runs"
    STARTS = "starts"
    REQUESTS = "requests"
    CONFIRMATIONS = "confirmations"


@dataclass(frozen=True, slots=True)
class CountedFilter:
    """From `since`, up to but without `until`. What is not given does not matter; `bucket` is of the latency.
    An empty `endpoint` is that of any single export."""

    kind: Kind
    since: datetime
    until: datetime
    dataset: str | None = None
    type: str | None = None
    outcome: str | None = None
    error: str | None = None
    endpoint: str | None = None
    channel: str | None = None
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """`what` is the type of an event, the outcome of a request or a channel. `export_id` is None when it was deleted.
    `dataset` is None where an alert was told. `seconds`: how long it waited, ran, or took."""

    at: datetime
    what: str
    dataset: str | None
    export_id: str | None
    delivery_id: str | None = None
    endpoint_id: str | None = None
    error: str | None = None
    seconds: float | None = None


@dataclass(slots=True)
class _Query:
    """`time` is the column that says when."""

    columns: Sequence[str]
    tables: str
    time: str
    conditions: list[str] = field(default_factory=list[str])
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def where(self, condition: str, **values: Any) -> None:
        self.conditions.append(condition)
        self.values |= values

    @property
    def source(self) -> str:
        return f"FROM {self.tables} WHERE {' AND '.join(self.conditions)}"


async def count(rows: PlainSQL, chosen: CountedFilter) -> int:
    query = _query(rows, chosen)
    [[found]] = await rows.plain(f"SELECT count(*) {query.source}", **query.values)
    return found


async def page(rows: PlainSQL, chosen: CountedFilter, *, limit: int, offset: int) -> Sequence[Counted]:
    """Newest first."""
    query = _query(rows, chosen)
    found = await rows.plain(
        f"SELECT {', '.join(query.columns)} {query.source} ORDER BY 1 DESC, 2 LIMIT :most OFFSET :skipped",
        **query.values,
        most=limit,
        skipped=offset,
    )
    return [_counted(*row) for row in found]


def _counted(
    at: int, _: str, what: str, dataset: str | None, export_id: str | None, delivery_id: str | None,
    endpoint_id: str | None, error: str | None, milliseconds: int | None, began: str | None,
) -> Counted:  # fmt: skip
    moment = from_milliseconds(at)
    seconds = None if milliseconds is None else milliseconds / 1000
    if began:
        seconds = max(0.0, (moment - datetime.fromisoformat(began)).total_seconds())
    return Counted(moment, what, dataset, export_id, delivery_id, endpoint_id, error, seconds)


def _query(rows: PlainSQL, chosen: CountedFilter) -> _Query:
    match chosen.kind:
        case Kind.ENDS | Kind.RUNS | Kind.STARTS:
            query = _events(rows, chosen)
        case Kind.REQUESTS:
            query = _requests(rows, chosen)
        case Kind.CONFIRMATIONS if chosen.channel == CALLBACK:
            query = _told_by_callback(rows, chosen)
        case Kind.CONFIRMATIONS:
            query = _acknowledged(rows, chosen)
    query.where(
        f"{query.time} >= :since AND {query.time} < :until",
        since=to_milliseconds(chosen.since),
        until=to_milliseconds(chosen.until),
    )
    if chosen.dataset is not None:
        query.where(f"{json_text(rows, 'e.data', 'dataset')} = :dataset", dataset=chosen.dataset)
    return query


def _events(rows: PlainSQL, chosen: CountedFilter) -> _Query:
    started, queued = (json_text(rows, "e.data", name) for name in ("started_at", "queued_at"))
    is_start = chosen.kind is Kind.STARTS
    error = f"CASE WHEN e.type IN ('export.failed', 'export.timed_out') THEN {_error_code(rows)} END"
    query = _Query(
        ("e.timestamp", "e.id", "e.type", json_text(rows, "e.data", "dataset"), "x.id", "NULL", "NULL", error, "NULL",
         queued if is_start else started),
        "events e LEFT JOIN exports x ON x.id = e.export_id",
        "e.timestamp",
    )  # fmt: skip
    types = ("export.started",) if is_start else TERMINAL_TYPES
    query.where(f"e.type IN ({', '.join(repr(type) for type in types)})")
    if chosen.kind is not Kind.ENDS:
        query.where(f"{queued if is_start else started} IS NOT NULL")
    if chosen.type is not None:
        query.where("e.type = :type", type=chosen.type)
    return query


def _error_code(rows: PlainSQL) -> str:
    if rows.is_sqlite:
        return "json_extract(e.data, '$.error.code')"
    return "(CAST(e.data AS json) -> 'error' ->> 'code')"


SENT = (
    "delivery_attempts a JOIN deliveries d ON d.id = a.delivery_id JOIN events e ON e.id = d.event_id "
    "JOIN endpoints p ON p.id = a.endpoint_id"
)


def _sent(rows: PlainSQL, what: str, milliseconds: str) -> _Query:
    columns = ("a.finished_at", "a.id", what, json_text(rows, "e.data", "dataset"), "x.id", "a.delivery_id",
               "a.endpoint_id", "a.error", milliseconds, "NULL")  # fmt: skip
    return _Query(columns, f"{SENT} LEFT JOIN exports x ON x.id = d.export_id", "a.finished_at")


def _requests(rows: PlainSQL, chosen: CountedFilter) -> _Query:
    query = _sent(rows, "a.outcome", "a.duration_ms")
    query.where("a.outcome IS NOT NULL")
    for column in ("outcome", "error"):
        if wanted := getattr(chosen, column):
            query.where(f"a.{column} = :{column}", **{column: wanted})
    if chosen.endpoint:
        query.where("a.endpoint_id = :endpoint", endpoint=chosen.endpoint)
    elif chosen.endpoint is not None:
        query.where("p.export_id IS NOT NULL")
    return query


def _told_by_callback(rows: PlainSQL, chosen: CountedFilter) -> _Query:
    query = _sent(rows, f"'{CALLBACK}'", "a.latency_ms")
    query.where("a.latency_ms IS NOT NULL")
    _within(query, "a.latency_ms", chosen.bucket)
    return query


def _acknowledged(rows: PlainSQL, chosen: CountedFilter) -> _Query:
    columns = ("c.acked_at", "c.event_id", "c.channel", json_text(rows, "e.data", "dataset"), "x.id", "NULL", "NULL",
               "NULL", "c.latency_ms", "NULL")  # fmt: skip
    query = _Query(
        columns,
        "client_acks c JOIN events e ON e.id = c.event_id LEFT JOIN exports x ON x.id = e.export_id",
        "c.acked_at",
    )
    query.where("c.is_measured = 1")
    if chosen.channel is not None:
        query.where("c.channel = :channel", channel=chosen.channel)
    _within(query, "c.latency_ms", chosen.bucket)
    return query


def _within(query: _Query, column: str, bucket: int | None) -> None:
    """A latency is in the first bucket whose bound it does not exceed, or in the one past them all."""
    if bucket is None:
        return
    if bucket:
        query.where(f"{column} > :over", over=BOUNDS_MS[bucket - 1])
    if bucket < len(BOUNDS_MS):
        query.where(f"{column} <= :up_to", up_to=BOUNDS_MS[bucket])


async def sums(rows: PlainSQL, since: datetime, until: datetime) -> Mapping[datetime, Mapping[Key, int]]:
    """Requests and confirmations, by the beginning of the shortest period they are in."""
    dataset = f"coalesce({json_text(rows, 'e.data', 'dataset')}, '')"
    endpoint = "CASE WHEN a.error IS NULL OR p.export_id IS NOT NULL THEN '' ELSE a.endpoint_id END"
    acks = "client_acks c JOIN events e ON e.id = c.event_id"
    found: dict[datetime, Counter[Key]] = {}
    for metric, tables, time, labels, bucket, condition in (
        (Metric.DELIVERIES, SENT, "a.finished_at", ("a.outcome", "coalesce(a.error, '')", dataset, endpoint), "0",
         "a.outcome IS NOT NULL"),
        (Metric.NOTIFICATION_LATENCY, SENT, "a.finished_at", (f"'{CALLBACK}'", dataset), _bucket("a.latency_ms"),
         "a.latency_ms IS NOT NULL"),
        (Metric.NOTIFICATION_LATENCY, acks, "c.acked_at", ("c.channel", dataset), _bucket("c.latency_ms"),
         "c.is_measured = 1"),
    ):  # fmt: skip
        columns = (f"{time} / {STEP_MS} * {STEP_MS}", *labels, bucket)
        numbers = ", ".join(str(number) for number, _ in enumerate(columns, 1))
        query = (
            f"SELECT {', '.join(columns)}, count(*) FROM {tables} "
            f"WHERE {time} >= :since AND {time} < :until AND {condition} GROUP BY {numbers}"
        )
        given = {"since": to_milliseconds(since), "until": to_milliseconds(until)}
        for began_at, *values, which, number in await rows.plain(query, **given):
            key = (metric.value, SEPARATOR.join(values), int(which))
            found.setdefault(from_milliseconds(began_at), Counter())[key] += number
    return found


def _bucket(column: str) -> str:
    cases = " ".join(f"WHEN {column} <= {bound} THEN {number}" for number, bound in enumerate(BOUNDS_MS))
    return f"CASE {cases} ELSE {len(BOUNDS_MS)} END"
