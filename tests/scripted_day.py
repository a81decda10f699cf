"""A day of exports with known outcomes, written straight into the store; the facts stay with whoever asked for it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.store.plain import json_rows

DATASETS = ("things", "flights", "orders")
CHANNELS = ("sse", "polling", "websocket")
ERRORS = ("TIMEOUT", "HTTP_5XX", "REFUSED")
STATUS_OF = {
    "export.succeeded": "SUCCESS",
    "export.failed": "FAILED",
    "export.timed_out": "EXPIRED",
    "export.cancelled": "CANCELLED",
    "export.started": "PROCESSING",
    "export.queued": "QUEUED",
}
WAYS: dict[tuple[str, ...], int] = {
    ("queued", "started", "succeeded"): 70,
    ("queued", "started", "failed"): 8,
    ("queued", "started", "failed", "queued", "started", "succeeded"): 6,
    ("queued", "started", "failed", "queued", "started", "failed"): 2,
    ("queued", "started", "timed_out"): 4,
    ("queued", "cancelled"): 4,
    ("queued", "started", "cancelled"): 3,
    ("queued", "started"): 2,
    ("queued",): 1,
}
"""What may happen to an export, and how often in a hundred."""


@dataclass(frozen=True, slots=True)
class Happened:
    """`seconds`: how long it had run when it ended, or waited when it was started; None when it had done neither."""

    at: datetime
    dataset: str
    type: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A request to an endpoint. `latency` in seconds, of what came through."""

    at: datetime
    dataset: str
    outcome: str
    error: str | None
    endpoint: str
    latency: float | None


@dataclass(frozen=True, slots=True)
class Confirmed:
    at: datetime
    dataset: str
    channel: str
    seconds: float


@dataclass(slots=True)
class Day:
    """Everything that happened, as plain facts. `endpoint` of `sent` is empty for those of single exports."""

    statuses: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    happened: list[Happened] = field(default_factory=list[Happened])
    sent: list[Sent] = field(default_factory=list[Sent])
    confirmed: list[Confirmed] = field(default_factory=list[Confirmed])


Row = dict[str, Any]


