"""How schedules are told to people. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from webapp.domain.schedules import RunOutcome, Schedule, StopReason
from webapp.domain.sentences import say

WEEKDAYS: Mapping[str, str] = {
    "1": say("Monday"),
    "2": say("Tuesday"),
    "3": say("Wednesday"),
    "4": say("Thursday"),
    "5": say("Friday"),
    "6": say("Saturday"),
    "0": say("Sunday"),
}
STOPS: Mapping[StopReason, str] = {
    StopReason.DATASET: say("It has stopped: its dataset is gone, or is no longer yours to export."),
    StopReason.UNFIT: say("It has stopped: the order no longer fits its dataset. Change it, then resume."),
    StopReason.FAILURES: say("It has stopped after several failures in a row. Look at the last one, then resume."),
}
OUTCOMES: Mapping[RunOutcome, str] = {
    RunOutcome.ORDERED: say("The last run is on its way."),
    RunOutcome.WAITING: say("A run is due, and waits: you have as many exports waiting or running as you may have."),
    RunOutcome.SUCCEEDED: say("The last run succeeded."),
    RunOutcome.FAILED: say("The last run failed."),
    RunOutcome.CANCELLED: say("The last run was cancelled."),
    RunOutcome.DELETED: say("The last run was deleted."),
}


def told_stop(schedule: Schedule | None) -> str:
    return STOPS[schedule.stop] if schedule and schedule.stop else ""


def told_outcome(schedule: Schedule) -> str:
    return OUTCOMES[schedule.outcome] if schedule.outcome else ""
