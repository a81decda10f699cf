"""`/api/v1/users`, `/groups`, `/grants` and `/audit`: what the pages of administration do, for programs of admins."""

from __future__ import annotations

import csv
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from api.problem_documents import problem_of

from webapp.actions import groups, people
from webapp.domain.access import ALL_SCOPES, Role, Scope, Viewer
from webapp.resources import Resources

ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]


async def pages(client: httpx.AsyncClient, url: str) -> list[list[Any]]:
    """The items of every page, to the last."""
    found: list[list[Any]] = []
    cursor = ""
    while True:
        page = (await client.get(f"{url}{'&' if '?' in url else '?'}cursor={cursor}")).json()
        found.append(page["items"])
        if (cursor := page["next_cursor"]) is None:
            return found


async def actions_of(client: httpx.AsyncClient) -> list[tuple[str, str, str]]:
    """What the log says was done since the test began it, oldest first; not that its own clients have signed in."""
    items = (await client.get("/api/v1/audit?limit=200")).json()["items"]
    told = [(each["actor"], each["action"], each["subject"]) for each in reversed(items) if each["actor"] != "tests"]
    return [
        each for each in told if each not in (("admin", "user.signed_in", "admin"), ("user", "user.signed_in", "user"))
    ]


async def test_people_are_listed_by_name_searched_and_paged(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    for name in ("Zoe", "anton", "Berta", "b_c", "bxc"):
        await people.add_user(resources, name, Role.USER, actor="tests")
    found = await pages(admin_client, "/api/v1/users?limit=2")
    names = [user["name"] for page in found for user in page]
    assert [len(page) for page in found] == [2, 2, 2]
    assert sorted(names, key=str.lower) == sorted(["admin", "anton", "b_c", "Berta", "bxc", "Zoe"], key=str.lower)
    assert (names[0], names[-1]) == ("admin", "Zoe")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("q=BERT", ["Berta"]),
        ("q=b_c", ["b_c"]),
        ("q=%25", []),
        ("role=admin", ["admin"]),
        ("role=user&q=o", ["anton", "Zoe"]),
        ("group=grp_x", []),
        ("cursor=berta&limit=200", ["bxc", "Zoe"]),
        ("cursor=nobody", ["Zoe"]),
    ],
)
async def test_of_people_those_are_found_that_match(
    admin_client: httpx.AsyncClient, resources: Resources, query: str, names: list[str]
) -> None:
    for name in ("Zoe", "anton", "Berta", "b_c", "bxc"):
        await people.add_user(resources, name, Role.USER, actor="tests")
    page = (await admin_client.get(f"/api/v1/users?{query}")).json()
    assert [user["name"] for user in page["items"]] == names


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("/users?role=owner", "role"),
        ("/users?limit=0", "limit"),
        ("/users?cursor=-", "cursor"),
        ("/users?q=%00", "q"),
        ("/grants?cursor=x", "cursor"),
        ("/audit?kind=nonsense", "kind"),
        ("/audit?format=xml", "format"),
        ("/audit?until=tomorrow", "until"),
        ("/audit?cursor=1-exp_01m8mtv6eyecta8qms1nden14k", "cursor"),
    ],
)
async def test_what_an_address_asks_for_has_limits(admin_client: httpx.AsyncClient, url: str, field: str) -> None:
    response = await admin_client.get(f"/api/v1{url}")
    assert (response.status_code, [error["field"] for error in response.json()["errors"]]) == (422, [field])


