"""Random histories against the real store: whatever people, workers and the sweep do, the rules hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from factories import export_file, new_export
from fresh_stores import Clock, person
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, select, text

from webapp.actions import attempts
from webapp.actions import exports as actions
from webapp.actions.exports import AlreadyActive, Order
from webapp.actions.sweep import sweep
from webapp.domain import limits
from webapp.domain.access import NotFound, QuotaExceeded, Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.exports import ACTIVE, Export, IllegalTransition, Phase, Status
from webapp.domain.formats import API_DEFAULTS
from webapp.domain.turns import aged_before
from webapp.resources import Resources, open_resources
from webapp.settings import Settings
from webapp.store import exports as rows
from webapp.store import tables
from webapp.store.exports import Progress

LOST = export_error(ErrorCode.WORKER_LOST)
REFUSED = export_error(ErrorCode.QUERY_ERROR, detail="no such table: things")
TIMEOUT = export_error(ErrorCode.TIMEOUT, limit="20 seconds")
MAX_RUNNING, MAX_ACTIVE, MAX_ATTEMPTS = 2, 3, 3

WEEK = 7 * 86400  # as long as files are kept
PEOPLE, ORDERS, PICKS = st.integers(0, 1), st.integers(0, 3), st.integers(0, 59)
NOTHING = new_export("usr_nobody", datetime(2026, 1, 1, tzinfo=UTC))

# From domain.md: which event type may follow which in the history of one export.
FOLLOWS: dict[str | None, set[str]] = {
    None: {"created"},
    "created": {"queued", "cancelled"},
    "queued": {"started", "cancelled"},
    "started": {"succeeded", "failed", "timed_out", "cancelled"},
    "succeeded": {"expired"},
    "failed": {"queued"},
    "timed_out": {"queued"},
    "expired": set(),
    "cancelled": set(),
}
STATUS_AFTER = {
    "created": Status.PENDING,
    "queued": Status.QUEUED,
    "started": Status.PROCESSING,
    "succeeded": Status.SUCCESS,
    "failed": Status.FAILED,
    "timed_out": Status.EXPIRED,
    "expired": Status.EXPIRED,
    "cancelled": Status.CANCELLED,
}


@dataclass
class Model:
    """What we hold to be true of one export."""

    owner: Viewer
    order_key: str
    status: Status
    version: int
    queued_at: datetime
    created_at: datetime
    attempt: int = 0
    failures: int = 0
    timed_out: bool = False
    started_at: datetime | None = None
    heartbeat_at: datetime | None = None
    retry_at: datetime | None = None
    file_until: datetime | None = None
    rows_done: int = 0

    def to(self, status: Status, versions: int = 1) -> None:
        self.status, self.version = status, self.version + versions
        if status is Status.QUEUED:
            self.started_at = None


class World:
    """One opened database for all examples of a test, emptied between them."""

    def __init__(self, chosen: Settings) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.settings = replace(
            chosen,
            max_running_per_user=MAX_RUNNING,
            max_active_per_user=MAX_ACTIVE,
            event_retention=timedelta(days=36500),
        )

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    async def open(self) -> None:
        self.resources: Resources = await self.stack.enter_async_context(open_resources(self.settings))
        self.clock = await Clock.of(self.resources.store)
        self.start = self.clock.at
        self.people = [await person(self.resources, name) for name in ("ann", "bob")]

    async def empty(self) -> None:
        self.clock.at = self.start
        async with self.resources.store.transaction():
            for table in (tables.exports, tables.events, tables.idempotency_keys):
                await self.resources.store.execute(delete(table))

    def close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()


class Histories(RuleBasedStateMachine):
    world: ClassVar[World]

    @initialize(orders=st.lists(st.tuples(PEOPLE, ORDERS), min_size=3, max_size=6))
    def some_orders(self, orders: list[tuple[int, int]]) -> None:
        self.run(self.world.empty())
        self.models: dict[str, Model] = {}
        self.histories: dict[str, list[str]] = {}
        self.deleted: list[str] = []
        self.attempts: list[Export] = []
        """As the workers that claimed them remember them: stale as soon as anything else happened."""
        for who, number in orders:
            self.order(who, number, True)

    def one(self, pick: int) -> str:
        """The id of an export, rarely of one that was deleted."""
        ids = [*self.models, *self.deleted[-1:], "exp_" + "0" * 26]
        return ids[pick % len(ids)]

    @property
    def resources(self) -> Resources:
        return self.world.resources

    @property
    def now(self) -> datetime:
        return self.world.clock.at

    def run(self, work: Any) -> Any:
        return self.world.run(work)

    def running(self, owner: Viewer) -> int:
        return sum(m.owner == owner and m.status is Status.PROCESSING for m in self.models.values())

    def active(self, owner: Viewer) -> int:
        return sum(m.owner == owner and m.status in ACTIVE for m in self.models.values())

    def active_as(self, order_key: str) -> list[str]:
        return [id for id, m in self.models.items() if m.order_key == order_key and m.status in ACTIVE]

    def is_current(self, attempt: Export) -> bool:
        model = self.models.get(attempt.id)
        return model is not None and (model.status, model.attempt) == (Status.PROCESSING, attempt.attempt)

    # People

    @rule(who=PEOPLE, number=ORDERS, hand_over=st.booleans())
    def order(self, who: int, number: int, hand_over: bool) -> None:
        """Sometimes the process dies between the commit and the queue."""
        owner = self.world.people[who]
        wanted = Order("slow" if number == 0 else "things", {"most": number} if number else {}, "csv", {})
        real = actions.hand_over
        if not hand_over:
            actions.hand_over = rows_get  # type: ignore[assignment]
        try:
            export, is_new = self.run(actions.order(self.resources, owner, wanted, defaults=API_DEFAULTS))
        except QuotaExceeded:
            assert self.active(owner) >= MAX_ACTIVE
            return
        finally:
            actions.hand_over = real
        same = self.active_as(export.order_key)
        assert is_new == (not same)
        if not is_new:
            assert [export.id] == same
            return
        assert self.active(owner) < MAX_ACTIVE
        self.models[export.id] = model = Model(owner, export.order_key, Status.PENDING, 1, self.now, self.now)
        if hand_over:
            model.to(Status.QUEUED)

    @rule(pick=PICKS)
    def hand_over(self, pick: int) -> None:
        id = self.one(pick)
        model = self.models.get(id)
        if model is None:
            with pytest.raises(NotFound):
                self.run(actions.hand_over(self.resources, id))
            return
        self.run(actions.hand_over(self.resources, id))
        if model.status is Status.PENDING:
            model.to(Status.QUEUED)
            model.queued_at = self.now

    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        id = self.one(pick)
        model = self.models.get(id)
        if model is None or model.status not in ACTIVE:
            with pytest.raises(IllegalTransition if model else NotFound):
                self.run(actions.cancel(self.resources, self.world.people[0] if not model else model.owner, id))
            return
        self.run(actions.cancel(self.resources, model.owner, id))
        model.to(Status.CANCELLED)

    @rule(pick=PICKS)
    def retry(self, pick: int) -> None:
        self.retry_one(self.one(pick))

    def retry_one(self, id: str) -> None:
        model = self.models.get(id)
        if model is None:
            return
        may = model.status is Status.FAILED or (model.status is Status.EXPIRED and model.timed_out)
        try:
            self.run(actions.retry(self.resources, model.owner, id))
        except IllegalTransition:
            assert not may
        except AlreadyActive as refused:
            other = refused.export.id
            assert may
            assert [other] == self.active_as(model.order_key)
        except QuotaExceeded:
            assert may
            assert self.active(model.owner) >= MAX_ACTIVE
        else:
            assert may
            assert self.active(model.owner) < MAX_ACTIVE
            model.to(Status.QUEUED)
            model.failures, model.queued_at, model.retry_at = 0, self.now, None
            model.timed_out, model.rows_done = False, 0

    @rule(pick=PICKS)
    def delete(self, pick: int) -> None:
        id = self.one(pick)
        model = self.models.get(id)
        if model is None or model.status in ACTIVE:
            with pytest.raises(IllegalTransition if model else NotFound):
                self.run(actions.delete(self.resources, self.world.people[0] if not model else model.owner, id))
            return
        self.run(actions.delete(self.resources, model.owner, id))
        del self.models[id]
        self.deleted.append(id)

    # Workers

    @rule(times=st.integers(1, 4))
    def claim(self, times: int) -> None:
        for _ in range(times):
            self.claim_one()

    def claim_one(self) -> None:
        export = self.run(attempts.claim(self.resources))
        due = [
            (self.running(m.owner), m.queued_at > aged_before(self.now), self.waits_since(m), m.queued_at, id)
            for id, m in self.models.items()
            if m.status is Status.QUEUED
            and (m.retry_at is None or m.retry_at <= self.now)
            and self.running(m.owner) < MAX_RUNNING
        ]
        if export is None:
            assert due == []
            return
        assert export.id == min(due)[-1]
        model = self.models[export.id]
        model.to(Status.PROCESSING)
        model.attempt += 1
        model.started_at = model.heartbeat_at = self.now
        model.rows_done, model.retry_at = 0, None
        self.attempts.append(export)

    def waits_since(self, model: Model) -> datetime:
        """When it was queued, or its owner was last served if that is later."""
        return max(
            model.queued_at, *(m.started_at or self.world.start for m in self.models.values() if m.owner == model.owner)
        )

    def attempt(self, pick: int) -> Export:
        """One of the latest attempts, running or not; an attempt of nothing when there was none."""
        latest = self.attempts[-6:]
        return latest[pick % len(latest)] if latest else NOTHING

    @rule(pick=PICKS, done=st.integers(0, 100))
    def progress(self, pick: int, done: int) -> None:
        attempt = self.attempt(pick)
        told = self.run(attempts.report_progress(self.resources, attempt, Progress(Phase.READING, done, 100, done)))
        assert told == self.is_current(attempt)
        if told:
            model = self.models[attempt.id]
            model.heartbeat_at, model.rows_done = self.now, max(model.rows_done, done)

    @rule(pick=PICKS)
    def finish(self, pick: int) -> None:
        attempt = self.attempt(pick)
        file = export_file(attempt, self.now)
        is_current, model = self.is_current(attempt), self.models.get(attempt.id)
        is_known = model is not None and (model.status, model.attempt) == (Status.SUCCESS, attempt.attempt)
        done = self.run(attempts.finish(self.resources, attempt, file, ()))
        assert (done is not None) == (is_current or is_known)
        if model and is_current:
            model.to(Status.SUCCESS)
            model.file_until, model.rows_done = self.now + self.world.settings.file_retention, file.rows

    @rule(pick=PICKS, retriable=st.booleans())
    def fail(self, pick: int, retriable: bool) -> None:
        attempt = self.attempt(pick)
        after = self.run(attempts.fail(self.resources, attempt, LOST if retriable else REFUSED))
        assert (after is not None) == self.is_current(attempt)
        if after:
            self.failed(self.models[attempt.id], after, retriable)

    def failed(self, model: Model, after: Export, retriable: bool) -> None:
        model.failures += 1
        model.to(Status.FAILED)
        if retriable and model.failures < MAX_ATTEMPTS:
            model.to(Status.QUEUED)
            wait = limits.RETRY_WAITS[model.failures - 1]
            assert after.retry_at is not None
            assert wait * 0.79 <= (after.retry_at - self.now).total_seconds() <= wait * 1.21
            model.queued_at, model.retry_at, model.rows_done = self.now, after.retry_at, 0

    @rule(pick=PICKS)
    def hand_back(self, pick: int) -> None:
        attempt = self.attempt(pick)
        after = self.run(attempts.hand_back(self.resources, attempt))
        assert (after is not None) == self.is_current(attempt)
        if after:
            model = self.models[attempt.id]
            model.to(Status.QUEUED, versions=2)
            model.queued_at, model.rows_done = self.now, 0

    @rule(pick=PICKS)
    def time_out(self, pick: int) -> None:
        attempt = self.attempt(pick)
        after = self.run(attempts.time_out(self.resources, attempt, TIMEOUT))
        assert (after is not None) == self.is_current(attempt)
        if after:
            self.models[attempt.id].to(Status.EXPIRED)
            self.models[attempt.id].timed_out = True

    # Time and the sweep

    @rule(seconds=st.sampled_from([0.5, 6, 11, 13, 36, 80, WEEK]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.move(seconds)

    @rule(times=st.integers(1, 2))
    def sweep(self, times: int) -> None:
        """Two at once do what one does."""
        before = {id: (m.status, m.version) for id, m in self.models.items()}

        async def at_once() -> None:
            await asyncio.gather(*(sweep(self.resources) for _ in range(times)))

        self.run(at_once())
        stored = {e.id: e for e in self.run(rows.any_of(self.resources.store, list(self.models)))}
        for id in before:
            self.swept(self.models[id], stored[id])

    def swept(self, model: Model, stored: Export) -> None:
        if model.status is Status.PENDING and self.late(model.created_at, limits.PENDING_STUCK_AFTER):
            model.to(Status.QUEUED)
            model.queued_at = self.now
        elif model.status is Status.PROCESSING and self.late(model.heartbeat_at, limits.HEARTBEAT_LOST_AFTER):
            self.failed(model, stored, True)
        elif model.status is Status.PROCESSING and self.late(
            model.started_at, self.limit_of(stored) + limits.EXECUTION_GRACE
        ):
            model.to(Status.EXPIRED)
            model.timed_out = True
        elif model.status is Status.SUCCESS and model.file_until is not None and model.file_until <= self.now:
            model.to(Status.EXPIRED)

    def late(self, since: datetime | None, seconds: float) -> bool:
        return since is not None and self.now - since > timedelta(seconds=seconds)

    def limit_of(self, export: Export) -> float:
        return 20 if export.dataset == "slow" else self.world.settings.execution_limit.total_seconds()

    # Longer stories, which single steps would seldom make

    @rule(times=st.integers(1, 3))
    def keeps_failing(self, times: int) -> None:
        for _ in range(times):
            self.claim_one()
            self.fail(-1, True)
            self.time_passes(80)

    @rule(again=st.booleans())
    def grows_old(self, again: bool) -> None:
        self.claim_one()
        self.finish(-1)
        self.time_passes(WEEK)
        self.sweep(1)
        if again and self.attempts:
            self.retry_one(self.attempts[-1].id)

    @rule(who=PEOPLE, number=ORDERS)
    def is_ordered_again_and_then_retried(self, who: int, number: int) -> None:
        self.claim_one()
        self.fail(-1, False)
        self.order(who, number, True)
        if self.attempts:
            self.retry_one(self.attempts[-1].id)

    # What always holds

    @invariant()
    def the_store_is_as_we_hold_it_to_be(self) -> None:
        found = self.run(self.resources.store.fetch_all(select(tables.exports)))
        assert {row["id"] for row in found} == set(self.models)
        for row in found:
            model = self.models[row["id"]]
            assert (row["status"], row["version"]) == (model.status.value, model.version)
            assert (row["attempt"], row["failures"]) == (model.attempt, model.failures)
            assert (row["active_key"] is not None) == (model.status in ACTIVE)
            assert row["rows_done"] == model.rows_done
            assert (row["file"] is not None) == (model.status is Status.SUCCESS)
        keys = [row["active_key"] for row in found if row["active_key"]]
        assert len(keys) == len(set(keys))
        for owner in self.world.people:
            assert self.running(owner) <= MAX_RUNNING
            assert self.active(owner) <= MAX_ACTIVE

    @invariant()
    def every_change_has_its_event(self) -> None:
        query = text("SELECT export_id, version, type FROM events WHERE export_id IS NOT NULL ORDER BY export_id, seq")
        histories: dict[str, list[str]] = {}
        for row in self.run(self.resources.store.fetch_all(query)):
            history = histories.setdefault(row["export_id"], [])
            history.append(row["type"].removeprefix("export."))
            assert row["version"] == len(history)
        assert set(histories) == {*self.models, *self.deleted}
        for id, history in histories.items():
            assert all(after in FOLLOWS[before] for before, after in zip([None, *history], history, strict=False))
            assert history[: len(self.histories.get(id, []))] == self.histories.get(id, [])
            if model := self.models.get(id):
                assert model.version == len(history)
                assert model.status is STATUS_AFTER[history[-1]]
        self.histories = histories


async def rows_get(resources: Resources, export_id: str) -> Export:
    """In the place of handing over: the process died before it."""
    export = await rows.get(resources.store, export_id)
    assert export is not None
    return export


@pytest.fixture
def world(each_settings: Settings) -> Iterator[World]:
    made = World(each_settings)
    try:
        made.run(made.open())
        yield made
    finally:
        made.close()


EXAMPLES = {"sqlite": 40, "postgresql": 20}


def test_no_history_breaks_the_rules(world: World, database_kind: str):
    Histories.world = world
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=EXAMPLES[database_kind],
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
