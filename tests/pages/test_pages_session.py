"""Signing in and out, and what a person sees who may not."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest
from pages.dom import node, nodes, text, texts

from webapp.actions import people
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.web.security import SESSION_COOKIE


async def sign_in(client: httpx.AsyncClient, **fields: str) -> httpx.Response:
    return await client.post("/sign-in", data={"name": "user", "password": "user has a password", **fields})


async def test_a_page_sends_nobody_to_the_sign_in_form_and_back(anonymous: httpx.AsyncClient, user: Viewer) -> None:
    refused = await anonymous.get("/exports?status=success")
    assert (refused.status_code, refused.headers["location"]) == (303, "/sign-in?next=%2Fexports%3Fstatus%3Dsuccess")
    form = await anonymous.get(refused.headers["location"])
    following = node(form, "form[action='/sign-in'] input[name=next]").attributes["value"]
    assert following == "/exports?status=success"
    entered = await sign_in(anonymous, next=following)
    assert (entered.status_code, entered.headers["location"]) == (303, "/exports?status=success")
    assert (await anonymous.get("/exports")).status_code == 200


async def test_a_part_of_a_page_is_refused_bare(anonymous: httpx.AsyncClient) -> None:
    response = await anonymous.get("/exports/live", headers={"HX-Request": "true"})
    assert (response.status_code, nodes(response, "main, form, header")) == (401, [])


async def test_a_wrong_password_shows_the_form_again(anonymous: httpx.AsyncClient, user: Viewer) -> None:
    response = await sign_in(anonymous, password="not the password")
    assert response.status_code == 401
    assert text(response, "[role=alert]") == "The name or the password is wrong."
    assert node(response, "input[name=name]").attributes["value"] == "user"
    assert node(response, "input[name=password]").attributes.get("value") is None
    assert SESSION_COOKIE not in anonymous.cookies


async def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(
    anonymous: httpx.AsyncClient, user: Viewer
) -> None:
    response = await sign_in(anonymous)
    cookie = response.headers["set-cookie"].lower()
    assert cookie.startswith(SESSION_COOKIE)
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path=/" in cookie


async def test_signing_in_again_ends_the_session_before(client: httpx.AsyncClient, resources: Resources) -> None:
    before = client.cookies[SESSION_COOKIE]
    response = await sign_in(client)
    assert response.cookies[SESSION_COOKIE] != before
    assert await people.viewer_of_session(resources, before) is None


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "exports", "/a\nb", ""],
)
async def test_the_way_back_never_leads_to_another_site(
    anonymous: httpx.AsyncClient, user: Viewer, elsewhere: str
) -> None:
    assert (await sign_in(anonymous, next=elsewhere)).headers["location"] == "/exports"


async def test_a_one_time_link_is_spent_by_its_button_and_not_by_looking(
    anonymous: httpx.AsyncClient, resources: Resources, user: Viewer
) -> None:
    link = await people.make_sign_in_link(resources, await people.user_named(resources, "user"))
    path = link.removeprefix("http://testserver")
    for _ in range(2):
        shown = await anonymous.get(f"{path}?next={quote('/exports/new')}")
        assert (shown.status_code, len(nodes(shown, "main form[method=post] button[type=submit]"))) == (200, 1)
    following = node(shown, "main form input[name=next]").attributes["value"]
    entered = await anonymous.post(path, data={"next": following})
    assert (entered.status_code, entered.headers["location"]) == (303, "/exports/new")
    anonymous.cookies.clear()
    again = await anonymous.post(path)
    assert again.status_code == 401
    assert text(again, "[role=alert]") == "This link was used already, or has run out."


async def test_signing_out_ends_the_session(client: httpx.AsyncClient, resources: Resources) -> None:
    token = client.cookies[SESSION_COOKIE]
    response = await client.post("/sign-out")
    assert (response.status_code, response.headers["location"]) == (303, "/sign-in")
    assert await people.viewer_of_session(resources, token) is None
    page = await client.get("/sign-in")
    assert texts(page, "[role=status] .flash") == ["You are signed out."]
    assert texts(await client.get("/sign-in"), ".flash") == []


async def test_a_message_is_ours_whatever_the_cookie_says(anonymous: httpx.AsyncClient) -> None:
    for content in (
        "[" * 3000,
        '[["<b>x</b>",{}]]',
        "[[1,2]]",
        "{}",
        "[",
        '[["left-alone",{"n":1,"status":"<b>x</b>"}]]',
    ):
        page = await anonymous.get("/sign-in", headers={"cookie": f"exportdesk_flash={quote(content)}"})
        assert page.status_code == 200
        assert nodes(page, ".flash b") == []


async def test_a_missing_page_says_so_and_leads_back(client: httpx.AsyncClient) -> None:
    response = await client.get("/nowhere")
    assert (response.status_code, text(response, "h1")) == (404, "Nothing is here")
    assert node(response, "main a.button").attributes["href"] == "/exports"
