"""What people do with exports: order, cancel, retry, delete, look at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from webapp import bus
from webapp.actions import emails, endpoints, outbox, statuses, turns
from webapp.actions.callback_hosts import check_callback_url
from webapp.actions.changes import Contended, Written, announce, change, hint, log_steps, tell, write
from webapp.actions.datasets import Checked, check_columns, checked_params
from webapp.datasets.declaration import Dataset
from webapp.datasets.relative import moment_in
from webapp.domain import limits
from webapp.domain.access import NotFound, Owned, QuotaExceeded, Viewer, may_see
from webapp.domain.annotations import Annotation, annotation
from webapp.domain.callbacks import Endpoint
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.events import snapshot
from webapp.domain.exports import Export, IllegalTransition, Status
from webapp.domain.exports import cancel as cancelled
from webapp.domain.exports import queue as queued
from webapp.domain.exports import retry_by_hand as retried
from webapp.domain.formats import Options, options_json, parse_options
from webapp.domain.ids import is_id, new_id
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.store import emails as mailboxes
from webapp.store import exports as rows
from webapp.store import idempotency, people, shares

DAY = timedelta(seconds=limits.IDEMPOTENCY_KEY_LIFETIME)


@dataclass(frozen=True, slots=True)
class Order:
    """What a person or client asks for, as it was sent: nothing in it is trusted.

    `called` are its `name` and `note`, if it has them: an order that is active already keeps its own.
    In `zone` relative defaults are resolved; without one it is that of the options, else UTC. `callback_url` gets an
    endpoint for this export alone. `notify` is how its owner is told of its end.
    """

    dataset: str
    params: Mapping[str, Any]
    format: str
    options: Mapping[str, Any]
    zone: str | None = None
    callback_url: str | None = None
    notify: str | None = None
    called: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Placed:
    """`endpoint` is that of the order's `callback_url`, when it was made for this very order."""

    export: Export
    is_new: bool
    endpoint: Endpoint | None = None


class KeyReused(Exception):
    """This Idempotency-Key was used for a different order in the last 24 hours."""


class AlreadyActive(Exception):
    """The same order is waiting or running already, as another export."""

    def __init__(self, export: Export) -> None:
        super().__init__(say("The same order is active already as {id}.", id=export.id))
        self.export = export


async def order(
    resources: Resources, viewer: Viewer, wanted: Order, *, defaults: Options, idempotency_key: str | None = None
) -> tuple[Export, bool]:
    """As `place`, for who asks for no callback: the export, and whether it is new."""
    placed = await place(resources, viewer, wanted, defaults=defaults, idempotency_key=idempotency_key)
    return placed.export, placed.is_new


async def place(
    resources: Resources, viewer: Viewer, wanted: Order, *, defaults: Options, idempotency_key: str | None = None
) -> Placed:
    """The export that answers this order.

    Raises Invalid with every mistake at once, QuotaExceeded, KeyReused. It is durable when this returns.
    """
    now = await resources.store.now()
    dataset, checked, options = await check_order(resources, viewer, wanted, defaults=defaults, now=now)
    called = annotation(wanted.called, Annotation())
    export = Export(
        id=new_id("exp"),
        owner=viewer.id,
        dataset=dataset.name,
        params=checked.params,
        labels=checked.labels,
        format=wanted.format,
        options=options,
        order_key=order_key(viewer.id, dataset.name, checked.params, wanted.format, options),
        status=Status.PENDING,
        version=1,
        created_at=now,
        name=called.name,
        note=called.note,
    )
    placed = await _write_order(resources, viewer, export, wanted, idempotency_key)
    if not placed.is_new:
        return placed
    return replace(placed, export=await hand_over(resources, placed.export.id))


async def check_order(
    resources: Resources, viewer: Viewer, wanted: Order, *, defaults: Options, now: datetime
) -> tuple[Dataset, Checked, dict[str, Any]]:
    """The dataset, and parameters and options in the form in which they are stored. Raises Invalid."""
    dataset = resources.catalog.dataset_for(wanted.dataset, viewer)
    if dataset is None:
        raise Invalid([FieldError("dataset", say("There is no dataset named {name}.", name=repr(wanted.dataset[:80])))])
    errors: list[FieldError] = []
    checked = Checked({}, {})
    options: dict[str, Any] = {}
    try:
        moment = moment_in(wanted.zone or wanted.options.get("timezone"), now)
        checked = await checked_params(resources, dataset, wanted.params, moment)
    except Invalid as invalid:
        errors += invalid.errors
    if wanted.format not in dataset.formats:
        names = ", ".join(dataset.formats)
        errors.append(FieldError("format", say("Choose one of these formats: {choices}.", choices=names)))
    else:
        try:
            options = options_json(parse_options(wanted.options, wanted.format, defaults=defaults), wanted.format)
        except Invalid as invalid:
            errors += invalid.errors
    if not errors and (columns := options.get("columns")):
        try:
            await check_columns(resources, dataset, checked.params, columns)
        except Invalid as invalid:
            errors += invalid.errors
    if wanted.callback_url is not None:
        try:
            await check_callback_url(resources, wanted.callback_url)
        except Invalid as invalid:
            errors += invalid.errors
    if wanted.notify is not None:
        try:
            await emails.check_order(resources, viewer, wanted.notify)
        except Invalid as invalid:
            errors += invalid.errors
    try:
        annotation(wanted.called, Annotation())
    except Invalid as invalid:
        errors += invalid.errors
    if errors:
        raise Invalid(errors)
    return dataset, checked, options


