"""Confirmations: what a client says it has taken in, and what it is told again because it did not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from webapp.domain.access import Viewer
from webapp.domain.events import Event
from webapp.resources import Resources
from webapp.store import acks, events

TOLD_AGAIN = timedelta(hours=24)


async def acknowledge(resources: Resources, viewer: Viewer, ids: Sequence[str], *, client: str, channel: str) -> int:
    """How many of these are events of this person (or, for an admin, of anybody): the rest is left alone."""
    store = resources.store
    async with store.transaction():
        found = await events.get_many(store, ids)
        mine = [event for event in found if viewer.is_admin or event.owner == viewer.id]
        at = await store.now()
        await acks.add(store, mine, user_id=viewer.id, client=client, channel=channel, at=at)
    return len(mine)


async def to_be_told_again(
    resources: Resources, viewer: Viewer, *, client: str, owner: str | None, up_to: int
) -> Sequence[Event]:
    """Ends of exports of the last day, up to the event number `up_to`, that this client never confirmed."""
    store = resources.store
    async with store.connection():
        since = await store.now() - TOLD_AGAIN
        return await acks.unconfirmed(store, user_id=viewer.id, client=client, owner=owner, since=since, up_to=up_to)
