"""`/monitor/counted`: the list behind a number of the monitor page, one row for each that it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import monitor
from webapp.domain.callbacks import ErrorClass
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.limits import PAGE_SIZE
from webapp.domain.sentences import say
from webapp.domain.tallies import BOUNDS, Metric
from webapp.language import gettext as _
from webapp.pages.callback_wording import ERROR_LABELS, EVENT_LABELS
from webapp.pages.monitor_query import CHANNELS, LAST_PAGE, parse_counted
from webapp.pages.monitor_query import written as written_query
from webapp.pages.monitor_tables import OUTCOMES, told_channel, told_endpoint, told_seconds
from webapp.store.counted import Counted, CountedFilter, Kind
from webapp.web.context import admin, resources
from webapp.web.render import page

TITLES: Mapping[Kind, str] = {
    Kind.ENDS: say("Attempts that ended"),
    Kind.RUNS: say("Attempts that ran and ended"),
    Kind.STARTS: say("Attempts that were started"),
    Kind.REQUESTS: say("Callback requests"),
    Kind.CONFIRMATIONS: say("Confirmations"),
}
TIMES: Mapping[Kind, str] = {
    Kind.ENDS: say("Ran for"),
    Kind.RUNS: say("Ran for"),
    Kind.STARTS: say("Waited"),
    Kind.REQUESTS: say("Took"),
    Kind.CONFIRMATIONS: say("Came after"),
}


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    what: str
    dataset: str
    export_id: str | None
    delivery_id: str | None
    endpoint: str
    error: str
    time: str


async def show(request: Request) -> Response:
    who = admin(request)
    chosen, number = parse_counted(request.query_params)
    if chosen.kind is Kind.CONFIRMATIONS and chosen.channel is None:
        raise Invalid([FieldError("channel", say("Must be one of {channels}.", channels=", ".join(CHANNELS)))])
    offset = (number - 1) * PAGE_SIZE
    total, found, names = await monitor.listed(resources(request), chosen, limit=PAGE_SIZE, offset=offset)
    has_more = offset + len(found) < total and number < LAST_PAGE
    return page(
        request,
        "monitor/counted.html",
        viewer=who,
        chosen=chosen,
        title=TITLES[chosen.kind],
        conditions=_conditions(chosen, names),
        time_title=TIMES[chosen.kind],
        is_sent=any(one.delivery_id for one in found),
        total=total,
        lines=[_line(one, names) for one in found],
        newer=_address(chosen, number - 1) if number > 1 else None,
        older=_address(chosen, number + 1) if has_more else None,
    )


def _address(chosen: CountedFilter, number: int) -> str:
    return f"/monitor/counted?{written_query(chosen, number)}"


def _conditions(chosen: CountedFilter, names: Mapping[str, tuple[str, str]]) -> list[str]:
    """What it is narrowed to, in words."""
    told: list[str | None] = [
        chosen.dataset,
        EVENT_LABELS[chosen.type] if chosen.type else None,
        OUTCOMES[chosen.outcome] if chosen.outcome else None,
        ERROR_LABELS[ErrorClass(chosen.error)] if chosen.error else None,
        told_endpoint(names, chosen.endpoint) if chosen.endpoint else None,
        say("callbacks of single exports") if chosen.endpoint == "" else None,
        told_channel(chosen.channel) if chosen.channel else None,
        None if chosen.bucket is None else _within(chosen.bucket),
    ]
    return [text for text in told if text]


def _within(bucket: int) -> str:
    bounds = BOUNDS[Metric.NOTIFICATION_LATENCY]
    if bucket == len(bounds):
        return _("after more than {time}", time=told_seconds(bounds[-1]))
    within = told_seconds(bounds[bucket])
    if not bucket:
        return _("within {time}", time=within)
    return _("after more than {least}, within {most}", least=told_seconds(bounds[bucket - 1]), most=within)


def _line(one: Counted, names: Mapping[str, tuple[str, str]]) -> Line:
    labels = {**EVENT_LABELS, **OUTCOMES, **CHANNELS}
    return Line(
        at=one.at,
        what=labels.get(one.what, one.what),
        dataset=one.dataset or "",
        export_id=one.export_id,
        delivery_id=one.delivery_id,
        endpoint=told_endpoint(names, one.endpoint_id) if one.endpoint_id else "",
        error=ERROR_LABELS[ErrorClass(one.error)] if one.error in set(ErrorClass) else one.error or "",
        time="–" if one.seconds is None else told_seconds(one.seconds),
    )
