"""Whether the clocks of this host, the database and the broker agree."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from webapp import queue
from webapp.commands.database import opened_store
from webapp.commands.unwell import Doubtful
from webapp.resources import broker_url
from webapp.settings import Settings

LARGEST_SKEW = timedelta(seconds=2)


async def clocks(settings: Settings) -> str:
    """How far apart they are: this host's, the database's and the broker's, when that answers."""
    async with opened_store(settings.database_url) as store, store.connection():
        ahead = {"this host": timedelta(), "the database": await _ahead(store.now)}
    redis: Any = queue.connect(broker_url(settings))

    async def broker_now() -> datetime:
        seconds, microseconds = await redis.time()
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)

    with contextlib.suppress(*queue.QUEUE_ERRORS):
        ahead["the broker"] = await _ahead(broker_now)
    await redis.aclose(close_connection_pool=True)
    return told_clocks(ahead)


def host_now() -> datetime:
    return datetime.now(UTC)


async def _ahead(ask: Callable[[], Awaitable[datetime]]) -> timedelta:
    """How far that clock is ahead of this host's, as if it had been read half way between question and answer."""
    asked = host_now()
    told = await ask()
    return told - asked - (host_now() - asked) / 2


def told_clocks(ahead: Mapping[str, timedelta]) -> str:
    """Clocks by how far they are ahead of one of them. Raises Doubtful."""
    slow, fast = min(ahead, key=ahead.__getitem__), max(ahead, key=ahead.__getitem__)
    apart = ahead[fast] - ahead[slow]
    if apart > LARGEST_SKEW:
        raise Doubtful(
            f"the clock of {fast} is {apart.total_seconds():.1f} s ahead of that of {slow}",
            "let NTP (chrony, systemd-timesyncd) set both: signatures, signed links and sign-ins go by them",
        )
    *others, last = ahead
    return f"{', '.join(others)} and {last}: {max(1, round(apart.total_seconds() * 1000))} ms apart"
