"""`exportdesk.toml` is edited while everything runs: a good edit is used, a broken one is told and changes nothing."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from pages.dom import nodes, text, texts

from webapp.actions import sweep
from webapp.datasets import holder as module
from webapp.resources import Resources, open_resources
from webapp.settings import Settings

Edit = Callable[[str, str], None]
BROKEN = 'title = "Things"', 'tilte = "Things"'


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_AFTER", 0.01)


@pytest.fixture
def edit(settings: Settings) -> Edit:
    def replace_text(before: str, after: str) -> None:
        assert settings.config
        content = settings.config.read_text(encoding="utf-8")
        assert before in content
        settings.config.write_text(content.replace(before, after), encoding="utf-8")

    return replace_text


def title(resources: Resources) -> str:
    return resources.catalog.datasets["things"].title


def test_nothing_is_read_while_nothing_changes(resources: Resources) -> None:
    before = resources.catalog
    assert not resources.holder.refresh()
    assert resources.catalog is before


def test_a_good_edit_is_used(resources: Resources, edit: Edit) -> None:
    before = resources.catalog
    edit('title = "Things"', 'title = "Goods"')
    assert resources.holder.refresh()
    assert (title(resources), resources.holder.state.before) == ("Goods", before)


def test_a_broken_edit_keeps_the_old_datasets_and_names_each_mistake(
    resources: Resources, settings: Settings, edit: Edit, caplog: pytest.LogCaptureFixture
) -> None:
    before = resources.holder.state
    edit(*BROKEN)
    with caplog.at_level(logging.ERROR):
        assert not resources.holder.refresh()
    state = resources.holder.state
    assert (state.catalog, state.since, len(state.problems)) == (before.catalog, before.since, 2)
    assert f"{settings.config}:6: datasets.things: There is no setting tilte here. Did you mean title?" in caplog.text
    caplog.clear()
    assert not resources.holder.refresh()
    assert caplog.text == ""
    edit('tilte = "Things"', 'title = "Goods"')
    assert resources.holder.refresh()
    assert (title(resources), resources.holder.state.problems) == ("Goods", ())


def test_a_file_that_is_away_for_a_moment_changes_nothing(resources: Resources, settings: Settings) -> None:
    assert settings.config
    away = settings.config.with_suffix(".away")
    settings.config.rename(away)
    assert not resources.holder.refresh()
    assert "cannot be read" in resources.holder.state.problems[0].message
    away.rename(settings.config)
    resources.holder.refresh()
    assert (title(resources), resources.holder.state.problems) == ("Things", ())


def test_a_file_that_is_still_being_written_waits_for_the_next_look(
    resources: Resources, settings: Settings, edit: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settings.config
    assert path
    edit('title = "Things"', 'title = "Goods"')
    monkeypatch.setattr(module.time, "sleep", lambda _: os.utime(path, ns=(1, 1)))
    assert not resources.holder.refresh()
    assert title(resources) == "Things"
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    assert resources.holder.refresh()


async def test_it_is_noticed_by_itself(settings: Settings, edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 0.05)
    from webapp.store.schema import migrate

    await migrate(settings.database_url)
    async with open_resources(settings) as resources:
        edit('title = "Things"', 'title = "Goods"')
        for _ in range(100):
            if title(resources) == "Goods":
                break
            await asyncio.sleep(0.05)
        assert title(resources) == "Goods"


async def test_admins_see_a_banner_on_every_page_and_others_do_not(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient, resources: Resources, edit: Edit
) -> None:
    assert nodes(await admin_client.get("/exports"), ".banner") == []
    edit(*BROKEN)
    resources.holder.refresh()
    for path in ("/exports", "/exports/new", "/exports/new?dataset=things", "/nothing"):
        page = await admin_client.get(path)
        assert "exportdesk.toml has 2 mistakes; the datasets from" in text(page, ".banner summary")
        assert len(texts(page, ".banner li")) == 2
        assert nodes(await client.get(path), ".banner") == []


async def test_readiness_tells_it_and_is_not_lost(
    anonymous: httpx.AsyncClient, resources: Resources, edit: Edit
) -> None:
    before = (await anonymous.get("/readyz")).status_code
    edit(*BROKEN)
    resources.holder.refresh()
    answer = await anonymous.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["catalog"]) == (before, "old: 2 mistakes")


def test_the_sweep_leaves_attempts_the_time_they_were_given(resources: Resources, edit: Edit) -> None:
    edit('execution_limit = "20s"', 'execution_limit = "2s"')
    assert resources.holder.refresh()
    assert resources.catalog.datasets["slow"].execution_limit == timedelta(seconds=2)
    assert sweep._execution_limit(resources, "slow") == timedelta(seconds=20)


def test_the_demo_has_no_file_to_watch(tmp_path: Path) -> None:
    from webapp.datasets.catalog import demo_catalog

    assert not module.CatalogHolder(lambda: demo_catalog(tmp_path)).refresh()
