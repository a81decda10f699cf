"""`/monitor`: whether exports run, how long people wait, whether news arrives, and why callbacks fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import monitor
from webapp.actions.monitor import RANGES, Figures, Range
from webapp.domain.access import NotFound
from webapp.domain.callbacks import DeliveryState
from webapp.domain.exports import Status
from webapp.domain.tallies import Metric
from webapp.pages.callback_wording import share
from webapp.pages.monitor_tables import tables, told_channel, told_seconds, written
from webapp.queue import QueueName
from webapp.web.context import admin, resources
from webapp.web.failures import Refused
from webapp.web.render import fragment, page
from webapp.web.words import counted, duration, number, size

USUAL = "24h"
NOTHING = "–"
QUEUES = {QueueName.EXPORTS: "Exports", QueueName.CALLBACKS: "Callbacks"}


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
    return page(request, "monitor/show.html", **await _context(request))


async def poll(request: Request) -> Response:
    admin(request)
    return fragment("monitor/_figures.html", **await _context(request))


async def table(request: Request) -> Response:
    """One of the tables as CSV."""
    admin(request)
    chosen = _range(request)
    found = tables(await monitor.figures(resources(request), chosen)).get(request.path_params["table"])
    if found is None:
        raise NotFound
    name = f"exportdesk-{found.name}-{chosen.name}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(written(found), media_type="text/csv", headers=headers)


async def _context(request: Request) -> dict[str, Any]:
    figures = await monitor.figures(resources(request), _range(request))
    return {
        "figures": figures,
        "now": figures.now,
        "ranges": RANGES.values(),
        "tiles": tiles(figures),
        "tables": tables(figures).values(),
        "queues": [(title, _told_worker(figures, name)) for name, title in QUEUES.items()],
    }


def _range(request: Request) -> Range:
    """Raises Refused."""
    found = RANGES.get(request.query_params.get("range", USUAL))
    if found is None:
        raise Refused(400, "BAD_RANGE", f"The range is one of these: {', '.join(RANGES)}.")
    return found


def tiles(figures: Figures) -> list[Tile]:
    return [
        *_now(figures),
        _success(figures),
        _latency(figures),
        _delivery_success(figures),
        _dead_letters(figures),
        _workers(figures),
        Tile("disk", "Free disk", size(figures.disk_free), f"of {size(figures.disk_total)}"),
    ]


def _now(figures: Figures) -> list[Tile]:
    running, waiting = (
        sum(figures.exports.get(status.value, 0) for status in statuses)
        for statuses in ((Status.PROCESSING,), (Status.PENDING, Status.QUEUED))
    )
    queued = "/exports?all=1&status=pending,queued"
    oldest = Tile("oldest", "Oldest waiting", NOTHING, "Nobody is waiting.")
    if figures.waiting_since:
        waited = duration((figures.now - figures.waiting_since).total_seconds())
        oldest = Tile("oldest", "Oldest waiting", waited, "since it was ordered or queued again", queued)
    return [
        Tile("running", "Running", number(running), "" if running else "No export is running.",
             "/exports?all=1&status=processing" if running else None),
        Tile("waiting", "Waiting", number(waiting), "" if waiting else "No export is waiting.",
             queued if waiting else None),
        oldest,
    ]  # fmt: skip


def _success(figures: Figures) -> Tile:
    """Those that were cancelled are neither a success nor a failure."""
    ended = figures.ended
    good, bad = ended["export.succeeded"], ended["export.failed"] + ended["export.timed_out"]
    note = f"{number(good)} of {counted(good + bad, 'attempt')} in the last {figures.range.title}"
    if not good + bad:
        note = f"No attempt succeeded or failed in the last {figures.range.title}."
    return Tile("success", "Success", share(good, bad), note)


def _latency(figures: Figures) -> Tile:
    metric = Metric.NOTIFICATION_LATENCY
    found = [(told_channel(name), quantile) for name, counts in figures.latency.items()
             if (quantile := monitor.quantile(metric, counts, 0.95)) is not None]  # fmt: skip
    if not found:
        return Tile("latency", "Notification, 95% within", NOTHING,
                    f"Nobody confirmed one in the last {figures.range.title}.")  # fmt: skip
    slowest = max(seconds for _, seconds in found)
    facts = [(name, told_seconds(seconds)) for name, seconds in found]
    return Tile("latency", "Notification, 95% within", told_seconds(slowest), "on the slowest channel", facts=facts)


def _delivery_success(figures: Figures) -> Tile:
    """Of the deliveries that are over; one that is tried again is not."""
    good, bad = (figures.deliveries[state.value] for state in (DeliveryState.SUCCEEDED, DeliveryState.DEAD))
    note = f"{number(good)} of {counted(good + bad, 'delivery', 'deliveries')} in the last {figures.range.title}"
    if not good + bad:
        note = f"No delivery ended in the last {figures.range.title}."
    return Tile("deliveries", "Delivered", share(good, bad), note)


def _dead_letters(figures: Figures) -> Tile:
    count = figures.dead_letters
    if not count:
        return Tile("dead", "Dead letters", "0", "Every delivery arrived or is still tried.")
    note = "deliveries whose schedule is used up"
    return Tile("dead", "Dead letters", number(count), note, "/callbacks/deliveries?state=dead", "bad")


def _workers(figures: Figures) -> Tile:
    if figures.workers is None:
        return Tile("workers", "Workers alive", NOTHING, "The broker does not answer.", "#workers", "bad")
    alive = [title for name, title in QUEUES.items() if figures.workers[name]]
    missing = [title.lower() for title in QUEUES.values() if title not in alive]
    if not missing:
        return Tile("workers", "Workers alive", "Both kinds", "for exports and for callbacks", "#workers")
    value = f"{alive[0]} only" if alive else "None"
    return Tile("workers", "Workers alive", value, f"Nothing works for {' and '.join(missing)}.", "#workers", "bad")


def _told_worker(figures: Figures, name: QueueName) -> str:
    if figures.workers is None:
        return "Unknown: the broker does not answer"
    return "Alive: heard of in the last seconds" if figures.workers[name] else "None is alive"
