"""When an alert fires and when it is over: it takes its time both ways, and what wavers changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webapp.domain.alerts import RULES, Alert, Rule, Unit, Watch, payload, watched

START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CEILING = Rule("", "", Unit.SECONDS, usual=100, hold=2 * MINUTE)
FLOOR = Rule("", "", Unit.PERCENT, usual=90, hold=2 * MINUTE, margin=0.02, is_floor=True)
NO_WORKER = RULES[Alert.NO_WORKER]


def looked(rule: Rule, values: list[float | None]) -> str:
    """One look a minute: `F` while it fires, `.` while it does not."""
    watch, told = Watch(), ""
    for number, value in enumerate(values):
        watch = watched(watch, rule, rule.usual, value, at=START + number * MINUTE)
        told += "F" if watch.is_firing else "."
    return told


@pytest.mark.parametrize(
    ("rule", "values", "told"),
    [
        pytest.param(CEILING, [101, 101, 101], "..F", id="past it for all of the time"),
        pytest.param(CEILING, [100, 100, 100, 100], "....", id="at the threshold is not past it"),
        pytest.param(CEILING, [200, 50, 200, 50, 200, 50], "......", id="what wavers never fires"),
        pytest.param(CEILING, [200, 200, None, 200, 200, 200], ".....F", id="a gap begins anew"),
        pytest.param(CEILING, [200, 200, 200, 95, 95, 95, 95], "..FFFFF", id="a little better is not well"),
        pytest.param(CEILING, [200, 200, 200, 90, 90, 90], "..FFF.", id="well for all of the time"),
        pytest.param(CEILING, [200, 200, 200, 50, 120, 50, 50, 50], "..FFFFF.", id="a relapse begins anew"),
        pytest.param(CEILING, [200, 200, 200, None, None, None], "..FFF.", id="nothing to measure is well"),
        pytest.param(FLOOR, [89, 89, 89, 91, 91, 91, 92, 92, 92], "..FFFFFF.", id="a floor has its margin above"),
        pytest.param(FLOOR, [None, None, None, 0, 0, 0], ".....F", id="nothing at all is past a floor"),
        pytest.param(NO_WORKER, [0, 0, 1, 1], ".FF.", id="one worker is enough"),
    ],
)
def test_it_takes_its_time(rule: Rule, values: list[float | None], told: str) -> None:
    assert looked(rule, values) == told


def test_it_remembers_when_it_fired_when_it_ended_and_the_newest_value() -> None:
    watch = Watch()
    for minute, value in enumerate([200.0, 200, 300, 400, 50, 50, 60]):
        watch = watched(watch, CEILING, 100, value, at=START + minute * MINUTE)
    assert watch == Watch(60, None, START + 2 * MINUTE, START + 6 * MINUTE)
    told = payload(Alert.QUEUE_TIME, watch, 100, base_url="https://desk.example")
    assert (told["state"], told["value"], told["threshold"]) == ("resolved", 60, 100)
    assert (told["firing_since"], told["resolved_at"]) == ("2026-11-01T00:02:00.000Z", "2026-11-01T00:06:00.000Z")
    again = watch
    for minute in range(7, 10):
        again = watched(again, CEILING, 100, 500, at=START + minute * MINUTE)
    assert again == Watch(500, None, START + 9 * MINUTE)


def test_every_alert_has_a_rule_that_a_person_understands() -> None:
    assert set(RULES) == set(Alert)
    for rule in RULES.values():
        assert rule.title
        assert rule.summary.endswith(".")
        assert not rule.is_past(rule.usual, rule.usual)
        assert rule.is_back(None, rule.usual)
