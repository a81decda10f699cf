"""The workers on the monitor page: what each does, draining one, pausing a queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from webapp.actions import queues, workers
from webapp.domain.access import NotFound
from webapp.domain.sentences import Text, say
from webapp.domain.workers import Pause, Queue, Worker, WorkerGone, WorkerState
from webapp.pages.wording import Badge
from webapp.resources import Resources
from webapp.store.monitor import Running
from webapp.web.context import admin, queue_name, resources, worker_id
from webapp.web.flash import flash, redirect
from webapp.web.forms import read_form
from webapp.web.render import page

HERE = "/monitor#workers"
TITLES = {Queue.EXPORTS: say("Exports"), Queue.CALLBACKS: say("Callbacks")}
BADGES = {
    WorkerState.ALIVE: Badge(say("Alive"), "check", "good"),
    WorkerState.DRAINING: Badge(say("Draining"), "clock", "warn"),
    WorkerState.LOST: Badge(say("Lost"), "alert", "bad"),
    WorkerState.ENDED: Badge(say("Ended"), "stop", "quiet"),
}
WITHIN = (
    (timedelta(minutes=10), say("after 10 minutes")),
    (timedelta(hours=1), say("after an hour")),
    (timedelta(0), say("at once")),
)
"""When a drained worker hands back what it has not finished."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue, how many workers may take from it, and since when it is paused."""

    queue: Queue
    title: Text
    takers: int
    pause: Pause | None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """`may_change`: it can be drained, or kept while it is drained."""

    worker: Worker
    state: WorkerState
    badge: Badge
    queues: Sequence[Text]
    runs: Sequence[Running]

    @property
    def may_change(self) -> bool:
        return self.state in {WorkerState.ALIVE, WorkerState.DRAINING}


async def section(
    desk: Resources, found: Sequence[Worker], running: Sequence[Running], now: datetime
) -> dict[str, Any]:
    """What the templates say of workers. Whose worker is not known any more is told apart."""
    paused = await queues.paused(desk)
    runs: dict[str | None, list[Running]] = defaultdict(list)
    for run in running:
        runs[run.worker].append(run)
    rows = [_row(worker, runs, now) for worker in found]
    takers = [row.worker.queues for row in rows if row.state is WorkerState.ALIVE]
    return {
        "queues": [
            QueueRow(queue, TITLES[queue], sum(queue in taken for taken in takers), paused.get(queue))
            for queue in Queue
        ],
        "workers": rows,
        "other_runs": [run for left in runs.values() for run in left],
    }


def _row(worker: Worker, runs: dict[str | None, list[Running]], now: datetime) -> WorkerRow:
    """Takes the runs that are its own: a process id is used again only after the end of its process."""
    state = worker.state(now)
    own = [] if state is WorkerState.ENDED else runs.pop(worker.process, [])
    return WorkerRow(worker, state, BADGES[state], [TITLES[queue] for queue in worker.queues], own)


async def pause(request: Request) -> Response:
    """Asks first, unless it was confirmed."""
    who, queue, form = admin(request), queue_name(request), await read_form(request)
    if "confirmed" not in form:
        return page(request, "monitor/confirm_pause.html", queue=queue, title=TITLES[queue])
    await queues.pause(resources(request), who, queue)
    return redirect(request, HERE, flash(f"{queue.value}-paused"))


async def resume(request: Request) -> Response:
    who, queue = admin(request), queue_name(request)
    await queues.resume(resources(request), who, queue)
    return redirect(request, HERE, flash(f"{queue.value}-resumed"))


async def drain(request: Request) -> Response:
    """Asks first, and within which time, unless it was confirmed."""
    who, form = admin(request), await read_form(request)
    worker = await workers.get(resources(request), worker_id(request))
    within = {str(int(time.total_seconds())): time for time, _ in WITHIN}
    if "confirmed" not in form or form.text("within") not in within:
        choices = [(int(time.total_seconds()), told) for time, told in WITHIN]
        return page(request, "monitor/confirm_drain.html", worker=worker, choices=choices)
    try:
        await workers.drain(resources(request), who, worker.id, within=within[form.text("within")])
    except WorkerGone:
        return redirect(request, HERE, flash("worker-gone"))
    return redirect(request, HERE, flash("worker-drained", process=worker.process))


async def keep(request: Request) -> Response:
    who = admin(request)
    try:
        worker = await workers.keep(resources(request), who, worker_id(request))
    except (WorkerGone, NotFound):
        return redirect(request, HERE, flash("worker-gone"))
    return redirect(request, HERE, flash("worker-kept", process=worker.process))
