"""The status machine, every pair of it, and what may be said about an export: pure functions only."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise, product
from typing import Any

import pytest
from factories import export_file, history, new_export
from hypothesis import given
from hypothesis import strategies as st

from webapp.datasets.columns import unique_names
from webapp.domain import exports
from webapp.domain.errors import RETRIABLE, SENTENCES, ErrorCode, export_error
from webapp.domain.events import EVENT_TYPES, event_type, rfc3339, snapshot
from webapp.domain.exports import (
    STAGE_TIME,
    Export,
    FormatWarning,
    IllegalTransition,
    Phase,
    Status,
    eta_seconds,
    may_move,
    move,
    progress,
    rate,
    retry_wait,
    should_retry,
)
from webapp.domain.ids import ALPHABET, is_id, new_id
from webapp.domain.limits import retry_after
from webapp.domain.turns import Place

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOON + timedelta(seconds=10)
TIMEOUT = export_error(ErrorCode.TIMEOUT, limit="30 minutes")
RETENTION = export_error(ErrorCode.RETENTION)
LOST = export_error(ErrorCode.WORKER_LOST)

# Written out from domain.md, and on purpose not taken from the code: (from, to) → whether an export may move.
LEGAL = {
    (Status.PENDING, Status.QUEUED),
    (Status.PENDING, Status.CANCELLED),
    (Status.QUEUED, Status.PROCESSING),
    (Status.QUEUED, Status.CANCELLED),
    (Status.PROCESSING, Status.SUCCESS),
    (Status.PROCESSING, Status.FAILED),
    (Status.PROCESSING, Status.EXPIRED),
    (Status.PROCESSING, Status.CANCELLED),
    (Status.SUCCESS, Status.EXPIRED),
    (Status.FAILED, Status.QUEUED),
    (Status.EXPIRED, Status.QUEUED),
}


def an_export(status: Status, **changes: Any) -> Export:
    """EXPIRED is a timeout; see `aged_out` for the other kind."""
    return replace(history(new_export("usr_1", NOON), status, NOON)[-1], **changes)


def aged_out() -> Export:
    return exports.expire(an_export(Status.SUCCESS), RETENTION, at=NOON)


@pytest.mark.parametrize(("current", "to"), list(product(Status, Status)))
def test_every_pair_of_statuses(current: Status, to: Status):
    export = an_export(current)
    if (current, to) in LEGAL:
        assert may_move(export, to)
        after = move(export, to, at=LATER)
        assert (after.status, after.version) == (to, export.version + 1)
        assert getattr(after, STAGE_TIME[to]) == LATER
        others = {name for name in STAGE_TIME.values() if name != STAGE_TIME[to]}
        assert all(getattr(after, name) == getattr(export, name) for name in others)
    else:
        assert not may_move(export, to)
        with pytest.raises(IllegalTransition) as refused:
            move(export, to, at=LATER)
        assert (refused.value.current, refused.value.to) == (current, to)
        assert current in str(refused.value)
        assert to in str(refused.value)


@pytest.mark.parametrize("to", Status)
def test_an_export_whose_file_aged_out_never_changes_again(to: Status):
    assert not may_move(aged_out(), to)
    with pytest.raises(IllegalTransition):
        move(aged_out(), to, at=LATER)


def test_an_expired_export_without_an_error_is_not_queued_again():
    assert not may_move(an_export(Status.EXPIRED, error=None), Status.QUEUED)


def test_each_status_has_its_own_stage_time():
    assert STAGE_TIME == {
        Status.PENDING: "created_at",
        Status.QUEUED: "queued_at",
        Status.PROCESSING: "started_at",
        Status.SUCCESS: "completed_at",
        Status.FAILED: "completed_at",
        Status.EXPIRED: "expired_at",
        Status.CANCELLED: "cancelled_at",
    }


VERBS: dict[str, tuple[Status, Callable[[Export], Export]]] = {
    "queue": (Status.QUEUED, lambda e: exports.queue(e, at=LATER)),
    "start": (Status.PROCESSING, lambda e: exports.start(e, at=LATER)),
    "succeed": (Status.SUCCESS, lambda e: exports.succeed(e, export_file(e, LATER), (), at=LATER)),
    "fail": (Status.FAILED, lambda e: exports.fail(e, LOST, at=LATER)),
    "time_out": (Status.EXPIRED, lambda e: exports.time_out(e, TIMEOUT, at=LATER)),
    "expire": (Status.EXPIRED, lambda e: exports.expire(e, RETENTION, at=LATER)),
    "cancel": (Status.CANCELLED, lambda e: exports.cancel(e, at=LATER)),
    "retry_by_hand": (Status.QUEUED, lambda e: exports.retry_by_hand(e, at=LATER)),
    "retry_by_policy": (Status.QUEUED, lambda e: exports.retry_by_policy(e, at=LATER, wait=10)),
}


@pytest.mark.parametrize(("verb", "current"), list(product(VERBS, Status)))
def test_every_verb_goes_through_the_table(verb: str, current: Status):
    to, act = VERBS[verb]
    export = an_export(current)
    if (current, to) not in LEGAL:
        with pytest.raises(IllegalTransition):
            act(export)
        return
    after = act(export)
    assert (after.status, after.version, getattr(after, STAGE_TIME[to])) == (to, export.version + 1, LATER)


def test_flags_for_buttons_agree_with_the_table():
    active = {Status.PENDING, Status.QUEUED, Status.PROCESSING}
    assert {s for s in Status if an_export(s).is_active} == active
    assert {s for s in Status if an_export(s).can_cancel} == active
    assert {s for s in Status if an_export(s).can_retry} == {Status.FAILED, Status.EXPIRED}
    assert {s for s in Status if an_export(s).can_download} == {Status.SUCCESS}
    assert not aged_out().can_retry
    assert not aged_out().can_download


def test_a_new_attempt_starts_clean():
    before = an_export(Status.QUEUED, attempt=2, rows_done=7, rows_total=9, bytes=5, retry_at=NOON, error=LOST,
                       warnings=(FormatWarning("CUT", "cut", 1),), phase=Phase.READING)  # fmt: skip
    after = exports.start(before, at=LATER)
    assert after.attempt == 3
    assert (after.rows_done, after.rows_total, after.bytes, after.phase) == (0, None, 0, None)
    assert (after.retry_at, after.error, after.warnings, after.heartbeat_at) == (None, None, (), LATER)


def test_success_carries_the_file_and_its_numbers():
    before = an_export(Status.PROCESSING, phase=Phase.WRITING, rows_done=0)
    file = export_file(before, LATER)
    warnings = (FormatWarning("CUT", "cut", 1),)
    after = exports.succeed(before, file, warnings, at=LATER)
    assert (after.file, after.warnings, after.phase) == (file, warnings, None)
    assert (after.rows_done, after.rows_total, after.bytes) == (file.rows, file.rows, file.size)


def test_failure_counts_and_a_retry_by_hand_starts_counting_again():
    failed = exports.fail(an_export(Status.PROCESSING, failures=1), LOST, at=LATER)
    assert (failed.failures, failed.error) == (2, LOST)
    again = exports.retry_by_hand(failed, at=LATER)
    assert (again.failures, again.error, again.retry_at) == (0, None, None)
    assert (again.started_at, again.completed_at, again.heartbeat_at) == (None, None, None)


def test_a_retry_by_policy_waits_and_keeps_the_reason():
    failed = exports.fail(an_export(Status.PROCESSING, rows_done=4, rows_total=9), LOST, at=LATER)
    again = exports.retry_by_policy(failed, at=LATER, wait=12.5)
    assert (again.retry_at, again.error, again.failures) == (LATER + timedelta(seconds=12.5), LOST, 1)
    assert (again.rows_done, again.rows_total, again.started_at, again.completed_at) == (0, None, None, None)


def test_a_retried_timeout_is_no_longer_expired():
    assert exports.retry_by_hand(an_export(Status.EXPIRED), at=LATER).expired_at is None


def test_cancelling_takes_back_the_retry_time_and_its_reason():
    cancelled = exports.cancel(an_export(Status.QUEUED, retry_at=LATER, error=LOST), at=LATER)
    assert (cancelled.retry_at, cancelled.phase, cancelled.error) == (None, None, None)


def test_when_the_file_is_gone_its_description_is_too():
    assert (aged_out().file, aged_out().error) == (None, RETENTION)


# Progress


@pytest.mark.parametrize(
    ("status", "done", "total", "percent"),
    [
        (Status.PENDING, 0, None, 0),
        (Status.QUEUED, 0, None, 0),
        (Status.QUEUED, 50, 100, 0),
        (Status.PROCESSING, 0, None, None),
        (Status.PROCESSING, 5, None, None),
        (Status.PROCESSING, 0, 0, None),
        (Status.PROCESSING, 0, 100, 0),
        (Status.PROCESSING, 1, 3, 33),
        (Status.PROCESSING, 999, 1000, 99),
        (Status.PROCESSING, 1000, 1000, 99),
        (Status.PROCESSING, 5000, 1000, 99),
        (Status.SUCCESS, 0, 0, 100),
        (Status.SUCCESS, 10, 10, 100),
        (Status.FAILED, 50, 100, 50),
        (Status.FAILED, 100, 100, 99),
        (Status.FAILED, 1, None, None),
        (Status.CANCELLED, 0, None, None),
        (Status.CANCELLED, 20, 80, 25),
        (Status.EXPIRED, 60, 100, 60),
        (Status.EXPIRED, 100, 100, 99),
    ],
)
def test_percent(status: Status, done: int, total: int | None, percent: int | None):
    assert progress(an_export(status, rows_done=done, rows_total=total)) == percent


def test_an_export_whose_file_aged_out_has_no_progress():
    assert progress(aged_out()) is None


big = st.integers(0, 2**62)


@given(st.sampled_from(Status), big, st.none() | big)
def test_percent_is_0_to_100_and_100_only_with_a_file(status: Status, done: int, total: int | None):
    percent = progress(an_export(status, rows_done=done, rows_total=total))
    assert percent is None or 0 <= percent <= 100
    assert (percent == 100) == (status is Status.SUCCESS)


@given(st.lists(big, min_size=2).map(sorted), big)
def test_percent_never_goes_back_while_rows_grow(steps: list[int], total: int):
    export = an_export(Status.PROCESSING, rows_total=total)
    percents = [progress(replace(export, rows_done=done)) for done in steps]
    assert all(a is None or (b is not None and a <= b) for a, b in pairwise(percents))


def test_rate_is_rows_per_second_of_the_attempt():
    running = an_export(Status.PROCESSING, started_at=NOON, rows_done=500)
    assert rate(running, LATER) == 50
    assert rate(replace(running, rows_done=0), LATER) is None
    assert rate(replace(running, started_at=None), LATER) is None
    assert rate(running, NOON) is None
    assert rate(running, NOON - timedelta(seconds=1)) is None
    assert rate(replace(running, completed_at=NOON + timedelta(seconds=5)), LATER) == 100


def test_eta_needs_a_running_export_a_total_and_a_rate():
    running = an_export(Status.PROCESSING, started_at=NOON, rows_done=100, rows_total=400)
    assert eta_seconds(running, LATER) == 30
    assert eta_seconds(replace(running, rows_total=None), LATER) is None
    assert eta_seconds(replace(running, rows_done=0), LATER) is None
    assert eta_seconds(replace(running, rows_total=50), LATER) == 0
    finished = an_export(Status.SUCCESS, started_at=NOON, rows_done=100, rows_total=400)
    assert eta_seconds(finished, LATER) is None


# Retries


@given(st.integers(1, 50), st.randoms(use_true_random=False))
def test_retry_waits_are_10_then_60_seconds_with_a_fifth_of_jitter(failures: int, rng: random.Random):
    wait = 10 if failures == 1 else 60
    assert wait * 0.8 <= retry_wait(failures, rng) <= wait * 1.2


def test_retry_waits_differ_from_each_other():
    rng = random.Random(1)
    assert len({retry_wait(1, rng) for _ in range(20)}) == 20


@pytest.mark.parametrize("code", ErrorCode)
def test_only_errors_that_may_pass_are_retried_and_only_so_often(code: ErrorCode):
    passing = {ErrorCode.SOURCE_UNREACHABLE, ErrorCode.STORAGE_ERROR, ErrorCode.WORKER_LOST}
    error = export_error(code, limit="1", detail="x")
    assert error.retriable == (code in passing)
    retried = [should_retry(an_export(Status.FAILED, error=error, failures=n), max_attempts=3) for n in (1, 2, 3, 4)]
    assert retried == ([True, True, False, False] if code in passing else [False] * 4)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.FAILED])
def test_nothing_but_a_failure_is_retried_by_itself(status: Status):
    assert not should_retry(an_export(status, error=LOST), max_attempts=3)


def test_polling_clients_wait_1_second_doubling_to_30():
    ages = [0, 0.5, 1, 1.9, 2, 3.9, 4, 8, 15.9, 16, 29, 31, 32, 3600, 10**9, -5]
    assert [retry_after(age) for age in ages] == [1, 1, 1, 1, 2, 2, 4, 8, 8, 16, 16, 16, 30, 30, 30, 1]


# Ids


def test_ids_have_the_documented_shape():
    made = new_id("exp")
    assert is_id(made, "exp")
    assert len(made) == 30
    assert set(made[4:]) <= set(ALPHABET)
    assert not is_id(made, "evt")
    for wrong in ("", "exp_", made.upper(), made + "0", made[:-1], made + "\n", " " + made, "exp_" + "u" * 26):
        assert not is_id(wrong, "exp")


def test_ids_are_version_7_uuids_of_now():
    before = time.time_ns() // 1_000_000
    number = 0
    for letter in new_id("exp")[4:]:
        number = number * 32 + ALPHABET.index(letter)
    assert before <= number >> 80 <= time.time_ns() // 1_000_000
    assert (number >> 76 & 15, number >> 62 & 3) == (7, 2)


def test_later_ids_sort_later_and_none_comes_twice(monkeypatch: pytest.MonkeyPatch):
    clock = iter(range(1_700_000_000_000_000_000, 1_700_000_000_000_000_000 + 500_000_000, 1_000_000))
    monkeypatch.setattr("webapp.domain.ids.time.time_ns", lambda: next(clock))
    made = [new_id("exp") for _ in range(500)]
    assert made == sorted(made)
    monkeypatch.setattr("webapp.domain.ids.time.time_ns", lambda: 1_700_000_000_000_000_000)
    assert len({new_id("exp") for _ in range(5000)}) == 5000


# Events and their data


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        (an_export(Status.PENDING), "export.created"),
        (an_export(Status.QUEUED), "export.queued"),
        (an_export(Status.PROCESSING), "export.started"),
        (an_export(Status.SUCCESS), "export.succeeded"),
        (an_export(Status.FAILED), "export.failed"),
        (an_export(Status.EXPIRED), "export.timed_out"),
        (aged_out(), "export.expired"),
        (an_export(Status.CANCELLED), "export.cancelled"),
    ],
)
def test_the_event_of_every_status(export: Export, expected: str):
    assert event_type(export) == expected
    assert expected in EVENT_TYPES


CONTRACT = """id dataset params format options status version attempt progress rows_done rows_total bytes eta_seconds
queue_position created_at queued_at started_at completed_at expired_at cancelled_at file error warnings owner"""
ADDED = {"phase", "retry_at", "expected_start_at", "queue_paused", "name", "note"}
"""Not in interfaces.md, but shown by the pages: what is done, when it is tried again or may start, its name."""
FILE_FIELDS = ["name", "size", "rows", "sha256", "content_type", "expires_at", "download_url"]


@pytest.mark.parametrize("status", Status)
def test_a_snapshot_has_exactly_the_fields_of_the_contract(status: Status):
    shown = snapshot(an_export(status), base_url="http://desk", now=LATER, place=Place(3, LATER))
    assert set(shown) == set(CONTRACT.split()) | ADDED
    assert (shown["queue_position"], shown["expected_start_at"]) == (3, rfc3339(LATER))
    assert shown["status"] == status.value


def test_a_snapshot_of_a_finished_export():
    export = an_export(Status.SUCCESS, warnings=(FormatWarning("CUT", "Cut.", 2),))
    shown = snapshot(export, base_url="http://desk")
    assert list(shown["file"]) == FILE_FIELDS
    assert shown["file"]["download_url"] == f"http://desk/api/v1/exports/{export.id}/file"
    assert shown["warnings"] == [{"code": "CUT", "message": "Cut.", "count": 2}]
    assert (shown["error"], shown["progress"], shown["completed_at"]) == (None, 100, "2026-03-01T12:00:00.000Z")
    assert export.file is not None
    assert export.file.key not in str(shown)


def test_a_snapshot_of_a_failed_export():
    shown = snapshot(an_export(Status.FAILED), base_url="http://desk")
    assert list(shown["error"]) == ["code", "message", "retriable"]
    assert (shown["error"]["code"], shown["error"]["retriable"], shown["file"]) == ("QUERY_ERROR", False, None)


def test_times_are_utc_with_milliseconds():
    berlin = timezone(timedelta(hours=1))
    assert rfc3339(datetime(2026, 1, 1, 0, 30, 0, 1999, tzinfo=berlin)) == "2025-12-31T23:30:00.001Z"
    assert rfc3339(None) is None


# Error sentences


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_has_a_sentence_without_blanks_left(code: ErrorCode):
    blanks = {name for _, name, _, _ in string.Formatter().parse(SENTENCES[code]) if name}
    assert blanks <= {"limit", "detail"}
    error = export_error(code, **dict.fromkeys(blanks, "30 minutes"))
    assert error.code is code
    assert "{" not in error.message
    assert "}" not in error.message
    assert error.message.endswith(".")
    assert error.message[0].isupper()


def test_the_documented_codes_are_all_there():
    documented = (
        "TIMEOUT RETENTION SOURCE_UNREACHABLE QUERY_ERROR BAD_PARAMETER COLUMN_GONE TOO_MANY_ROWS TOO_LARGE "
        "DISK_FULL STORAGE_ERROR OUT_OF_MEMORY WORKER_LOST FORMAT_LIMIT NOT_GRANTED INTERNAL"
    )
    assert {code.value for code in ErrorCode} == set(documented.split()) == {code.value for code in SENTENCES}
    assert set(ErrorCode) >= RETRIABLE


def test_a_detail_with_braces_is_text_and_a_long_one_is_cut():
    assert "no such column: {limit}" in export_error(ErrorCode.QUERY_ERROR, detail="no such column: {limit}").message
    assert len(export_error(ErrorCode.QUERY_ERROR, detail="x" * 5000).message) == 1000


# Column names


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["", ""], ["", "_2"]),
    ],
)
def test_doubled_column_names(names: list[str], unique: list[str]):
    assert unique_names(names) == unique


@given(st.lists(st.sampled_from(["a", "a_2", "a_2_2", "b", "", "_2"])))
def test_column_names_are_unique_and_the_first_of_each_is_kept(names: list[str]):
    unique = unique_names(names)
    assert len(set(unique)) == len(unique) == len(names)
    assert all(unique[names.index(name)] == name for name in names)
