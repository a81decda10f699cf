"""Finished exports whose files are gone: found by the sweep, told to people, and never mistaken for a storage that is
away or a file that went with its retention."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from factories import stored_export
from fresh_stores import Clock

from webapp.actions import lost_files
from webapp.actions.lost_files import BEGINS_EVERY
from webapp.actions.sweep import sweep
from webapp.domain.access import Viewer
from webapp.domain.errors import FILE_LOST
from webapp.domain.exports import Export, Status, progress
from webapp.resources import Resources
from webapp.store import events, exports, tallies

HOUR = BEGINS_EVERY.total_seconds()
Maker = Callable[[], Awaitable[Export]]


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


@pytest.fixture
def finished(each_resources: Resources, writer: Viewer, clock: Clock) -> Maker:
    async def make() -> Export:
        return await stored_export(each_resources, writer, Status.SUCCESS)

    return make


def lose(resources: Resources, export: Export) -> None:
    assert export.file is not None
    resources.storage.path(export.file.key).unlink()


async def lost(resources: Resources) -> int:
    return (await sweep(resources))["files lost"]


async def statuses(resources: Resources) -> list[Status]:
    found = await exports.list_page(resources.store, exports.ListFilter(), limit=9, after=None)
    return sorted(export.status for export in found)


async def test_a_lost_file_is_told_of_once(each_resources: Resources, finished: Maker, clock: Clock):
    export, other = await finished(), await finished()
    lose(each_resources, export)
    assert await lost(each_resources) == 1
    after = await exports.get(each_resources.store, export.id)
    assert after is not None
    assert (after.status, after.file, after.error, after.expired_at) == (Status.EXPIRED, None, FILE_LOST, clock.at)
    assert (after.version, after.can_retry, after.can_download, progress(after)) == (
        export.version + 1,
        False,
        False,
        None,
    )
    happened = await events.page(each_resources.store, export_id=export.id)
    assert (happened[-1].type, happened[-1].data["error"]["code"]) == ("export.expired", "STORAGE_ERROR")
    assert await exports.get(each_resources.store, other.id) == other
    clock.move(HOUR)
    assert await lost(each_resources) == 0


async def test_it_counts_as_an_action_of_its_own(each_resources: Resources, finished: Maker):
    lose(each_resources, await finished())
    await sweep(each_resources)
    totals = {series.labels: series.counts for series in await tallies.totals(each_resources.store)}
    assert totals["files lost",] == {0: 1}


async def test_a_file_is_looked_for_once_an_hour(each_resources: Resources, finished: Maker, clock: Clock):
    export = await finished()
    assert await lost(each_resources) == 0
    lose(each_resources, export)
    clock.move(HOUR - 0.001)
    assert await lost(each_resources) == 0
    clock.move(0.001)
    assert await lost(each_resources) == 1


async def test_a_sweep_looks_for_so_many_and_the_next_one_goes_on(
    each_resources: Resources, finished: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lost_files, "AT_ONCE", 2)
    for export in [await finished() for _ in range(5)]:
        lose(each_resources, export)
    assert [await lost(each_resources) for _ in range(4)] == [2, 2, 1, 0]
    lose(each_resources, await finished())
    clock.move(HOUR)
    assert await lost(each_resources) == 1


async def test_what_was_finished_meanwhile_is_on_the_same_walk(
    each_resources: Resources, finished: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    """Exports of one millisecond too, of which the walk has seen a part."""
    monkeypatch.setattr(lost_files, "AT_ONCE", 1)
    await finished()
    assert await lost(each_resources) == 0
    lose(each_resources, await finished())
    clock.move(5)
    lose(each_resources, await finished())
    assert [await lost(each_resources) for _ in range(3)] == [1, 1, 0]


async def test_a_storage_that_is_away_is_no_lost_file(
    each_resources: Resources, finished: Maker, clock: Clock, caplog: pytest.LogCaptureFixture
):
    """As a volume that is not mounted: the folder is there and empty."""
    exports_made = [await finished() for _ in range(3)]
    folder = each_resources.storage.folder
    away = folder.rename(folder.with_name("away"))
    folder.mkdir()
    assert await lost(each_resources) == 0
    assert "mount its volume" in caplog.text
    assert await statuses(each_resources) == [Status.SUCCESS] * 3
    folder.rmdir()
    away.rename(folder)
    lose(each_resources, exports_made[0])
    clock.move(HOUR)
    assert await lost(each_resources) == 1


async def test_a_folder_that_cannot_be_read_is_no_lost_file(each_resources: Resources, finished: Maker):
    export = await finished()
    assert export.file is not None
    folder = each_resources.storage.path(export.file.key).parent
    shutil.rmtree(folder)
    folder.write_text("not a folder")
    assert await lost(each_resources) == 0
    assert await statuses(each_resources) == [Status.SUCCESS]


async def test_a_file_that_retention_took_is_not_lost(each_resources: Resources, finished: Maker, clock: Clock):
    export = await finished()
    assert export.file is not None
    clock.at = export.file.expires_at
    done = await sweep(each_resources)
    assert (done["expired"], done["files lost"]) == (1, 0)
    clock.move(HOUR)
    assert await lost(each_resources) == 0


async def test_retention_and_deletion_meanwhile_win(
    each_resources: Resources, finished: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    """The walk has read both as finished; then the file of one went with its retention, the other was deleted."""
    aged, deleted = await finished(), await finished()
    real = exports.finished

    async def then_gone(*args: object, **kwargs: object) -> object:
        found = await real(*args, **kwargs)  # type: ignore[arg-type]
        clock.move(timedelta(days=8).total_seconds())
        assert await exports.remove(each_resources.store, deleted)
        monkeypatch.setattr(exports, "finished", real)
        assert (await sweep(each_resources))["expired"] == 1
        lose(each_resources, deleted)
        return found

    monkeypatch.setattr(exports, "finished", then_gone)
    assert await lost_files.expire_lost(each_resources, clock.at) == 0
    after = await exports.get(each_resources.store, aged.id)
    assert after is not None
    assert (after.error and after.error.code.value, after.version) == ("RETENTION", aged.version + 1)
