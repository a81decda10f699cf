"""Endpoints: registered, changed, paused, taken back, deleted, given new secrets, and how they fare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from webapp.actions.changes import TRIES, Contended
from webapp.actions.endpoint_changes import audit, change, found, tell
from webapp.actions.endpoint_settings import check
from webapp.domain.access import NotFound, Viewer
from webapp.domain.callbacks import Endpoint, EndpointSettings, EndpointState, Secret
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Export
from webapp.domain.ids import is_id, new_id
from webapp.domain.sentences import say
from webapp.domain.signing import new_secret
from webapp.resources import Resources
from webapp.store import deliveries, delivery_counts
from webapp.store import endpoints as rows

MOST_ENDPOINTS = 200
"""Without those of single exports."""
MOST_OF_EXPORT = 5


@dataclass(frozen=True, slots=True)
class Created:
    """An endpoint just after a person set it, and what may surprise them about it."""

    endpoint: Endpoint
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """How an endpoint fares. `succeeded` and `failed` count attempts of the last 24 hours, `hours` the same for each
    hour as (succeeded, failed), oldest first; `pending` and `dead` count deliveries."""

    endpoint: Endpoint
    succeeded: int
    failed: int
    hours: tuple[tuple[int, int], ...]
    pending: int
    dead: int
    next_attempt_at: datetime | None


async def create(resources: Resources, actor: Viewer, given: Mapping[str, Any]) -> Created:
    """Its one secret is in it, to be shown this once. Raises Invalid."""
    checked = await check(resources, given)
    store = resources.store
    async with store.transaction():
        if await rows.count_registered(store) >= MOST_ENDPOINTS:
            sentence = say(
                "There are {count} endpoints already. Delete one that is not needed any more.", count=MOST_ENDPOINTS
            )
            raise Invalid([FieldError("url", sentence)])
        shown = ["encryption_key"] if given.get("encryption") == "new" else []
        endpoint = await _add(resources, actor, checked.settings, shown=shown)
    await tell(resources, endpoint.id)
    return Created(endpoint, checked.notes)


async def attach(resources: Resources, viewer: Viewer, export: Export, url: str) -> Endpoint | None:
    """An endpoint for this export alone, inside the caller's transaction. None when it has one of this URL already.

    The URL was checked by `check_callback_url`. Raises Invalid when the export has as many as it may have.
    """
    known = await rows.of_export(resources.store, export.id, resources.sealer)
    if any(endpoint.settings.url == url for endpoint in known):
        return None
    if len(known) >= MOST_OF_EXPORT:
        raise Invalid(
            [
                FieldError(
                    "callback_url",
                    say("This export tells {count} URLs already, the most it can.", count=MOST_OF_EXPORT),
                )
            ]
        )
    return await _add(resources, viewer, EndpointSettings(url), export_id=export.id)


async def _add(
    resources: Resources,
    actor: Viewer,
    settings: EndpointSettings,
    *,
    export_id: str | None = None,
    shown: Sequence[str] = (),
) -> Endpoint:
    now = await resources.store.now()
    endpoint = Endpoint(
        id=new_id("end"),
        settings=settings,
        secrets=(Secret(new_secret(), now),),
        created_by=actor.id,
        created_at=now,
        updated_at=now,
        export_id=export_id,
    )
    await rows.add(resources.store, endpoint, resources.sealer)
    details = {"host": urlsplit(settings.url).hostname} | ({"export": export_id} if export_id else {})
    await audit(resources, actor, "endpoint.created", endpoint.id, now, details)
    await audit(resources, actor, "endpoint.secret_shown", endpoint.id, now, {"shown": ["secret", *shown]})
    return endpoint


async def get(resources: Resources, endpoint_id: str) -> Endpoint:
    """Raises NotFound."""
    async with resources.store.connection():
        return await found(resources, endpoint_id)


async def list_registered(resources: Resources) -> Sequence[Endpoint]:
    """Newest first, without those of single exports."""
    async with resources.store.connection():
        return await rows.list_registered(resources.store, resources.sealer)


async def list_of_export(resources: Resources, export_id: str) -> Sequence[Endpoint]:
    """Those that hear of this export alone."""
    async with resources.store.connection():
        return await rows.of_export(resources.store, export_id, resources.sealer)


async def edit(resources: Resources, actor: Viewer, endpoint_id: str, given: Mapping[str, Any]) -> Created:
    """Changes only what is given. Raises Invalid, NotFound, Contended."""
    for _ in range(TRIES):
        before = await get(resources, endpoint_id)
        checked = await check(resources, given, before=before.settings)
        changed = changed_fields(before.settings, checked.settings)
        if not changed:
            return Created(before, checked.notes)
        async with resources.store.transaction():
            now = await resources.store.now()
            wanted = replace(before, settings=checked.settings, updated_at=now)
            after = await rows.compare_and_set(resources.store, before, wanted, resources.sealer)
            if after is None:
                continue
            await audit(resources, actor, "endpoint.changed", endpoint_id, now, {"fields": changed})
            if "encryption" in changed and given.get("encryption") == "new":
                shown = {"shown": ["encryption_key"]}
                await audit(resources, actor, "endpoint.secret_shown", endpoint_id, now, shown)
        await tell(resources, endpoint_id)
        return Created(after, checked.notes)
    raise Contended


def changed_fields(before: EndpointSettings, after: EndpointSettings) -> list[str]:
    """Their names as the API has them."""
    names = {"waits": "schedule", "encryption_key": "encryption"}
    changed = [name for name in EndpointSettings.__slots__ if getattr(before, name) != getattr(after, name)]
    return list(dict.fromkeys(names.get(name, name) for name in changed))


async def pause(resources: Resources, actor: Viewer, endpoint_id: str) -> Endpoint:
    """Its deliveries wait until it is resumed. Raises NotFound."""
    return await change(
        resources, actor, endpoint_id, "endpoint.paused",
        lambda endpoint, at: endpoint if endpoint.paused_at else replace(endpoint, paused_at=at),
    )  # fmt: skip


async def resume(resources: Resources, actor: Viewer, endpoint_id: str) -> Endpoint:
    """Takes a paused or disabled one back, with a clean sheet. Raises NotFound."""
    return await change(resources, actor, endpoint_id, "endpoint.resumed", lambda endpoint, _at: _taken_back(endpoint))


def _taken_back(endpoint: Endpoint) -> Endpoint:
    if endpoint.state is EndpointState.ACTIVE:
        return endpoint
    return replace(without_failures(endpoint), paused_at=None)


def without_failures(endpoint: Endpoint) -> Endpoint:
    """No longer disabled; what it did wrong so far does not count any more."""
    return replace(endpoint, disabled_at=None, disabled_reason=None, failures_in_row=0, failing_since=None)


async def delete(resources: Resources, actor: Viewer, endpoint_id: str) -> None:
    """Its secrets are wiped and what it is still owed is cancelled; the log of its deliveries stays.

    Works also where its secrets cannot be opened. Raises NotFound.
    """
    if not is_id(endpoint_id, "end"):
        raise NotFound
    async with resources.store.transaction():
        now = await resources.store.now()
        if not await rows.wipe(resources.store, endpoint_id, resources.sealer, at=now):
            raise NotFound
        await deliveries.cancel_pending(resources.store, endpoint_id, at=now)
        await audit(resources, actor, "endpoint.deleted", endpoint_id, now)
    await tell(resources, endpoint_id)


async def health(resources: Resources, endpoint_ids: Sequence[str] | None = None) -> Sequence[Health]:
    """In the order given, without those that are gone; None means all but those of single exports, newest first.

    Three queries, however many there are.
    """
    store = resources.store
    async with store.connection():
        if endpoint_ids is None:
            found = list(await rows.list_registered(store, resources.sealer))
        else:
            known = await rows.get_many(store, endpoint_ids, resources.sealer)
            found = [known[endpoint_id] for endpoint_id in endpoint_ids if endpoint_id in known]
        ids = [endpoint.id for endpoint in found]
        hours = await delivery_counts.hours_of(store, ids, now=await store.now())
        loads = await delivery_counts.loads_of(store, ids)
    return [_health(endpoint, hours[endpoint.id], loads[endpoint.id]) for endpoint in found]


def _health(endpoint: Endpoint, hours: tuple[tuple[int, int], ...], load: delivery_counts.Load) -> Health:
    return Health(
        endpoint=endpoint,
        succeeded=sum(succeeded for succeeded, _ in hours),
        failed=sum(failed for _, failed in hours),
        hours=hours,
        pending=load.pending,
        dead=load.dead,
        next_attempt_at=load.next_attempt_at,
    )
