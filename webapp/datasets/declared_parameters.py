"""Reads the `[datasets.NAME.parameters.NAME]` tables of `exportdesk.toml`."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, cast

from webapp.datasets.declaration import Choice, Parameter, ParameterType
from webapp.datasets.parameters import Unfit, default_value, parse_value
from webapp.datasets.placeholders import foreign_parameters, named_parameters
from webapp.datasets.relative import EXAMPLES, Moment, is_relative
from webapp.datasets.tables import Table
from webapp.domain.limits import LIST_ITEMS, PARAMETER_TEXT_LENGTH

KEYS = (
    "type",
    "label",
    "description",
    "required",
    "default",
    "choices",
    "choices_sql",
    "minimum",
    "maximum",
    "max_length",
)
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
ANY_DAY = Moment(date(2026, 7, 15), datetime(2026, 7, 15, 12, tzinfo=UTC))
"""Relative dates are compared on one fixed day, so that a file is not right today and wrong tomorrow."""


def read_parameter(table: Table) -> Parameter:
    """The parameter, with what could not be used left away; mistakes are in the table's report."""
    name = table.path[-1]
    if not NAME.fullmatch(name):
        table.report.add(table.path, f"{table.name}: a name is a small letter, then small letters, digits and _.")
    table.allow(KEYS)
    table.require("type")
    kind = table.chosen("type", [kind.value for kind in ParameterType])
    parameter = Parameter(
        name,
        ParameterType(kind or "string"),
        label=table.text("label") or name.replace("_", " ").capitalize(),
        description=table.text("description") or "",
        required=bool(table.boolean("required")),
    )
    return _with_rules(table, parameter) if kind else parameter


def _with_rules(table: Table, parameter: Parameter) -> Parameter:
    kind = parameter.type
    for key, has_meaning in {
        "minimum": kind.has_range,
        "maximum": kind.has_range,
        "choices": kind.has_choices,
        "choices_sql": kind.has_choices,
        "max_length": kind.has_length,
    }.items():
        if key in table.values and not has_meaning:
            table.wrong(key, f"{key} has no meaning for a parameter of type {kind}.")
    if kind.has_choices:
        sql = _choices_sql(table)
        parameter = replace(parameter, choices=() if sql else _choices(table), choices_sql=sql)
    if kind.has_length:
        parameter = replace(parameter, max_length=table.integer("max_length", low=1, high=PARAMETER_TEXT_LENGTH))
    if kind.has_range:
        parameter = _with_range(table, parameter)
    return _with_default(table, parameter)


def _choices_sql(table: Table) -> str | None:
    """A query of its own source; it has no parameters, because the form is filled in any order."""
    if (sql := table.text("choices_sql")) is None:
        return None
    if "choices" in table.values:
        table.wrong("choices_sql", "say either choices or choices_sql.")
    if used := (*named_parameters(sql), *foreign_parameters(sql)):
        table.wrong("choices_sql", f"choices_sql cannot have parameters; it has {used[0][:64]}.")
    return sql


def _choices(table: Table) -> tuple[Choice, ...]:
    if "choices" not in table.values:
        table.require("choices")
        return ()
    choices = [choice for item in table.items("choices") or [] if (choice := _choice(table, item))]
    values = [choice.value for choice in choices]
    if doubles := sorted({value for value in values if values.count(value) > 1}):
        table.wrong("choices", f"choices has {', '.join(doubles)} more than once.")
    if len(choices) > LIST_ITEMS:
        table.wrong("choices", f"choices must have at most {LIST_ITEMS:,} items.")
    return tuple(choices)


def _choice(table: Table, item: Any) -> Choice | None:
    """A text, or a table with a value and a label."""
    match item:
        case str(value) if value:
            return Choice(value, value)
        case {"value": str(value), "label": str(label), **rest} if value and label and not rest:
            return Choice(value, label)
        case _:
            return table.wrong(
                "choices", 'each choice is a text, or a table such as {value = "DE", label = "Germany"}.'
            )


def _with_range(table: Table, parameter: Parameter) -> Parameter:
    low, high = (_bound(table, parameter, key) for key in ("minimum", "maximum"))
    if low is not None and high is not None and is_relative(low) == is_relative(high):
        try:
            parse_value(replace(parameter, minimum=low), _absolute(parameter, high), ANY_DAY)
        except Unfit:
            table.wrong("minimum", "minimum is over maximum.")
            return parameter
    return replace(parameter, minimum=low, maximum=high)


def _bound(table: Table, parameter: Parameter, key: str) -> Any:
    """None when it is not there, or wrong, which is reported."""
    if (given := table.values.get(key)) is None:
        return None
    try:
        return _canonical(parameter, given)
    except Unfit as unfit:
        return table.wrong(key, f"{key} {unfit}.")


def _with_default(table: Table, parameter: Parameter) -> Parameter:
    if (given := table.values.get("default")) is None:
        return parameter
    try:
        default = _unlisted(parameter, given) if parameter.choices_sql else _canonical(parameter, given)
        if not parameter.choices_sql:
            _check_range(parameter, default)
    except Unfit as unfit:
        table.wrong("default", f"default {unfit}.")
        return parameter
    return replace(parameter, default=default)


def _unlisted(parameter: Parameter, given: Any) -> str | list[str]:
    """A default whose list only the source knows: `datasets check` and each order compare the two. Raises Unfit."""
    items = cast(list[Any], given) if isinstance(given, list) else [given]
    is_list = parameter.type is ParameterType.CHOICES
    if is_list != isinstance(given, list) or not items or not all(isinstance(item, str) and item for item in items):
        raise Unfit("must be a list of texts" if is_list else "must be a text")
    return items if is_list else items[0]


def _canonical(parameter: Parameter, given: Any) -> Any:
    """As the file writes it, TOML's own dates and times included, without the range. Raises Unfit."""
    kind = parameter.type
    if kind.is_numeric and isinstance(given, str):
        raise Unfit("must be a number without quotes")
    if kind is ParameterType.BOOLEAN and isinstance(given, str):
        raise Unfit("must be true or false without quotes")
    if kind.is_temporal and isinstance(given, date):
        given = given.isoformat()
    if kind.is_temporal and is_relative(given) and not (kind is ParameterType.DATE and given.startswith("now")):
        return given
    try:
        return parse_value(replace(parameter, minimum=None, maximum=None), given, ANY_DAY)
    except Unfit as unfit:
        raise Unfit(f"{unfit}, or relative like {EXAMPLES}" if kind.is_temporal else str(unfit)) from None


def _check_range(parameter: Parameter, default: Any) -> None:
    """Relative and fixed dates are not compared: which comes first changes with the day. Raises Unfit."""
    low, high = (
        bound if not parameter.type.is_temporal or is_relative(bound) == is_relative(default) else None
        for bound in (parameter.minimum, parameter.maximum)
    )
    parse_value(replace(parameter, minimum=low, maximum=high), _absolute(parameter, default), ANY_DAY)


def _absolute(parameter: Parameter, value: Any) -> Any:
    return default_value(replace(parameter, default=value, minimum=None, maximum=None), ANY_DAY)
