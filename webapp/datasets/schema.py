"""The parameters of a dataset as JSON Schema, for clients that build forms or check before they ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from webapp.datasets.declaration import Dataset, Parameter, ParameterType
from webapp.datasets.relative import is_relative
from webapp.domain.limits import LIST_ITEMS, PARAMETER_TEXT_LENGTH

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(dataset: Dataset) -> dict[str, Any]:
    """JSON Schema 2020-12 of the `params` object. A relative default is `x-default-expression` and is told in words;
    choices that come from a query are to be had at `x-choices-url`."""
    return {
        "$schema": DIALECT,
        "type": "object",
        "title": dataset.title,
        "properties": {parameter.name: _property(dataset, parameter) for parameter in dataset.parameters},
        "required": [parameter.name for parameter in dataset.parameters if parameter.must_be_given],
        "additionalProperties": False,
    }


def choices_url(dataset: Dataset, parameter: Parameter) -> str:
    """Where the values are that the parameter may have now."""
    return f"/api/v1/datasets/{dataset.name}/choices/{parameter.name}"


def _property(dataset: Dataset, parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"title": parameter.label, **SHAPES[parameter.type](parameter)}
    if parameter.choices_sql is not None:
        schema["x-choices-url"] = choices_url(dataset, parameter)
    if description := _description(parameter):
        schema["description"] = description
    if parameter.type.is_temporal and is_relative(parameter.default):
        schema["x-default-expression"] = parameter.default
    elif parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def _description(parameter: Parameter) -> str:
    """What the plain schema keywords cannot say: dates have no minimum and maximum of their own."""
    parts = [parameter.description]
    if parameter.type.is_temporal:
        parts += [f"Not before {parameter.minimum}."] if parameter.minimum is not None else []
        parts += [f"Not after {parameter.maximum}."] if parameter.maximum is not None else []
        parts += [f"Default: {parameter.default}."] if is_relative(parameter.default) else []
    return " ".join(filter(None, parts))


def _string(parameter: Parameter) -> dict[str, Any]:
    return {"type": "string", "maxLength": parameter.max_length or PARAMETER_TEXT_LENGTH}


def _numeric(parameter: Parameter) -> dict[str, Any]:
    bounds = {"minimum": parameter.minimum, "maximum": parameter.maximum}
    return {"type": parameter.type.value, **{name: bound for name, bound in bounds.items() if bound is not None}}


def _boolean(parameter: Parameter) -> dict[str, Any]:
    return {"type": "boolean"}


def _date(parameter: Parameter) -> dict[str, Any]:
    return {"type": "string", "format": "date"}


def _datetime(parameter: Parameter) -> dict[str, Any]:
    return {"type": "string", "format": "date-time"}


def _choice(parameter: Parameter) -> dict[str, Any]:
    if parameter.choices_sql is not None:
        return {"type": "string"}
    options = [{"const": choice.value, "title": choice.label} for choice in parameter.choices]
    return {"type": "string", "oneOf": options}


def _choices(parameter: Parameter) -> dict[str, Any]:
    return {"type": "array", "items": _choice(parameter), "maxItems": LIST_ITEMS}


def _list(parameter: Parameter) -> dict[str, Any]:
    return {"type": "array", "items": _string(parameter), "maxItems": LIST_ITEMS}


SHAPES: Mapping[ParameterType, Callable[[Parameter], dict[str, Any]]] = {
    ParameterType.STRING: _string,
    ParameterType.INTEGER: _numeric,
    ParameterType.NUMBER: _numeric,
    ParameterType.BOOLEAN: _boolean,
    ParameterType.DATE: _date,
    ParameterType.DATETIME: _datetime,
    ParameterType.CHOICE: _choice,
    ParameterType.CHOICES: _choices,
    ParameterType.LIST: _list,
}
