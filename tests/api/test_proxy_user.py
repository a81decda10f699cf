"""Signing in through a trusted proxy: believed from its network alone, stripped from everybody else's requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from factories import ASGITransport
from pages.dom import nodes, text, texts

from webapp.actions import people, users
from webapp.commands.web import behind_proxies
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.settings import BadSettings, Settings, read_settings

HEADER = "X-Auth-Request-User"


def client_of(app: Any, settings: Settings, networks: tuple[str, ...]) -> httpx.AsyncClient:
    """As if it had connected from 127.0.0.1."""
    changed = replace(settings, proxy_user_header=HEADER, trusted_proxies=networks)
    return httpx.AsyncClient(transport=ASGITransport(behind_proxies(app, changed)), base_url="http://testserver")


async def name_of(client: httpx.AsyncClient, *headers: tuple[str, str]) -> str | None:
    response = await client.get("/api/v1/account", headers=list(headers))
    return response.json()["name"] if response.status_code == 200 else None


async def test_a_trusted_proxy_says_who_it_is(app: Any, settings: Settings, resources: Resources, user: Viewer) -> None:
    async with client_of(app, settings, ("127.0.0.0/8",)) as client:
        assert await name_of(client, (HEADER, "user")) == "user"
        assert await name_of(client, (HEADER, "cleo@example.com")) == "cleo@example.com", "who is new is added"
        assert await name_of(client) is None
        assert await name_of(client, (HEADER, "user"), (HEADER, "admin")) is None
        assert await name_of(client, (HEADER, "no name")) is None
        forwarded = ("X-Forwarded-For", "203.0.113.9")
        assert await name_of(client, (HEADER, "user"), forwarded) == "user", "who has connected counts"
        await users.disable(resources, await people.user_named(resources, "user"), actor="tests")
        assert await name_of(client, (HEADER, "user")) is None


@pytest.mark.parametrize("spelling", [HEADER, HEADER.lower(), "X_Auth_Request_User"])
@pytest.mark.parametrize("forwarded", ["127.0.0.1", "192.0.2.1", "198.51.100.7, 192.0.2.1"])
async def test_from_anybody_else_the_header_says_nothing(
    app: Any, settings: Settings, user: Viewer, spelling: str, forwarded: str
) -> None:
    async with client_of(app, settings, ("192.0.2.0/24",)) as client:
        assert await name_of(client, (spelling, "user"), ("X-Forwarded-For", forwarded)) is None


async def test_a_write_from_another_site_is_refused_behind_a_proxy_too(
    app: Any, settings: Settings, user: Viewer
) -> None:
    async with client_of(app, settings, ("127.0.0.1",)) as client:
        headers = {HEADER: "user", "Origin": "https://evil.example"}
        assert (await client.post("/exports", data={"dataset": "things"}, headers=headers)).status_code == 403


async def test_who_comes_by_the_proxy_signs_out_there(app: Any, settings: Settings, user: Viewer) -> None:
    async with client_of(app, settings, ("127.0.0.1",)) as client:
        client.headers[HEADER] = "user"
        assert nodes(await client.get("/exports"), "form[action='/sign-out']") == []
        assert (await client.post("/sign-out")).headers["location"] == "/sign-in"
        back = await client.get("/sign-in", follow_redirects=True)
        assert texts(back, ".flash") == ["A proxy in front of this desk signs you in. Sign out there."]


@pytest.mark.parametrize("name", ["user", "no name", "王"])
async def test_whom_the_proxy_lets_in_and_the_desk_does_not_is_told(
    app: Any, settings: Settings, resources: Resources, user: Viewer, name: str
) -> None:
    await users.disable(resources, await people.user_named(resources, "user"), actor="tests")
    async with client_of(app, settings, ("127.0.0.1",)) as client:
        kept_out = await client.get("/sign-in", headers=[(HEADER.encode(), name.encode())])
    assert (kept_out.status_code, nodes(kept_out, "input[type=password]")) == (403, [])
    assert text(kept_out, "[role=alert]").startswith(f"You come signed in as {name}, who is not let in here.")


async def test_who_comes_by_the_proxy_sets_no_first_password(
    app: Any, settings: Settings, resources: Resources
) -> None:
    new = "seven uncommon walruses"
    async with client_of(app, settings, ("127.0.0.1",)) as client:
        sent = {"password": new, "again": new}
        assert (await client.post("/account/password", data=sent, headers={HEADER: "cleo"})).status_code == 422
    assert await people.sign_in(resources, "cleo", new) is None


def test_the_header_needs_proxies_to_believe(tmp_path: Any) -> None:
    with pytest.raises(BadSettings, match="PROXY_USER_HEADER: needs TRUSTED_PROXIES"):
        read_settings({"EXPORTDESK_DATA_DIR": str(tmp_path), "EXPORTDESK_PROXY_USER_HEADER": "X-User"})
