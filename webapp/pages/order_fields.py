"""The fields of an order form: each parameter as the control that fits it, with its value and what is wrong. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from webapp.datasets.choices import Found, search
from webapp.datasets.declaration import Choice, Dataset, Parameter, ParameterType
from webapp.datasets.parameters import Unfit, default_value, is_moving, parse_value
from webapp.datasets.relative import Moment, is_relative, resolve_date, resolve_datetime
from webapp.domain.limits import CHOICES_AT_A_GLANCE, CHOICES_FOUND, PARAMETER_TEXT_LENGTH
from webapp.domain.sentences import say
from webapp.language import gettext as _

CONTROLS: Mapping[ParameterType, str] = {
    ParameterType.STRING: "text",
    ParameterType.INTEGER: "integer",
    ParameterType.NUMBER: "number",
    ParameterType.BOOLEAN: "switch",
    ParameterType.DATE: "date",
    ParameterType.DATETIME: "datetime-local",
    ParameterType.CHOICE: "select",
    ParameterType.CHOICES: "checkboxes",
    ParameterType.LIST: "lines",
}
YES_NO = (Choice("true", say("Yes")), Choice("false", say("No")))
EITHER = Choice("", say("Either"))
NOTHING_FOUND = Found((), 0)

Raw = Mapping[str, Sequence[str]]
"""What was sent or asked for: each parameter's name with its values."""


@dataclass(frozen=True, slots=True)
class OrderField:
    """`values` are what the control shows; `hint` says what leaving it empty means."""

    name: str
    control: str
    label: str
    description: str
    hint: str
    required: bool
    values: tuple[str, ...]
    choices: tuple[Choice, ...]
    minimum: str
    maximum: str
    max_length: int
    error: str
    is_multiple: bool = False
    search: str = ""
    found: Found = NOTHING_FOUND

    @property
    def chosen(self) -> tuple[Choice, ...]:
        """What is picked already, in a list that is searched; a value that is gone from it stays, to be refused."""
        labels = {choice.value: choice for choice in self.choices}
        return tuple(labels.get(value, Choice(value, value)) for value in self.values if value)

    @property
    def value(self) -> str:
        return self.values[-1] if self.values else ""

    @property
    def id(self) -> str:
        return f"param-{self.name}"

    @property
    def described_by(self) -> str:
        """The ids of the texts that belong to the control, for screen readers."""
        parts = (("description", self.description), ("hint", self.hint), ("error", self.error))
        return " ".join(f"{self.id}-{part}" for part, text in parts if text)


def order_fields(
    dataset: Dataset, raw: Raw, errors: Mapping[str, str], moment: Moment, *, sent: bool, searches: Mapping[str, str]
) -> list[OrderField]:
    """One per parameter. What is missing from a form that was sent is empty; from a new one, it is the default.

    `searches` are the words that long lists of choices are searched for.
    """
    return [
        _searched(_field(parameter, raw, errors, moment, sent), searches.get(parameter.name, ""))
        for parameter in dataset.parameters
    ]


def _searched(field: OrderField, text: str) -> OrderField:
    """A list that is too long to show is searched instead."""
    if field.control not in {"select", "checkboxes"} or len(field.choices) <= CHOICES_AT_A_GLANCE:
        return field
    found = search(field.choices, text, limit=CHOICES_FOUND)
    return replace(field, control="search", is_multiple=field.control == "checkboxes", search=text, found=found)


def _field(parameter: Parameter, raw: Raw, errors: Mapping[str, str], moment: Moment, sent: bool) -> OrderField:
    default = _default(parameter, moment)
    if parameter.name in raw:
        values = tuple(_for_control(parameter, _still(parameter, text, moment)) for text in raw[parameter.name])
    else:
        values = () if sent else shown_values(parameter, default)
    return OrderField(
        name=parameter.name,
        control=CONTROLS[parameter.type],
        label=parameter.label,
        description=parameter.description,
        hint=_hint(parameter, default),
        required=parameter.must_be_given,
        values=values,
        choices=_choices(parameter),
        minimum=_bound(parameter, parameter.minimum, moment),
        maximum=_bound(parameter, parameter.maximum, moment),
        max_length=parameter.max_length or PARAMETER_TEXT_LENGTH,
        error=errors.get(f"params.{parameter.name}", ""),
    )


def _still(parameter: Parameter, text: str, moment: Moment) -> str:
    """A date or time in words as the day that it means now; what cannot be one stays, to be refused."""
    if not is_moving(parameter, text):
        return text
    with contextlib.suppress(Unfit):
        return str(parse_value(parameter, text, moment))
    return text


def shown_values(parameter: Parameter, value: Any) -> tuple[str, ...]:
    """A canonical value as the control takes it."""
    if value is None:
        return ()
    if isinstance(value, list):
        texts = [str(item) for item in cast(list[Any], value)]
        return tuple(texts) if parameter.type is ParameterType.CHOICES else ("\n".join(texts),)
    if isinstance(value, bool):
        return ("true" if value else "false",)
    return (_for_control(parameter, str(value)),)


def as_raw(dataset: Dataset, params: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """The parameters of an earlier order as if they had been sent; those the dataset has no more are left out."""
    return {parameter.name: shown_values(parameter, params.get(parameter.name)) for parameter in dataset.parameters}


def sent_params(dataset: Dataset, raw: Raw) -> dict[str, Any]:
    """What an order takes: a list where several may be chosen, else the one text. Unknown names go along."""
    several = {parameter.name for parameter in dataset.parameters if parameter.type is ParameterType.CHOICES}
    return {name: list(values) if name in several else values[-1] for name, values in raw.items() if values}


def _default(parameter: Parameter, moment: Moment) -> Any:
    with contextlib.suppress(Unfit):
        return default_value(parameter, moment)
    return None


def _for_control(parameter: Parameter, text: str) -> str:
    """A browser's own field for date and time takes no zone: it is UTC, and says so."""
    return text.removesuffix("Z") if parameter.type is ParameterType.DATETIME else text


def _choices(parameter: Parameter) -> tuple[Choice, ...]:
    if parameter.type is not ParameterType.BOOLEAN:
        return parameter.choices
    return YES_NO if parameter.required or parameter.default is not None else (EITHER, *YES_NO)


def _hint(parameter: Parameter, default: Any) -> str:
    if parameter.type is ParameterType.BOOLEAN:
        return ""
    texts = {ParameterType.LIST: _("One per line."), ParameterType.DATETIME: _("In UTC.")}
    hints = [texts.get(parameter.type, "")]
    if default is not None and default != []:
        hints.append(_("Left empty, it is {value}.", value=_told(parameter, default)))
    elif parameter.type is ParameterType.CHOICES and not parameter.required:
        hints.append(_("None chosen means any."))
    return " ".join(filter(None, hints))


def _told(parameter: Parameter, default: Any) -> str:
    labels = {choice.value: choice.label for choice in parameter.choices}
    items = cast(list[Any], default) if isinstance(default, list) else [default]
    return ", ".join(labels.get(item, str(item)) for item in items)


def _bound(parameter: Parameter, bound: Any, moment: Moment) -> str:
    """A range's end as the control takes it; moving ones are resolved for today."""
    if bound is None:
        return ""
    if not is_relative(bound):
        return _for_control(parameter, str(bound))
    with contextlib.suppress(ValueError):
        if parameter.type is ParameterType.DATE:
            return resolve_date(bound, moment.today).isoformat()
        return resolve_datetime(bound, moment.today, moment.now).strftime("%Y-%m-%dT%H:%M:%S")
    return ""
