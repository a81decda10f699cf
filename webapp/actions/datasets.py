"""What people do with datasets: find one they may use, and look at its first rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.datasets import sources
from webapp.datasets.columns import Column, Row
from webapp.datasets.declaration import Dataset
from webapp.datasets.parameters import bind_values, parse_params
from webapp.domain import limits
from webapp.domain.access import NotFound, Viewer
from webapp.resources import Resources


@dataclass(frozen=True, slots=True)
class Preview:
    """`truncated` when there are more rows than shown; `rows_estimate` None when counting took too long."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    truncated: bool
    rows_estimate: int | None


def get(resources: Resources, viewer: Viewer, name: str) -> Dataset:
    """Raises NotFound for what does not exist or is not for this person's role."""
    dataset = resources.catalog.dataset_for(name, viewer.role)
    if dataset is None:
        raise NotFound
    return dataset


async def preview(resources: Resources, dataset: Dataset, raw: Mapping[str, Any]) -> Preview:
    """Raises Invalid for wrong parameters and AttemptFailed when the source refuses or takes too long."""
    now = await resources.store.now()
    params = parse_params(dataset, raw, today=now.date(), now=now)
    url, values = resources.catalog.source_of(dataset).url, bind_values(dataset, params)
    return await asyncio.to_thread(_read, url, dataset.sql, values)


def _read(url: str, sql: str, values: Mapping[str, Any]) -> Preview:
    found = sources.preview(url, sql, values, rows=limits.PREVIEW_ROWS, seconds=limits.PREVIEW_SECONDS)
    estimate = len(found.rows) if not found.truncated else _count(url, sql, values)
    return Preview(found.columns, found.rows, found.truncated, estimate)


def _count(url: str, sql: str, values: Mapping[str, Any]) -> int | None:
    with sources.open_rows(url, sql, values) as reader:
        return reader.count(limits.COUNT_SECONDS)
