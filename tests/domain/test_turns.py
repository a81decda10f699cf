"""The order of claims, places in it, and when each will start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webapp.domain import limits
from webapp.domain.exports import Lane, lane_of
from webapp.domain.turns import Room, Running, Waiting, in_order, position, starts

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def waiting(export_id: str, at: float = 0, **changes: Any) -> Waiting:
    """Its owner is its id's first letter."""
    fields = {"owner": export_id[0], "dataset": "things", "format": "csv", "lane": None}
    return Waiting(id=export_id, queued_at=NOON + timedelta(seconds=at), **{**fields, **changes})


def order(
    *exports: Waiting, running: Sequence[Running] = (), served: Any = None, room: Room | None = None, now: float = 100
) -> str:
    found = in_order(exports, running, served or {}, room or Room(), now=NOON + timedelta(seconds=now))
    return " ".join(export.id for export in found)


@pytest.mark.parametrize(
    ("rows", "lane"),
    [(0, Lane.SMALL), (limits.SMALL_ROWS, Lane.SMALL), (limits.SMALL_ROWS + 1, Lane.LARGE), (None, Lane.LARGE)],
)
def test_what_nobody_can_tell_is_not_small(rows: int | None, lane: Lane):
    assert lane_of(rows) is lane


def test_a_hundred_orders_let_the_next_persons_first_go_second():
    many = [waiting(f"a{n:02}", n) for n in range(100)]
    assert order(*many, waiting("b1", 200), now=201).startswith("a00 b1 a01 a02")


def test_people_take_turns():
    exports = [
        waiting("a1", 1),
        waiting("a2", 2),
        waiting("a3", 3),
        waiting("b1", 4),
        waiting("b2", 5),
        waiting("c1", 6),
    ]
    assert order(*exports) == "a1 b1 c1 a2 b2 a3"
    assert order(*exports, running=[Running("a", "things")]) == "b1 c1 a1 b2 a2 a3"
    assert order(*exports, served={"a": NOON + timedelta(seconds=50)}) == "b1 c1 a1 b2 a2 a3"


def test_small_ones_go_first_until_large_ones_have_aged():
    exports = [waiting("a1", 1, lane=Lane.LARGE), waiting("b1", 2), waiting("c1", 3, lane=Lane.SMALL)]
    assert order(*exports) == "c1 a1 b1"
    assert order(*exports, now=limits.LARGE_AGES_AFTER + 1) == "a1 c1 b1"


def test_what_a_limit_keeps_back_comes_last():
    exports = [waiting("a1", 1, dataset="weak"), waiting("b1", 2, dataset="weak"), waiting("c1", 3)]
    assert order(*exports, room=Room({"weak": ["weak"]}, {"weak": 1})) == "a1 c1 b1"
    assert order(*exports, room=Room({"weak": ["weak"]}, {"weak": 0})) == "c1 a1 b1"


def test_people_take_turns_where_a_limit_keeps_back_too():
    many = [waiting(f"a{n:02}", n, dataset="weak") for n in range(19)]
    running = [Running("a", "weak"), Running("b", "things")]
    room = Room({"weak": ["weak"]}, {"weak": 0})
    served = {"a": NOON, "b": NOON}
    assert order(*many, waiting("b1", 30, dataset="weak"), running=running, served=served, room=room).startswith(
        "a00 b1 a01"
    )


def test_a_small_ones_place_is_among_small_ones_where_a_slot_is_kept():
    line = [
        waiting("a1"),
        waiting("b1", lane=Lane.SMALL),
        waiting("c1", lane=Lane.LARGE),
        waiting("d1", lane=Lane.SMALL),
    ]
    assert [position(export.id, line, slots=3) for export in line] == [1, 1, 3, 2]
    assert [position(export.id, line, slots=1) for export in line] == [1, 2, 3, 4]
    assert position("e1", line, slots=3) is None


def begin(
    *exports: Waiting,
    running: Sequence[Running] = (),
    slots: int = 3,
    most: int = 2,
    room: Room | None = None,
    **lasts: float,
) -> dict[str, float]:
    """Each takes ten seconds unless `lasts` says otherwise."""
    return dict(starts(exports, running, room or Room(), lambda e: lasts.get(e.id, 10), slots=slots, most=most))


def test_free_slots_are_taken_at_once_and_one_is_kept():
    assert begin(waiting("a1"), waiting("b1"), waiting("c1")) == {"a1": 0, "b1": 0, "c1": 10}
    small = waiting("d1", lane=Lane.SMALL)
    assert begin(waiting("a1"), waiting("b1"), waiting("c1"), small) == {"a1": 0, "b1": 0, "d1": 0, "c1": 10}
    assert begin(waiting("a1"), waiting("b1"), slots=1, a1=7) == {"a1": 0, "b1": 7}


def test_what_runs_must_end_first():
    running = [Running("x", "things", left=4), Running("y", "things", left=6)]
    assert begin(waiting("a1"), waiting("b1"), waiting("c1"), running=running) == {"a1": 4, "b1": 6, "c1": 14}


def test_a_person_waits_for_their_own():
    exports = [waiting("a1"), waiting("a2"), waiting("b1")]
    assert begin(*exports, slots=4, most=1) == {"a1": 0, "b1": 0, "a2": 10}


def test_a_limit_is_waited_for():
    exports = [waiting("a1", dataset="weak"), waiting("b1", dataset="weak"), waiting("c1")]
    assert begin(*exports, slots=4, room=Room({"weak": ["weak"]}, {"weak": 1})) == {"a1": 0, "c1": 0, "b1": 10}


def test_nothing_is_told_beyond_what_takes_nobody_knows_how_long():
    assert begin(waiting("a1"), waiting("b1"), slots=1, a1=math.inf) == {"a1": 0}
    assert begin(waiting("a1"), running=[Running("x", "things")], slots=1) == {}
    running = [Running("x", "things"), Running("y", "things", left=5)]
    assert begin(waiting("a1"), waiting("b1"), running=running) == {"a1": 5, "b1": 15}


def test_more_running_than_slots_means_other_workers():
    running = [Running("vwxyz"[n], "things", left=n + 1) for n in range(5)]
    assert begin(waiting("a1"), running=running, slots=2) == {"a1": 2}
