"""Sharing a finished file with colleagues who may order its dataset: its owner, or an admin, says with whom."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from webapp import bus
from webapp.actions import endpoint_changes, exports
from webapp.actions.changes import hint
from webapp.actions.people import USER_NAME
from webapp.domain.access import NotFound, Role, TooManyTries, Viewer
from webapp.domain.annotations import note_problem, tidy_note
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import event_type
from webapp.domain.exports import Export
from webapp.domain.sentences import say
from webapp.domain.shares import MOST_SHARES, SHARES_AN_HOUR, NothingToShare, Received, Share
from webapp.resources import Resources
from webapp.store import acks, audit, deliveries, people
from webapp.store import emails as mailboxes
from webapp.store import exports as export_rows
from webapp.store import shares as rows
from webapp.store.exports import ListFilter

FOUND_MOST = 20
UNSEEN_MOST = 5
"""Names that a search gives, and how many shares somebody is told of at once."""
SHARED = "export.shared"
HOUR = timedelta(hours=1)
RETRY_AFTER = 600
RESUMED_WITHIN = timedelta(days=1)
"""Of a download that began."""


async def of_export(resources: Resources, viewer: Viewer, export_id: str) -> Sequence[Share]:
    """By name. Raises NotFound for whose export it is not."""
    export = await exports.get(resources, viewer, export_id)
    async with resources.store.connection():
        return await rows.of_export(resources.store, export.id, export.dataset, _roles(resources, export))


def _roles(resources: Resources, export: Export) -> frozenset[Role]:
    """Those that may order its dataset; all of them where the dataset is no longer there."""
    dataset = resources.catalog.datasets.get(export.dataset)
    return dataset.roles if dataset else frozenset(Role)


async def candidates(resources: Resources, viewer: Viewer, export_id: str, text: str) -> Sequence[str]:
    """Names of people it could be shared with, that have this text in them. Raises NotFound."""
    export = await exports.get(resources, viewer, export_id)
    async with resources.store.connection():
        return await rows.candidates(
            resources.store,
            export.id,
            export.owner,
            export.dataset,
            _roles(resources, export),
            text=text.replace("\0", "").strip()[:63],
            limit=FOUND_MOST,
        )


async def put(
    resources: Resources, viewer: Viewer, export_id: str, person: str, note: object = ""
) -> tuple[Share, bool]:
    """Shares it with the person of this name, or changes the note; whether it is new. They are told, once.

    Raises NotFound, NothingToShare, Invalid and TooManyTries; whether there is somebody of a name is told of those
    alone who may order the dataset.
    """
    store = resources.store
    async with store.transaction():
        await export_rows.keep(store, export_id)
        export = await exports.get(resources, viewer, export_id)
        for who in sorted({export.owner, viewer.id}):
            if not await people.lock_user(store, who):
                raise NotFound
        if not export.can_download:
            raise NothingToShare
        user_id = await _reader(resources, export, person.strip(), note)
        at = await store.now()
        is_new = await rows.put(store, export.id, user_id, note=tidy_note(str(note)), by=viewer.id, at=at)
        if is_new and await rows.count(store, export.id) > MOST_SHARES:
            raise Invalid([FieldError("person", say("It is shared with {most} people already.", most=MOST_SHARES))])
        if is_new and await audit.count(store, viewer.name, SHARED, since=at - HOUR) >= SHARES_AN_HOUR:
            raise TooManyTries(RETRY_AFTER)
        found = await rows.of_export(store, export.id, export.dataset, _roles(resources, export))
        share = next(each for each in found if each.user_id == user_id)
        if is_new:
            await _owe_mail(resources, export, user_id)
            await _audit(resources, viewer, SHARED, export, share.user)
    if is_new:
        await hint(resources, bus.Hint(export.id, user_id, export.version))
        await endpoint_changes.tell(resources)
    return share, is_new


async def _reader(resources: Resources, export: Export, name: str, note: object) -> str:
    """The id of who is meant. Raises Invalid with all that is wrong."""
    errors: list[FieldError] = []
    user_id = None
    if USER_NAME.fullmatch(name):
        user_id = await rows.id_of(resources.store, name, export.dataset, _roles(resources, export))
    if user_id is None:
        sentence = say("There is nobody of this name who may order this dataset.")
        errors.append(FieldError("person", sentence))
    elif user_id == export.owner:
        errors.append(FieldError("person", say("It is theirs already.")))
    if problem := note_problem(note):
        errors.append(FieldError("note", problem))
    if errors or user_id is None:
        raise Invalid(errors)
    return user_id


async def _owe_mail(resources: Resources, export: Export, user_id: str) -> None:
    """A mail that tells of the file, to who is mailed about everything: a delivery of the event that it is ready."""
    store = resources.store
    mailbox = await mailboxes.get(store, user_id)
    if resources.settings.mail is None or mailbox.endpoint is None or not mailbox.always:
        return
    event = await acks.newest(store, export.id)
    if event is not None and event.type == event_type(export):
        await deliveries.add(store, [mailbox.endpoint], event, at=await store.now())


async def withdraw(resources: Resources, viewer: Viewer, export_id: str, person: str) -> None:
    """They cannot see it any more, and a mail that was not sent yet is not. Raises NotFound."""
    store = resources.store
    async with store.transaction():
        export = await exports.get(resources, viewer, export_id)
        user = await people.user_by_name(store, person) if USER_NAME.fullmatch(person) else None
        if user is None or not await rows.remove(store, export.id, user.id):
            raise NotFound
        mailbox = await mailboxes.get(store, user.id)
        if mailbox.endpoint is not None:
            await deliveries.cancel_pending(store, mailbox.endpoint, at=await store.now(), export_id=export.id)
        await _audit(resources, viewer, "export.unshared", export, user.name)
    await hint(resources, bus.Hint(export.id, user.id, export.version))


async def _audit(resources: Resources, viewer: Viewer, action: str, export: Export, person: str) -> None:
    store = resources.store
    details = {"user": person, "dataset": export.dataset}
    await people.audit(
        store, actor=viewer.name, action=action, subject=export.id, at=await store.now(), details=details
    )


def list_filter(resources: Resources, viewer: Viewer) -> ListFilter:
    """Of what is shared with this person."""
    return ListFilter(shared_with=viewer.id, without=resources.catalog.withheld_from(viewer))


async def received(resources: Resources, viewer: Viewer, export: Export) -> Received | None:
    """What was said to this person when it was shared with them; None when it was not."""
    if export.owner == viewer.id:
        return None
    async with resources.store.connection():
        return (await rows.received(resources.store, viewer.id, [export.id])).get(export.id)


async def unseen(resources: Resources, viewer: Viewer) -> Sequence[Received]:
    """What was shared with this person and not opened yet, the newest."""
    without = resources.catalog.withheld_from(viewer)
    async with resources.store.connection():
        return await rows.unseen(resources.store, viewer.id, without=without, limit=UNSEEN_MOST)


async def mark_seen(resources: Resources, viewer: Viewer, export: Export) -> None:
    """They opened its page, and need not be told any more."""
    async with resources.store.transaction():
        await rows.mark_seen(resources.store, export.id, viewer.id, at=await resources.store.now())


async def count_download(resources: Resources, viewer: Viewer, export: Export, *, begins: bool) -> None:
    """Nothing for whose file it is. What does not begin with the file's first byte goes on with a download, if there
    was one lately; else it is one too."""
    if export.owner == viewer.id:
        return
    async with resources.store.transaction():
        at = await resources.store.now()
        since = None if begins else at - RESUMED_WITHIN
        await rows.count_download(resources.store, export.id, viewer.id, at=at, unless_since=since)
