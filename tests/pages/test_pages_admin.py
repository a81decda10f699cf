"""`/admin/…`: people, groups, grants, tokens and the audit log. A change counts at once, on every channel."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pages.dom import node, nodes, text, texts
from pages.zones import FIRST, LAST, day_in, in_zone

from webapp.actions import exports, groups, people, users
from webapp.domain.access import NotFound, Role, Scope, Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources

ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]
ExportMaker = Callable[..., Awaitable[Export]]
THINGS = {"dataset": "things", "format": "csv"}


async def test_an_invitation_lets_in_once_and_leads_to_a_password(
    admin_client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources
) -> None:
    made = await admin_client.post("/admin/users", data={"name": "cleo", "role": "user"})
    assert made.status_code == 201
    link = text(made, "#link").removeprefix("http://testserver")
    following = node(await anonymous.get(link), "main form input[name=next]").attributes["value"]
    entered = await anonymous.post(link, data={"next": following})
    assert (entered.status_code, entered.headers["location"]) == (303, "/account#password")
    page = await anonymous.get("/account")
    assert nodes(page, "input[name=current]") == [], "who has no password need not know one"
    new = "seven uncommon walruses"
    assert (await anonymous.post("/account/password", data={"password": new, "again": new})).status_code == 303
    assert await people.sign_in(resources, "cleo", new) is not None
    anonymous.cookies.clear()
    assert (await anonymous.post(link)).status_code == 401


async def test_a_reset_ends_the_old_password_the_sessions_and_earlier_links(
    admin_client: httpx.AsyncClient, client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources,
    user: Viewer,
) -> None:  # fmt: skip
    first = text(await admin_client.post(f"/admin/users/{user.id}/reset"), "#link")
    second = text(await admin_client.post(f"/admin/users/{user.id}/reset"), "#link")
    assert (await client.get("/account")).status_code == 303
    assert await people.sign_in(resources, "user", "user has a password") is None
    assert (await anonymous.post(first.removeprefix("http://testserver"))).status_code == 401
    assert (await anonymous.post(second.removeprefix("http://testserver"))).status_code == 303


async def test_who_is_disabled_is_nobody_until_let_in_again(
    admin_client: httpx.AsyncClient, client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources,
    user: Viewer,
) -> None:  # fmt: skip
    _, token = await people.create_token(resources, await people.user_named(resources, "user"), "t", actor="tests")
    anonymous.headers["Authorization"] = f"Bearer {token}"
    assert (await anonymous.get("/api/v1/account")).status_code == 200
    await admin_client.post(f"/admin/users/{user.id}/disabling")
    assert (await anonymous.get("/api/v1/account")).status_code == 401
    assert (await client.get("/api/v1/account")).status_code == 401
    assert await people.viewer_of_user(resources, user.id) is None
    await admin_client.post(f"/admin/users/{user.id}/enabling")
    assert (await anonymous.get("/api/v1/account")).status_code == 200


async def test_a_deleted_person_leaves_no_exports(
    admin_client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer, admin: Viewer
) -> None:
    found = [await make_export(status) for status in (Status.SUCCESS, Status.PROCESSING, Status.QUEUED)]
    asked = await admin_client.post(f"/admin/users/{user.id}/deletion")
    assert text(asked, "h1") == "Delete user?"
    gone = await admin_client.post(f"/admin/users/{user.id}/deletion", data={"confirmed": "1"})
    assert gone.headers["location"] == "/admin/users"
    for export in found:
        with pytest.raises(NotFound):
            await exports.get(resources, admin, export.id)
    with pytest.raises(NotFound):
        await people.user_named(resources, "user")


@pytest.mark.parametrize("act", ["role", "disabling", "deletion"])
async def test_the_last_admin_stays(
    admin_client: httpx.AsyncClient, resources: Resources, admin: Viewer, user: Viewer, act: str
) -> None:
    sent = {"role": "user", "confirmed": "1"}
    await admin_client.post(f"/admin/users/{admin.id}/{act}", data=sent)
    page = await admin_client.get(f"/admin/users/{admin.id}")
    assert texts(page, ".flash") == ["This is the only admin. Make somebody else an admin first."]
    await admin_client.post(f"/admin/users/{user.id}/role", data={"role": "admin"})
    await admin_client.post(f"/admin/users/{admin.id}/{act}", data=sent)
    assert (await admin_client.get("/admin/users")).status_code in {303, 403}


# Grants


async def granted_to(resources: Resources, name: str | None, dataset: str = "things") -> None:
    """To this person, or to a group that nobody is in."""
    to = await people.user_named(resources, name) if name else await groups.create(resources, "empty", actor="tests")
    await groups.grant(resources, dataset, to, actor="tests")


async def answers(client: httpx.AsyncClient, export: Export) -> dict[str, int]:
    """What a person gets of a dataset and of an export of it."""
    at = f"/exports/{export.id}"
    found = {
        "dataset": await client.get("/api/v1/datasets/things"),
        "preview": await client.post("/api/v1/datasets/things/preview", json={}),
        "page preview": await client.get("/exports/new/preview?dataset=things"),
        "form": await client.get("/exports/new?dataset=things"),
        "order again": await client.get(f"/exports/new?from={export.id}"),
        "export": await client.get(f"/api/v1{at}"),
        "file": await client.get(f"/api/v1{at}/file"),
        "events": await client.get(f"/api/v1{at}/events"),
        "attempts": await client.get(f"/api/v1{at}/attempts"),
        "page": await client.get(at),
        "part": await client.get(f"{at}/live"),
    }
    return {name: response.status_code for name, response in found.items()}


async def listed(client: httpx.AsyncClient) -> tuple[int, int, int, bool]:
    """How many exports, events and rows there are, and whether the dataset is offered."""
    exports_of = (await client.get("/api/v1/exports")).json()["items"]
    events_of = (await client.get("/api/v1/events?after=0")).json()["items"]
    rows = nodes(await client.get("/exports"), ".exports tbody tr")
    offered = {each["name"] for each in (await client.get("/api/v1/datasets")).json()["items"]}
    return len(exports_of), len(events_of), len(rows), "things" in offered


async def test_a_dataset_granted_to_others_is_withheld_everywhere_and_at_once(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.SUCCESS)
    assert set((await answers(client, export)).values()) == {200}
    before = await listed(client)
    await granted_to(resources, None)
    assert set((await answers(client, export)).values()) == {404}
    assert await listed(client) == (0, 0, 0, False)
    assert (await client.post("/api/v1/exports", json=THINGS)).status_code == 422
    assert set((await answers(admin_client, export)).values()) == {200}, "admins go on"
    await granted_to(resources, "user")
    assert set((await answers(client, export)).values()) == {200}
    assert await listed(client) == before


async def test_groups_hold_grants_for_their_members(
    client: httpx.AsyncClient, admin_client: httpx.AsyncClient, make_export: ExportMaker, user: Viewer
) -> None:
    export = await make_export(Status.SUCCESS)
    made = await admin_client.post("/admin/groups", data={"name": "Readers"})
    group = made.headers["location"]
    await admin_client.post("/admin/datasets/things/grants", data={"group": group.rsplit("/", 1)[1]})
    assert (await client.get(f"/exports/{export.id}")).status_code == 404
    for name, trouble in (("nobody", "There is no user named nobody."), (" ", "Write the name of a user.")):
        refused = await admin_client.post(f"{group}/members", data={"add": name})
        assert (refused.status_code, text(refused, "#error-person")) == (422, trouble)
    await admin_client.post(f"{group}/members", data={"add": "user"})
    assert (await client.get(f"/exports/{export.id}")).status_code == 200
    assert texts(await admin_client.get(group), "ul.rows a.row-title") == ["user", "Things"]
    await admin_client.post(f"/admin/users/{user.id}/groups", data={})
    assert (await client.get(f"/exports/{export.id}")).status_code == 404
    await admin_client.post(f"{group}/deletion", data={"confirmed": "1"})
    assert (await client.get(f"/exports/{export.id}")).status_code == 404, "a lost group opens nothing"
    assert texts(await admin_client.get("/admin/datasets/things"), "ul.rows li.quiet") == [
        "Nobody: only admins may use it."
    ]
    opened = await admin_client.post("/admin/datasets/things/opening", follow_redirects=True)
    assert (await client.get(f"/exports/{export.id}")).status_code == 200
    assert texts(opened, ".side-panel form ~ .note a") == ["Users", "Groups"]


async def test_a_grant_never_goes_beyond_the_files_roles(client: httpx.AsyncClient, resources: Resources) -> None:
    await granted_to(resources, "user", "secret")
    assert (await client.get("/api/v1/datasets/secret")).status_code == 404


async def test_a_token_that_polls_loses_sight_at_once(
    anonymous: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    """Also where polls are answered from copies."""
    export = await make_export(Status.SUCCESS)
    _, token = await people.create_token(resources, await people.user_named(resources, "user"), "t", actor="tests")
    resources.statuses.usable_from = 0.0
    anonymous.headers["Authorization"] = f"Bearer {token}"
    for _ in range(3):
        assert (await anonymous.get(f"/api/v1/exports/{export.id}")).status_code == 200
    await granted_to(resources, None)
    assert (await anonymous.get(f"/api/v1/exports/{export.id}")).status_code == 404


async def test_an_open_stream_ends_when_what_it_may_tell_changes(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    await make_export(Status.QUEUED)
    headers = {"Accept": "text/event-stream"}
    async with client.stream("GET", "/api/v1/events", headers=headers) as response:
        lines = response.aiter_lines()
        await anext(lines)
        await granted_to(resources, None)
        async with asyncio.timeout(4):
            assert "export." not in "".join([line async for line in lines])


# The audit log


async def test_the_audit_log_is_filtered_paged_and_told_as_csv(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    for number in range(30):
        await groups.create(resources, f"=group {number}", actor="=root")
    page = await admin_client.get("/admin/audit?kind=group")
    assert len(nodes(page, "tbody tr")) == 25
    older = node(page, "a[rel=next]").attributes["href"]
    assert older is not None
    assert [t.split()[0] for t in texts(await admin_client.get(older), "tbody .row-title")] == ["group.added"] * 5
    assert nodes(await admin_client.get("/admin/audit?actor=nobody"), "tbody tr") == []
    assert nodes(await admin_client.get("/admin/audit?kind=group&until=2020-01-01"), "tbody tr") == []
    assert len(nodes(await admin_client.get("/admin/audit?actor=%3DROOT&subject=%3DGroup%207"), "tbody tr")) == 1
    one = await admin_client.get("/admin/audit?subject=%3Dgroup%207&since=2020-01-01&until=2999-01-01")
    assert len(nodes(one, "tbody tr")) == 1
    table = list(csv.reader((await admin_client.get("/admin/audit.csv?kind=group")).text.splitlines()))
    assert (len(table), table[0][1], table[1][1:4]) == (31, "actor", ["'=root", "group.added", "'=group 29"])


@pytest.mark.parametrize("zone", [FIRST, LAST])
async def test_days_of_the_audit_log_are_those_of_the_admin(
    admin_client: httpx.AsyncClient, resources: Resources, zone: str
) -> None:
    await groups.create(resources, "some", actor="root")
    today, headers = day_in(zone, await resources.store.now()), in_zone(admin_client, zone)
    for first, last, count in ((0, 0, 1), (-9, -1, 0), (1, 9, 0)):
        days = f"since={today + timedelta(days=first)}&until={today + timedelta(days=last)}"
        page = await admin_client.get(f"/admin/audit?kind=group&{days}", headers=headers)
        assert len(nodes(page, "tbody tr")) == count
        lines = (await admin_client.get(f"/admin/audit.csv?kind=group&{days}", headers=headers)).text.splitlines()
        assert len(lines) == 1 + count


@pytest.mark.parametrize(
    "query",
    [
        "?cursor=x",
        "?since=yesterday",
        "?until=9999-12-31",
        "?since=0001-01-01",
        "?kind=%00",
        "?actor=%00&subject=" + "x" * 999,
    ],
)
async def test_an_address_that_means_nothing_still_shows_the_log(admin_client: httpx.AsyncClient, query: str) -> None:
    assert (await admin_client.get(f"/admin/audit{query}")).status_code == 200


async def test_everybodys_tokens_are_listed_and_revoked(
    admin_client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    found = await people.user_named(resources, "user")
    token_id, token = await people.create_token(
        resources, found, "night", actor="tests", scopes=frozenset({Scope.READ})
    )
    row: Any = node(await admin_client.get("/admin/tokens"), f"#{token_id}")
    assert "user" in row.text()
    await admin_client.post(f"/admin/tokens/{token_id}/revocation", data={"confirmed": "1"})
    anonymous.headers["Authorization"] = f"Bearer {token}"
    assert (await anonymous.get("/api/v1/account")).status_code == 401
    assert (await users.find(resources, user.id)).name == "user"


@pytest.mark.parametrize(
    ("kind", "address", "sent"),
    [
        ("callback_hosts", "/callbacks/hosts", {"hosts": "10.0.0.1"}),
        ("queue", "/monitor/queues/exports/pause", {"confirmed": "1"}),
        ("user", "/admin/users", {"name": "zoe"}),
    ],
)
async def test_the_audit_log_is_narrowed_to_what_was_done_to(
    admin_client: httpx.AsyncClient, kind: str, address: str, sent: dict[str, str]
) -> None:
    await admin_client.post("/admin/groups", data={"name": "Readers"})
    assert (await admin_client.post(address, data=sent)).status_code in {201, 303}
    assert kind in texts(await admin_client.get("/admin/audit"), "#kind option")
    _, *rows = (await admin_client.get(f"/admin/audit.csv?kind={kind}")).text.splitlines()
    assert rows
    assert all(f",{kind}." in row for row in rows)


# Long lists


@pytest.mark.parametrize(("query", "found"), [("?q=PERSON-07", ["person-07"]), ("?q=%25", []), ("?cursor=user", [])])
async def test_people_are_searched(
    admin_client: httpx.AsyncClient, resources: Resources, query: str, found: list[str]
) -> None:
    await people.add_user(resources, "person-07", Role.USER, actor="tests")
    page = await admin_client.get(f"/admin/users{query}")
    assert texts(page, "tbody a.row-title") == found
    assert bool(nodes(page, ".empty")) is not bool(found)


async def test_people_are_listed_a_page_at_a_time(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    names = [f"person-{number:02}" for number in range(30)]
    for name in names:
        await people.add_user(resources, name, Role.USER, actor="tests")
    first = await admin_client.get("/admin/users?q=person")
    following = node(first, "a[rel=next]").attributes["href"]
    assert following is not None
    second = await admin_client.get(following)
    assert texts(first, "tbody a.row-title") + texts(second, "tbody a.row-title") == names
    assert len(texts(second, "tbody a.row-title")) == 5
    assert node(second, "a[rel=prev]").attributes["href"] == "/admin/users?q=person"
    assert nodes(second, "a[rel=next]") == []


async def test_tokens_are_searched_by_their_own_or_their_person_s_name_and_paged(
    admin_client: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    found = await people.user_named(resources, "user")
    for number in range(27):
        await people.create_token(resources, found, f"Nächtlich {number}", actor="tests")
    await people.create_token(resources, await people.user_named(resources, "admin"), "other", actor="tests")
    for query, count in (("user", 25), ("NÄCHTLICH", 25), ("other", 1), ("nothing", 0)):
        page = await admin_client.get("/admin/tokens", params={"q": query})
        assert len(nodes(page, "tbody tr")) == count, query
    older = node(await admin_client.get("/admin/tokens?q=user"), "a[rel=next]").attributes["href"]
    assert older is not None
    assert texts(await admin_client.get(older), "tbody .row-title") == ["Nächtlich 1", "Nächtlich 0"]