def order_key(owner: str, dataset: str, params: Mapping[str, Any], format: str, options: Mapping[str, Any]) -> str:
    """Equal for equal orders of one person, whatever the order of their keys."""
    canonical = msgspec.json.encode([owner, dataset, params, format, options], order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _as_sent(owner: str, wanted: Order) -> str:
    """What a key stands for: the order's own key and, behind a colon, that of whom it tells."""
    sent = order_key(owner, wanted.dataset, wanted.params, wanted.format, wanted.options)
    told = "\n".join(filter(None, (wanted.callback_url, wanted.notify)))
    return f"{sent}:{hashlib.sha256(told.encode()).hexdigest()}" if told else sent


def _is_same(used: str, sent: str, answered: Export | None, export: Export) -> bool:
    """Sent alike, or to the same effect: the same body may mean another moment when a default is relative to now."""
    is_alike = answered is not None and answered.order_key == export.order_key
    return used == sent or (is_alike and used.partition(":")[2] == sent.partition(":")[2])


async def _write_order(resources: Resources, viewer: Viewer, export: Export, wanted: Order, key: str | None) -> Placed:
    store = resources.store
    async with store.transaction():
        if not await people.lock_user(store, export.owner):
            raise NotFound
        sent = "" if key is None else _as_sent(export.owner, wanted)
        since = export.created_at - DAY
        if key is not None and (use := await idempotency.find(store, export.owner, key, since=since)):
            answered = await rows.get(store, use.export_id)
            if not _is_same(use.order_key, sent, answered, export):
                raise KeyReused
            if answered:
                return Placed(answered, False)
        active = await rows.get_active_by_order(store, export.order_key)
        answer, made, callbacks = active or export, None, 0
        if active is None:
            await _require_quota(resources, export.owner)
            await rows.insert(store, export)
        if wanted.callback_url is not None:
            made = await endpoints.attach(resources, viewer, answer, wanted.callback_url)
        if wanted.notify is not None:
            await mailboxes.mark(store, answer.id, wanted.notify)
        if active is None:
            callbacks = await outbox.record(resources, export, at=export.created_at)
        if key is not None:
            use = idempotency.KeyUse(sent, answer.id)
            await idempotency.remember(store, export.owner, key, use, at=export.created_at)
    if active is None:
        log_steps([Written(export, callbacks)])
    return Placed(answer, active is None, made)


async def _require_quota(resources: Resources, owner: str) -> None:
    limit = resources.settings.max_active_per_user
    active = await rows.count_active(resources.store, owner)
    if active >= limit:
        raise QuotaExceeded(active, limit, retry_after=30)


async def hand_over(resources: Resources, export_id: str) -> Export:
    """PENDING → QUEUED, and the wake-up. The sweep does the same for an order whose process died before this."""
    return await change(
        resources,
        export_id,
        lambda export, at: [queued(export, at=at)] if export.status is Status.PENDING else [],
    )


async def get(resources: Resources, viewer: Viewer, export_id: str) -> Export:
    """Raises NotFound for what does not exist and for what is somebody else's alike."""
    export = await rows.get(resources.store, export_id) if is_id(export_id, "exp") else None
    if export is None or not may_see(viewer, export):
        raise NotFound
    return export


async def read(resources: Resources, viewer: Viewer, export_id: str) -> Export:
    """As `get`, and for those with whom its file is shared: to look at and to download, and no more."""
    export = await rows.get(resources.store, export_id) if is_id(export_id, "exp") else None
    if export is None or not await may_read(resources, viewer, export_id, export):
        raise NotFound
    return export


async def may_read(resources: Resources, viewer: Viewer, export_id: str, export: Owned) -> bool:
    """Whoever may see it, without another look; and with whom it is shared, while it has its file and the dataset is
    not withheld from them. That is read from the store each time, so that what was withdrawn is so at once."""
    if may_see(viewer, export):
        return True
    if export.dataset in resources.catalog.withheld_from(viewer):
        return False
    async with resources.store.connection():
        return await shares.is_shared(resources.store, export_id, viewer.id)


async def cancel(resources: Resources, viewer: Viewer, export_id: str) -> Export:
    """Raises NotFound and IllegalTransition. The worker hears of it within a second and stops the query."""
    await get(resources, viewer, export_id)
    export = await change(resources, export_id, lambda export, at: [cancelled(export, at=at)])
    await wake_next(resources)
    return export


async def retry(resources: Resources, viewer: Viewer, export_id: str) -> Export:
    """By hand. Raises NotFound, IllegalTransition, QuotaExceeded, and AlreadyActive with what is in its way."""
    export = await get(resources, viewer, export_id)
    if not export.can_retry:
        raise IllegalTransition(export.status, Status.QUEUED)
    async with resources.store.transaction():
        await people.lock_user(resources.store, export.owner)
        if other := await rows.get_active_by_order(resources.store, export.order_key):
            raise AlreadyActive(other)
        await _require_quota(resources, export.owner)
        at = await resources.store.now()
        written = await write(resources, export, [retried(export, at=at)], at=at)
    if written is None:
        raise Contended
    await tell(resources, written)
    return written[-1].export


async def annotate(resources: Resources, viewer: Viewer, export_id: str, sent: Mapping[str, Any]) -> Export:
    """Changes `name`, `note` or both, in whatever status. Raises NotFound and Invalid."""
    async with resources.store.transaction():
        before = await get(resources, viewer, export_id)
        called = annotation(sent, Annotation(before.name, before.note))
        export = await rows.annotate(resources.store, export_id, called)
        at = await resources.store.now()
    if export is None:
        raise NotFound
    await statuses.changed(resources, export, at=at)
    await hint(resources, bus.Hint(export.id, export.owner, export.version))
    return export


async def notify(resources: Resources, viewer: Viewer, export_id: str, wanted: str | None) -> None:
    """How its owner, who alone may say it, is told of its end. Raises NotFound, Invalid, and IllegalTransition once it
    has ended."""
    export = await get(resources, viewer, export_id)
    if export.owner != viewer.id:
        raise NotFound
    if wanted is not None:
        await emails.check_order(resources, viewer, wanted)
    async with resources.store.transaction():
        if not await mailboxes.mark(resources.store, export_id, wanted):
            ended = await get(resources, viewer, export_id)
            raise IllegalTransition(ended.status, ended.status)


async def delete(resources: Resources, viewer: Viewer, export_id: str) -> None:
    """File and row go, the events stay. Raises NotFound, and IllegalTransition while it is active: cancel it first."""
    export = await get(resources, viewer, export_id)
    if export.is_active:
        raise IllegalTransition(export.status, Status.EXPIRED)
    async with resources.store.transaction():
        if not await rows.remove(resources.store, export):
            raise Contended
    await hint_gone(resources, export)
    if export.file is not None:
        await resources.storage.delete(export.file.key)


async def hint_gone(resources: Resources, export: Export) -> None:
    await statuses.deleted(resources, export)
    await hint(resources, bus.Hint(export.id, export.owner, export.version + 1))


async def wake_next(resources: Resources) -> None:
    """A place may have become free: wakes a worker for the export that is next, if there is one."""
    async with resources.store.connection():
        waiting = await turns.next_export(resources)
    if waiting is not None:
        await announce(resources, waiting)


async def list_page(
    resources: Resources, chosen: rows.ListFilter, *, limit: int, after: rows.Key | None = None
) -> tuple[Sequence[Export], rows.Key | None]:
    """One page, newest first, and the key after which the next one begins, None after the last.

    A search looks through `SEARCHED_AT_ONCE` exports at a time: its page may be short, even empty, and not be the last
    one. An export whose id is looked for is found at once.
    """
    store, end = resources.store, None
    async with store.connection():
        if chosen.text:
            is_meant = after is None and is_id(chosen.text, "exp")
            if is_meant and (found := await rows.find_by_id(store, chosen)):
                return [found], None
            end = await rows.search_end(store, chosen, after=after)
        page = await rows.list_page(store, chosen, limit=limit + 1, after=after, down_to=end)
    if len(page) > limit:
        return page[:limit], (page[limit - 1].created_at, page[limit - 1].id)
    return page, end


async def describe(resources: Resources, *found: Export) -> list[dict[str, Any]]:
    """Exports as JSON with what is true only now: the place in the queue and the time that is left."""
    async with resources.store.connection():
        now = await resources.store.now()
        places = await turns.places(resources, found, now=now)
    url = resources.settings.base_url
    return [snapshot(export, base_url=url, now=now, place=place) for export, place in zip(found, places, strict=True)]
