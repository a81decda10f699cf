"""How far the change log was sent: gaps are noticed, filled and given up; one holder at a time."""

from __future__ import annotations

import pytest

from webapp.domain.change_log import GAPS_KEPT, LEASE, MOST_GAPS, Progress, hold, let_go, move_on, needs_hold

HELD = Progress(holder="a", until=LEASE)


@pytest.mark.parametrize(
    ("before", "sent", "seq", "missing"),
    [
        (Progress(), [1, 2, 3], 3, []),
        (Progress(seq=3), [5, 8], 8, [4, 6, 7]),
        (Progress(seq=8, gaps=((4, 0), (6, 0))), [6], 8, [4]),
        (Progress(seq=8, gaps=((4, 0),)), [4, 10], 10, [9]),
        (Progress(seq=8, gaps=((4, -GAPS_KEPT), (5, 0))), [9], 9, [5]),
    ],
)
def test_what_is_missing_below_the_last_one_may_still_come(
    before: Progress, sent: list[int], seq: int, missing: list[int]
) -> None:
    after = move_on(before, sent, at=0)
    assert (after.seq, after.missing(0)) == (seq, missing)
    assert after.until == LEASE


def test_a_gap_is_given_up_when_no_transaction_can_be_so_slow() -> None:
    after = move_on(Progress(), [2], at=1000)
    assert after.missing(1000 + GAPS_KEPT - 1) == [1]
    assert after.missing(1000 + GAPS_KEPT) == []


def test_gaps_are_bounded() -> None:
    after = move_on(move_on(Progress(), [10**9], at=0), [10**9 + 10], at=0)
    assert len(after.gaps) == MOST_GAPS
    assert after.gaps[-1][0] == 10**9 + 9


@pytest.mark.parametrize(("holder", "at", "gets"), [("a", 1, True), ("b", 1, False), ("b", LEASE, True)])
def test_one_holds_it_until_its_lease_runs_out(holder: str, at: int, gets: bool) -> None:
    found = hold(HELD, holder, at=at)
    assert (found is not None) == gets
    assert found is None or (found.holder, found.until) == (holder, at + LEASE)


def test_it_is_renewed_in_time_and_let_go() -> None:
    assert not needs_hold(HELD, "a", at=LEASE // 3)
    assert needs_hold(HELD, "a", at=LEASE // 3 + 1)
    assert hold(let_go(HELD), "b", at=1) is not None