async def test_somebody_is_invited_comes_in_and_goes(
    admin_client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources
) -> None:
    made = await admin_client.post("/api/v1/users", json={"name": "cleo"})
    assert made.status_code == 201
    user, link = made.json()["user"], made.json()["link"]
    at = made.headers["location"].removeprefix("http://testserver")
    assert at == f"/api/v1/users/{user['id']}"
    assert (user["role"], user["has_password"], user["groups"]) == ("user", False, [])
    assert (await admin_client.get(at)).json() == user
    assert user["link_expires_at"] is not None
    assert (await anonymous.post(link.removeprefix("http://testserver"))).status_code == 303
    assert (await admin_client.get(at)).json()["link_expires_at"] is None
    changed = await admin_client.patch(at, json={"role": "admin"})
    assert (changed.status_code, changed.json()["role"]) == (200, "admin")
    again = await admin_client.post(f"{at}/reset")
    assert (await anonymous.get("/api/v1/account")).status_code == 401, "a reset ends sessions"
    assert again.json()["link"] != link
    assert (await admin_client.post(f"{at}/disabling")).json()["disabled_at"] is not None
    assert (await anonymous.post(again.json()["link"].removeprefix("http://testserver"))).status_code == 401
    assert (await admin_client.post(f"{at}/enabling")).json()["disabled_at"] is None
    assert (await admin_client.delete(at)).status_code == 204
    problem_of(await admin_client.get(at), 404, "NOT_FOUND")
    assert await actions_of(admin_client) == [
        ("cleo" if done == "signed_in" else "admin", f"user.{done}", "cleo")
        for done in ("added", "signed_in", "role", "reset", "disabled", "enabled", "disabled", "deleted")
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "user"}, "name"),
        ({"name": " x"}, "name"),
        ({"name": "x", "role": "owner"}, "role"),
        ({"name": "x", "password": "y"}, "password"),
        ({}, "name"),
    ],
)
async def test_who_cannot_be_is_not_invited(
    admin_client: httpx.AsyncClient, user: Viewer, body: dict[str, str], field: str
) -> None:
    response = await admin_client.post("/api/v1/users", json=body)
    assert [error["field"].lstrip("$.") for error in problem_of(response, 422, "INVALID")["errors"]] == [field]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("PATCH", "", {"role": "user"}), ("POST", "/disabling", None), ("DELETE", "", None)],
)
async def test_the_last_admin_stays(
    admin_client: httpx.AsyncClient, admin: Viewer, method: str, path: str, body: dict[str, str] | None
) -> None:
    response = await admin_client.request(method, f"/api/v1/users/{admin.id}{path}", json=body)
    problem_of(response, 409, "LAST_ADMIN")
    assert (await admin_client.get(f"/api/v1/users/{admin.id}")).json()["role"] == "admin"


async def test_a_group_and_its_grant_open_a_dataset_and_close_it(
    admin_client: httpx.AsyncClient, client: httpx.AsyncClient, user: Viewer
) -> None:
    """Each step counts at once."""

    async def is_seen() -> bool:
        return (await client.get("/api/v1/datasets/things")).status_code == 200

    made = await admin_client.post("/api/v1/groups", json={"name": "Readers"})
    group = made.headers["location"].removeprefix("http://testserver")
    assert (made.status_code, made.json()["members"]) == (201, 0)
    grant = {"dataset": "things", "group_id": made.json()["id"]}
    granted = await admin_client.post("/api/v1/grants", json=grant)
    assert granted.status_code == 201
    assert granted.json().items() >= (grant | {"user_id": None, "name": "Readers"}).items()
    assert not await is_seen()
    repeated = await admin_client.post("/api/v1/grants", json=grant)
    assert (repeated.status_code, repeated.json()) == (200, granted.json())
    at = granted.headers["location"].removeprefix("http://testserver")
    assert (await admin_client.get(at)).json() == granted.json()
    for _ in range(2):
        assert (await admin_client.put(f"{group}/members/{user.id}")).status_code == 204
    assert await is_seen()
    assert [each["name"] for each in (await admin_client.get(f"{group}/members")).json()["items"]] == ["user"]
    person = (await admin_client.get(f"/api/v1/users/{user.id}")).json()
    assert person["groups"] == [{"id": made.json()["id"], "name": "Readers"}]
    assert (await admin_client.patch(group, json={"name": "Writers"})).json()["name"] == "Writers"
    assert (await admin_client.delete(f"{group}/members/{user.id}")).status_code == 204
    assert not await is_seen()
    theirs = await admin_client.post("/api/v1/grants", json={"dataset": "things", "user_id": user.id})
    assert await is_seen()
    assert (await admin_client.get(f"/api/v1/grants?user={user.id}")).json()["items"] == [theirs.json()]
    assert [len(page) for page in await pages(admin_client, "/api/v1/grants?limit=1")] == [1, 1]
    assert (await admin_client.get("/api/v1/grants/datasets/things")).json().items() >= {
        "restricted": True, "grants": 2, "roles": ["admin", "user"],
    }.items()  # fmt: skip
    assert (await admin_client.delete(theirs.headers["location"].removeprefix("http://testserver"))).status_code == 204
    assert (await admin_client.delete(group)).status_code == 204
    assert (await admin_client.get("/api/v1/grants")).json()["items"] == []
    assert not await is_seen(), "without its last grant it is nobody's"
    opened = await admin_client.post("/api/v1/grants/datasets/things/opening")
    assert (opened.json()["restricted"], await is_seen()) == (False, True)
    assert await actions_of(admin_client) == [
        ("admin", "group.added", "Readers"),
        ("admin", "grant.added", "things"),
        ("admin", "user.groups", "user"),
        ("admin", "group.renamed", "Writers"),
        ("admin", "user.groups", "user"),
        ("admin", "grant.added", "things"),
        ("admin", "grant.withdrawn", "things"),
        ("admin", "group.deleted", "Writers"),
        ("admin", "grant.opened", "things"),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"dataset": "things"}, "user_id"),
        ({"dataset": "things", "user_id": "usr_" + "0" * 26, "group_id": "grp_" + "0" * 26}, "user_id"),
        ({"dataset": "things", "user_id": "usr_" + "0" * 26}, "user_id"),
        ({"dataset": "things", "user_id": ""}, "user_id"),
        ({"dataset": "things", "group_id": "grp_" + "0" * 26}, "group_id"),
        ({"dataset": "things", "group_id": ""}, "group_id"),
        ({"dataset": "nothing", "group_id": "grp_" + "0" * 26}, "dataset"),
    ],
)
async def test_what_is_granted_and_to_whom_has_to_be_there(
    admin_client: httpx.AsyncClient, body: dict[str, str], field: str
) -> None:
    errors = problem_of(await admin_client.post("/api/v1/grants", json=body), 422, "INVALID")["errors"]
    assert [error["field"] for error in errors] == [field]
    assert not (await admin_client.get("/api/v1/grants/datasets/things")).json()["restricted"]


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\u200bb", "taken"])
async def test_a_group_s_name_is_checked(admin_client: httpx.AsyncClient, resources: Resources, name: str) -> None:
    await groups.create(resources, "taken", actor="tests")
    other = await groups.create(resources, "other", actor="tests")
    problem_of(await admin_client.post("/api/v1/groups", json={"name": name}), 422, "INVALID")
    problem_of(await admin_client.patch(f"/api/v1/groups/{other.id}", json={"name": name}), 422, "INVALID")


