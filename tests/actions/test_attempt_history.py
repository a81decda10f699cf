"""What is remembered of each attempt: written with the change that begins or ends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest
from factories import export_file, stored_export
from fresh_stores import Clock, person

from webapp.actions import attempts
from webapp.actions import exports as actions
from webapp.domain.access import NotFound, Viewer
from webapp.domain.attempts import Attempt, Outcome
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, Phase, Status
from webapp.resources import Resources
from webapp.store import events
from webapp.store.exports import Progress

LOST = export_error(ErrorCode.WORKER_LOST)
REFUSED = export_error(ErrorCode.QUERY_ERROR, detail="no such table: things")
TIMEOUT = export_error(ErrorCode.TIMEOUT, limit="30 minutes")


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


async def claimed(resources: Resources) -> Export:
    export = await attempts.claim(resources)
    assert export is not None
    return export


Ending = Callable[[Resources, Viewer, Export], Awaitable[object]]
ENDINGS: dict[Outcome, Ending] = {
    Outcome.SUCCEEDED: lambda r, _, e: attempts.finish(r, e, export_file(e, e.created_at), ()),
    Outcome.FAILED: lambda r, _, e: attempts.fail(r, e, REFUSED),
    Outcome.TIMED_OUT: lambda r, _, e: attempts.time_out(r, e, TIMEOUT),
    Outcome.CANCELLED: lambda r, who, e: actions.cancel(r, who, e.id),
    Outcome.HANDED_BACK: lambda r, _, e: attempts.hand_back(r, e),
}
ERRORS = {
    Outcome.SUCCEEDED: None,
    Outcome.FAILED: REFUSED,
    Outcome.TIMED_OUT: TIMEOUT,
    Outcome.CANCELLED: None,
    Outcome.HANDED_BACK: LOST,
}


@pytest.mark.parametrize("how", Outcome)
async def test_every_end_of_an_attempt_is_remembered(
    each_resources: Resources, writer: Viewer, clock: Clock, how: Outcome
):
    await stored_export(each_resources, writer, Status.QUEUED)
    started = clock.at
    export = await claimed(each_resources)
    [running] = await attempts.history(each_resources, writer, export.id)
    assert running.worker.endswith(f":{os.getpid()}")
    assert running == Attempt(1, running.worker, started)
    clock.move(7)
    await attempts.report_progress(each_resources, export, Progress(Phase.READING, 10, 100, 1000))
    await ENDINGS[how](each_resources, writer, export)
    rows_read = 1 if how is Outcome.SUCCEEDED else 10
    [ended] = await attempts.history(each_resources, writer, export.id)
    assert ended == Attempt(1, running.worker, started, clock.at, how, ERRORS[how], rows_read)


async def test_each_attempt_is_remembered_by_its_number(each_resources: Resources, writer: Viewer, clock: Clock):
    waiting = await stored_export(each_resources, writer, Status.QUEUED)
    await attempts.hand_back(each_resources, await claimed(each_resources))
    failed = await attempts.fail(each_resources, await claimed(each_resources), LOST)
    assert failed is not None
    assert failed.retry_at is not None
    clock.at = failed.retry_at
    export = await claimed(each_resources)
    await attempts.finish(each_resources, export, export_file(export, clock.at), ())
    told = [(a.number, a.outcome) for a in await attempts.history(each_resources, writer, waiting.id)]
    assert told == [(1, Outcome.HANDED_BACK), (2, Outcome.FAILED), (3, Outcome.SUCCEEDED)]


async def test_a_change_that_is_not_committed_ends_no_attempt(
    each_resources: Resources, writer: Viewer, monkeypatch: pytest.MonkeyPatch
):
    await stored_export(each_resources, writer, Status.QUEUED)
    export = await claimed(each_resources)
    real = events.record

    async def break_at_queued(store: object, step: Export, **rest: object) -> None:
        if step.status is Status.QUEUED:
            raise OSError("disk")
        await real(store, step, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(events, "record", break_at_queued)
    with pytest.raises(OSError, match="disk"):
        await attempts.fail(each_resources, export, LOST)
    [attempt] = await attempts.history(each_resources, writer, export.id)
    assert (attempt.outcome, attempt.ended_at) == (None, None)


async def test_of_two_ends_at_once_the_one_that_counts_is_remembered(each_resources: Resources, writer: Viewer):
    await stored_export(each_resources, writer, Status.QUEUED)
    export = await claimed(each_resources)
    wanted = [ENDINGS[how](each_resources, writer, export) for how in (Outcome.FAILED, Outcome.TIMED_OUT)]
    await asyncio.gather(*wanted)
    [attempt] = await attempts.history(each_resources, writer, export.id)
    now = await actions.get(each_resources, writer, export.id)
    assert attempt.error == now.error


async def test_attempts_go_with_their_export_and_are_nobody_elses(each_resources: Resources, writer: Viewer):
    await stored_export(each_resources, writer, Status.QUEUED)
    export = await claimed(each_resources)
    await attempts.fail(each_resources, export, REFUSED)
    with pytest.raises(NotFound):
        await attempts.history(each_resources, await person(each_resources, "stranger"), export.id)
    await actions.delete(each_resources, writer, export.id)
    assert await each_resources.store.plain("SELECT * FROM attempts") == []


async def test_only_the_latest_of_very_many_are_shown(
    each_resources: Resources, writer: Viewer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("webapp.domain.limits.ATTEMPTS_SHOWN", 2)
    export = await stored_export(each_resources, writer, Status.QUEUED)
    for _ in range(3):
        await attempts.hand_back(each_resources, await claimed(each_resources))
    assert [a.number for a in await attempts.history(each_resources, writer, export.id)] == [2, 3]
