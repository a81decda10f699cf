"""Signing in by way of an OpenID provider, a real one on this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from factories import ASGITransport
from openid_provider import CLIENT, SECRET, Provider
from openid_provider import provider as provider
from pages.dom import node, text

from webapp import openid
from webapp.actions import groups, identities, people, users
from webapp.app import build_app, serving
from webapp.domain.access import Role, Viewer
from webapp.openid import Provider as Known
from webapp.resources import Resources
from webapp.settings import OpenIDSettings

os.environ.setdefault("AUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.fixture
async def browser(resources: Resources, provider: Provider) -> AsyncIterator[httpx.AsyncClient]:
    ours = OpenIDSettings(
        provider.issuer, CLIENT, SECRET, title="Test", groups_claim="groups", admin_groups=("desk-admins",)
    )
    app = build_app()
    desk = replace(resources, openid=Known(ours, "http://testserver/sign-in/openid/callback"))
    async with (
        serving(app, desk),
        httpx.AsyncClient(transport=ASGITransport(app), base_url="http://testserver") as client,
    ):
        yield client


async def departed(browser: httpx.AsyncClient, following: str = "/account") -> str:
    """Somebody without a session, back from the provider: the address that it leads to."""
    browser.cookies.clear()
    form = await browser.get(f"/sign-in?next={following}")
    link = node(form, "a[href^='/sign-in/openid']").attributes["href"]
    assert link is not None
    away = await browser.get(link)
    assert away.status_code == 303
    async with httpx.AsyncClient() as there:
        back = await there.get(away.headers["location"])
    assert back.status_code == 302, back.text
    return back.headers["location"].removeprefix("http://testserver")


async def arrived(browser: httpx.AsyncClient) -> httpx.Response:
    return await browser.get(await departed(browser))


async def who(browser: httpx.AsyncClient) -> dict[str, Any]:
    return (await browser.get("/api/v1/account")).json()


async def test_who_comes_first_is_added_and_led_back(browser: httpx.AsyncClient, resources: Resources) -> None:
    entered = await arrived(browser)
    assert (entered.status_code, entered.headers["location"]) == (303, "/account")
    assert ((await who(browser))["name"], (await who(browser))["role"]) == ("cleo", "user")
    assert (await people.user_named(resources, "cleo")).password_hash is None


async def test_who_comes_again_is_the_same_whatever_the_name_is_now(
    browser: httpx.AsyncClient, provider: Provider
) -> None:
    await arrived(browser)
    first = (await who(browser))["id"]
    provider.claims["preferred_username"] = "kleopatra"
    provider.rotate()
    await arrived(browser)
    assert (await who(browser))["id"] == first, "also after the provider changed its key"


async def test_groups_and_role_follow_the_provider(
    browser: httpx.AsyncClient, provider: Provider, resources: Resources, admin: Viewer
) -> None:
    readers = await groups.create(resources, "Readers", actor="tests")
    provider.claims["groups"] = ["Readers", "desk-admins", "unknown"]
    await arrived(browser)
    found = await users.look(resources, (await people.user_named(resources, "cleo")).id)
    assert (found.user.role, [group.id for group in found.groups]) == (Role.ADMIN, [readers.id])
    provider.claims["groups"] = []
    await arrived(browser)
    found = await users.look(resources, found.user.id)
    assert (found.user.role, found.groups) == (Role.USER, [])


async def test_a_name_that_was_there_before_is_not_taken_over(
    browser: httpx.AsyncClient, provider: Provider, admin: Viewer
) -> None:
    provider.claims["preferred_username"] = "admin"
    refused = await arrived(browser)
    assert (refused.status_code, text(refused, "[role=alert]")) == (
        403,
        "There is a user named admin already, who signs in another way. Ask the person who runs this export desk.",
    )
    assert (await browser.get("/api/v1/account")).status_code == 401


async def test_who_is_disabled_stays_out(browser: httpx.AsyncClient, resources: Resources) -> None:
    await arrived(browser)
    await users.disable(resources, await people.user_named(resources, "cleo"), actor="tests")
    assert (await arrived(browser)).status_code == 403


@pytest.mark.parametrize(
    "forged",
    [
        {"nonce": "another"},
        {"iss": "https://evil.example"},
        {"aud": ["somebody else"]},
        {"exp": 1},
        {"azp": "somebody else"},
        {"sub": None},
    ],
)
async def test_a_token_with_a_wrong_claim_lets_nobody_in(
    browser: httpx.AsyncClient, provider: Provider, forged: dict[str, Any]
) -> None:
    provider.forge = forged
    assert (await arrived(browser)).status_code == 502
    assert (await browser.get("/api/v1/account")).status_code == 401


async def test_a_token_under_another_key_lets_nobody_in(browser: httpx.AsyncClient, provider: Provider) -> None:
    back = await departed(browser)
    true, kid = provider.key, provider.key.kid
    provider.rotate()
    forged = provider.key
    provider.key = type(true).import_key({**forged.as_dict(private=True), "kid": kid})
    published = true.as_dict(private=False)
    provider.key.as_dict = lambda **_: published  # type: ignore[method-assign]
    assert (await browser.get(back)).status_code == 502


@pytest.mark.parametrize("change", ["state", "iss", "error", "code", "cookie"])
async def test_an_answer_that_is_not_for_this_browser_lets_nobody_in(browser: httpx.AsyncClient, change: str) -> None:
    back = await departed(browser)
    if change == "cookie":
        browser.cookies.clear()
    query = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()} | {change: "x"}
    assert (await browser.get("/sign-in/openid/callback", params=query)).status_code == 502
    assert (await browser.get("/api/v1/account")).status_code == 401


async def test_a_provider_that_is_away_is_said_to_be(browser: httpx.AsyncClient, provider: Provider) -> None:
    provider.stop()
    refused = await browser.get("/sign-in/openid")
    assert (refused.status_code, text(refused, "[role=alert]")) == (
        502,
        "The provider cannot be reached. Try again in a few minutes; "
        "if that does not help, tell the person who runs this export desk.",
    )


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        ("access_denied", 403, "The provider did not let you in. Ask the person who runs this export desk."),
        ("server_error", 502, "Signing in at the provider did not work. Try again."),
    ],
)
async def test_what_the_provider_refuses_is_told_and_the_way_on_is_kept(
    browser: httpx.AsyncClient, error: str, status: int, sentence: str
) -> None:
    back = urlsplit(await departed(browser, "/exports/new"))
    query = {"state": parse_qs(back.query)["state"][0], "error": error}
    refused = await browser.get(back.path, params=query)
    assert (refused.status_code, text(refused, "[role=alert]")) == (status, sentence)
    assert node(refused, "form[action='/sign-in'] input[name=next]").attributes["value"] == "/exports/new"
    assert node(refused, "a[href^='/sign-in/openid']").attributes["href"] == "/sign-in/openid?next=/exports/new"


async def test_the_cookie_of_the_way_there_is_spent_also_when_it_did_not_work(browser: httpx.AsyncClient) -> None:
    back = await departed(browser)
    assert "exportdesk_openid" in browser.cookies
    assert (await browser.get("/sign-in/openid/callback", params={"state": "x"})).status_code == 502
    assert "exportdesk_openid" not in browser.cookies
    assert (await browser.get(back)).status_code == 502


@pytest.mark.parametrize("answer", [b"{}", b"[]", b'{"keys": 1}', b"no JSON"])
async def test_keys_that_are_not_understood_let_nobody_in(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    back = await departed(browser)
    fetch = openid._fetch

    async def fetched(method: str, url: str, *rest: Any) -> bytes:
        return answer if url.endswith("/keys") else await fetch(method, url, *rest)

    monkeypatch.setattr(openid, "_fetch", fetched)
    assert (await browser.get(back)).status_code == 502


async def test_who_comes_twice_at_once_is_added_once(
    browser: httpx.AsyncClient, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    await arrived(browser)
    first, known = (await who(browser))["id"], identities._known
    answers = iter([asyncio.sleep(0)])
    monkeypatch.setattr(identities, "_known", lambda *given: next(answers, None) or known(*given))
    assert (await arrived(browser)).status_code == 303
    assert (await who(browser))["id"] == first
