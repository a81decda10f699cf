"""What is asked for while somebody else's change to the same thing is not committed yet: on both databases it waits,
and is answered as if it had come later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from factories import stored_export
from fresh_stores import person
from patience import PATIENCE
from sqlalchemy import text

from webapp.actions import groups, people, shares, users
from webapp.domain.access import NotFound, Viewer
from webapp.domain.errors import Invalid
from webapp.domain.exports import Status
from webapp.resources import Resources
from webapp.store import exports as export_rows
from webapp.store import grants as rows
from webapp.store import people as user_rows
from webapp.store.grants import Group

BLOCKED = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))")

Change = Callable[[Resources, Group], Awaitable[Any]]


async def overtaken(desk: Resources, first: Awaitable[Any], then: Coroutine[Any, Any, Any]) -> Any:
    """What `then` gives, which begins before `first` is committed."""

    async def is_waiting() -> bool:
        return desk.store.is_sqlite or bool(await desk.store.fetch_val(BLOCKED))

    async with desk.store.transaction():
        await first
        asked = asyncio.create_task(then)
        async with asyncio.timeout(PATIENCE):
            while not await is_waiting():
                await asyncio.sleep(0.01)
    return await asked


async def rename(desk: Resources, group: Group) -> None:
    await groups.rename(desk, group, "others", actor="tests")


async def delete(desk: Resources, group: Group) -> None:
    await groups.delete(desk, group, actor="tests")


async def join(desk: Resources, group: Group) -> None:
    await groups.add_member(desk, group, await people.user_named(desk, "writer"), actor="tests")


async def grant(desk: Resources, group: Group) -> None:
    await groups.grant(desk, "things", group, actor="tests")


@pytest.mark.parametrize("change", [rename, delete, join, grant])
async def test_a_group_that_is_being_deleted_is_gone(each_resources: Resources, writer: Viewer, change: Change) -> None:
    desk, group = each_resources, await groups.create(each_resources, "readers", actor="tests")
    with pytest.raises(NotFound):
        await overtaken(desk, rows.delete_group(desk.store, group.id), change(desk, group))


async def test_a_name_that_is_being_given_is_taken(each_resources: Resources) -> None:
    desk, group = each_resources, await groups.create(each_resources, "readers", actor="tests")
    other = await groups.create(desk, "writers", actor="tests")
    with pytest.raises(Invalid):
        await overtaken(desk, rows.rename_group(desk.store, other.id, "others"), rename(desk, group))
    assert {each.name for each in await groups.list_groups(desk)} == {"readers", "others"}


async def test_a_grant_counts_that_is_given_while_the_dataset_is_opened(each_resources: Resources) -> None:
    desk, group = each_resources, await groups.create(each_resources, "readers", actor="tests")
    await groups.grant(desk, "things", await groups.create(desk, "writers", actor="tests"), actor="tests")
    await overtaken(desk, rows.remove_all_grants(desk.store, "things"), grant(desk, group))
    access = await groups.access_to(desk, "things")
    assert (access.is_granted, [held.name for held in access.grants]) == (True, ["readers"])


async def test_what_is_being_deleted_is_shared_with_nobody(each_resources: Resources, writer: Viewer) -> None:
    desk, export = each_resources, await stored_export(each_resources, writer, Status.SUCCESS)
    reader = await person(desk, "reader")
    gone = user_rows.delete_user(desk.store, reader.id)
    with pytest.raises(Invalid):
        await overtaken(desk, gone, shares.put(desk, writer, export.id, "reader"))
    await person(desk, "reader")
    with pytest.raises(NotFound):
        await overtaken(desk, export_rows.remove(desk.store, export), shares.put(desk, writer, export.id, "reader"))


async def test_a_person_is_deleted_once(each_resources: Resources, writer: Viewer) -> None:
    desk, user = each_resources, await people.user_named(each_resources, "writer")
    with pytest.raises(NotFound):
        await overtaken(desk, user_rows.delete_user(desk.store, user.id), users.delete(desk, user, actor="tests"))


@pytest.mark.parametrize("database_kind", [pytest.param("postgresql", marks=pytest.mark.postgres)])
async def test_two_who_share_with_each_other_do_not_wait_for_each_other(
    each_resources: Resources, writer: Viewer
) -> None:
    desk, reader = each_resources, await person(each_resources, "reader")
    export = await stored_export(desk, reader, Status.SUCCESS)
    async with desk.store.transaction():
        await user_rows.lock_user(desk.store, writer.id)
        async with asyncio.timeout(PATIENCE):
            await asyncio.create_task(shares.put(desk, reader, export.id, "writer"))
