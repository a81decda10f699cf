"""An attempt whose database is away for a while: the work goes on, and its end is written when the database is back."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from webapp.actions import attempts, exports
from webapp.domain import limits
from webapp.domain.access import Viewer
from webapp.domain.exports import Status
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.store import exports as rows
from worker import supervise
from worker.children import Children

Action = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEARTBEAT_EVERY", 0.02)


def failing(action: Action, times: int, *, is_done: bool) -> Action:
    """The first `times` calls break off: before anything is written, or when it is written and nobody hears of it."""
    left = times

    async def act(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            return await action(*arguments)
        if is_done:
            await action(*arguments)
        raise sqlite3.OperationalError("database is locked")

    return act


@pytest.mark.parametrize("is_done", [False, True], ids=["nothing written", "written unheard"])
@pytest.mark.parametrize(
    ("name", "dataset", "status"),
    [
        ("is_withheld", "things", Status.SUCCESS),
        ("report_progress", "things", Status.SUCCESS),
        ("finish", "things", Status.SUCCESS),
        ("fail", "broken", Status.FAILED),
    ],
)
async def test_it_ends_once_in_the_same_attempt(
    resources: Resources,
    children: Children,
    user: Viewer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    dataset: str,
    status: Status,
    is_done: bool,
) -> None:
    await exports.order(resources, user, exports.Order(dataset, {}, "csv", {}), defaults=API_DEFAULTS)
    claim = await attempts.claim(resources)
    assert claim is not None
    monkeypatch.setattr(attempts, name, failing(getattr(attempts, name), 3, is_done=is_done))
    await supervise.run_attempt(resources, children, claim)
    export = await rows.get(resources.store, claim.id)
    assert export is not None
    assert (export.status, export.attempt, export.version) == (status, 1, claim.version + 1)
    assert not resources.storage.temporary(export.id, 1).exists()
    if export.file is not None:
        assert resources.storage.path(export.file.key).stat().st_size == export.file.size
