"""Confirmations: what a client says it has taken in, and what it is told again because it did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from webapp.domain.access import Viewer
from webapp.domain.events import Event
from webapp.domain.tallies import Metric, Observation
from webapp.resources import Resources
from webapp.store import acks, events, tallies

TOLD_AGAIN = timedelta(hours=24)


async def acknowledge(
    resources: Resources,
    viewer: Viewer,
    ids: Sequence[str],
    *,
    client: str,
    channel: str,
    held: Mapping[str, timedelta] | None = None,
    connected: datetime | None = None,
) -> int:
    """How many of these are events of this person (or, for an admin, of anybody): the rest is left alone.

    `held`: how long ago an event arrived, where the client did not confirm it at once. What is older than the
    connection that is `connected` since then had to wait for it, so it is no measure of how fast news are told.
    """
    store = resources.store
    async with store.transaction():
        found = await events.get_many(store, ids)
        mine = [event for event in found if viewer.is_admin or event.owner == viewer.id]
        at = await store.now()
        new, latencies = await acks.add(
            store, mine, user_id=viewer.id, client=client, channel=channel, at=at, held=held or {}, connected=connected
        )
        measured = [Observation(Metric.NOTIFICATION_LATENCY, (channel,), latency) for latency in latencies]
        await tallies.add(store, [*measured, *_counted(channel, "confirmed", new)])
    return len(mine)


def _counted(channel: str, outcome: str, count: int) -> list[Observation]:
    return [Observation(Metric.NOTIFICATIONS, (channel, outcome), count=count)] if count else []


async def to_be_told_again(
    resources: Resources, viewer: Viewer, *, client: str, channel: str, owner: str | None, up_to: int
) -> Sequence[Event]:
    """Ends of exports of the last day, up to the event number `up_to`, that this client never confirmed."""
    store = resources.store
    async with store.connection():
        since = await store.now() - TOLD_AGAIN
        found = await acks.unconfirmed(store, user_id=viewer.id, client=client, owner=owner, since=since, up_to=up_to)
    if found:
        async with store.transaction():
            await tallies.add(store, _counted(channel, "told again", len(found)))
    return found


async def newest_of(resources: Resources, export_ids: Iterable[str]) -> Sequence[Event]:
    """The newest event of each, where it is still kept: they are told once more."""
    found: list[Event] = []
    for export_id in export_ids:
        async with resources.store.connection():
            event = await acks.newest(resources.store, export_id)
        found += [event] if event else []
    return found
