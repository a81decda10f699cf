"""Rows of `exports` and `events` on both databases: round trips, compare-and-set, pages, filters."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from factories import new_export
from fresh_stores import person

from webapp.domain.access import Viewer
from webapp.domain.annotations import Annotation
from webapp.domain.errors import ErrorCode, ExportError
from webapp.domain.events import snapshot
from webapp.domain.exports import Export, ExportFile, FormatWarning, Lane, Phase, Status
from webapp.resources import Resources
from webapp.store import events
from webapp.store import exports as rows
from webapp.store.database import Store
from webapp.store.exports import ListFilter, Progress

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def second(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


def full_export(owner: str) -> Export:
    """A value in every field, each different from the default. No export in real life has all of them."""
    return Export(
        id="exp_" + "0" * 26,
        owner=owner,
        dataset="things",
        params={"search": "ü 東京 😀 \u0000 \"'\\%_", "most": 2**53, "list": [1, None, 1.5], "nested": {"a": False}},
        format="xlsx",
        options={"timezone": "Europe/Berlin"},
        order_key="key",
        status=Status.PROCESSING,
        version=7,
        created_at=second(0.123),
        attempt=3,
        failures=2,
        phase=Phase.WRITING,
        rows_done=2**40,
        rows_total=2**41,
        bytes=2**42,
        queued_at=second(1),
        started_at=second(2),
        completed_at=second(3),
        expired_at=second(4),
        cancelled_at=second(5),
        heartbeat_at=second(6),
        retry_at=second(7),
        file=ExportFile("ab/c.1.xlsx", "Größe „1“.xlsx", 2**42, 2**41, "f" * 64, "text/csv", second(8.001)),
        error=ExportError(ErrorCode.STORAGE_ERROR, "Nicht möglich.", True),
        warnings=(FormatWarning("CUT", "Gekürzt.", 3), FormatWarning("WIDE", "Wide.", 1)),
        labels={"search": {"ü": "Ü, „groß“"}},
        name="Größe 東京 50 %",
        note='erste Zeile\n"zweite" \\ 😀',
        lane=Lane.SMALL,
    )


async def put(store: Store, owner: Viewer, **changes: Any) -> Export:
    changes.setdefault("created_at", NOON)
    export = new_export(owner.id, changes.pop("created_at"), **changes)
    assert await rows.insert(store, export)
    return export


async def put_queued(store: Store, owner: Viewer, at: float, **changes: Any) -> Export:
    return await put(store, owner, status=Status.QUEUED, queued_at=second(at), **changes)


async def put_running(store: Store, owner: Viewer, **changes: Any) -> Export:
    times = {"queued_at": NOON, "started_at": NOON, "heartbeat_at": NOON}
    return await put(store, owner, status=Status.PROCESSING, attempt=1, **{**times, **changes})


@pytest.fixture
def store(each_resources: Resources) -> Store:
    return each_resources.store


# Round trips


async def test_every_field_reads_back_as_it_was(store: Store, writer: Viewer):
    export = full_export(writer.id)
    defaults = new_export(writer.id, NOON)
    assert all(getattr(export, f.name) != getattr(defaults, f.name) for f in fields(Export) if f.name != "owner"
               and f.name != "dataset")  # fmt: skip
    assert await rows.insert(store, export)
    assert await rows.get(store, export.id) == export
    assert await rows.any_of(store, [export.id, "exp_nothing"]) == [export]


async def test_an_export_without_anything_optional_reads_back_as_it_was(store: Store, writer: Viewer):
    export = await put(store, writer, params={}, options={})
    assert await rows.get(store, export.id) == export


async def test_what_is_not_there_reads_as_none(store: Store):
    assert await rows.get(store, "exp_nothing") is None
    assert await rows.get_active_by_order(store, "nothing") is None
    assert await rows.any_of(store, []) == []


async def test_an_order_is_active_once(store: Store, writer: Viewer):
    first = await put(store, writer, order_key="same")
    assert not await rows.insert(store, new_export(writer.id, NOON, order_key="same"))
    assert await rows.get_active_by_order(store, "same") == first
    done = replace(first, status=Status.CANCELLED, version=2)
    assert await rows.compare_and_set(store, first, done)
    assert await rows.get_active_by_order(store, "same") is None
    assert await rows.insert(store, new_export(writer.id, NOON, order_key="same"))


async def test_an_export_needs_an_owner(store: Store):
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await rows.insert(store, new_export("usr_nobody", NOON))


# Compare and set


async def test_every_field_but_the_id_and_what_it_is_called_can_change(store: Store, writer: Viewer):
    before = await put(store, writer)
    after = replace(full_export(writer.id), id=before.id)
    assert await rows.compare_and_set(store, before, after)
    assert await rows.get(store, before.id) == replace(after, name="", note="")
    assert await rows.annotate(store, before.id, Annotation(after.name, after.note)) == after
    assert await rows.get(store, before.id) == after


@pytest.mark.parametrize("stale", [{"version": 1}, {"version": 3}, {"attempt": 0}, {"attempt": 2}, {"id": "exp_x"}])
async def test_a_stale_version_or_attempt_writes_nothing(store: Store, writer: Viewer, stale: dict[str, Any]):
    export = await put(store, writer, version=2, attempt=1)
    before = replace(export, **stale)
    assert not await rows.compare_and_set(store, before, replace(before, status=Status.QUEUED, version=9))
    assert await rows.get(store, export.id) == export


async def test_of_two_writers_with_the_same_version_one_wins(store: Store, writer: Viewer):
    export = await put(store, writer)
    after = replace(export, status=Status.QUEUED, version=2)
    assert await rows.compare_and_set(store, export, after)
    assert not await rows.compare_and_set(store, export, replace(after, status=Status.CANCELLED))
    assert await rows.get(store, export.id) == after


async def test_a_row_is_removed_only_at_the_version_that_was_seen(store: Store, writer: Viewer):
    export = await put(store, writer, version=2)
    assert not await rows.remove(store, replace(export, version=1))
    assert await rows.remove(store, export)
    assert not await rows.remove(store, export)
    assert await rows.get(store, export.id) is None


# Progress


async def test_progress_and_heartbeat_are_written_without_a_new_version(store: Store, writer: Viewer):
    export = await put_running(store, writer)
    progress = Progress(Phase.READING, 2**33, 2**34, 2**35)
    assert await rows.write_progress(store, export.id, 1, progress, at=second(5))
    assert await rows.get(store, export.id) == replace(
        export, phase=Phase.READING, rows_done=2**33, rows_total=2**34, bytes=2**35, heartbeat_at=second(5)
    )


async def test_rows_and_bytes_only_grow_within_an_attempt(store: Store, writer: Viewer):
    export = await put_running(store, writer)
    assert await rows.write_progress(store, export.id, 1, Progress(Phase.WRITING, 10, 20, 100), at=second(5))
    assert await rows.write_progress(store, export.id, 1, Progress(Phase.WRITING, 4, 20, 40), at=second(6))
    after = await rows.get(store, export.id)
    assert after is not None
    assert (after.rows_done, after.bytes, after.heartbeat_at) == (10, 100, second(6))


@pytest.mark.parametrize("attempt", [0, 2])
async def test_progress_of_another_attempt_writes_nothing(store: Store, writer: Viewer, attempt: int):
    export = await put_running(store, writer)
    assert not await rows.write_progress(store, export.id, attempt, Progress(Phase.READING, 1, 2, 3), at=second(5))
    assert await rows.get(store, export.id) == export


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PROCESSING])
async def test_progress_of_what_does_not_run_writes_nothing(store: Store, writer: Viewer, status: Status):
    export = await put(store, writer, status=status, attempt=1)
    assert not await rows.write_progress(store, export.id, 1, Progress(Phase.READING, 1, 2, 3), at=second(5))
    assert await rows.get(store, export.id) == export


# Lists


async def test_what_matches_is_counted_by_status_and_by_what_may_be_tried_again(
    each_resources: Resources, writer: Viewer
) -> None:
    store = each_resources.store
    kinds = [
        ("a", Status.QUEUED, None), ("a", Status.FAILED, NOON), ("b", Status.FAILED, NOON), ("b", Status.FAILED, NOON),
        ("c", Status.EXPIRED, None), ("d", Status.EXPIRED, NOON), ("e", Status.SUCCESS, NOON),
    ]  # fmt: skip
    async with store.transaction():
        for n, (key, status, completed_at) in enumerate(kinds):
            export = new_export(writer.id, second(n), order_key=key)
            await rows.insert(store, replace(export, status=status, completed_at=completed_at))
        await rows.insert(store, new_export(writer.id, second(99), order_key="too late", dataset="others"))
    before = (second(50), "exp_0")
    async with store.connection():
        found = await rows.count_by_status(store, ListFilter(owner=writer.id), before=before)
        retriable = await rows.retriable(store, ListFilter(), before=before)
        none = await rows.retriable(store, ListFilter(text="nothing 100%"), before=before)
        active = await rows.active_by_owner(store)
    assert found == {Status.QUEUED: 1, Status.FAILED: 3, Status.EXPIRED: 2, Status.SUCCESS: 1}
    assert retriable == {writer.id: rows.Retriable(exports=4, timed_out=1, orders=2)}
    assert (none, active) == ({}, {writer.id: 2})


async def ids(store: Store, chosen: ListFilter, *, limit: int = 100) -> list[str]:
    return [export.id for export in await rows.list_page(store, chosen, limit=limit, after=None)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
async def test_paging_visits_everything_once_in_order_although_times_are_equal(store: Store, writer: Viewer, size: int):
    made = [await put(store, writer, created_at=second(n // 5)) for n in range(17)]
    random.Random(1).shuffle(made)
    visited: list[Export] = []
    after = None
    while page := await rows.list_page(store, ListFilter(), limit=size, after=after):
        assert len(page) <= size
        visited += page
        after = (page[-1].created_at, page[-1].id)
    assert visited == sorted(made, key=lambda export: (export.created_at, export.id), reverse=True)


async def test_what_is_ordered_meanwhile_does_not_disturb_the_pages(store: Store, writer: Viewer):
    made = [await put(store, writer, created_at=second(n)) for n in range(4)]
    first = await rows.list_page(store, ListFilter(), limit=2, after=None)
    await put(store, writer, created_at=second(10))
    rest = await rows.list_page(store, ListFilter(), limit=9, after=(first[-1].created_at, first[-1].id))
    assert [e.id for e in [*first, *rest]] == [e.id for e in reversed(made)]


async def test_each_filter_and_all_together(store: Store, each_resources: Resources, writer: Viewer):
    other = await person(each_resources, "somebody")
    queued = await put(store, writer, status=Status.QUEUED, created_at=second(1))
    failed = await put(store, writer, status=Status.FAILED, created_at=second(2), dataset="other", format="xlsx")
    theirs = await put(store, other, status=Status.FAILED, created_at=second(3), params={"search": "needle"})
    newest_first = [theirs.id, failed.id, queued.id]
    expected: list[tuple[ListFilter, list[str]]] = [
        (ListFilter(), newest_first),
        (ListFilter(owner=writer.id), [failed.id, queued.id]),
        (ListFilter(owner="usr_nobody"), []),
        (ListFilter(statuses=(Status.FAILED,)), [theirs.id, failed.id]),
        (ListFilter(statuses=(Status.FAILED, Status.QUEUED)), newest_first),
        (ListFilter(statuses=(Status.SUCCESS,)), []),
        (ListFilter(dataset="other"), [failed.id]),
        (ListFilter(format="csv"), [theirs.id, queued.id]),
        (ListFilter(since=second(2)), [theirs.id, failed.id]),
        (ListFilter(since=second(2.001)), [theirs.id]),
        (ListFilter(text="needle"), [theirs.id]),
        (ListFilter(text=queued.id), [queued.id]),
        (ListFilter(text="other"), [failed.id]),
        (ListFilter(other.id, (Status.FAILED,), "things", "csv", second(3), "NEEDLE"), [theirs.id]),
        (ListFilter(other.id, (Status.FAILED,), "other", "csv", second(3), "NEEDLE"), []),
    ]
    for chosen, wanted in expected:
        assert await ids(store, chosen) == wanted, chosen


async def test_a_filter_holds_on_every_page(store: Store, writer: Viewer):
    made = [await put(store, writer, created_at=NOON, format=("csv", "jsonl")[n % 2]) for n in range(10)]
    first = await rows.list_page(store, ListFilter(format="csv"), limit=3, after=None)
    rest = await rows.list_page(store, ListFilter(format="csv"), limit=9, after=(NOON, first[-1].id))
    assert {e.id for e in [*first, *rest]} == {e.id for e in made if e.format == "csv"}


NAMES = [
    "100%", "100 percent", "a_b", "axb", "a/b", "a\\b", "München", "MÜNCHEN", "Ärger", "東京", "O'Hara", 'say "x"',
    "emoji 😀", "tab\tbed", "nul\u0000byte", "ΣΊΣΥΦΟΣ",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("100%", ["100%"]),
        ("%", ["100%"]),
        ("d_", []),
        ("a_b", ["a_b"]),
        ("/", ["a/b"]),
        ("a/b", ["a/b"]),
        ("\\", ["a\\b"]),
        ("a\\b", ["a\\b"]),
        ("münchen", ["München", "MÜNCHEN"]),
        ("München", ["München", "MÜNCHEN"]),
        ("MÜNCHEN", ["München", "MÜNCHEN"]),
        ("ärger", ["Ärger"]),
        ("Ä", ["Ärger"]),
        ("東", ["東京"]),
        ("o'hara", ["O'Hara"]),
        ('"x"', ['say "x"']),
        ("😀", ["emoji 😀"]),
        ("tab\tbed", ["tab\tbed"]),
        ("nul\u0000byte", ["nul\u0000byte"]),
        ("ΣΊΣΥΦΟΣ", ["ΣΊΣΥΦΟΣ"]),
        ("Percent", ["100 percent"]),
        ("nowhere", []),
        ("x" * 60_000, []),
        ("'; DROP TABLE exports; --", []),
    ],
)
async def test_text_is_found_as_it_is_written(store: Store, writer: Viewer, text: str, found: list[str]):
    async with store.transaction():
        for name in NAMES:
            await put(store, writer, dataset="d", params={"p": name})
    hits = await rows.list_page(store, ListFilter(text=text), limit=100, after=None)
    assert {export.params["p"] for export in hits} == set(found)


# Counts


async def test_active_exports_are_counted_for_one_person(store: Store, each_resources: Resources, writer: Viewer):
    other = await person(each_resources, "somebody")
    for status in Status:
        await put(store, writer, status=status)
    assert await rows.count_active(store, writer.id) == 3
    assert await rows.count_active(store, other.id) == 0
    assert await rows.exists_any(store, writer.id)
    assert not await rows.exists_any(store, other.id)


# What the sweep looks for


async def found(query: Any) -> set[str]:
    return {export.id for export in await query}


async def test_the_sweep_finds_what_is_late_and_nothing_else(store: Store, writer: Viewer):
    file = full_export(writer.id).file
    pending = await put(store, writer, created_at=second(1))
    await put(store, writer, created_at=second(9))
    queued = await put_queued(store, writer, 1)
    due = await put_queued(store, writer, 1, retry_at=second(10))
    await put_queued(store, writer, 1, retry_at=second(11))
    await put_queued(store, writer, 9)
    running = await put_running(store, writer, started_at=second(1), heartbeat_at=second(1))
    await put_running(store, writer, started_at=second(9), heartbeat_at=second(9))
    old = await put(store, writer, status=Status.SUCCESS, file=file)
    await put(store, writer, status=Status.SUCCESS, file=replace(file, expires_at=second(99)))  # type: ignore[type-var]
    await put(store, writer, status=Status.SUCCESS)
    assert await found(rows.stuck_pending(store, created_before=second(5), limit=9)) == {pending.id}
    waiting = rows.waiting(store, queued_before=second(5), due=second(10), limit=9)
    assert await found(waiting) == {queued.id, due.id}
    assert await found(rows.without_heartbeat(store, since=second(5), limit=9)) == {running.id}
    assert await found(rows.started_before(store, second(5), limit=9)) == {running.id}
    assert await found(rows.past_retention(store, now=second(10), limit=9)) == {old.id}
    assert len(await rows.started_before(store, second(50), limit=1)) == 1


# Events


async def test_an_event_reads_back_and_its_numbers_grow(store: Store, writer: Viewer):
    export = replace(full_export(writer.id), version=1)
    await events.record(store, export, at=second(1), base_url="http://desk")
    await events.record(store, replace(export, version=2), at=second(2), base_url="http://desk")
    first, last = await events.page(store)
    assert first.data == snapshot(export, base_url="http://desk")
    assert (first.type, first.export_id, first.owner) == ("export.started", export.id, writer.id)
    assert (first.version, last.version, first.timestamp) == (1, 2, second(1))
    assert first.seq < last.seq == await events.latest_seq(store) == await events.latest_seq(store, writer.id)
    assert await events.get(store, first.id) == await events.at(store, first.seq) == first
    assert await events.latest_seq(store, "usr_nobody") == 0


async def test_a_version_has_one_event(store: Store, writer: Viewer):
    await events.record(store, full_export(writer.id), at=NOON, base_url="http://desk")
    with pytest.raises(Exception, match=r"(?i)unique"):
        await events.record(store, full_export(writer.id), at=NOON, base_url="http://desk")


async def test_events_are_paged_and_purged_oldest_first(store: Store, writer: Viewer):
    async with store.transaction():
        for n in range(10):
            export = new_export(writer.id if n % 2 else "usr_x", NOON, version=n)
            await events.record(store, export, at=second(n), base_url="http://desk")
    page = await events.page(store, limit=4)
    assert [e.version for e in page] == [0, 1, 2, 3]
    assert [e.version for e in await events.page(store, after=page[-1].seq)] == [4, 5, 6, 7, 8, 9]
    assert [e.version for e in await events.page(store, owner=writer.id)] == [1, 3, 5, 7, 9]
    assert [e.version for e in await events.page(store, export_id=page[2].export_id)] == [2]
    last = await events.latest_seq(store)
    assert await events.purge(store, before=second(9), limit=5) == 5
    assert await events.purge(store, before=second(9), limit=5) == 4
    assert await events.purge(store, before=second(9), limit=5) == 0
    assert [e.version for e in await events.page(store)] == [9]
    assert await events.purge(store, before=second(99), limit=5) == 1
    await events.record(store, full_export(writer.id), at=second(99), base_url="http://desk")
    assert await events.latest_seq(store) == last + 1  # a number is never used twice, not even the highest
