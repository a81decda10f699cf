"""`/account`: password, sessions, language and time zone, and tokens that are good for what they were made for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pages.dom import node, nodes, text, texts
from sqlalchemy import update

from webapp.actions import people
from webapp.domain.access import Entrance, Scope, Viewer
from webapp.domain.tries import LIMITS
from webapp.resources import Resources
from webapp.store import people as rows
from webapp.store.tables import api_tokens
from webapp.web.context import needed_scope
from webapp.web.security import SESSION_COOKIE

ClientMaker = Callable[[Viewer | None], Awaitable[httpx.AsyncClient]]
OLD, NEW = "user has a password", "seven uncommon walruses"


async def test_a_new_password_ends_all_sessions_but_this_one(
    client: httpx.AsyncClient, make_client: ClientMaker, resources: Resources, user: Viewer
) -> None:
    elsewhere = await make_client(user)
    sent = {"current": OLD, "password": NEW, "again": NEW}
    assert (await client.post("/account/password", data=sent)).status_code == 303
    assert texts(await client.get("/account"), ".flash") == [
        "Your password is changed; everywhere else you are signed out, and one-time links no longer let in."
    ]
    assert (await elsewhere.get("/account")).status_code == 303
    assert await people.sign_in(resources, "user", OLD) is None
    assert await people.sign_in(resources, "user", NEW) is not None


async def test_a_new_password_ends_one_time_links(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources, user: Viewer, admin: Viewer
) -> None:
    links = [
        await people.make_sign_in_link(resources, await people.user_named(resources, name))
        for name in ("user", "admin")
    ]
    await client.post("/account/password", data={"current": OLD, "password": NEW, "again": NEW})
    answers = [await anonymous.post(link.removeprefix("http://testserver")) for link in links]
    assert [answer.status_code for answer in answers] == [401, 303], "those of others go on"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 "
            "Safari/537.36 Edg/142.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.0 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 Firefox/144.0", "Firefox"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", "A browser that does not say its name"),
    ],
)
async def test_browsers_are_called_as_people_call_them(
    client: httpx.AsyncClient, resources: Resources, agent: str, name: str
) -> None:
    found = await people.user_named(resources, "user")
    await people.open_session(resources, found, people.Browser("", agent), Entrance.PASSWORD)
    page = await client.get("/account")
    assert name in texts(page, "#sessions .row-title")


@pytest.mark.parametrize(("choice", "left", "told"), [({}, 2, 2), ({"tokens": "end"}, 0, 1)])
async def test_tokens_go_on_with_a_new_password_unless_they_are_ended_as_well(
    client: httpx.AsyncClient, resources: Resources, user: Viewer, admin: Viewer, choice: dict[str, str], left: int,
    told: int,
) -> None:  # fmt: skip
    for name in ("user", "user", "admin"):
        await people.create_token(resources, await people.user_named(resources, name), "t", actor="tests")
    page = await client.get("/account")
    assert "2 API tokens of yours go on working with a new password: your tokens." in texts(page, "#password .note")
    assert node(page, "#password .note a").attributes["href"] == "#tokens"
    assert "checked" not in node(page, "#password input[name=tokens]").attributes
    await client.post("/account/password", data={"current": OLD, "password": NEW, "again": NEW} | choice)
    page = await client.get("/account")
    if told > 1:
        assert (
            texts(page, ".flash")[1]
            == "It ends no API token: 2 API tokens of yours, listed below, can be revoked there."
        )
    assert len(nodes(page, "#tokens tbody tr")) == left
    assert len(texts(page, ".flash")) == told
    assert await people.count_tokens(resources, (await people.user_named(resources, "admin")).id) == 1


async def test_a_first_password_wants_a_one_time_link(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    found = await people.user_named(resources, "user")
    for entrance, may in ((Entrance.OPENID, False), (Entrance.PASSWORD, False), (Entrance.LINK, True)):
        async with resources.store.transaction():
            await rows.forget_password(resources.store, user.id)
        session = await people.open_session(resources, found, people.UNKNOWN, entrance)
        anonymous.cookies.set(SESSION_COOKIE, session.token)
        page = await anonymous.get("/account")
        assert (bool(nodes(page, "#password form")), bool(nodes(page, "#first-by-link"))) == (may, not may)
        answer = await anonymous.post("/account/password", data={"password": NEW, "again": NEW})
        assert answer.status_code == (303 if may else 422), entrance
        assert (await people.sign_in(resources, "user", NEW) is not None) is may


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"current": "not it at all"}, "current", "This is not your password."),
        ({"again": "another one"}, "again", "This is not the same as above."),
        ({"password": "short", "again": "short"}, "password", "A password has 10 to 200 characters."),
        ({"password": "password123", "again": "password123"}, "password", "This password is easily guessed."),
        ({"password": "useruseruser", "again": "useruseruser"}, "password", "This password is easily guessed."),
    ],
)
async def test_a_password_that_will_not_do(
    client: httpx.AsyncClient, resources: Resources, changes: dict[str, str], field: str, sentence: str
) -> None:
    response = await client.post("/account/password", data={"current": OLD, "password": NEW, "again": NEW} | changes)
    assert response.status_code == 422
    assert text(response, f"#error-{field}").startswith(sentence)
    assert (await client.get("/account")).status_code == 200, "the session goes on"
    assert await people.sign_in(resources, "user", OLD) is not None


async def test_too_many_wrong_passwords_are_refused_whatever_the_next_one_is(
    anonymous: httpx.AsyncClient, user: Viewer, other: Viewer
) -> None:
    for _ in range(LIMITS["both"]):
        response = await anonymous.post("/sign-in", data={"name": "user", "password": "not it at all"})
        assert response.status_code == 401
    refused = await anonymous.post("/sign-in", data={"name": "user", "password": OLD})
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 900
    assert text(refused, "[role=alert]").startswith("Too many tries.")
    entered = await anonymous.post("/sign-in", data={"name": "other", "password": "other has a password"})
    assert entered.status_code == 303, "somebody else behind the same address gets in"


async def test_sessions_are_listed_and_ended(
    client: httpx.AsyncClient, make_client: ClientMaker, user: Viewer, other_client: httpx.AsyncClient
) -> None:
    await make_client(user), await make_client(user)
    page = await client.get("/account")
    assert len(nodes(page, "#sessions li")) == 3
    chosen = nodes(page, "#sessions input[name=session]")[0].attributes["value"]
    assert (await other_client.post("/account/sessions", data={"session": chosen})).status_code == 404
    await client.post("/account/sessions", data={"session": chosen})
    await client.post("/account/sessions")
    page = await client.get("/account")
    assert texts(page, "#sessions li .tag") == ["This one"]
    assert len(nodes(page, "#sessions li")) == 1


async def test_language_and_time_zone_are_the_persons_own(
    client: httpx.AsyncClient, make_client: Any, user: Viewer
) -> None:
    sent = {"language": "zh-CN", "timezone": "Asia/Shanghai"}
    assert (await client.post("/account/preferences", data=sent)).status_code == 303
    elsewhere = await make_client(user)
    page = await elsewhere.get("/account")
    assert page.headers["content-language"] == "zh-CN"
    assert node(page, "#timezone option[selected]").text() == "Asia/Shanghai"
    bad = await client.post("/account/preferences", data={"language": "xx", "timezone": "Mars/Base"})
    assert (bad.status_code, len(nodes(bad, "#preferences .error"))) == (422, 2)


async def test_a_token_is_shown_once_and_good_for_what_was_chosen(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    made = await client.post("/account/tokens", data={"name": "night", "scopes": "read", "lifetime": "7"})
    assert made.status_code == 201
    token = text(made, "#token")
    anonymous.headers["Authorization"] = f"Bearer {token}"
    assert (await anonymous.get("/api/v1/account")).json()["scopes"] == ["read"]
    refused = await anonymous.post("/api/v1/exports", json={"dataset": "things"})
    assert (refused.status_code, refused.json()["code"], refused.json()["scope"]) == (403, "SCOPE_NEEDED", "export")
    page = await client.get("/account")
    assert token not in page.text
    row = nodes(page, "#tokens tbody tr")[0]
    assert row.css("[data-label='Last used']")[0].text().strip() != "Never"
    where = row.css("form")[0].attributes["action"]
    assert text(await client.post(where), "h1") == "Revoke this token?"
    assert (await anonymous.get("/api/v1/account")).status_code == 200
    await client.post(where, data={"confirmed": "1"})
    assert (await anonymous.get("/api/v1/account")).status_code == 401


@pytest.mark.parametrize(
    "sent",
    [
        {"name": "", "scopes": "read", "lifetime": "7"},
        {"name": "x", "lifetime": "7"},
        {"name": "x", "scopes": "everything", "lifetime": "7"},
        {"name": "x", "scopes": "read", "lifetime": "99999"},
        {"name": "x" * 101, "scopes": "read", "lifetime": "7"},
    ],
)
async def test_a_token_that_cannot_be_made(client: httpx.AsyncClient, sent: dict[str, str]) -> None:
    response = await client.post("/account/tokens", data=sent)
    assert (response.status_code, len(nodes(response, "#tokens .error"))) == (422, 1)


async def test_a_token_runs_out_and_gives_no_more_than_it_has(
    anonymous: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    found = await people.user_named(resources, "user")
    scopes = frozenset({Scope.READ, Scope.ADMIN})
    token_id, token = await people.create_token(
        resources, found, "t", actor="tests", scopes=scopes, lifetime=timedelta(hours=1)
    )
    anonymous.headers["Authorization"] = f"Bearer {token}"
    made = await anonymous.post("/api/v1/tokens", json={"name": "u", "scopes": ["read"], "lifetime": "1d"})
    assert made.status_code == 201
    assert (await anonymous.get(made.headers["location"].removeprefix("http://testserver"))).json()["scopes"] == [
        "read"
    ]
    refused = await anonymous.post("/api/v1/tokens", json={"name": "u", "scopes": ["read", "export"]})
    assert [error["field"] for error in refused.json()["errors"]] == ["scopes"]
    past = found.created_at - timedelta(days=1)
    await resources.store.execute(update(api_tokens).where(api_tokens.c.id == token_id).values(expires_at=past))
    resources.statuses.viewers.clear()
    assert (await anonymous.get("/api/v1/account")).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/api/v1/exports", Scope.READ),
        ("POST", "/api/v1/exports", Scope.EXPORT),
        ("DELETE", "/api/v1/exports/exp_1", Scope.EXPORT),
        ("POST", "/api/v1/acknowledgements", Scope.READ),
        ("GET", "/api/v1/callbacks", Scope.CALLBACKS),
        ("POST", "/callbacks/new/trial", Scope.CALLBACKS),
        ("GET", "/api/v1/callbacks/hosts", Scope.CALLBACKS),
        ("PUT", "/api/v1/callbacks/hosts", Scope.ADMIN),
        ("POST", "/callbacks/hosts", Scope.ADMIN),
        ("GET", "/monitor", Scope.ADMIN),
        ("POST", "/api/v1/tokens", Scope.ADMIN),
        ("GET", "/api/v1/tokens", Scope.READ),
    ],
)
def test_what_a_token_has_to_be_good_for(method: str, path: str, scope: Scope) -> None:
    assert needed_scope(method, path) is scope