@dataclass(slots=True)
class _Script:
    dice: random.Random
    until: datetime
    owner: str
    endpoints: Sequence[str]
    day: Day = field(default_factory=Day)
    rows: dict[str, list[Row]] = field(
        default_factory=lambda: {name: [] for name in ("exports", "endpoints", "events", "deliveries",
                                                       "delivery_attempts", "client_acks")}
    )  # fmt: skip

    def export(self, at: datetime) -> None:
        dataset, export_id = self.dice.choice(DATASETS), new_id("exp")
        [way] = self.dice.choices([*WAYS], [*WAYS.values()])
        queued = started = None
        last = ""
        for version, step in enumerate(way, 2):
            at += timedelta(milliseconds=int(10 ** self.dice.uniform(1, 4.5)))
            if at >= self.until:
                break
            last = f"export.{step}"
            seconds = None
            if step == "queued":
                queued, started = at, None
            elif step == "started":
                started, seconds = at, (at - queued).total_seconds() if queued else None
            elif started:
                seconds = (at - started).total_seconds()
            self.day.happened.append(Happened(at, dataset, last, seconds))
            self.event(export_id, dataset, last, version, at, queued, started)
        status = STATUS_OF.get(last, "PENDING")
        self.day.statuses.append((dataset, status))
        self.rows["exports"].append(
            {"id": export_id, "owner": self.owner, "dataset": dataset, "params": "{}", "format": "csv", "options": "{}",
             "order_key": export_id, "status": status, "version": len(way) + 1, "attempt": 1, "failures": 0,
             "rows_done": 0, "bytes": 0, "created_at": _ms(at), "started_at": started and _ms(started),
             "warnings": "[]"}
        )  # fmt: skip

    def event(
        self, export_id: str, dataset: str, type: str, version: int, at: datetime,
        queued: datetime | None, started: datetime | None,
    ) -> None:  # fmt: skip
        event_id = new_id("evt")
        data: Row = {"dataset": dataset, "queued_at": queued and queued.isoformat(),
                     "started_at": started and started.isoformat(), "error": None}  # fmt: skip
        if type == "export.failed":
            data["error"] = {"code": "QUERY_ERROR"}
        self.rows["events"].append(
            {"id": event_id, "type": type, "export_id": export_id, "owner": self.owner, "version": version,
             "timestamp": _ms(at), "data": json.dumps(data)}
        )  # fmt: skip
        if type == "export.succeeded":
            self.delivery(export_id, event_id, dataset, at)
        if self.dice.random() < 0.4:
            self.confirmation(event_id, dataset, at)

    def confirmation(self, event_id: str, dataset: str, at: datetime) -> None:
        milliseconds, channel = int(10 ** self.dice.uniform(0.5, 5)), self.dice.choice(CHANNELS)
        at += timedelta(milliseconds=milliseconds)
        if at >= self.until:
            return
        is_measured = self.dice.random() < 0.9
        if is_measured:
            self.day.confirmed.append(Confirmed(at, dataset, channel, milliseconds / 1000))
        self.rows["client_acks"].append(
            {"event_id": event_id, "user_id": self.owner, "client": "tests", "channel": channel, "acked_at": _ms(at),
             "latency_ms": milliseconds, "is_measured": int(is_measured)}
        )  # fmt: skip

    def delivery(self, export_id: str, event_id: str, dataset: str, at: datetime) -> None:
        delivery_id, owed_at, is_single = new_id("dlv"), at, self.dice.random() < 0.1
        endpoint = self.endpoint(export_id) if is_single else self.dice.choice(self.endpoints)
        failures = self.dice.choices([0, 1, 2, 3], [85, 8, 4, 3])[0]
        state, tries = "pending", 0
        for number in range(1, 4):
            at += timedelta(milliseconds=int(10 ** self.dice.uniform(1, 3.5)))
            if at >= self.until:
                break
            is_good = number > failures
            outcome = "succeeded" if is_good else "dead" if number == 3 else "retried"
            error = None if is_good else self.dice.choice(ERRORS)
            latency = (at - owed_at).total_seconds() if is_good else None
            self.day.sent.append(Sent(at, dataset, outcome, error, "" if is_single else endpoint, latency))
            self.rows["delivery_attempts"].append(
                {"id": new_id("att"), "delivery_id": delivery_id, "endpoint_id": endpoint, "number": number,
                 "started_at": _ms(at), "finished_at": _ms(at), "url": "https://receiver.example/", "outcome": outcome,
                 "request_headers": "[]", "request_body": "", "error": error, "duration_ms": 5,
                 "latency_ms": None if latency is None else round(latency * 1000)}
            )  # fmt: skip
            state, tries = ("pending" if outcome == "retried" else outcome), number
            if outcome != "retried":
                break
        self.rows["deliveries"].append(
            {"id": delivery_id, "event_id": event_id, "event_type": "export.succeeded", "export_id": export_id,
             "endpoint_id": endpoint, "state": state, "created_at": _ms(owed_at), "attempts": tries,
             "failures": min(tries, failures)}
        )  # fmt: skip

    def endpoint(self, export_id: str | None) -> str:
        row = {"id": new_id("end"), "url": "https://receiver.example/", "description": "", "event_types": "[]",
               "datasets": "[]", "schedule": "standard", "waits": "[]", "time_limit_ms": 1000, "max_in_flight": 5,
               "rate": 20, "sealed_headers": "", "sealed_secrets": "", "created_by": "tests", "created_at": 0,
               "updated_at": 0, "version": 1, "failures_in_row": 0, "export_id": export_id}  # fmt: skip
        self.rows["endpoints"].append(row)
        return row["id"]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


async def scripted_day(resources: Resources, owner: str, count: int, *, began_at: datetime, until: datetime) -> Day:
    """So many exports, ordered at times between these two; nothing happens at `until` or later."""
    script = _Script(random.Random(20_261_130), until, owner, [])
    script.endpoints = [script.endpoint(None) for _ in range(3)]
    for number in range(count):
        script.export(began_at + number * (until - began_at) / count)
    script.rows["events"].sort(key=lambda row: row["timestamp"])
    async with resources.store.transaction():
        for table, rows in script.rows.items():
            await _insert(resources, table, rows)
    return script.day


KINDS = {int: "bigint", str: "text"}


async def _insert(resources: Resources, table: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    names = {name: _kind(name, rows) for name in rows[0]}
    source = json_rows(resources.store, **names)
    columns = ", ".join(names)
    chosen = ", ".join(f"r.{name}" for name in names)
    await resources.store.plain(
        f"INSERT INTO {table} ({columns}) SELECT {chosen} FROM {source} WHERE true", rows=json.dumps(rows)
    )


def _kind(name: str, rows: Iterable[Row]) -> str:
    found = next((row[name] for row in rows if row[name] is not None), "")
    return KINDS[type(found)]
