"""Mails at the end of exports: owed in the transaction of the event, sent by the dispatcher, to confirmed addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from dispatching import all_are, dispatching, until
from fresh_stores import database_kind, each_resources, each_settings, migrated_postgres, writer
from mail_servers import MailServer, mail_server
from owing import all_attempts, all_deliveries
from sqlalchemy import update

from webapp.actions import attempts, emails, exports
from webapp.actions import endpoints as registered
from webapp.actions.exports import Order
from webapp.domain import callbacks
from webapp.domain.access import NotFound, TooManyTries, Viewer
from webapp.domain.callbacks import DeliveryState, ErrorClass
from webapp.domain.errors import ErrorCode, Invalid, export_error
from webapp.domain.exports import Export
from webapp.domain.formats import API_DEFAULTS
from webapp.resources import Resources
from webapp.store import deliveries, people
from webapp.store.tables import endpoints

__all__ = ["database_kind", "each_resources", "each_settings", "migrated_postgres", "writer"]

ADDRESS = "writer@example.org"


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as made:
        yield made


@pytest.fixture
def desk(each_resources: Resources, server: MailServer) -> Resources:
    return replace(each_resources, settings=replace(each_resources.settings, smtp=server.settings))


def token_in(server: MailServer) -> str:
    body = server.mails[-1].get_body(("plain",))
    assert body is not None
    return body.get_content().partition("/account/email/")[2].split()[0]


async def confirm(desk: Resources, viewer: Viewer, server: MailServer, address: str = ADDRESS) -> None:
    await emails.ask(desk, viewer, address)
    assert await emails.confirm(desk, viewer, token_in(server))
    server.mails.clear()
    server.envelopes.clear()


async def ordered(desk: Resources, viewer: Viewer, notify: str | None = None, search: str = "x") -> Export:
    wanted = Order("things", {"search": search}, "csv", {}, notify=notify)
    await exports.place(desk, viewer, wanted, defaults=API_DEFAULTS)
    started = await attempts.claim(desk)
    assert started is not None
    return started


async def failed(desk: Resources, export: Export) -> None:
    await attempts.fail(desk, export, export_error(ErrorCode.DISK_FULL))


async def test_nothing_but_the_link_is_sent_to_an_address_before_it_is_confirmed(
    desk: Resources, writer: Viewer, server: MailServer
):
    await emails.ask(desk, writer, f" {ADDRESS} ")
    assert server.envelopes == [("desk@example.org", ADDRESS)]
    with pytest.raises(Invalid):
        await emails.choose(desk, writer, always=True)
    with pytest.raises(Invalid):
        await exports.place(desk, writer, Order("things", {}, "csv", {}, notify="email"), defaults=API_DEFAULTS)
    other = replace(writer, id="usr_somebody")
    assert not await emails.confirm(desk, other, token_in(server)), "the link is its person's alone"
    assert await emails.confirm(desk, writer, token_in(server))
    assert not await emails.confirm(desk, writer, token_in(server)), "it works once"
    assert (await emails.of(desk, writer)).address == ADDRESS


@pytest.mark.parametrize(
    ("always", "notify", "count"), [(False, None, 0), (False, "email", 1), (True, None, 1), (True, "email", 1)]
)
async def test_an_end_is_owed_once_to_who_asked_for_it(
    desk: Resources, writer: Viewer, server: MailServer, always: bool, notify: str | None, count: int
):
    await confirm(desk, writer, server)
    await emails.choose(desk, writer, always=always)
    await failed(desk, await ordered(desk, writer, notify))
    assert [one.event_type for one in await all_deliveries(desk)] == ["export.failed"] * count


async def test_a_failure_that_is_tried_again_is_no_end(desk: Resources, writer: Viewer, server: MailServer):
    await confirm(desk, writer, server)
    export = await ordered(desk, writer, "email")
    await attempts.fail(desk, export, export_error(ErrorCode.WORKER_LOST))
    assert await all_deliveries(desk) == []


@pytest.mark.parametrize(("language", "subject"), [(None, "Things failed"), ("zh-CN", "Things 失败")])
async def test_a_mail_leads_to_the_page_in_the_persons_language(
    desk: Resources, writer: Viewer, server: MailServer, language: str | None, subject: str
):
    await confirm(desk, writer, server)
    async with desk.store.transaction():
        await people.set_preferences(desk.store, writer.id, language=language, timezone=None)
    async with dispatching(desk):
        export = await ordered(desk, writer, "email")
        await failed(desk, export)
        [delivery] = await until(desk, all_are("succeeded"))
    [mail] = server.mails
    assert (mail["Subject"], mail["To"], mail["Auto-Submitted"]) == (subject, ADDRESS, "auto-generated")
    assert mail["Message-ID"].startswith(f"<{delivery.event_id}@")
    for kind in ("plain", "html"):
        body = mail.get_body((kind,))
        assert body is not None
        assert f"{desk.settings.base_url}/exports/{export.id}" in body.get_content()
    assert list(mail.iter_attachments()) == []


async def test_a_refused_mail_is_sent_again_and_the_log_says_what_the_server_said(
    desk: Resources, writer: Viewer, server: MailServer, monkeypatch: pytest.MonkeyPatch
):
    await confirm(desk, writer, server)
    server.refusals += ["451 try later"]
    async with desk.store.transaction():
        await desk.store.execute(update(endpoints).values(waits=[0.05]))
    async with dispatching(desk):
        await failed(desk, await ordered(desk, writer, "email"))
        await until(desk, all_are("succeeded"))
    first, second = await all_attempts(desk)
    assert first.answer is not None
    assert second.answer is not None
    assert (first.answer.error, first.answer.status, first.answer.body) == (
        ErrorClass.MAIL_REFUSED,
        451,
        "451 try later",
    )
    assert (second.answer.error, second.answer.status, len(server.mails)) == (None, 250, 1)


async def test_two_workers_send_a_mail_once(desk: Resources, writer: Viewer, server: MailServer):
    await confirm(desk, writer, server)
    async with dispatching(desk), dispatching(desk):
        for number in range(5):
            await failed(desk, await ordered(desk, writer, "email", search=str(number)))
        await until(desk, lambda found: len(found) == 5 and all_are("succeeded")(found))
    assert len({mail["Message-ID"] for mail in server.mails}) == len(server.mails) == 5


async def test_it_is_a_dead_letter_once_the_schedule_is_used_up(desk: Resources, writer: Viewer, server: MailServer):
    await confirm(desk, writer, server)
    server.refusals += ["550 no such person"] * 2
    async with desk.store.transaction():
        await desk.store.execute(update(endpoints).values(waits=[0.05]))
    async with dispatching(desk):
        export = await ordered(desk, writer, "email")
        await failed(desk, export)
        await until(desk, all_are("dead"))
    chosen = deliveries.DeliveryFilter(export_id=export.id, states=(DeliveryState.DEAD,), of_its_own=True)
    assert len(await deliveries.list_page(desk.store, chosen, limit=5, after=None)) == 1, "its owner sees it"


async def test_without_an_address_nothing_more_is_mailed(desk: Resources, writer: Viewer, server: MailServer):
    await confirm(desk, writer, server)
    await failed(desk, await ordered(desk, writer, "email"))
    await emails.remove(desk, writer)
    assert [one.state for one in await all_deliveries(desk)] == [DeliveryState.CANCELLED]
    async with dispatching(desk):
        await asyncio.sleep(0.3)
    assert server.mails == []


async def test_nobody_can_touch_the_endpoint_of_a_person(desk: Resources, writer: Viewer, server: MailServer):
    await confirm(desk, writer, server)
    mailbox = await emails.of(desk, writer)
    assert mailbox.endpoint is not None
    with pytest.raises(NotFound):
        await registered.get(desk, mailbox.endpoint)
    assert await registered.list_registered(desk) == []


@pytest.mark.parametrize(
    "address",
    ["", "writer", "writer@", "a@b\r\nBcc: c@d.example", "a b@example.org", "a@-x.example", f"{'a' * 65}@example.org"],
)
async def test_what_is_no_address(desk: Resources, writer: Viewer, server: MailServer, address: str):
    with pytest.raises(Invalid):
        await emails.ask(desk, writer, address)
    assert server.mails == []


async def test_links_are_mailed_a_few_times_an_hour(desk: Resources, writer: Viewer):
    for _ in range(emails.LINKS_AN_HOUR):
        await emails.ask(desk, writer, ADDRESS)
    with pytest.raises(TooManyTries):
        await emails.ask(desk, writer, ADDRESS)


async def test_a_person_whose_mail_is_refused_is_not_switched_off(desk: Resources, writer: Viewer):
    at = await desk.store.now()
    settings = callbacks.EndpointSettings(f"mailto:{writer.id}")
    endpoint = callbacks.Endpoint("end_x", settings, (), "x", at, at, failures_in_row=1000, failing_since=at)
    later = at + 2 * callbacks.DISABLE_AFTER
    after = callbacks.after_answer(endpoint, callbacks.Answer(ErrorClass.MAIL_REFUSED), at=later)
    assert after.disabled_at is None
