"""`/monitor`: whether exports run, how long people wait, whether news arrives, and why callbacks fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp import bus
from webapp.actions import alerts, monitor
from webapp.actions.monitor import RANGES, Figures
from webapp.domain.access import NotFound
from webapp.domain.callbacks import DeliveryState
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Status
from webapp.domain.sentences import say
from webapp.domain.tallies import Metric
from webapp.domain.workers import Queue, WorkerState
from webapp.language import ngettext
from webapp.pages.callback_wording import share
from webapp.pages.live import Place, element_stream, live_element, paced
from webapp.pages.monitor_alerts import alert_rows
from webapp.pages.monitor_query import CHANNELS, MonitorQuery, parse_monitor_query
from webapp.pages.monitor_tables import tables, told_channel, told_seconds, written
from webapp.pages.monitor_workers import TITLES, section
from webapp.web.context import admin, resources
from webapp.web.render import fragment, page
from webapp.web.words import duration, number, size

PACE = 2.0
"""Seconds between two readings for one stream."""
NOTHING = "–"
NOBODY_FOR = {
    Queue.EXPORTS: say("Nothing works for exports."),
    Queue.CALLBACKS: say("Nothing works for callbacks."),
}


@dataclass(frozen=True, slots=True)
class Tile:
    """`facts` are names with values, where one value does not do. `href` leads to what is counted."""

    key: str
    title: str
    value: str
    note: str = ""
    href: str | None = None
    tone: str = ""
    facts: Sequence[tuple[str, str]] = ()


async def show(request: Request) -> Response:
    admin(request)
    return page(request, "monitor/show.html", **await _context(request, monitor_query(request)))


async def poll(request: Request) -> Response:
    admin(request)
    return fragment("exports/_live.html", **await _context(request, monitor_query(request), Place.of(request)))


async def stream(request: Request) -> Response:
    admin(request)
    query = monitor_query(request)
    await _figures(request, query)
    read = paced(lambda: _context(request, query), PACE)
    return await element_stream(request, read, owner=None, subject=bus.MONITOR)


async def table(request: Request) -> Response:
    """One of the tables as CSV."""
    admin(request)
    query = monitor_query(request)
    found = tables(await _figures(request, query), query).get(request.path_params["table"])
    if found is None:
        raise NotFound
    name = f"exportdesk-{found.name}-{query.range.name}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(written(found), media_type="text/csv", headers=headers)


def monitor_query(request: Request) -> MonitorQuery:
    return parse_monitor_query(request.query_params)


async def _figures(request: Request, query: MonitorQuery) -> Figures:
    """Raises Invalid for a dataset that there never was."""
    figures = await monitor.figures(resources(request), query.range, query.narrowed)
    if query.dataset and query.dataset not in figures.datasets:
        raise Invalid([FieldError("dataset", say("There is no such dataset, and nothing was counted of one."))])
    return figures


async def _context(request: Request, query: MonitorQuery, place: Place | None = None) -> dict[str, Any]:
    figures = await _figures(request, query)
    live = live_element(
        request,
        partial="monitor/_figures.html",
        path="/monitor",
        query=query.query_string(),
        cursor=figures.cursor,
        moved=figures.moved,
        active=True,
        place=place or Place(),
    )
    desk = resources(request)
    catalog = desk.catalog.datasets
    return {
        "viewer": admin(request),
        "figures": figures,
        "alerts": alert_rows(await alerts.standing(desk), desk.settings.alerts),
        "is_watched": _is_watched(figures),
        "query": query,
        "now": figures.now,
        "ranges": RANGES.values(),
        "datasets": {name: catalog[name].title if name in catalog else name for name in figures.datasets},
        "channels": CHANNELS,
        "tiles": tiles(figures, query),
        "tables": [found for found in tables(figures, query).values() if not (found.is_extra and found.is_empty)],
        **await section(resources(request), figures.workers, figures.running, figures.now),
        "live": replace(live, refresh=None),
    }


def tiles(figures: Figures, query: MonitorQuery) -> list[Tile]:
    return [
        *_now(figures, query),
        _success(figures),
        _latency(figures),
        _delivery_success(figures),
        _dead_letters(figures),
        _workers(figures),
        _disk(figures),
    ]


def _now(figures: Figures, query: MonitorQuery) -> list[Tile]:
    running, waiting = (
        sum(figures.exports.get(status.value, 0) for status in statuses)
        for statuses in ((Status.PROCESSING,), (Status.PENDING, Status.QUEUED))
    )
    queued = query.exports(Status.PENDING, Status.QUEUED)
    oldest = Tile("oldest", say("Oldest waiting"), NOTHING, say("Nobody is waiting."))
    if figures.waiting_since:
        waited = duration((figures.now - figures.waiting_since).total_seconds())
        oldest = Tile("oldest", say("Oldest waiting"), waited, say("since it was ordered or queued again"), queued)
    return [
        Tile("running", say("Running"), number(running), "" if running else say("No export is running."),
             query.exports(Status.PROCESSING) if running else None),
        Tile("waiting", say("Waiting"), number(waiting), "" if waiting else say("No export is waiting."),
             queued if waiting else None),
        oldest,
    ]  # fmt: skip


def _success(figures: Figures) -> Tile:
    """Those that were cancelled are neither a success nor a failure."""
    ended = figures.ended
    good, bad = ended["export.succeeded"], ended["export.failed"] + ended["export.timed_out"]
    note = ngettext(
        "{good} of {n} attempt in the last {range}",
        "{good} of {n} attempts in the last {range}",
        good + bad,
        good=good,
        range=figures.range.title,
    )
    if not good + bad:
        note = say("No attempt succeeded or failed in the last {title}.", title=figures.range.title)
    return Tile("success", say("Success"), share(good, bad), note)


def _latency(figures: Figures) -> Tile:
    metric = Metric.NOTIFICATION_LATENCY
    found = [(told_channel(name), quantile) for name, counts in figures.latency.items()
             if (quantile := monitor.quantile(metric, counts, 0.95)) is not None]  # fmt: skip
    if not found:
        return Tile("latency", say("Notification, 95% within"), NOTHING,
                    say("Nobody confirmed one in the last {title}.", title=figures.range.title))  # fmt: skip
    if len(found) == 1:
        [(name, seconds)] = found
        return Tile("latency", say("Notification, 95% within"), told_seconds(seconds), name)
    slowest = max(seconds for _, seconds in found)
    facts = [(name, told_seconds(seconds)) for name, seconds in found]
    return Tile(
        "latency", say("Notification, 95% within"), told_seconds(slowest), say("on the slowest channel"), facts=facts
    )


def _delivery_success(figures: Figures) -> Tile:
    """Of the deliveries that are over; one that is tried again is not."""
    good, bad = (figures.deliveries[state.value] for state in (DeliveryState.SUCCEEDED, DeliveryState.DEAD))
    note = ngettext(
        "{good} of {n} delivery in the last {range}",
        "{good} of {n} deliveries in the last {range}",
        good + bad,
        good=good,
        range=figures.range.title,
    )
    if not good + bad:
        note = say("No delivery ended in the last {title}.", title=figures.range.title)
    return Tile("deliveries", say("Delivered"), share(good, bad), note)


def _dead_letters(figures: Figures) -> Tile:
    count = figures.dead_letters
    if not count:
        return Tile("dead", say("Dead letters"), "0", say("Every delivery arrived or is still tried."))
    note = say("deliveries whose schedule is used up")
    return Tile("dead", say("Dead letters"), number(count), note, "/callbacks/deliveries?status=dead", "bad")


def _disk(figures: Figures) -> Tile:
    if figures.disk is None:
        return Tile("disk", say("Free disk"), NOTHING, say("The disk for exports does not answer."), tone="bad")
    return Tile(
        "disk", say("Free disk"), size(figures.disk.free), say("of {disk_total}", disk_total=size(figures.disk.total))
    )


def _is_watched(figures: Figures) -> bool:
    """Workers for callbacks sweep, also those that are drained."""
    alive = (WorkerState.ALIVE, WorkerState.DRAINING)
    return any(Queue.CALLBACKS in worker.queues and worker.state(figures.now) in alive for worker in figures.workers)


def _workers(figures: Figures) -> Tile:
    states = [worker.state(figures.now) for worker in figures.workers]
    alive = [worker for worker, state in zip(figures.workers, states, strict=True) if state is WorkerState.ALIVE]
    missing = [queue for queue in Queue if not any(queue in worker.queues for worker in alive)]
    if missing:
        note = NOBODY_FOR[missing[0]] if len(missing) == 1 else say("Nothing works for exports and callbacks.")
        return Tile("workers", say("Workers alive"), number(len(alive)), note, "#workers", "bad")
    facts = [(TITLES[queue], number(sum(queue in worker.queues for worker in alive))) for queue in Queue]
    return Tile("workers", say("Workers alive"), number(len(alive)), "", "#workers", facts=facts)
