"""The monitor's address: which range, dataset and channel; and the addresses of the lists behind its numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from webapp.actions.monitor import RANGES, Narrowed, Part, Range
from webapp.domain.callbacks import ErrorClass
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import TERMINAL_TYPES, rfc3339
from webapp.domain.ids import is_id
from webapp.domain.sentences import say
from webapp.domain.tallies import BOUNDS, Metric
from webapp.store.counted import CountedFilter, Kind
from webapp.web.failures import Refused

USUAL = "24h"
CHANNELS: Mapping[str, str] = {
    "sse": "SSE",
    "websocket": "WebSocket",
    "polling": say("Polling"),
    "callback": say("Callback"),
    "email": say("E-mail"),
}
OUTCOMES = ("succeeded", "retried", "dead")
BUCKETS = len(BOUNDS[Metric.NOTIFICATION_LATENCY]) + 1
ONE_TIME = "one-time"
"""Stands for the endpoints of single exports."""
NAME_LENGTH = 200
LAST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class MonitorQuery:
    range: Range
    dataset: str | None = None
    channel: str | None = None

    @property
    def narrowed(self) -> Narrowed:
        return Narrowed(self.dataset, self.channel)

    def query_string(self, **changes: Any) -> str:
        changed = replace(self, **changes)
        values = {"range": changed.range.name, "dataset": changed.dataset, "channel": changed.channel}
        return urlencode({name: value for name, value in values.items() if value})

    def url(self, **changes: Any) -> str:
        return f"/monitor?{self.query_string(**changes)}"

    def exports(self, *statuses: str) -> str:
        """The list of exports of these statuses."""
        values = {"all": "1", "status": ",".join(statuses).lower(), "dataset": self.dataset}
        return f"/exports?{urlencode({name: value for name, value in values.items() if value}, safe=',')}"

    def counted(self, kind: Kind, since: datetime, until: datetime, **more: Any) -> str:
        """The list of what was counted between these times. `more` are fields of CountedFilter."""
        return "/monitor/counted?" + written(CountedFilter(kind, since, until, self.dataset, **more))

    def within_of(self, part: Part, dataset: str) -> str:
        """The attempts of one dataset that ended in this part."""
        return replace(self, dataset=dataset).within(part, Kind.RUNS)

    def within(self, part: Part, kind: Kind, **more: Any) -> str:
        return self.counted(kind, part.began_at, part.ended_at, **more)


def written(chosen: CountedFilter, page: int = 1) -> str:
    values = {
        "of": chosen.kind.value,
        "from": rfc3339(chosen.since),
        "until": rfc3339(chosen.until),
        "dataset": chosen.dataset,
        "type": chosen.type,
        "outcome": chosen.outcome,
        "error": chosen.error,
        "endpoint": ONE_TIME if chosen.endpoint == "" else chosen.endpoint,
        "channel": chosen.channel,
        "bucket": None if chosen.bucket is None else str(chosen.bucket),
        "page": str(page) if page > 1 else None,
    }
    return urlencode({name: value for name, value in values.items() if value is not None}, safe=":")


def parse_monitor_query(params: QueryParams) -> MonitorQuery:
    """Raises Refused and Invalid. Whether there is such a dataset is known once it was counted."""
    found = RANGES.get(params.get("range", USUAL))
    if found is None:
        raise Refused(400, "BAD_RANGE", say("The range is one of these: {ranges}.", ranges=", ".join(RANGES)))
    channel = _one_of(params, "channel", CHANNELS)
    return MonitorQuery(found, _dataset(params), channel)


def parse_counted(params: QueryParams) -> tuple[CountedFilter, int]:
    """And which page of it. Raises Invalid."""
    kind = _one_of(params, "of", Kind)
    if kind is None:
        raise Invalid([FieldError("of", say("Must be one of {kind}.", kind=", ".join(Kind)))])
    endpoint = params.get("endpoint", "")
    if endpoint not in ("", ONE_TIME) and not is_id(endpoint, "end"):
        raise Invalid([FieldError("endpoint", say("Must be the id of an endpoint, or {one_time}.", one_time=ONE_TIME))])
    bucket = _number(params, "bucket", 0, BUCKETS - 1)
    chosen = CountedFilter(
        kind=Kind(kind),
        since=_moment(params, "from"),
        until=_moment(params, "until"),
        dataset=_dataset(params),
        type=_one_of(params, "type", TERMINAL_TYPES),
        outcome=_one_of(params, "outcome", OUTCOMES),
        error=_one_of(params, "error", ErrorClass),
        endpoint="" if endpoint == ONE_TIME else endpoint or None,
        channel=_one_of(params, "channel", CHANNELS),
        bucket=bucket,
    )
    return chosen, _number(params, "page", 1, LAST_PAGE) or 1


def _dataset(params: QueryParams) -> str | None:
    return params.get("dataset", "")[:NAME_LENGTH].replace("\0", "") or None


def _one_of(params: QueryParams, name: str, known: Any) -> str | None:
    value = params.get(name)
    if not value:
        return None
    if value not in list(known):
        raise Invalid([FieldError(name, say("Must be one of {known}.", known=", ".join(known)))])
    return value


def _number(params: QueryParams, name: str, least: int, most: int) -> int | None:
    text = params.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6 and least <= int(text) <= most):
        raise Invalid([FieldError(name, say("Must be a whole number from {least} to {most}.", least=least, most=most))])
    return int(text)


def _moment(params: QueryParams, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(params.get(name, "")[:40])
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or not 1970 < found.year < 9000:
        raise Invalid([FieldError(name, say("Must be a time with a zone, such as 2026-01-31T10:00:00Z."))])
    return found.astimezone(UTC)
