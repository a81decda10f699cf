"""Shares on both databases: who may be chosen, what is listed, and the mail that tells of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from dispatching import all_are, dispatching, until
from factories import stored_export
from fresh_stores import database_kind, each_resources, each_settings, migrated_postgres, person, writer
from mail_servers import MailServer, mail_server
from owing import all_deliveries

from webapp.actions import emails, exports, groups, people, shares
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from webapp.store import people as user_rows
from webapp.store import shares as rows
from webapp.store.shares import Note

__all__ = ["database_kind", "each_resources", "each_settings", "migrated_postgres", "writer"]

ADDRESS = "reader@example.org"


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as made:
        yield made


@pytest.fixture
def desk(each_resources: Resources, server: MailServer) -> Resources:
    return replace(each_resources, settings=replace(each_resources.settings, smtp=server.settings))


async def listed(desk: Resources, viewer: Viewer) -> list[str]:
    found, _ = await exports.list_page(desk, shares.list_filter(desk, viewer), limit=9)
    return [export.id for export in found]


async def told(desk: Resources, export: Export, reader: Viewer) -> Mapping[tuple[str, str], Note]:
    async with desk.store.connection():
        return await rows.told(desk.store, [(export.id, reader.id)])


async def test_shares_are_listed_by_the_newest_export_while_they_count(desk: Resources, writer: Viewer) -> None:
    reader, now = await person(desk, "reader"), await desk.store.now()
    await person(desk, "chief", Role.ADMIN)
    older = await stored_export(desk, writer, Status.SUCCESS, created_at=now - timedelta(days=1))
    newer = await stored_export(desk, writer, Status.SUCCESS, name="May")
    failed = await stored_export(desk, writer, Status.FAILED)
    for export in (newer, older):
        assert list(await shares.candidates(desk, writer, export.id, "")) == ["chief", "reader"]
        assert list(await shares.candidates(desk, writer, export.id, "EAD")) == ["reader"]
        assert (await shares.put(desk, writer, export.id, "reader", "look"))[1]
        assert not (await shares.put(desk, writer, export.id, "reader", "look"))[1]
    assert await listed(desk, reader) == [newer.id, older.id]
    assert [(each.export_id, each.name, each.shared_by) for each in await shares.unseen(desk, reader)] == [
        (older.id, "", "writer"),
        (newer.id, "May", "writer"),
    ]
    await shares.mark_seen(desk, reader, older)
    assert [each.export_id for each in await shares.unseen(desk, reader)] == [newer.id]
    await shares.count_download(desk, reader, newer, begins=True)
    [share] = await shares.of_export(desk, writer, newer.id)
    assert (share.user, share.note, share.downloads, share.is_open) == ("reader", "look", 1, True)
    assert await told(desk, newer, reader) == {(newer.id, reader.id): Note("writer", "look")}
    await groups.grant(desk, "things", await people.user_named(desk, "writer"), actor="tests")
    [share] = await shares.of_export(desk, writer, newer.id)
    withheld = await people.viewer_of_user(desk, reader.id)
    assert withheld is not None
    assert (share.is_open, await listed(desk, withheld), list(await shares.unseen(desk, withheld))) == (False, [], [])
    assert await told(desk, newer, reader) == {}, "no mail that is still owed tells it"
    for export in (newer, failed):
        with pytest.raises(NotFound):
            await exports.read(desk, withheld, export.id)
    group = await groups.create(desk, "readers", actor="tests")
    await groups.add_member(desk, group, await people.user_named(desk, "reader"), actor="tests")
    await groups.grant(desk, "things", group, actor="tests")
    assert list(await told(desk, newer, reader)) == [(newer.id, reader.id)]
    async with desk.store.transaction():
        await user_rows.delete_user(desk.store, reader.id)
    assert await shares.of_export(desk, writer, newer.id) == []


@pytest.mark.parametrize(
    ("language", "subject"), [(None, "writer shared May with you"), ("zh-CN", "writer 与您共享了 May")]
)
async def test_who_is_mailed_about_everything_is_mailed_once(
    desk: Resources, writer: Viewer, server: MailServer, language: str | None, subject: str
) -> None:
    reader = await person(desk, "reader")
    export = await stored_export(desk, writer, Status.SUCCESS, name="May")
    await emails.ask(desk, reader, ADDRESS)
    body = server.mails.pop().get_body(("plain",))
    assert body is not None
    assert await emails.confirm(desk, reader, body.get_content().partition("/account/email/")[2].split()[0])
    await shares.put(desk, writer, export.id, "reader")
    assert await all_deliveries(desk) == [], "only who wishes to be mailed about everything"
    await shares.withdraw(desk, writer, export.id, "reader")
    await emails.choose(desk, reader, always=True)
    async with desk.store.transaction():
        await user_rows.set_preferences(desk.store, reader.id, language=language, timezone=None)
    await shares.put(desk, writer, export.id, "reader", "as <promised>")
    async with dispatching(desk):
        [delivery] = await until(desk, all_are("succeeded"))
    [mail] = server.mails
    assert (mail["Subject"], mail["To"]) == (subject, ADDRESS)
    assert delivery.event_id in mail["Message-ID"]
    for kind, note in (("plain", "as <promised>"), ("html", "as &lt;promised&gt;")):
        part = mail.get_body((kind,))
        assert part is not None
        assert note in part.get_content()
        assert f"{desk.settings.base_url}/exports/{export.id}" in part.get_content()
    assert list(mail.iter_attachments()) == []


async def test_what_is_withdrawn_before_it_was_mailed_is_not(
    desk: Resources, writer: Viewer, server: MailServer
) -> None:
    reader = await person(desk, "reader")
    export = await stored_export(desk, writer, Status.SUCCESS)
    await emails.ask(desk, reader, ADDRESS)
    body = server.mails.pop().get_body(("plain",))
    assert body is not None
    assert await emails.confirm(desk, reader, body.get_content().partition("/account/email/")[2].split()[0])
    await emails.choose(desk, reader, always=True)
    await shares.put(desk, writer, export.id, "reader")
    await shares.withdraw(desk, writer, export.id, "reader")
    assert [delivery.state for delivery in await all_deliveries(desk)] == ["cancelled"]
    async with dispatching(desk):
        await asyncio.sleep(0.3)
    assert server.mails == []
