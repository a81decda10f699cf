"""Parameters of an order: from a form, JSON or the command line to checked values, and on to the query."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from typing import Any, cast

from webapp.datasets.declaration import Dataset, Parameter, ParameterType, did_you_mean
from webapp.datasets.relative import Moment, is_relative, resolve_date, resolve_datetime
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.limits import LIST_ITEMS, PARAMETER_TEXT_LENGTH
from webapp.domain.sentences import say, sentence_of

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,100}")
NUMBER_TEXT = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?")
DATE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DATETIME_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
BOOLEAN_TEXTS = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}
LINE_BREAK = re.compile(r"\r\n|\r|\n")
UNKNOWN_SHOWN = 20
"""How many unknown parameters of one order are named; a large body would make a large answer."""

VALUES_SHOWN = 20
GUESSED_AMONG = 1000
"""Up to how many values the nearest one is looked for, which takes time."""


class Unfit(ValueError):
    """The rest of a sentence that begins with the parameter's label: `must be a whole number`."""


def parse_params(dataset: Dataset, raw: Mapping[str, Any], *, today: date, now: datetime) -> dict[str, Any]:
    """A value for every parameter, canonical and fit for JSON; raises Invalid with each `params.<name>` that is wrong.

    Absent, null, empty text and an empty list all mean left out, which gives the default or None. Relative
    defaults become absolute here. Parsing the result again gives the same.
    """
    moment = Moment(today, now)
    errors = _unknown(dataset, raw)
    values: dict[str, Any] = {}
    for parameter in dataset.parameters:
        try:
            values[parameter.name] = _value_or_default(parameter, raw.get(parameter.name), moment)
        except Unfit as unfit:
            errors.append(FieldError(f"params.{parameter.name}", sentence(parameter, unfit)))
    if errors:
        raise Invalid(errors)
    return values


def parse_value(parameter: Parameter, raw: Any, moment: Moment) -> Any:
    """One value that was given, in its canonical form. Raises Unfit."""
    return PARSERS[parameter.type](parameter, raw, moment)


def default_value(parameter: Parameter, moment: Moment) -> Any:
    """The default with relative dates made absolute, or None. Raises Unfit when a moving range leaves it out."""
    default = parameter.default
    if default is None:
        return None
    if parameter.type.is_temporal and is_relative(default):
        default = _canonical_time(_resolve(parameter, default, moment))
    return parse_value(parameter, default, moment)


def bind_values(dataset: Dataset, params: Mapping[str, Any]) -> dict[str, Any]:
    """What the query is given: lists as JSON text (for json_each and its like), absent as NULL, the rest as it is."""
    return {parameter.name: _bindable(params.get(parameter.name)) for parameter in dataset.parameters}


def sentence(parameter: Parameter, unfit: Unfit) -> str:
    reason = sentence_of(unfit)
    pattern = say("{parameter} {reason}") if reason.endswith("?") else say("{parameter} {reason}.")
    return say(pattern, parameter=parameter.label, reason=reason)


def _left_out(parameter: Parameter, raw: Any) -> bool:
    """Blanks count as a text, but not as a number, a date or a choice."""
    if isinstance(raw, str):
        return not (raw if parameter.type is ParameterType.STRING else raw.strip())
    return raw is None or (isinstance(raw, list) and all(item == "" for item in cast(list[Any], raw)))


def _value_or_default(parameter: Parameter, raw: Any, moment: Moment) -> Any:
    if not _left_out(parameter, raw):
        return parse_value(parameter, raw, moment)
    if parameter.must_be_given:
        raise Unfit(say("is required"))
    return default_value(parameter, moment)


def _unknown(dataset: Dataset, raw: Mapping[str, Any]) -> list[FieldError]:
    known = [parameter.name for parameter in dataset.parameters]
    unknown = [name[:64] for name in raw if name not in known][:UNKNOWN_SHOWN]
    return [
        FieldError(
            f"params.{name}",
            say("This dataset has no parameter {name}.{guess}", name=name, guess=did_you_mean(name, known)),
        )
        for name in unknown
    ]


