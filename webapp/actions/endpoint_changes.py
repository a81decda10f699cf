"""How an endpoint is changed: locked, written with its entry in the audit log, and told to whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from webapp import bus, queue
from webapp.actions.changes import Contended
from webapp.domain.access import NotFound, Viewer
from webapp.domain.callbacks import Endpoint
from webapp.domain.ids import is_id
from webapp.resources import Resources
from webapp.store import endpoints as rows
from webapp.store import people

Decide = Callable[[Endpoint, datetime], Endpoint]


async def found(resources: Resources, endpoint_id: str, *, lock: bool = False) -> Endpoint:
    """Raises NotFound, also for a person who is mailed: that is nobody else's to change."""
    endpoint = None
    if is_id(endpoint_id, "end"):
        endpoint = await rows.get(resources.store, endpoint_id, resources.sealer, lock=lock)
    if endpoint is None or endpoint.settings.reader:
        raise NotFound
    return endpoint


async def change(
    resources: Resources,
    actor: Viewer,
    endpoint_id: str,
    action: str,
    decide: Decide,
    details: Mapping[str, Any] | None = None,
    *,
    shown: str | None = None,
) -> Endpoint:
    async with resources.store.transaction():
        after = await write(resources, actor, endpoint_id, action, decide, details)
        if shown is not None:
            await audit(resources, actor, "endpoint.secret_shown", endpoint_id, after.updated_at, {"shown": [shown]})
    await tell(resources, endpoint_id)
    return after


async def write(
    resources: Resources,
    actor: Viewer,
    endpoint_id: str,
    action: str,
    decide: Decide,
    details: Mapping[str, Any] | None = None,
) -> Endpoint:
    """What `decide` makes of the stored one, inside the caller's transaction. No change leaves no entry in the log."""
    before = await found(resources, endpoint_id, lock=True)
    now = await resources.store.now()
    after = decide(before, now)
    if after is before:
        return before
    stored = await rows.compare_and_set(resources.store, before, replace(after, updated_at=now), resources.sealer)
    if stored is None:
        raise Contended
    await audit(resources, actor, action, endpoint_id, now, details)
    return stored


async def audit(
    resources: Resources,
    actor: Viewer,
    action: str,
    subject: str,
    at: datetime,
    details: Mapping[str, Any] | None = None,
) -> None:
    await people.audit(resources.store, actor=actor.name, action=action, subject=subject, at=at, details=details)


async def tell(resources: Resources, *endpoint_ids: str) -> None:
    """After the commit: wakes who delivers, and open pages. Both find out by themselves, only later."""
    try:
        await queue.wake(resources.redis, queue.QueueName.CALLBACKS)
        await bus.publish(resources.redis, *(bus.Hint(endpoint_id, bus.CALLBACKS, 0) for endpoint_id in endpoint_ids))
    except queue.QUEUE_ERRORS:
        return
