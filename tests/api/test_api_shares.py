"""Sharing a finished file: who may open what by it, who loses it when, and what of it is withheld."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from api.problem_documents import problem_of
from factories import CONTENT, changed, stored_export
from sqlalchemy import update

from webapp.actions import exports, groups, people, polls, shares
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.errors import ErrorCode, Invalid, export_error
from webapp.domain.exports import Export, Status
from webapp.domain.shares import MOST_SHARES
from webapp.resources import Resources
from webapp.store import audit, events
from webapp.store.audit import AuditFilter
from webapp.store.tables import export_shares, users

ExportMaker = Callable[..., Awaitable[Export]]


async def share(client: httpx.AsyncClient, export: Export, name: str, **body: Any) -> httpx.Response:
    return await client.put(f"/api/v1/exports/{export.id}/shares/{name}", json=body)


async def listed(client: httpx.AsyncClient, query: str = "?shared=1") -> list[str]:
    return [item["id"] for item in (await client.get(f"/api/v1/exports{query}")).json()["items"]]


@pytest.fixture
async def shared(client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer) -> Export:
    """The user's, shared with the other."""
    export = await make_export(Status.SUCCESS)
    assert (await share(client, export, other.name)).status_code == 201
    return export


async def test_a_colleague_reads_and_downloads(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, shared: Export, user: Viewer
) -> None:
    at = f"/api/v1/exports/{shared.id}"
    seen = await other_client.get(at)
    assert seen.json() == (await client.get(at)).json()
    assert (await other_client.get(at, headers={"If-None-Match": seen.headers["etag"]})).status_code == 304
    assert (await other_client.get(f"{at}?wait=1")).json()["owner"] == user.id
    assert (await other_client.get(f"{at}/file")).content == CONTENT
    told = (await other_client.get(f"{at}/events")).json()["items"]
    assert {event["export_id"] for event in told} == {shared.id}
    assert (await listed(other_client), await listed(other_client, "")) == ([shared.id], [])
    assert await listed(client) == []


BEYOND = (
    ("PATCH", ""), ("DELETE", ""), ("POST", "/cancellation"), ("POST", "/retry"), ("POST", "/reminder"),
    ("GET", "/attempts"), ("GET", "/shares"), ("PUT", "/shares/admin"), ("DELETE", "/shares/other"),
)  # fmt: skip


async def test_and_may_do_no_more(other_client: httpx.AsyncClient, shared: Export, admin: Viewer) -> None:
    at = f"/api/v1/exports/{shared.id}"
    for method, path in BEYOND:
        body: dict[str, str] | None = None if method in {"GET", "DELETE"} else {}
        problem_of(await other_client.request(method, f"{at}{path}", json=body), 404, "NOT_FOUND")
    assert (await other_client.get(at)).json()["version"] == shared.version


async def withdraw_share(resources: Resources, export: Export, user: Viewer, other: Viewer) -> None:
    await shares.withdraw(resources, user, export.id, other.name)


async def grant_to_the_owner_alone(resources: Resources, export: Export, user: Viewer, other: Viewer) -> None:
    await groups.grant(resources, export.dataset, await people.user_named(resources, user.name), actor="tests")


async def let_it_expire(resources: Resources, export: Export, user: Viewer, other: Viewer) -> None:
    await changed(resources, export, status=Status.EXPIRED, version=export.version + 1, file=None)
    resources.statuses.hear(export.id, export.version + 1)


async def delete_it(resources: Resources, export: Export, user: Viewer, other: Viewer) -> None:
    await exports.delete(resources, user, export.id)


@pytest.mark.parametrize("lose", [withdraw_share, grant_to_the_owner_alone, let_it_expire, delete_it])
async def test_what_ends_it_ends_it_at_once(
    other_client: httpx.AsyncClient,
    make_client: Callable[[Viewer | None], Awaitable[httpx.AsyncClient]],
    resources: Resources,
    shared: Export,
    user: Viewer,
    other: Viewer,
    lose: Callable[[Resources, Export, Viewer, Viewer], Awaitable[None]],
) -> None:
    """On every channel, also for a program whose polls were just answered."""
    _, token = await people.create_token(resources, await people.user_named(resources, other.name), "t", actor="tests")
    program = await make_client(None)
    program.headers["Authorization"] = f"Bearer {token}"
    at = f"/api/v1/exports/{shared.id}"
    for _ in range(2):
        assert (await program.get(at)).status_code == 200
    await lose(resources, shared, user, other)
    for caller in (program, other_client):
        for path in (at, f"{at}/file", f"{at}/events", f"{at}?wait=1"):
            problem_of(await caller.get(path), 404, "NOT_FOUND")
        assert await listed(caller) == []
    for path in ("", "/live", "/stream"):
        assert (await other_client.get(f"/exports/{shared.id}{path}")).status_code == 404


