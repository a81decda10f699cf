"""How every change is made: load, decide, one transaction with its event, and only then the hint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from webapp import bus, queue
from webapp.actions import outbox, statuses
from webapp.domain.access import NotFound
from webapp.domain.attempts import outcome
from webapp.domain.events import event_type
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.store import attempts, exports

log = logging.getLogger(__name__)

TRIES = 10
Decide = Callable[[Export, datetime], Sequence[Export]]


class Contended(Exception):
    """Others kept changing the same export; trying again in a moment will do."""


async def change(resources: Resources, export_id: str, decide: Decide) -> Export:
    """Applies what `decide` makes of the stored export, and tells whoever watches.

    `decide` gives the next versions in order: usually one, none for no change, two for a failure that is retried.
    It is asked again when somebody else was faster. Raises NotFound, Contended and whatever `decide` raises.
    """
    for _ in range(TRIES):
        async with resources.store.transaction():
            before = await exports.get(resources.store, export_id)
            if before is None:
                raise NotFound
            at = await resources.store.now()
            written = await write(resources, before, decide(before, at), at=at)
        if written is not None:
            if written:
                await tell(resources, written)
            return written[-1].export if written else before
    raise Contended


@dataclass(frozen=True, slots=True)
class Written:
    """A step of an export, and how many callbacks were written for it."""

    export: Export
    callbacks: int


async def write(
    resources: Resources, before: Export, steps: Sequence[Export], *, at: datetime
) -> Sequence[Written] | None:
    """Each step as a compare-and-set with its event, inside the caller's transaction. None: the row had moved on.

    What takes an export out of PROCESSING ends its attempt.
    """
    written: list[Written] = []
    for number, step in enumerate(steps):
        if not await exports.compare_and_set(resources.store, before, step):
            return None
        written.append(Written(step, await outbox.record(resources, step, at=at, is_last=step is steps[-1])))
        if before.status is Status.PROCESSING:
            await attempts.end(resources.store, step, outcome(steps[number:]), at=at)
        before = step
    return written


async def tell(resources: Resources, written: Sequence[Written]) -> None:
    """After the commit: writes it into the log and announces where the export is now."""
    log_steps(written)
    await announce(resources, written[-1].export)


def log_steps(written: Sequence[Written]) -> None:
    """One line each: `exp_…: failed (QUERY_ERROR), callbacks written: 2`."""
    for step in written:
        export = step.export
        callbacks = f", callbacks written: {step.callbacks}" if step.callbacks else ""
        about = {"export_id": export.id, "attempt": export.attempt}
        log.info("%s: %s%s", export.id, _in_words(export), callbacks, extra=about)


def _in_words(export: Export) -> str:
    """The latest step, with the code of what went wrong."""
    what = event_type(export).removeprefix("export.").replace("_", " ")
    match export.status:
        case Status.PENDING:
            return f"order taken, {export.dataset} as {export.format}"
        case Status.QUEUED:
            return f"queued for attempt {export.attempt + 1}"
        case Status.FAILED | Status.EXPIRED if export.error:
            return f"{what} ({export.error.code})"
        case Status.PROCESSING | Status.SUCCESS:
            return f"attempt {export.attempt} {what}"
        case _:
            return what


async def hint(resources: Resources, *told: bus.Hint) -> None:
    """Tells open pages that there is something to read. It may be lost: they look by themselves, only later."""
    try:
        await bus.publish(resources.redis, *told)
    except queue.QUEUE_ERRORS:
        return


async def announce(resources: Resources, export: Export) -> None:
    """Hints to open pages and a wake-up for the worker, after the commit. Either may be lost."""
    try:
        await statuses.changed(resources, export)
        await bus.publish(resources.redis, bus.Hint(export.id, export.owner, export.version))
        await queue.wake(resources.redis, queue.QueueName.CALLBACKS)
        if export.status is Status.QUEUED:
            await queue.enqueue_export(resources.redis, export, not_before=export.retry_at)
    except queue.QUEUE_ERRORS as error:
        log.warning("the broker did not take a hint for %s (%s); the sweep makes good", export.id, type(error).__name__)
