"""Days that move, in the words of a form: which there are, and which of them a date may have stood for. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.datasets.declaration import Dataset, Parameter, ParameterType
from webapp.datasets.parameters import Unfit, is_moving, parse_value
from webapp.datasets.relative import Moment
from webapp.domain.sentences import say

DAYS: Mapping[str, str] = {
    "today": say("Today"),
    "today - 1d": say("Yesterday"),
    "today - 7d": say("7 days ago"),
    "today - 30d": say("30 days ago"),
    "start of week": say("Start of this week"),
    "start of last week": say("Start of last week"),
    "end of last week": say("End of last week"),
    "start of month": say("Start of this month"),
    "end of month": say("End of this month"),
    "start of last month": say("Start of last month"),
    "end of last month": say("End of last month"),
    "start of quarter": say("Start of this quarter"),
    "start of last quarter": say("Start of last quarter"),
    "end of last quarter": say("End of last quarter"),
    "start of year": say("Start of this year"),
    "start of last year": say("Start of last year"),
    "end of last year": say("End of last year"),
}
TIMES: Mapping[str, str] = {"now": say("Now"), "now - 1h": say("An hour ago"), "now - 24h": say("24 hours ago")}
SHOWN_AS: Mapping[str, str] = {**DAYS, **TIMES}


@dataclass(frozen=True, slots=True)
class MovingDay:
    """`value` is what it is now, as people read it."""

    words: str
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class MovingField:
    """A date or time of an order, and what may stand in its place. `chosen` is empty for the date as it was filled
    in, which is `value`, or nothing."""

    name: str
    label: str
    value: str
    choices: tuple[MovingDay, ...]
    chosen: str


def moving_fields(
    dataset: Dataset, params: Mapping[str, Any], before: Mapping[str, Any], moment: Moment
) -> list[MovingField]:
    """`params` as they were filled in; `before` may have the words that one of them came from."""
    temporal = (parameter for parameter in dataset.parameters if parameter.type.is_temporal)
    return [_field(parameter, params.get(parameter.name), before.get(parameter.name), moment) for parameter in temporal]


def _field(parameter: Parameter, value: Any, before: Any, moment: Moment) -> MovingField:
    likely = [str(words) for words in (value, before, parameter.default) if is_moving(parameter, words)]
    choices = _choices(parameter, likely, moment)
    now = {choice.words: choice.value for choice in choices}
    shown = told_day(parameter, value, moment)
    chosen = next((words for words in likely if not value or now.get(words) == shown), "")
    return MovingField(parameter.name, parameter.label, shown, choices, chosen)


def _choices(parameter: Parameter, likely: Iterable[str], moment: Moment) -> tuple[MovingDay, ...]:
    """Those that the parameter takes now, and each once."""
    usual = {**TIMES, **DAYS} if parameter.type is ParameterType.DATETIME else DAYS
    found = dict.fromkeys([*likely, *usual])
    days = ((words, told_day(parameter, words, moment)) for words in found)
    return tuple(MovingDay(words, SHOWN_AS.get(words, words), day) for words, day in days if day)


def told_day(parameter: Parameter, value: Any, moment: Moment) -> str:
    """What a date, a time or words come to now, as people read it; nothing for what the parameter does not take."""
    if not value:
        return ""
    with contextlib.suppress(Unfit):
        return str(parse_value(parameter, value, moment)).replace("T", " ").replace("Z", " UTC")
    return ""