async def test_a_group_that_is_called_as_the_id_of_another_is_not_taken_for_it(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    meant = await groups.create(resources, "zebras", actor="tests")
    await groups.create(resources, meant.id, actor="tests")
    assert (await admin_client.get(f"/api/v1/groups/{meant.id}")).json()["name"] == "zebras"


async def test_the_audit_log_is_filtered_and_paged(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    for number in range(5):
        await groups.create(resources, f"group {number}", actor="root")
    found = await pages(admin_client, "/api/v1/audit?kind=group&limit=2")
    assert [[entry["subject"][-1] for entry in page] for page in found] == [["4", "3"], ["2", "1"], ["0"]]
    middle = found[1][0]["timestamp"]
    later = (await admin_client.get(f"/api/v1/audit?actor=root&since={middle}")).json()["items"]
    earlier = (await admin_client.get(f"/api/v1/audit?actor=root&until={middle}")).json()["items"]
    assert len(later) + len(earlier) == 5, "from `since` on, and before `until`"
    assert found[1][0] in later
    assert (await admin_client.get("/api/v1/audit?subject=group%203")).json()["items"] == [found[0][1]]


@pytest.mark.parametrize(
    ("query", "accept", "is_csv"),
    [
        ("", "text/csv", True),
        ("format=csv", "application/json", True),
        ("format=json", "text/csv", False),
        ("", "*/*", False),
    ],
)
async def test_the_audit_log_is_told_as_csv_to_who_asks(
    admin_client: httpx.AsyncClient, resources: Resources, query: str, accept: str, is_csv: bool
) -> None:
    await groups.create(resources, "=readers", actor="root")
    await groups.create(resources, "writers", actor="root")
    response = await admin_client.get(f"/api/v1/audit?actor=root&limit=1&{query}", headers={"Accept": accept})
    assert (response.status_code, response.headers["vary"]) == (200, "Accept")
    if not is_csv:
        assert len(response.json()["items"]) == 1
        return
    assert response.headers["content-type"].startswith("text/csv")
    head, *lines = csv.reader(response.text.splitlines())
    assert head == ["timestamp", "actor", "action", "subject", "details"]
    assert [line[1:4] for line in lines] == [["root", "group.added", "writers"], ["root", "group.added", "'=readers"]]


@pytest.mark.parametrize("path", ["users", "groups", "grants", "grants/datasets", "audit"])
async def test_a_token_needs_the_scope_admin_and_an_admin(
    anonymous: httpx.AsyncClient, resources: Resources, admin: Viewer, user: Viewer, path: str
) -> None:
    answers: dict[str, int] = {}
    for name, scopes in (("admin", ALL_SCOPES - {Scope.ADMIN}), ("admin", {Scope.ADMIN}), ("user", ALL_SCOPES)):
        found = await people.user_named(resources, name)
        _, token = await people.create_token(resources, found, "t", actor="tests", scopes=frozenset(scopes))
        response = await anonymous.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
        answers[f"{name} {len(scopes)}"] = response.status_code
    assert answers == {"admin 3": 403, "admin 1": 200, "user 4": 403}
