"""All exports that a filter matches: how many of them something can be done to, and going through them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from webapp.domain.exports import ACTIVE, Export, Status
from webapp.resources import Resources
from webapp.store import exports as rows
from webapp.store.exports import Key, ListFilter

BATCH = 100


class Deed(StrEnum):
    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"


STATUSES: Mapping[Deed, frozenset[Status]] = {
    Deed.CANCEL: ACTIVE,
    Deed.RETRY: frozenset({Status.FAILED, Status.EXPIRED}),
    Deed.DELETE: frozenset(Status) - ACTIVE,
}


@dataclass(frozen=True, slots=True)
class Tally:
    """How many can be changed; of the others how many are in which status, how many are the same order as one that is
    active or comes before them, and how many are more than their owners may have active."""

    can: int
    by_status: Mapping[Status, int]
    repeated: int = 0
    beyond: int = 0


async def count(resources: Resources, chosen: ListFilter, deed: Deed, *, before: Key) -> Tally:
    store = resources.store
    async with store.connection():
        found = await rows.count_by_status(store, chosen, before=before)
        if deed is not Deed.RETRY:
            left = {status: n for status, n in found.items() if status not in STATUSES[deed]}
            return Tally(sum(found.values()) - sum(left.values()), left)
        retriable = await rows.retriable(store, chosen, before=before)
        active = await rows.active_by_owner(store)
    most = resources.settings.max_active_per_user
    can = sum(min(one.orders, max(0, most - active.get(owner, 0))) for owner, one in retriable.items())
    orders = sum(one.orders for one in retriable.values())
    timed_out = sum(one.timed_out for one in retriable.values())
    failed = sum(one.exports for one in retriable.values()) - timed_out
    taken = {Status.FAILED: failed, Status.EXPIRED: timed_out}
    left = {status: n - taken.get(status, 0) for status, n in found.items() if n > taken.get(status, 0)}
    return Tally(can, left, failed + timed_out - orders, orders - can)


async def walk(resources: Resources, chosen: ListFilter, deed: Deed, *, before: Key) -> AsyncGenerator[Export]:
    """Newest first, of those whose status allows it, a batch a query: nothing is held while one of them is at work."""
    statuses = tuple(status for status in chosen.statuses or tuple(Status) if status in STATUSES[deed])
    while statuses:
        async with resources.store.connection():
            found = await rows.list_page(resources.store, replace(chosen, statuses=statuses), limit=BATCH, after=before)
        for export in found:
            if deed is not Deed.RETRY or export.can_retry:
                yield export
        if len(found) < BATCH:
            return
        before = (found[-1].created_at, found[-1].id)
