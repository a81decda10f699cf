"""The address of a person on `/account`, and the box on the order form."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from email.message import EmailMessage

import httpx
import pytest
from mail_servers import MailServer, mail_server
from pages.dom import node, nodes, text

from webapp.domain.access import Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.settings import Settings
from webapp.store import emails
from webapp.store.tables import exports

ExportMaker = Callable[..., Awaitable[Export]]

ADDRESS = "user@example.org"


@pytest.fixture
async def mailing() -> AsyncIterator[MailServer]:
    async with mail_server() as made:
        yield made


@pytest.fixture
def settings(settings: Settings, mailing: MailServer) -> Settings:
    return replace(settings, smtp=mailing.settings)


def path_in(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return "/account/email/" + body.get_content().partition("/account/email/")[2].split()[0]


async def follow(client: httpx.AsyncClient, mailing: MailServer) -> httpx.Response:
    path = path_in(mailing.mails[-1])
    assert nodes(await client.get(path), f'form[action="{path}"]'), "only a button: previews must not spend it"
    return await client.post(path)


async def test_an_address_counts_once_its_link_was_followed(client: httpx.AsyncClient, mailing: MailServer) -> None:
    assert (await client.post("/account/email", data={"email": ADDRESS})).status_code == 303
    assert not nodes(await client.get("/account"), "input[name=always]")
    assert not nodes(await client.get("/exports/new?dataset=things"), "input[name=notify]")
    assert (await follow(client, mailing)).status_code == 303
    assert nodes(await client.get("/account"), "input[name=always]:not([checked])")
    assert (await client.post("/account/email/choice", data={"always": "1"})).status_code == 303
    assert nodes(await client.get("/account"), "input[name=always][checked]")
    assert ADDRESS in text(await client.get("/exports/new?dataset=things"), "#field-notify")
    assert (await client.post("/account/email/removal")).status_code == 303
    assert not nodes(await client.get("/exports/new?dataset=things"), "#field-notify")


async def test_the_address_that_is_waited_for_is_shown_until_it_is_confirmed_or_cancelled(
    client: httpx.AsyncClient, mailing: MailServer
) -> None:
    await client.post("/account/email", data={"email": "first@example.org"})
    await client.post("/account/email", data={"email": ADDRESS})
    again = node(await client.get("/account"), "#email-awaited input[name=email]").attributes["value"] or ""
    assert again == ADDRESS
    assert (await client.post("/account/email", data={"email": again})).status_code == 303
    assert [mail["To"] for mail in mailing.mails] == ["first@example.org", ADDRESS, ADDRESS]
    paths = [path_in(mail) for mail in mailing.mails]
    assert [(await client.get(path)).status_code for path in paths] == [404, 200, 200], "one address at a time"
    assert ADDRESS in text(await client.get(paths[1]), "form.card")
    assert (await client.post("/account/email/cancellation")).status_code == 303
    assert not nodes(await client.get("/account"), "#email-awaited")
    assert (await client.post(paths[1])).status_code == 404
    for status in (303, 303, 429):
        assert (await client.post("/account/email", data={"email": ADDRESS})).status_code == status


async def test_mails_are_in_the_language_of_the_account_or_else_of_the_confirmation(
    client: httpx.AsyncClient, mailing: MailServer, resources: Resources, user: Viewer
) -> None:
    client.headers["Accept-Language"] = "zh-CN"
    await client.post("/account/email", data={"email": ADDRESS})
    await follow(client, mailing)
    assert await emails.readers(resources.store, [user.id]) == {user.id: (ADDRESS, "zh-CN")}
    await client.post("/account/preferences", data={"language": "en", "timezone": ""})
    assert await emails.readers(resources.store, [user.id]) == {user.id: (ADDRESS, "en")}


async def test_a_mail_is_asked_for_on_the_page_of_an_export_that_goes_on(
    client: httpx.AsyncClient,
    other_client: httpx.AsyncClient,
    mailing: MailServer,
    make_export: ExportMaker,
    resources: Resources,
) -> None:
    export = await make_export(Status.PROCESSING)
    page, choice = f"/exports/{export.id}", f"/exports/{export.id}/notification"
    assert node(await client.get(page), "#mail a").attributes["href"] == "/account#email"
    assert (await client.post(choice, data={"notify": "email"})).status_code == 303
    assert "Give and confirm an address" in text(await client.get(page), ".flash")
    await client.post("/account/email", data={"email": ADDRESS})
    await follow(client, mailing)
    node(await client.get(page), "#mail button[value=email]")
    assert (await other_client.post(choice, data={"notify": "email"})).status_code == 404
    for chosen, asks in (("email", True), ("", False), ("email", True)):
        assert (await client.post(choice, data={"notify": chosen})).status_code == 303
        assert await emails.asks(resources.store, export.id) is asks
        assert len(nodes(await client.get(page), "#mail button[value=email]")) == (not asks)
    done = await make_export(Status.SUCCESS)
    await client.post(f"/exports/{done.id}/notification", data={"notify": "email"})
    shown = await client.get(f"/exports/{done.id}")
    assert ("so this cannot be done any more" in text(shown, ".flash"), nodes(shown, "#mail")) == (True, [])


async def test_a_box_on_the_order_form_asks_for_one_mail(
    client: httpx.AsyncClient, mailing: MailServer, resources: Resources
) -> None:
    await client.post("/account/email", data={"email": ADDRESS})
    await follow(client, mailing)
    node(await client.get("/exports/new?dataset=things"), "input[name=notify]:not([checked])")
    await client.post("/exports", data={"dataset": "things", "format": "csv", "notify": "email"})
    assert await resources.store.fetch_val(exports.select().with_only_columns(exports.c.notify)) == "email"


async def test_what_the_server_refuses_is_told_at_once(client: httpx.AsyncClient, mailing: MailServer) -> None:
    mailing.refusals.append("550 no such person")
    response = await client.post("/account/email", data={"email": ADDRESS})
    assert response.status_code == 422
    assert text(response, "#error-email") == "The mail server did not take it: 550 no such person."