def _bindable(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _parse_string(parameter: Parameter, raw: Any, moment: Moment) -> str:
    if not isinstance(raw, str):
        raise Unfit(say("must be text"))
    return _checked_text(parameter, raw)


def _checked_text(parameter: Parameter, text: str) -> str:
    limit = min(parameter.max_length or PARAMETER_TEXT_LENGTH, PARAMETER_TEXT_LENGTH)
    if len(text) > limit:
        raise Unfit(say("must have at most {most} characters, not {count}", most=limit, count=len(text)))
    if "\0" in text:
        raise Unfit(say("must not contain NUL characters"))
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise Unfit(say("must be valid Unicode text"))
    return text


def _parse_integer(parameter: Parameter, raw: Any, moment: Moment) -> int:
    """2.0 is whole, as JSON Schema has it."""
    is_text = isinstance(raw, str) and INTEGER_TEXT.fullmatch(raw.strip())
    value = int(raw) if is_text or (isinstance(raw, float) and raw.is_integer()) else raw
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit(say("must be a whole number"))
    return _in_range(parameter, _in_64_bits(value), moment)


def _parse_number(parameter: Parameter, raw: Any, moment: Moment) -> int | float:
    value: Any = raw
    if isinstance(raw, str) and NUMBER_TEXT.fullmatch(raw.strip()):
        value = int(raw) if INTEGER_TEXT.fullmatch(raw.strip()) else float(raw)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit(say("must be a number, such as 12 or 9.50"))
    if isinstance(value, int):
        return _in_range(parameter, _in_64_bits(value), moment)
    if not math.isfinite(value):
        raise Unfit(say("must be a finite number"))
    return _in_range(parameter, value, moment)


def _in_64_bits(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise Unfit(say("must be a whole number that fits into 64 bits"))
    return value


def _parse_boolean(parameter: Parameter, raw: Any, moment: Moment) -> bool:
    value = BOOLEAN_TEXTS.get(raw.strip().lower()) if isinstance(raw, str) else raw
    if not isinstance(value, bool):
        raise Unfit(say("must be true or false"))
    return value


def is_moving(parameter: Parameter, raw: Any) -> bool:
    """Whether the value is given in words that mean another day tomorrow. A date cannot be `now`."""
    text = raw.strip() if isinstance(raw, str) else ""
    is_fit = parameter.type is ParameterType.DATETIME or not text.startswith("now")
    return parameter.type.is_temporal and is_relative(text) and is_fit


def _moved(parameter: Parameter, raw: str, moment: Moment) -> str:
    """The value that the words have now. Raises Unfit."""
    try:
        if parameter.type is ParameterType.DATE:
            value = resolve_date(raw.strip(), moment.today)
        else:
            value = resolve_datetime(raw.strip(), moment.today, moment.now)
    except ValueError:
        raise Unfit(say("is a date that no calendar has")) from None
    return _canonical_time(_in_range(parameter, value, moment))


def _parse_date(parameter: Parameter, raw: Any, moment: Moment) -> str:
    if is_moving(parameter, raw):
        return _moved(parameter, raw, moment)
    try:
        if not isinstance(raw, str) or not DATE_TEXT.fullmatch(raw.strip()):
            raise ValueError(raw)
        value = date.fromisoformat(raw.strip())
    except ValueError:
        raise Unfit(say("must be a date like 2026-01-31")) from None
    return _canonical_time(_in_range(parameter, value, moment))


def _parse_datetime(parameter: Parameter, raw: Any, moment: Moment) -> str:
    """A time without an offset is taken as UTC, which is what a form's own field sends."""
    if is_moving(parameter, raw):
        return _moved(parameter, raw, moment)
    try:
        text = raw.strip().upper() if isinstance(raw, str) else ""
        if not DATETIME_TEXT.fullmatch(text):
            raise ValueError(raw)
        given = datetime.fromisoformat(text)
        value = given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Unfit(say("must be a date and time like 2026-01-31T14:30:00Z")) from None
    return _canonical_time(_in_range(parameter, value, moment))


def _parse_choice(parameter: Parameter, raw: Any, moment: Moment) -> str:
    return _chosen(raw, {choice.value: None for choice in parameter.choices})


def _chosen(raw: Any, values: Collection[str]) -> str:
    if not isinstance(raw, str) or raw not in values:
        near = did_you_mean(raw, values) if isinstance(raw, str) and len(values) <= GUESSED_AMONG else ""
        shown = ", ".join(list(values)[:VALUES_SHOWN]) + (", …" if len(values) > VALUES_SHOWN else "")
        raise Unfit(
            say("must be one of {choices}.{guess}", choices=shown, guess=near)
            if near
            else say("must be one of {choices}", choices=shown)
        )
    return raw


def _parse_choices(parameter: Parameter, raw: Any, moment: Moment) -> list[str]:
    """In the order of the declaration and each once, so that the same wish makes the same order."""
    items = _items([raw] if isinstance(raw, str) else raw)
    values = {choice.value: None for choice in parameter.choices}
    chosen = {_chosen(item, values) for item in items}
    return [choice.value for choice in parameter.choices if choice.value in chosen]


def _parse_list(parameter: Parameter, raw: Any, moment: Moment) -> list[str]:
    """A single text, as a text area sends it, has one item per line."""
    items = _items([line.strip() for line in LINE_BREAK.split(raw)] if isinstance(raw, str) else raw)
    return [_parse_string(parameter, item, moment) for item in items]


def _items(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise Unfit(say("must be a list of texts"))
    items = [item for item in cast(list[Any], raw) if item != ""]
    if len(items) > LIST_ITEMS:
        raise Unfit(say("must have at most {most} items, not {count}", most=LIST_ITEMS, count=len(items)))
    return items


def _in_range(parameter: Parameter, value: Any, moment: Moment) -> Any:
    low, high = (_resolve(parameter, bound, moment) for bound in (parameter.minimum, parameter.maximum))
    if low is not None and value < low:
        pattern = say("must be {bound} or later") if parameter.type.is_temporal else say("must be {bound} or more")
        raise Unfit(say(pattern, bound=_shown(low)))
    if high is not None and value > high:
        pattern = say("must be {bound} or earlier") if parameter.type.is_temporal else say("must be {bound} or less")
        raise Unfit(say(pattern, bound=_shown(high)))
    return value


def _resolve(parameter: Parameter, value: Any, moment: Moment) -> Any:
    """A canonical or relative bound as something that can be compared. Raises Unfit."""
    if value is None or not parameter.type.is_temporal:
        return value
    try:
        if parameter.type is ParameterType.DATE:
            return resolve_date(value, moment.today) if is_relative(value) else date.fromisoformat(value)
        return (
            resolve_datetime(value, moment.today, moment.now) if is_relative(value) else datetime.fromisoformat(value)
        )
    except ValueError:
        raise Unfit(say("has a default or a range that no date can meet")) from None


def _canonical_time(value: date | datetime) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value.isoformat()


def _shown(bound: Any) -> str:
    return _canonical_time(bound) if isinstance(bound, date) else str(bound)


PARSERS: Mapping[ParameterType, Callable[[Parameter, Any, Moment], Any]] = {
    ParameterType.STRING: _parse_string,
    ParameterType.INTEGER: _parse_integer,
    ParameterType.NUMBER: _parse_number,
    ParameterType.BOOLEAN: _parse_boolean,
    ParameterType.DATE: _parse_date,
    ParameterType.DATETIME: _parse_datetime,
    ParameterType.CHOICE: _parse_choice,
    ParameterType.CHOICES: _parse_choices,
    ParameterType.LIST: _parse_list,
}
