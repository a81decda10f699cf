"""Running totals of exports, and how many there are of each status: kept by the sweep, so that nobody else counts."""

from __future__ import annotations

from datetime import datetime
from itertools import takewhile

from webapp.actions.monitor import tell_news
from webapp.domain.tallies import observations_of
from webapp.resources import Resources
from webapp.store import app_settings, events, monitor, overview, tallies

EVENTS_AT_ONCE = 1000


async def tally_events(resources: Resources, now: datetime) -> int:
    """How many events were added to the totals. Safe to run twice at once."""
    store, done = resources.store, 0
    until = now if store.is_sqlite else now - monitor.LATE_COMMITS  # there, a smaller number may commit later
    while True:
        async with store.transaction():
            position = int(await app_settings.get(store, tallies.POSITION) or 0)
            found = await events.page(store, after=position, limit=EVENTS_AT_ONCE)
            settled = [*takewhile(lambda event: event.timestamp <= until, found)]
            if not settled or not await tallies.move_on(store, position, settled[-1].seq, at=now):
                return done
            await tallies.add(store, [one for event in settled for one in observations_of(event)])
            await monitor.add_events(store, settled)
        await tell_news(resources)
        done += len(settled)
        if len(settled) < EVENTS_AT_ONCE:
            return done


async def count_ended(resources: Resources, now: datetime) -> int:
    """Counts them outside a transaction: it may take its time."""
    async with resources.store.connection():
        counts = await overview.ended(resources.store)
    async with resources.store.transaction():
        await app_settings.put(resources.store, overview.ENDED, counts, at=now)
    return 0