async def test_who_is_switched_off_is_let_in_nowhere(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, resources: Resources, shared: Export, other: Viewer
) -> None:
    async with resources.store.transaction():
        now = await resources.store.now()
        await resources.store.execute(update(users).where(users.c.id == other.id).values(disabled_at=now))
    assert (await other_client.get(f"/api/v1/exports/{shared.id}")).status_code == 401
    [found] = (await client.get(f"/api/v1/exports/{shared.id}/shares")).json()["items"]
    assert (found["user"], found["open"]) == (other.name, False)


async def test_a_kept_answer_is_not_told_to_who_lost_it(
    resources: Resources, shared: Export, user: Viewer, other: Viewer
) -> None:
    """With copies in force, whoever filled them; and the owner's polls never look for shares."""
    resources.statuses.feed(True)
    resources.statuses.usable_from = 0
    for viewer in (user, other):
        assert (await polls.current(resources, viewer, shared.id, {""})).owner == user.id
    await shares.withdraw(resources, user, shared.id, other.name)
    with pytest.raises(NotFound):
        await polls.current(resources, other, shared.id, {""})
    assert (await polls.current(resources, user, shared.id, {""})).owner == user.id


async def test_who_may_not_order_the_dataset_is_nobody(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    """Whether there is somebody of that name is not told."""
    export = await make_export(Status.SUCCESS)
    await people.add_user(resources, "withheld", Role.USER, actor="tests")
    await groups.grant(resources, export.dataset, await people.user_named(resources, user.name), actor="tests")
    nobody = "There is nobody of this name who may order this dataset."
    for who in ("nobody", "-", "a b", "x" * 70, "%00", "withheld"):
        [error] = problem_of(await share(client, export, who), 422, "INVALID")["errors"]
        assert error == {"field": "person", "message": nobody}, who
    [error] = problem_of(await share(client, export, user.name), 422, "INVALID")["errors"]
    assert error["message"] == "It is theirs already."
    assert (await client.get(f"/api/v1/exports/{export.id}/shares")).json()["items"] == []


async def test_those_who_may_order_it_are_those_it_may_be_shared_with(
    make_export: ExportMaker, resources: Resources, user: Viewer, other: Viewer, admin: Viewer
) -> None:
    """By a grant, by a group, as an admin: as the catalog has it."""
    things, secret = (
        await make_export(Status.SUCCESS),
        await stored_export(resources, user, Status.SUCCESS, dataset="secret"),
    )
    grouped = await people.add_user(resources, "grouped", Role.USER, actor="tests")

    async def names(export: Export) -> list[str]:
        return list(await shares.candidates(resources, admin, export.id, ""))

    async def by_catalog(export: Export) -> list[str]:
        found = await people.list_users(resources)
        viewers = [viewer for one in found if (viewer := await people.viewer_of_user(resources, one.id))]
        may = [each for each in viewers if resources.catalog.dataset_for(export.dataset, each)]
        return [each.name for each in may if each.id != export.owner]

    assert await names(things) == await by_catalog(things) == [admin.name, "grouped", other.name]
    assert await names(secret) == await by_catalog(secret) == [admin.name]
    group = await groups.create(resources, "readers", actor="tests")
    await groups.add_member(resources, group, grouped, actor="tests")
    await groups.grant(resources, "things", group, actor="tests")
    assert await names(things) == await by_catalog(things) == [admin.name, "grouped"]
    assert list(await shares.candidates(resources, admin, things.id, "ROUP")) == ["grouped"]
    assert list(await shares.candidates(resources, admin, things.id, "%")) == []


async def test_only_a_finished_file_is_shared(
    client: httpx.AsyncClient, make_export: ExportMaker, other: Viewer
) -> None:
    for status in Status:
        if status is not Status.SUCCESS:
            problem_of(await share(client, await make_export(status), other.name), 409, "NOT_READY")


async def test_the_note_is_changed_and_the_list_tells(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, shared: Export, user: Viewer, other: Viewer
) -> None:
    again = await share(client, shared, other.name, note=" the figures\r\nof May ")
    assert (again.status_code, again.json()["note"]) == (200, "the figures\nof May")
    problem_of(await share(client, shared, other.name, note="x" * 2001), 422, "INVALID")
    problem_of(await share(client, shared, other.name, note=5), 422, "INVALID")
    for _ in range(2):
        await other_client.get(f"/api/v1/exports/{shared.id}/file")
    for whole in ({"Range": "lines=5-"}, {"Range": "bytes=5-,0-4"}, {"Range": "bytes=5-", "If-Range": '"other"'}):
        await other_client.get(f"/api/v1/exports/{shared.id}/file", headers=whole)
    for more in ({"Range": "bytes=5-"}, {"If-None-Match": f'"{shared.file.sha256 if shared.file else ""}"'}):
        await other_client.get(f"/api/v1/exports/{shared.id}/file", headers=more)
    await other_client.head(f"/api/v1/exports/{shared.id}/file")
    await client.get(f"/api/v1/exports/{shared.id}/file")
    [found] = (await client.get(f"/api/v1/exports/{shared.id}/shares")).json()["items"]
    assert {name: found[name] for name in ("user", "note", "shared_by", "downloads", "open", "seen_at")} == {
        "user": other.name,
        "note": "the figures\nof May",
        "shared_by": user.name,
        "downloads": 5,
        "open": True,
        "seen_at": None,
    }


async def test_what_is_read_without_its_first_byte_was_downloaded_too(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, resources: Resources, shared: Export
) -> None:
    """Once, as it may go on with what was fetched within the day."""

    async def downloads(*ranges: str) -> int:
        for asked in ranges:
            await other_client.get(f"/api/v1/exports/{shared.id}/file", headers={"Range": f"bytes={asked}"})
        [found] = (await client.get(f"/api/v1/exports/{shared.id}/shares")).json()["items"]
        return int(found["downloads"])

    assert await downloads("99-") == 0, "nothing was sent"
    assert await downloads("1-", "5-", "-3") == 1
    async with resources.store.transaction():
        at = await resources.store.now() - timedelta(days=2)
        await resources.store.execute(update(export_shares).values(downloaded_at=at))
    assert await downloads("1-", "5-") == 2


async def test_what_failed_before_is_told_to_the_owner_alone(
    client: httpx.AsyncClient, other_client: httpx.AsyncClient, resources: Resources, shared: Export
) -> None:
    reason = export_error(ErrorCode.QUERY_ERROR, detail="no such table: inner_things")
    failed = replace(shared, status=Status.FAILED, version=shared.version + 1, error=reason, file=None)
    async with resources.store.transaction():
        at = await resources.store.now()
        await events.record(resources.store, failed, at=at, base_url="http://testserver")
    stream = {"Accept": "text/event-stream"}
    for path, headers in ((f"/exports/{shared.id}", {}), (f"/api/v1/exports/{shared.id}/events", {}),
                          (f"/api/v1/exports/{shared.id}/events", stream)):  # fmt: skip
        told = [(await caller.get(path, headers=headers)).text for caller in (client, other_client)]
        assert ["inner_things" in each for each in told] == [True, False]


async def test_so_much_is_shared_in_an_hour(
    client: httpx.AsyncClient, make_export: ExportMaker, shared: Export, other: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is flooded; notes are changed and shares withdrawn all the same."""
    monkeypatch.setattr(shares, "SHARES_AN_HOUR", 1)
    more = await make_export(Status.SUCCESS)
    refused = await share(client, more, other.name)
    problem_of(refused, 429, "TOO_MANY_TRIES")
    assert int(refused.headers["retry-after"]) > 0
    page = await client.post(f"/exports/{more.id}/shares", data={"person": other.name, "note": "kept"})
    assert (page.status_code, "Too many tries" in page.text, "kept" in page.text) == (429, True, True)
    assert (await share(client, shared, other.name, note="again")).status_code == 200
    assert (await client.delete(f"/api/v1/exports/{shared.id}/shares/{other.name}")).status_code == 204
    problem_of(await share(client, shared, other.name), 429, "TOO_MANY_TRIES")


async def test_it_is_shared_with_so_many_at_most(make_export: ExportMaker, resources: Resources, user: Viewer) -> None:
    export = await make_export(Status.SUCCESS)
    async with resources.store.transaction():
        now = await resources.store.now()
        for n in range(MOST_SHARES + 1):
            row = {"id": f"usr_{n}", "name": f"reader-{n}", "role": "user", "created_at": now}
            await resources.store.execute(users.insert().values(**row))
    for n in range(MOST_SHARES):
        await shares.put(resources, user, export.id, f"reader-{n}")
    with pytest.raises(Invalid):
        await shares.put(resources, user, export.id, f"reader-{MOST_SHARES}")
    assert len(await shares.of_export(resources, user, export.id)) == MOST_SHARES


async def test_an_admin_shares_too_and_the_log_knows(
    admin_client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker, other: Viewer
) -> None:
    export = await make_export(Status.SUCCESS)
    assert (await share(admin_client, export, other.name)).status_code == 201
    assert (await share(admin_client, export, other.name)).status_code == 200
    gone = f"/api/v1/exports/{export.id}/shares/{other.name}"
    assert (await admin_client.delete(gone)).status_code == 204
    problem_of(await admin_client.delete(gone), 404, "NOT_FOUND")
    async with resources.store.connection():
        found = await audit.page(resources.store, AuditFilter(subject=export.id), limit=9, after=None)
    assert [(entry.actor, entry.action, entry.details) for entry in found] == [
        ("admin", "export.unshared", {"user": other.name, "dataset": "things"}),
        ("admin", "export.shared", {"user": other.name, "dataset": "things"}),
    ]


async def test_somebody_who_is_deleted_takes_it_along(
    client: httpx.AsyncClient, resources: Resources, shared: Export, other: Viewer
) -> None:
    async with resources.store.transaction():
        await resources.store.execute(users.delete().where(users.c.id == other.id))
    assert (await client.get(f"/api/v1/exports/{shared.id}/shares")).json()["items"] == []
