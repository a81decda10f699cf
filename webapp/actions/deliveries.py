"""Deliveries: the log of what endpoints are owed and got, and owing it to them once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from webapp.actions.endpoint_changes import tell, write
from webapp.actions.endpoints import get as get_endpoint
from webapp.actions.endpoints import without_failures
from webapp.domain.access import NotFound, Viewer
from webapp.domain.callbacks import Delivery, DeliveryAttempt, DeliveryState, Endpoint
from webapp.domain.ids import is_id
from webapp.resources import Resources
from webapp.store import deliveries as rows
from webapp.store import delivery_counts, people
from webapp.store.deliveries import DeliveryFilter

BATCH = 1000


class CannotRedeliver(Exception):
    """This delivery was cancelled when its endpoint was deleted."""


async def list_page(
    resources: Resources, chosen: DeliveryFilter, *, limit: int, after: tuple[datetime, str] | None = None
) -> tuple[Sequence[Delivery], bool]:
    """One page, newest first, and whether there are more after it."""
    async with resources.store.connection():
        found = await rows.list_page(resources.store, chosen, limit=limit + 1, after=after)
    return found[:limit], len(found) > limit


async def get(resources: Resources, delivery_id: str) -> tuple[Delivery, Sequence[DeliveryAttempt]]:
    """With the latest hundred of its attempts, oldest first. Raises NotFound."""
    async with resources.store.connection():
        delivery = await _found(resources, delivery_id)
        return delivery, await rows.attempts_of(resources.store, delivery_id)


async def redeliver(resources: Resources, actor: Viewer, delivery_id: str) -> Delivery:
    """A new round of tries at once, under the same `webhook-id`. One that is being sent just now is left alone.

    Raises NotFound and CannotRedeliver.
    """
    async with resources.store.transaction():
        delivery = await _found(resources, delivery_id)
        if delivery.state is DeliveryState.CANCELLED:
            raise CannotRedeliver
        now = await resources.store.now()
        if await rows.owe_again(resources.store, [delivery_id], at=now):
            await _audit(resources, actor, "deliveries.redelivered", delivery_id, now, {"count": 1})
        delivery = await _found(resources, delivery_id)
    await tell(resources, delivery.endpoint_id)
    return delivery


async def redeliver_matching(
    resources: Resources, actor: Viewer, chosen: DeliveryFilter, *, ids: Sequence[str] | None = None
) -> int:
    """All that match, or those of `ids` that do, as `redeliver` does one. Gives back how many."""
    store = resources.store
    count, told = await _owe_again(resources, chosen, ids=ids)
    async with store.transaction():
        details = {"count": count, **_criteria(chosen, ids)}
        subject = chosen.endpoint_id or chosen.export_id or "deliveries"
        await _audit(resources, actor, "deliveries.redelivered", subject, await store.now(), details)
    await tell(resources, *told)
    return count


async def count_matching(resources: Resources, chosen: DeliveryFilter) -> int:
    """How many `redeliver_matching` would owe again."""
    async with resources.store.connection():
        return await rows.count(resources.store, chosen, at=await resources.store.now())


async def count_dead(resources: Resources, endpoint_id: str) -> int:
    """How many dead letters an endpoint has."""
    async with resources.store.connection():
        return (await delivery_counts.loads_of(resources.store, [endpoint_id]))[endpoint_id].dead


async def recover(resources: Resources, actor: Viewer, endpoint_id: str, *, since: datetime) -> int:
    """After an outage: what was given up since then, and what is being tried in vain, is owed anew, and a disabled
    endpoint is taken back. Gives back how many. Raises NotFound."""

    def taken_back(endpoint: Endpoint, _at: datetime) -> Endpoint:
        return endpoint if endpoint.disabled_at is None else without_failures(endpoint)

    async with resources.store.transaction():
        await write(resources, actor, endpoint_id, "endpoint.resumed", taken_back)
    count, _ = await _owe_again(resources, DeliveryFilter(endpoint_id=endpoint_id, since=since), failing=True)
    async with resources.store.transaction():
        now = await resources.store.now()
        details = {"count": count, "since": since.isoformat()}
        await _audit(resources, actor, "endpoint.recovered", endpoint_id, now, details)
    await tell(resources, endpoint_id)
    return count


async def count_recoverable(resources: Resources, endpoint_id: str, *, since: datetime) -> int:
    """How many `recover` would owe anew. Raises NotFound."""
    await get_endpoint(resources, endpoint_id)
    chosen = DeliveryFilter(endpoint_id=endpoint_id, since=since)
    async with resources.store.connection():
        return await rows.count(resources.store, chosen, at=await resources.store.now(), failing=True)


async def _owe_again(
    resources: Resources, chosen: DeliveryFilter, *, ids: Sequence[str] | None = None, failing: bool = False
) -> tuple[int, set[str]]:
    """Newest first, a batch a transaction. Gives back how many, and of which endpoints.

    Each page begins behind the one before it, so whatever happens meanwhile, none is owed again twice.
    """
    store, count, told = resources.store, 0, set[str]()
    after: tuple[datetime, str] | None = None
    while True:
        async with store.transaction():
            now = await store.now()
            found = await rows.next_ones(store, chosen, at=now, after=after, ids=ids, failing=failing, limit=BATCH)
            if not found:
                return count, told
            owed = await rows.owe_again(store, [row["id"] for row in found], at=now, failing=failing)
        count += len(owed)
        told |= {row["endpoint_id"] for row in owed}
        after = (found[-1]["created_at"], found[-1]["id"])


async def _found(resources: Resources, delivery_id: str) -> Delivery:
    delivery = await rows.get(resources.store, delivery_id) if is_id(delivery_id, "dlv") else None
    if delivery is None:
        raise NotFound
    return delivery


def _criteria(chosen: DeliveryFilter, ids: Sequence[str] | None) -> dict[str, Any]:
    """For the audit log: what was asked for, without what was not."""
    criteria: dict[str, Any] = {
        "endpoint": chosen.endpoint_id,
        "export": chosen.export_id,
        "states": [state.value for state in chosen.states],
        "event_types": list(chosen.event_types),
        "since": chosen.since.isoformat() if chosen.since else None,
        "error": chosen.error.value if chosen.error else None,
        "selected": len(ids) if ids is not None else None,
    }
    return {name: value for name, value in criteria.items() if value}


async def _audit(
    resources: Resources, actor: Viewer, action: str, subject: str, at: datetime, details: Mapping[str, Any]
) -> None:
    await people.audit(resources.store, actor=actor.name, action=action, subject=subject, at=at, details=details)
