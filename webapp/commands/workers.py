"""`exportdesk workers …` and `exportdesk queue …`."""

from __future__ import annotations

from datetime import timedelta

from webapp.actions import queues, workers
from webapp.commands.failures import Failure
from webapp.commands.people import ACTOR, shown
from webapp.commands.terminal import table
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.workers import Queue, WorkerGone
from webapp.resources import Resources
from webapp.web.words import size

OPERATOR = Viewer("", ACTOR, Role.ADMIN)


async def list_workers(resources: Resources) -> None:
    now, found = await workers.listed(resources)
    rows = [("ID", "PROCESS", "STATE", "WORKS FOR", "SLOTS", "SENDING", "MEMORY", "SINCE", "LAST SIGN", "VERSION")]
    for worker in found:
        load = worker.load
        rows.append((
            worker.id, worker.process, worker.state(now).value, ", ".join(worker.queues),
            f"{load.slots_taken} of {worker.slots}", str(load.sending), size(load.memory),
            shown(worker.started_at), shown(worker.heartbeat_at), worker.version,
        ))  # fmt: skip
    print(table(rows))


async def drain(resources: Resources, worker_id: str, within: timedelta) -> None:
    try:
        worker = await workers.drain(resources, OPERATOR, worker_id, within=within)
    except (NotFound, WorkerGone):
        raise _unknown(worker_id) from None
    print(f"{worker.process} takes nothing new, and hands back at {shown(worker.drain_until)} what is not finished.")


async def keep(resources: Resources, worker_id: str) -> None:
    try:
        worker = await workers.keep(resources, OPERATOR, worker_id)
    except (NotFound, WorkerGone):
        raise _unknown(worker_id) from None
    print(f"{worker.process} goes on.")


async def list_queues(resources: Resources) -> None:
    paused = await queues.paused(resources)
    rows = [("QUEUE", "PAUSED SINCE", "BY")]
    for queue in Queue:
        pause = paused.get(queue)
        rows.append((queue.value, shown(pause.since), pause.by) if pause else (queue.value, "–", "–"))
    print(table(rows))


async def pause(resources: Resources, name: str) -> None:
    found = await queues.pause(resources, OPERATOR, Queue(name))
    print(f"The {name} are paused since {shown(found.since)}.")


async def resume(resources: Resources, name: str) -> None:
    await queues.resume(resources, OPERATOR, Queue(name))
    print(f"The {name} go on.")


def _unknown(worker_id: str) -> Failure:
    return Failure(f"No worker {worker_id} is alive. See: exportdesk workers list")
