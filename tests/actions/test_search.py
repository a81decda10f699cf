"""A search looks through so many exports at a time, whatever else is filtered for; on both databases."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from factories import new_export

from webapp.actions import exports
from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.domain.ids import new_id
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import Key, ListFilter

SEVERAL = (Status.FAILED, Status.CANCELLED)
ORDERED = 24
AT_ONCE = 5


@pytest.fixture
async def made(each_resources: Resources, writer: Viewer, monkeypatch: pytest.MonkeyPatch) -> list[Export]:
    """Newest first, three a millisecond, every fourth of them called a needle."""
    monkeypatch.setattr(rows, "SEARCHED_AT_ONCE", AT_ONCE)
    store, now = each_resources.store, await each_resources.store.now()
    found: list[Export] = []
    async with store.transaction():
        for n in range(ORDERED):
            at = now - timedelta(milliseconds=n // 3)
            params = {"search": "needle" if n % 4 == 1 else "hay", "most": n}
            export = new_export(writer.id, at, params=params, status=(Status.SUCCESS, *SEVERAL)[n % 3])
            assert await rows.insert(store, export)
            found.append(export)
    return sorted(found, key=lambda export: (export.created_at, export.id), reverse=True)


async def search(resources: Resources, chosen: ListFilter, *, limit: int) -> list[list[Export]]:
    """Its pages."""
    pages: list[list[Export]] = []
    after: Key | None = None
    while True:
        page, after = await exports.list_page(resources, chosen, limit=limit, after=after)
        pages.append(list(page))
        if after is None:
            return pages


@pytest.mark.parametrize("statuses", [(), (Status.FAILED,), SEVERAL], ids=["all", "one", "several"])
async def test_its_pages_bring_everything_once_in_order(
    each_resources: Resources, made: list[Export], statuses: tuple[Status, ...]
) -> None:
    looked_at = [export for export in made if not statuses or export.status in statuses]
    for text, limit in product(["needle", "HAY", "nowhere", "exp_"], [2, 25]):
        pages = await search(each_resources, ListFilter(text=text, statuses=statuses), limit=limit)
        matching = [e for e in looked_at if text.lower() in f"{e.id} {e.dataset} {e.params['search']}"]
        assert [export.id for page in pages for export in page] == [export.id for export in matching], text
        assert all(len(page) <= min(limit, AT_ONCE) for page in pages)
        if text == "nowhere":
            assert len(pages) == -(-len(looked_at) // AT_ONCE)


async def test_its_pages_are_no_longer_with_several_filters(each_resources: Resources, made: list[Export]) -> None:
    chosen = ListFilter(dataset="things", statuses=(Status.FAILED,), format="csv", text="hay", without=frozenset({"x"}))
    pages = await search(each_resources, chosen, limit=25)
    hay = [e for e in made if e.status is Status.FAILED and e.params["search"] == "hay"]
    assert ([e.id for page in pages for e in page], len(pages)) == ([e.id for e in hay], -(-ORDERED // AT_ONCE))


async def test_an_id_is_found_at_once_where_the_other_filters_let_it_through(
    each_resources: Resources, writer: Viewer, made: list[Export]
) -> None:
    oldest = made[-1]
    for chosen in (ListFilter(text=oldest.id), ListFilter(owner=writer.id, statuses=(oldest.status,), text=oldest.id)):
        assert await exports.list_page(each_resources, chosen, limit=1) == ([oldest], None)
    for chosen in (ListFilter(owner="usr_x", text=oldest.id), ListFilter(format="xlsx", text=oldest.id)):
        assert await search(each_resources, chosen, limit=9) == [[]]
    assert {len(page) for page in await search(each_resources, ListFilter(text=new_id("exp")), limit=9)} == {0}


async def test_an_id_is_found_in_what_another_is_called(
    each_resources: Resources, writer: Viewer, made: list[Export]
) -> None:
    gone = new_id("exp")
    async with each_resources.store.transaction():
        noted = new_export(writer.id, made[0].created_at, note=f"instead of {gone}")
        await rows.insert(each_resources.store, noted)
    pages = await search(each_resources, ListFilter(text=gone), limit=9)
    assert [export.id for page in pages for export in page] == [noted.id]
