"""What workers do with exports and, once given up, can do no more; and cancelling, retrying, deleting by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from factories import CONTENT, export_file, stored_export
from fresh_stores import Clock, person

from webapp import bus
from webapp.actions import attempts
from webapp.actions import exports as actions
from webapp.actions.exports import AlreadyActive
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import Export, FormatWarning, IllegalTransition, Phase, Status
from webapp.resources import Resources
from webapp.store import events
from webapp.store import exports as rows
from webapp.store.exports import Progress

LOST = export_error(ErrorCode.WORKER_LOST)
REFUSED = export_error(ErrorCode.QUERY_ERROR, detail="no such table: things")
TIMEOUT = export_error(ErrorCode.TIMEOUT, limit="30 minutes")
SOME = Progress(Phase.READING, 10, 100, 1000)


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


Maker = Callable[..., Awaitable[Export]]


@pytest.fixture
def put(each_resources: Resources, writer: Viewer, clock: Clock) -> Maker:
    async def make(status: Status = Status.QUEUED, *, owner: Viewer | None = None, **changes: Any) -> Export:
        return await stored_export(each_resources, owner or writer, status, **changes)

    return make


async def stored(resources: Resources, export: Export) -> Export:
    found = await rows.get(resources.store, export.id)
    assert found is not None
    return found


async def claimed(resources: Resources) -> Export:
    export = await attempts.claim(resources)
    assert export is not None
    return export


async def event_types(resources: Resources, export: Export) -> list[str]:
    found = await events.page(resources.store, export_id=export.id)
    assert [event.version for event in found] == list(range(1, len(found) + 1))
    return [event.type.removeprefix("export.") for event in found]


# Claiming


async def test_a_claim_starts_an_attempt(each_resources: Resources, put: Maker, clock: Clock):
    waiting = await put()
    clock.move(5)
    export = await claimed(each_resources)
    assert (export.id, export.status, export.attempt) == (waiting.id, Status.PROCESSING, 1)
    assert export.started_at == export.heartbeat_at == clock.at
    assert await stored(each_resources, waiting) == export
    assert await event_types(each_resources, export) == ["created", "queued", "started"]
    assert await attempts.claim(each_resources) is None


async def test_claims_go_round_between_people(each_resources: Resources, put: Maker, clock: Clock, writer: Viewer):
    somebody = await person(each_resources, "somebody")
    mine = [await put(created_at=clock.at + timedelta(seconds=n)) for n in range(4)]
    theirs = [await put(owner=somebody, created_at=clock.at + timedelta(seconds=50 + n)) for n in range(2)]
    order = [(await claimed(each_resources)).id for _ in range(4)]
    assert order == [mine[0].id, theirs[0].id, mine[1].id, theirs[1].id]
    assert await attempts.claim(each_resources) is None


@pytest.mark.parametrize("people_", [1, 3])
async def test_many_workers_claim_each_export_once_and_keep_to_the_limit(
    each_resources: Resources, put: Maker, people_: int
):
    owners = [await person(each_resources, f"person{n}") for n in range(people_)]
    for owner in owners:
        for _ in range(4):
            await put(owner=owner)
    taken = await asyncio.gather(*(attempts.claim(each_resources) for _ in range(16)))
    ids = [export.id for export in taken if export]
    assert len(ids) == len(set(ids))
    running = [export.owner for export in taken if export]
    assert all(running.count(owner.id) <= 2 for owner in owners)
    while await attempts.claim(each_resources):
        pass
    page = await rows.list_page(
        each_resources.store, rows.ListFilter(statuses=(Status.PROCESSING,)), limit=99, after=None
    )
    assert sorted(export.owner for export in page) == sorted([owner.id for owner in owners] * 2)


async def test_a_retry_is_not_claimed_before_its_time(each_resources: Resources, put: Maker, clock: Clock):
    await put()
    export = await attempts.fail(each_resources, await claimed(each_resources), LOST)
    assert export is not None
    assert export.retry_at is not None
    assert await attempts.claim(each_resources) is None
    clock.at = export.retry_at
    again = await claimed(each_resources)
    assert (again.attempt, again.retry_at, again.error) == (2, None, None)


# Finishing


async def test_finishing_makes_a_file_that_is_kept_for_the_retention_time(
    each_resources: Resources, put: Maker, clock: Clock
):
    await put()
    export = await claimed(each_resources)
    await attempts.report_progress(each_resources, export, SOME)
    clock.move(3)
    warnings = (FormatWarning("CUT", "Cut.", 1),)
    done = await attempts.finish(each_resources, export, export_file(export, clock.at), warnings)
    assert done is not None
    assert done.file is not None
    assert (done.status, done.warnings, done.bytes) == (Status.SUCCESS, warnings, len(CONTENT))
    assert done.file.expires_at == clock.at + each_resources.settings.file_retention
    assert done.completed_at == clock.at
    assert await stored(each_resources, export) == done
    assert (await event_types(each_resources, export))[-1] == "succeeded"


async def test_a_final_error_ends_the_export_at_once(each_resources: Resources, put: Maker):
    await put()
    export = await claimed(each_resources)
    failed = await attempts.fail(each_resources, export, REFUSED)
    assert failed is not None
    assert (failed.status, failed.error, failed.failures) == (Status.FAILED, REFUSED, 1)
    assert await event_types(each_resources, export) == ["created", "queued", "started", "failed"]


async def test_an_error_that_may_pass_is_two_events_in_one_transaction(
    each_resources: Resources, put: Maker, clock: Clock
):
    await put()
    export = await claimed(each_resources)
    again = await attempts.fail(each_resources, export, LOST)
    assert again is not None
    assert (again.status, again.version, again.failures, again.error) == (Status.QUEUED, 5, 1, LOST)
    assert again.retry_at is not None
    assert 8 <= (again.retry_at - clock.at).total_seconds() <= 12
    assert await event_types(each_resources, export) == ["created", "queued", "started", "failed", "queued"]
    failed, queued = (await events.page(each_resources.store, export_id=export.id))[-2:]
    assert failed.timestamp == queued.timestamp
    assert (failed.data["status"], failed.data["error"]["code"]) == ("FAILED", "WORKER_LOST")
    assert (queued.data["status"], queued.data["retry_at"] is not None) == ("QUEUED", True)


async def test_when_the_second_event_cannot_be_written_neither_is_the_first(
    each_resources: Resources, put: Maker, monkeypatch: pytest.MonkeyPatch
):
    await put()
    export = await claimed(each_resources)
    real = events.record

    async def break_at_queued(store: Any, step: Export, **rest: Any) -> None:
        if step.status is Status.QUEUED:
            raise OSError("disk")
        await real(store, step, **rest)

    monkeypatch.setattr(events, "record", break_at_queued)
    with pytest.raises(OSError, match="disk"):
        await attempts.fail(each_resources, export, LOST)
    monkeypatch.undo()
    assert await stored(each_resources, export) == export
    assert await event_types(each_resources, export) == ["created", "queued", "started"]


async def test_after_max_attempts_a_failure_is_final(each_resources: Resources, put: Maker, clock: Clock):
    waiting = await put()
    waits = []
    for _ in range(3):
        after = await attempts.fail(each_resources, await claimed(each_resources), LOST)
        assert after is not None
        if after.retry_at:
            waits.append((after.retry_at - clock.at).total_seconds())
            clock.at = after.retry_at
    final = await stored(each_resources, waiting)
    assert (final.status, final.attempt, final.failures) == (Status.FAILED, 3, 3)
    assert len(waits) == 2
    assert 8 <= waits[0] <= 12
    assert 48 <= waits[1] <= 72
    assert (await event_types(each_resources, waiting)).count("failed") == 3


async def test_an_attempt_that_was_handed_back_does_not_count(each_resources: Resources, put: Maker):
    waiting = await put()
    for number in range(1, 6):
        export = await claimed(each_resources)
        assert export.attempt == number
        back = await attempts.hand_back(each_resources, export)
        assert back is not None
        assert (back.status, back.retry_at, back.failures) == (Status.QUEUED, None, 0)
    assert (await event_types(each_resources, waiting)).count("started") == 5


async def test_a_timeout_ends_the_export_and_is_not_retried_by_itself(each_resources: Resources, put: Maker):
    await put()
    export = await claimed(each_resources)
    ended = await attempts.time_out(each_resources, export, TIMEOUT)
    assert ended is not None
    assert (ended.status, ended.error, ended.expired_at is not None) == (Status.EXPIRED, TIMEOUT, True)
    assert (await event_types(each_resources, export))[-1] == "timed_out"
    assert await attempts.claim(each_resources) is None


# Fencing


ENDINGS: dict[str, Callable[[Resources, Export], Awaitable[object]]] = {
    "finish": lambda resources, e: attempts.finish(resources, e, export_file(e, e.created_at), ()),
    "fail": lambda resources, e: attempts.fail(resources, e, REFUSED),
    "fail retriable": lambda resources, e: attempts.fail(resources, e, LOST),
    "hand back": attempts.hand_back,
    "time out": lambda resources, e: attempts.time_out(resources, e, TIMEOUT),
    "progress": lambda resources, e: attempts.report_progress(resources, e, SOME),
}


@pytest.mark.parametrize("late", ENDINGS)
async def test_a_worker_that_was_given_up_cannot_write(each_resources: Resources, put: Maker, clock: Clock, late: str):
    await put()
    old = await claimed(each_resources)
    await attempts.hand_back(each_resources, old)
    waiting = await stored(each_resources, old)
    assert not await ENDINGS[late](each_resources, old)
    assert await stored(each_resources, old) == waiting
    running = await claimed(each_resources)
    assert running.attempt == 2
    assert not await ENDINGS[late](each_resources, old)
    assert await stored(each_resources, old) == running
    assert await attempts.report_progress(each_resources, running, SOME)


@pytest.mark.parametrize("late", ENDINGS)
@pytest.mark.parametrize("first", ["finish", "fail", "time out"])
async def test_what_has_ended_is_not_ended_again(each_resources: Resources, put: Maker, first: str, late: str):
    await put()
    export = await claimed(each_resources)
    assert await ENDINGS[first](each_resources, export)
    ended = await stored(each_resources, export)
    said = await ENDINGS[late](each_resources, export)
    assert said == ended if first == late == "finish" else not said, "who finished may say so again"
    assert await stored(each_resources, export) == ended


async def test_of_all_endings_at_once_one_counts(each_resources: Resources, put: Maker, writer: Viewer):
    await put()
    export = await claimed(each_resources)
    endings = [end(each_resources, export) for name, end in ENDINGS.items() if name in {"finish", "fail", "time out"}]
    results = await asyncio.gather(*endings, actions.cancel(each_resources, writer, export.id), return_exceptions=True)
    assert sum(isinstance(result, Export) for result in results) == 1
    assert len(await event_types(each_resources, export)) == 4


async def test_writing_for_what_was_deleted_does_nothing(each_resources: Resources, put: Maker):
    await put()
    export = await claimed(each_resources)
    await rows.remove(each_resources.store, export)
    for end in ENDINGS.values():
        assert not await end(each_resources, export)


# Cancelling


async def test_a_running_export_that_is_cancelled_stops_its_worker(
    each_resources: Resources, put: Maker, writer: Viewer
):
    await put()
    export = await claimed(each_resources)
    assert await attempts.report_progress(each_resources, export, SOME)
    cancelled = await actions.cancel(each_resources, writer, export.id)
    assert (cancelled.status, cancelled.rows_done, cancelled.cancelled_at is not None) == (Status.CANCELLED, 10, True)
    assert not await attempts.report_progress(each_resources, export, replace(SOME, rows_done=20))
    assert await attempts.finish(each_resources, export, export_file(export, export.created_at), ()) is None
    assert await stored(each_resources, export) == cancelled


@pytest.mark.parametrize("status", Status)
async def test_only_what_is_active_is_cancelled(each_resources: Resources, put: Maker, writer: Viewer, status: Status):
    export = await put(status)
    if export.is_active:
        assert (await actions.cancel(each_resources, writer, export.id)).status is Status.CANCELLED
        assert (await event_types(each_resources, export))[-1] == "cancelled"
    else:
        with pytest.raises(IllegalTransition):
            await actions.cancel(each_resources, writer, export.id)
        assert await stored(each_resources, export) == export


async def test_progress_of_a_running_export_keeps_no_other_change_out(
    each_resources: Resources, put: Maker, writer: Viewer
):
    """Progress makes no version, so a cancel that was decided before it is still right after it."""
    await put()
    export = await claimed(each_resources)
    for number in range(5):
        await attempts.report_progress(each_resources, export, replace(SOME, rows_done=20 + number))
    done = await attempts.finish(each_resources, export, export_file(export, export.created_at), ())
    assert done is not None
    assert done.version == export.version + 1


# Retrying by hand


@pytest.mark.parametrize("status", Status)
async def test_what_may_be_retried_by_hand(each_resources: Resources, put: Maker, writer: Viewer, status: Status):
    export = await put(status)
    if status not in {Status.FAILED, Status.EXPIRED}:
        with pytest.raises(IllegalTransition) as refused:
            await actions.retry(each_resources, writer, export.id)
        assert (refused.value.current, refused.value.to) == (status, Status.QUEUED)
        return
    again = await actions.retry(each_resources, writer, export.id)
    assert (again.status, again.failures, again.error, again.version) == (Status.QUEUED, 0, None, export.version + 1)
    assert await stored(each_resources, export) == again
    assert (await claimed(each_resources)).attempt == export.attempt + 1


async def test_an_export_whose_file_aged_out_is_not_retried(each_resources: Resources, put: Maker, writer: Viewer):
    export = await put(Status.EXPIRED, aged_out=True)
    with pytest.raises(IllegalTransition):
        await actions.retry(each_resources, writer, export.id)


async def test_a_retry_in_the_way_of_the_same_order_names_it(each_resources: Resources, put: Maker, writer: Viewer):
    failed = await put(Status.FAILED, order_key="same")
    active = await put(Status.QUEUED, order_key="same")
    with pytest.raises(AlreadyActive, match=active.id) as refused:
        await actions.retry(each_resources, writer, failed.id)
    assert refused.value.export == active
    assert await stored(each_resources, failed) == failed


async def test_retrying_twice_at_once_is_once(each_resources: Resources, put: Maker, writer: Viewer):
    export = await put(Status.FAILED)
    results = await asyncio.gather(
        *(actions.retry(each_resources, writer, export.id) for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(result, Export) for result in results) == 1
    assert (await stored(each_resources, export)).version == export.version + 1


# Deleting, and whose it is


@pytest.mark.parametrize("status", Status)
async def test_what_may_be_deleted(each_resources: Resources, put: Maker, writer: Viewer, status: Status):
    export = await put(status)
    if export.is_active:
        with pytest.raises(IllegalTransition):
            await actions.delete(each_resources, writer, export.id)
        assert await stored(each_resources, export) == export
        return
    before = await event_types(each_resources, export)
    await actions.delete(each_resources, writer, export.id)
    assert await rows.get(each_resources.store, export.id) is None
    assert await event_types(each_resources, export) == before
    if export.file:
        assert not each_resources.storage.path(export.file.key).exists()
    with pytest.raises(NotFound):
        await actions.delete(each_resources, writer, export.id)


async def test_a_deletion_is_hinted_to_open_pages(each_resources: Resources, put: Maker, writer: Viewer):
    export = await put(Status.SUCCESS)
    async with bus.listen(each_resources.redis, bus.CHANNEL) as messages:
        assert bus.is_confirmation(await messages.get_message(timeout=2))
        await actions.delete(each_resources, writer, export.id)
        message = await messages.get_message(timeout=2)
    assert bus.decode(message) == bus.Hint(export.id, writer.id, export.version + 1)


async def test_each_change_is_hinted_after_its_commit(each_resources: Resources, put: Maker):
    waiting = await put()
    async with bus.listen(each_resources.redis, bus.CHANNEL) as messages:
        await messages.get_message(timeout=2)
        export = await claimed(each_resources)
        hint = bus.decode(await messages.get_message(timeout=2))
        assert hint == bus.Hint(waiting.id, export.owner, 3)
        await attempts.hint_progress(each_resources, export)
        assert bus.decode(await messages.get_message(timeout=2)) == bus.Hint(export.id, export.owner, 0)


ACTIONS: dict[str, Callable[[Resources, Viewer, str], Awaitable[object]]] = {
    "get": actions.get,
    "cancel": actions.cancel,
    "retry": actions.retry,
    "delete": actions.delete,
}


@pytest.mark.parametrize("action", ACTIONS)
async def test_somebody_elses_export_is_no_export_at_all(each_resources: Resources, put: Maker, action: str):
    export = await put(Status.FAILED if action in {"retry", "delete"} else Status.QUEUED)
    stranger = await person(each_resources, "stranger")
    boss = await person(each_resources, "boss", Role.ADMIN)
    for wrong in (export.id, "exp_" + "0" * 26, "exp_", "", "' OR 1=1", "\u0000"):
        with pytest.raises(NotFound):
            await ACTIONS[action](each_resources, stranger, wrong)
    assert await stored(each_resources, export) == export
    await ACTIONS[action](each_resources, boss, export.id)


async def test_describing_adds_what_is_true_only_now(each_resources: Resources, put: Maker, clock: Clock):
    waiting = await put()
    [described] = await actions.describe(each_resources, waiting)
    assert (described["queue_position"], described["eta_seconds"]) == (1, None)
    export = await claimed(each_resources)
    clock.move(10)
    await attempts.report_progress(each_resources, export, SOME)
    [described] = await actions.describe(each_resources, await stored(each_resources, export))
    assert (described["queue_position"], described["eta_seconds"], described["progress"]) == (None, 90, 10)


async def test_a_page_of_the_list_tells_where_the_next_one_begins(each_resources: Resources, put: Maker):
    for _ in range(3):
        await put()
    page, following = await actions.list_page(each_resources, rows.ListFilter(), limit=2)
    assert following == (page[-1].created_at, page[-1].id)
    rest, none = await actions.list_page(each_resources, rows.ListFilter(), limit=2, after=following)
    assert (len(page), len(rest), none) == (2, 1, None)
