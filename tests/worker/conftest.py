"""Fixtures of the worker's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from mariadb import mariadb as mariadb
from worker_processes import settings as settings

from webapp.datasets.declaration import Catalog, Source
from webapp.resources import Resources
from worker.children import Child, Children

Asking = Callable[..., Resources]


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    opened = Children()
    yield opened
    await opened.close()


@pytest.fixture
def assigned(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """The children that have been given their work, in that order."""
    given: list[Child] = []
    assign = Child.assign

    async def remember(child: Child, assignment: Any) -> None:
        given.append(child)
        await assign(child, assignment)

    monkeypatch.setattr(Child, "assign", remember)
    return given


@pytest.fixture
def asking(resources: Resources, url: str) -> Asking:
    """Makes the same resources with the dataset `things` asking the source at `url`, a fixture of the test's module."""

    def ask(sql: str, **changes: Any) -> Resources:
        things = replace(resources.catalog.datasets["things"], source="other", sql=sql, parameters=(), **changes)
        sources = {**resources.catalog.sources, "other": Source("other", url)}
        return resources.with_catalog(Catalog({**resources.catalog.datasets, "things": things}, sources))

    return ask
