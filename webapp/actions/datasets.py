"""What people do with datasets: find one they may use, see what its parameters may be, look at its first rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.datasets import sources
from webapp.datasets.choices import Found, labels_of, search, with_choices
from webapp.datasets.columns import Column, Row, UnknownColumns, places, told_names
from webapp.datasets.declaration import Choice, Dataset, Parameter
from webapp.datasets.parameters import Unfit, bind_values, default_value, parse_params
from webapp.datasets.relative import Moment, moment_in
from webapp.domain import limits
from webapp.domain.access import NotFound, Viewer
from webapp.domain.errors import AttemptFailed, FieldError, Invalid, export_error, recalled
from webapp.domain.estimates import Rows
from webapp.domain.sentences import say
from webapp.resources import Resources

KNOWN_TOLD = 50
"""Columns that there are, told to who named one that there is not."""


@dataclass(frozen=True, slots=True)
class Preview:
    """`truncated` when there are more rows than shown; `estimate` None when nobody knows how many."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    truncated: bool
    estimate: Rows | None


@dataclass(frozen=True, slots=True)
class Listed:
    """A dataset whose parameters have the choices of now; `troubles` say which lists could not be read, and why."""

    dataset: Dataset
    troubles: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Checked:
    """Canonical parameters, and what the choices among them are called now, by parameter and value."""

    params: Mapping[str, Any]
    labels: Mapping[str, Mapping[str, str]]


def get(resources: Resources, viewer: Viewer, name: str) -> Dataset:
    """Raises NotFound for what does not exist or is not for this person's role."""
    dataset = resources.catalog.dataset_for(name, viewer)
    if dataset is None:
        raise NotFound
    return dataset


async def find_choices(resources: Resources, dataset: Dataset, name: str, text: str, *, limit: int) -> Found:
    """Raises NotFound for what is no parameter with choices, and AttemptFailed when the list cannot be read."""
    parameter = next((p for p in dataset.parameters if p.name == name and p.type.has_choices), None)
    if parameter is None:
        raise NotFound
    choices = await _choices(resources, dataset, parameter)
    return await asyncio.to_thread(search, choices, text, limit=limit)


async def with_lists(resources: Resources, dataset: Dataset) -> Listed:
    """Reads the lists of all choices that come from queries, or takes those that were read within the last minute."""
    asked = [parameter for parameter in dataset.parameters if parameter.choices_sql is not None]
    answers = await asyncio.gather(*(_choices(resources, dataset, p) for p in asked), return_exceptions=True)
    lists: dict[str, Sequence[Choice]] = {}
    troubles: dict[str, str] = {}
    for parameter, answer in zip(asked, answers, strict=True):
        if isinstance(answer, AttemptFailed):
            reason = recalled(export_error(answer.code, **answer.details))
            troubles[parameter.name] = say(
                "The choices of {parameter} cannot be read now. {reason}", parameter=parameter.label, reason=reason
            )
        elif isinstance(answer, BaseException):
            raise answer
        else:
            lists[parameter.name] = answer
    return Listed(with_choices(dataset, lists), troubles)


async def checked_params(resources: Resources, dataset: Dataset, raw: Mapping[str, Any], moment: Moment) -> Checked:
    """Choices are compared with the lists of now. Raises Invalid with every mistake."""
    listed = await with_lists(resources, dataset)
    try:
        params = parse_params(listed.dataset, raw, today=moment.today, now=moment.now)
        return Checked(params, labels_of(listed.dataset, params))
    except Invalid as invalid:
        told = {f"params.{name}": trouble for name, trouble in listed.troubles.items()}
        raise Invalid([FieldError(e.field, told.get(e.field, e.message)) for e in invalid.errors]) from None


async def preview(
    resources: Resources,
    dataset: Dataset,
    raw: Mapping[str, Any],
    *,
    zone: str | None = None,
    columns: Sequence[str] = (),
) -> Preview:
    """Of the chosen columns or of all. Raises Invalid for wrong parameters and columns that there are not, and
    AttemptFailed when the source refuses or takes too long."""
    moment = moment_in(zone, await resources.store.now())
    checked = await checked_params(resources, dataset, raw, moment)
    url, values = _url(resources, dataset), bind_values(dataset, checked.params)
    try:
        return await asyncio.to_thread(_read, url, dataset.sql, values, columns)
    except UnknownColumns as unknown:
        raise Invalid([_refused(unknown)]) from None


async def columns_of(
    resources: Resources, dataset: Dataset, raw: Mapping[str, Any], moment: Moment
) -> Sequence[Column]:
    """Those of the query; with every parameter's default while what was sent is not right yet. Raises AttemptFailed."""
    try:
        params = (await checked_params(resources, dataset, raw, moment)).params
    except Invalid:
        params = {parameter.name: _default(parameter, moment) for parameter in dataset.parameters}
    return await _described(resources, dataset, params)


async def check_columns(
    resources: Resources, dataset: Dataset, params: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Raises Invalid for those that the query does not have. A source that gives no answer refuses none: the attempt
    will look again."""
    try:
        places(await _described(resources, dataset, params), names)
    except UnknownColumns as unknown:
        raise Invalid([_refused(unknown)]) from None
    except AttemptFailed:
        return


async def expected_rows(resources: Resources, dataset: Dataset, params: Mapping[str, Any]) -> Rows | None:
    """Of an order's canonical parameters. Raises AttemptFailed, and NotFound when the source is gone."""
    return await asyncio.to_thread(_estimate, _url(resources, dataset), dataset.sql, bind_values(dataset, params))


async def _choices(resources: Resources, dataset: Dataset, parameter: Parameter) -> Sequence[Choice]:
    if parameter.choices_sql is None:
        return parameter.choices
    return await asyncio.to_thread(resources.choices.get, _url(resources, dataset), parameter.choices_sql)


def _default(parameter: Parameter, moment: Moment) -> Any:
    try:
        return default_value(parameter, moment)
    except Unfit:
        return None


async def _described(resources: Resources, dataset: Dataset, params: Mapping[str, Any]) -> Sequence[Column]:
    url, values = _url(resources, dataset), bind_values(dataset, params)
    return await asyncio.to_thread(sources.describe, url, dataset.sql, values, seconds=limits.PREVIEW_SECONDS)


def _refused(unknown: UnknownColumns) -> FieldError:
    message = say(
        "There is no column {names}; there are: {known}",
        names=told_names(unknown.names),
        known=told_names(unknown.known, KNOWN_TOLD),
    )
    return FieldError("options.columns", message)


def _url(resources: Resources, dataset: Dataset) -> str:
    """Raises NotFound when the catalog changed since the dataset was found, and its source is gone."""
    source = resources.catalog.sources.get(dataset.source)
    if source is None:
        raise NotFound
    return source.url


def _read(url: str, sql: str, values: Mapping[str, Any], columns: Sequence[str]) -> Preview:
    found = sources.preview(url, sql, values, rows=limits.PREVIEW_ROWS, seconds=limits.PREVIEW_SECONDS, columns=columns)
    estimate = _estimate(url, sql, values) if found.truncated else Rows(len(found.rows), is_exact=True)
    return Preview(found.columns, found.rows, found.truncated, estimate)


def _estimate(url: str, sql: str, values: Mapping[str, Any]) -> Rows | None:
    """Counted, or guessed by the source's planner where counting takes too long."""
    with sources.open_rows(url, sql, values) as reader:
        if (count := reader.count(limits.COUNT_SECONDS)) is not None:
            return Rows(count, is_exact=True)
        guess = reader.estimate()
        return None if guess is None else Rows(max(guess, limits.PREVIEW_ROWS + 1), is_exact=False)
