"""One's own address for mails: confirmed by a link that is sent to it, chosen for all orders or for one, taken away."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta

from webapp import letters, mail
from webapp.domain.access import TooManyTries, Viewer
from webapp.domain.callbacks import Endpoint, EndpointSettings
from webapp.domain.emails import EMAIL, SCHEME, checked_address
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Export
from webapp.domain.ids import new_id
from webapp.domain.sentences import say
from webapp.language import current
from webapp.resources import Resources
from webapp.settings import SmtpSettings
from webapp.store import deliveries, people
from webapp.store import emails as rows
from webapp.store import endpoints as endpoint_rows
from webapp.store.emails import Mailbox

LINK_LIFETIME = timedelta(days=1)
LINKS_AN_HOUR = 5
SENT_WITHIN = 10.0
"""Seconds that the mail server has for the mail with the link."""

IS_OFF = say("This desk sends no mail.")


async def of(resources: Resources, viewer: Viewer) -> Mailbox:
    async with resources.store.connection():
        return await rows.get(resources.store, viewer.id)


async def awaited(resources: Resources, viewer: Viewer) -> str | None:
    """The address whose link was sent and not followed yet."""
    async with resources.store.connection():
        return await rows.awaited(resources.store, viewer.id, now=await resources.store.now())


async def asked_by(resources: Resources, viewer: Viewer, token: str) -> str | None:
    """The address that following this link confirms; None when the link is not theirs, was used or ran out."""
    async with resources.store.connection():
        return await rows.asked_by(resources.store, token[:200], viewer.id, now=await resources.store.now())


async def ask(resources: Resources, viewer: Viewer, address: str) -> str:
    """Mails the link that confirms this address; until it is followed all stays as it was. The address.

    Links to other addresses are no good any more. Raises Invalid, also when the server does not take it, and
    TooManyTries.
    """
    address, smtp = checked_address(address), _server(resources)
    token = secrets.token_urlsafe(32)
    async with resources.store.transaction():
        await people.lock_user(resources.store, viewer.id)
        now = await resources.store.now()
        if await rows.count_links(resources.store, viewer.id, since=now - timedelta(hours=1)) >= LINKS_AN_HOUR:
            raise TooManyTries(3600)
        await rows.end_links(resources.store, viewer.id, now=now, but=address)
        await people.insert_token(
            resources.store,
            kind=rows.KIND,
            name=address,
            token=token,
            user_id=viewer.id,
            created_at=now,
            expires_at=now + LINK_LIFETIME,
        )
    url = resources.settings.base_url
    letter = letters.confirmation(current(), name=viewer.name, url=f"{url}/account/email/{token}")
    written = letters.message(letter, smtp, address, id=new_id("evt"), at=now, base_url=url)
    try:
        await mail.deliver(smtp, address, written.as_bytes(), time_limit=SENT_WITHIN)
    except mail.MAIL_ERRORS as error:
        sentence = say("The mail server did not take it: {reason}", reason=mail.reason(error))
        raise Invalid([FieldError("email", sentence)]) from error
    return address


async def confirm(resources: Resources, viewer: Viewer, token: str) -> bool:
    """From now on this address is written to, and no other. False: the link is not theirs, was used or ran out."""
    store = resources.store
    async with store.transaction():
        now = await store.now()
        spent = await people.use_link(store, token[:200], now=now, kind=rows.KIND, user_id=viewer.id)
        if spent is None:
            return False
        before = await rows.get(store, viewer.id)
        endpoint = before.endpoint or await _endpoint(resources, viewer)
        await rows.put(store, viewer.id, Mailbox(spent[1], before.always, endpoint, current().tag))
        await rows.end_links(store, viewer.id, now=now)
        await people.audit(store, actor=viewer.name, action="user.email_confirmed", subject=viewer.name, at=now)
    return True


async def _endpoint(resources: Resources, viewer: Viewer) -> str:
    """By it mails are owed, leased, tried again and logged as callbacks are. It has no secret: nothing is signed."""
    now = await resources.store.now()
    endpoint = Endpoint(
        id=new_id("end"),
        settings=EndpointSettings(f"{SCHEME}{viewer.id}", description="E-mail"),
        secrets=(),
        created_by=viewer.id,
        created_at=now,
        updated_at=now,
    )
    await endpoint_rows.add(resources.store, endpoint, resources.sealer)
    return endpoint.id


async def choose(resources: Resources, viewer: Viewer, *, always: bool) -> None:
    """Whether all orders are mailed about, or only those that ask for it. Raises Invalid without an address."""
    async with resources.store.transaction():
        await people.lock_user(resources.store, viewer.id)
        before = await rows.get(resources.store, viewer.id)
        if before.address is None:
            raise Invalid([FieldError("email", say("Give an address first."))])
        await rows.put(resources.store, viewer.id, replace(before, always=always))


async def stop_asking(resources: Resources, viewer: Viewer) -> None:
    """Links that were not followed are no good any more; an address that was confirmed before stays."""
    async with resources.store.transaction():
        await rows.end_links(resources.store, viewer.id, now=await resources.store.now())


async def remove(resources: Resources, viewer: Viewer) -> None:
    """The address is forgotten, links to it are no good any more, and what is still to be mailed is not."""
    async with resources.store.transaction():
        now = await resources.store.now()
        await forget(resources, viewer.id)
        await people.audit(resources.store, actor=viewer.name, action="user.email_removed", subject=viewer.name, at=now)


async def forget(resources: Resources, user_id: str) -> None:
    """Inside the caller's transaction."""
    store = resources.store
    before, now = await rows.get(store, user_id), await store.now()
    await rows.end_links(store, user_id, now=now)
    await rows.put(store, user_id, Mailbox())
    if before.endpoint is not None:
        await endpoint_rows.wipe(store, before.endpoint, resources.sealer, at=now)
        await deliveries.cancel_pending(store, before.endpoint, at=now)


@dataclass(frozen=True, slots=True)
class Told:
    """Where the end of an export would be mailed to, and whether it will be: as that of all orders, or as it asks."""

    address: str | None
    always: bool
    asked: bool


async def told(resources: Resources, viewer: Viewer, export: Export) -> Told | None:
    """None when there is no choice: it has ended, is somebody else's, or the desk sends no mail."""
    if not export.is_active or export.owner != viewer.id or resources.settings.mail is None:
        return None
    async with resources.store.connection():
        mailbox = await rows.get(resources.store, viewer.id)
        asked = mailbox.address is not None and not mailbox.always and await rows.asks(resources.store, export.id)
    return Told(mailbox.address, mailbox.always, asked)


async def check_order(resources: Resources, viewer: Viewer, notify: str) -> None:
    """Whether an order of this person can ask for it. Raises Invalid with the field `notify`."""
    if notify != EMAIL:
        raise Invalid([FieldError("notify", say("Choose one of these: {choices}.", choices=EMAIL))])
    if resources.settings.mail is None:
        raise Invalid([FieldError("notify", IS_OFF)])
    if (await of(resources, viewer)).address is None:
        raise Invalid([FieldError("notify", say("Give and confirm an address on the page of your account first."))])


def _server(resources: Resources) -> SmtpSettings:
    if (smtp := resources.settings.mail) is None:
        raise Invalid([FieldError("email", IS_OFF)])
    return smtp
