"""Orders that people keep under a name: save, order again, change, delete and take that back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from webapp.actions import exports
from webapp.actions.exports import Order
from webapp.datasets.declaration import Dataset
from webapp.datasets.parameters import is_moving
from webapp.datasets.relative import known_zone
from webapp.domain import limits
from webapp.domain.access import NotFound, Viewer
from webapp.domain.annotations import name_problem, tidy_name
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.exports import Export
from webapp.domain.formats import API_DEFAULTS, Options
from webapp.domain.ids import is_id, new_id
from webapp.domain.saved_orders import SavedOrder
from webapp.domain.sentences import say
from webapp.resources import Resources
from webapp.store import people
from webapp.store import saved_orders as rows

Decide = Callable[[SavedOrder, datetime], SavedOrder]

NAME_TAKEN = say("You have a saved order of this name already.")
FULL = say("You have as many saved orders as you may have. Delete one first.")


async def save(resources: Resources, viewer: Viewer, name: object, wanted: Order, *, defaults: Options) -> SavedOrder:
    """Raises Invalid with every mistake at once. `wanted.params` may be words that move with the day."""
    made = await _checked(resources, viewer, name, wanted, defaults)
    async with resources.store.transaction():
        await people.lock_user(resources.store, viewer.id)
        if await rows.count(resources.store, viewer.id) >= limits.SAVED_ORDERS_MOST:
            raise Invalid([FieldError("name", FULL)])
        if not await rows.insert(resources.store, made):
            raise Invalid([FieldError("name", NAME_TAKEN)])
    return made


async def edit(
    resources: Resources, viewer: Viewer, saved_id: str, name: object, wanted: Order, *, defaults: Options
) -> SavedOrder:
    """Puts another order and name in the place of those it had. Raises NotFound and Invalid."""
    await get(resources, viewer, saved_id)
    made = await _checked(resources, viewer, name, wanted, defaults)

    def changed(before: SavedOrder, at: datetime) -> SavedOrder:
        return replace(made, id=before.id, owner=before.owner, created_at=before.created_at, updated_at=at)

    return await _change(resources, viewer, saved_id, changed)


async def rename(resources: Resources, viewer: Viewer, saved_id: str, name: object) -> SavedOrder:
    """Raises NotFound and Invalid."""
    checked = _checked_name(name)
    return await _change(resources, viewer, saved_id, lambda before, at: replace(before, name=checked, updated_at=at))


async def delete(resources: Resources, viewer: Viewer, saved_id: str) -> SavedOrder:
    """It can be restored for a day. Raises NotFound."""
    return await _change(resources, viewer, saved_id, lambda before, at: replace(before, deleted_at=at))


async def restore(resources: Resources, viewer: Viewer, saved_id: str) -> SavedOrder:
    """Raises NotFound, and Invalid when its name has been given to another one, or there is no room for it."""
    return await _change(
        resources, viewer, saved_id, lambda before, at: replace(before, deleted_at=None), is_deleted=True
    )


async def get(resources: Resources, viewer: Viewer, saved_id: str, *, is_deleted: bool = False) -> SavedOrder:
    """Raises NotFound for what does not exist, what is somebody else's, and what is deleted or is not."""
    async with resources.store.connection():
        saved = await rows.get(resources.store, saved_id) if is_id(saved_id, "sav") else None
    if saved is None or is_deleted != (saved.deleted_at is not None):
        raise NotFound
    if not viewer.is_admin and saved.owner != viewer.id:
        raise NotFound
    return saved


async def list_own(resources: Resources, viewer: Viewer) -> Sequence[SavedOrder]:
    """By name."""
    async with resources.store.connection():
        return await rows.list_of(resources.store, viewer.id)


async def order(
    resources: Resources, viewer: Viewer, saved_id: str, *, idempotency_key: str | None = None
) -> tuple[Export, bool]:
    """The export that answers it today, and whether it is new. It belongs to who orders it, an admin perhaps.

    Raises NotFound, Invalid when it no longer fits its dataset, and what `exports.place` raises.
    """
    saved = await get(resources, viewer, saved_id)
    wanted = as_order(saved)
    export, is_new = await exports.order(
        resources, viewer, wanted, defaults=API_DEFAULTS, idempotency_key=idempotency_key
    )
    async with resources.store.transaction():
        at = await resources.store.now()
        if export.owner == saved.owner:
            await rows.note_ordered(resources.store, saved.id, export.id, at=at)
    return export, is_new


def as_order(saved: SavedOrder) -> Order:
    """The export is called as the saved order is."""
    return Order(saved.dataset, saved.params, saved.format, saved.options, zone=saved.zone, called={"name": saved.name})


async def _checked(resources: Resources, viewer: Viewer, name: object, wanted: Order, defaults: Options) -> SavedOrder:
    errors = [FieldError("name", problem)] if (problem := _name_problem(name)) else []
    at = await resources.store.now()
    try:
        dataset, checked, options = await exports.check_order(resources, viewer, wanted, defaults=defaults, now=at)
    except Invalid as invalid:
        raise Invalid([*errors, *invalid.errors]) from None
    if errors:
        raise Invalid(errors)
    return SavedOrder(
        id=new_id("sav"),
        owner=viewer.id,
        name=_checked_name(name),
        dataset=dataset.name,
        params=_kept(dataset, wanted.params, checked.params),
        labels=checked.labels,
        format=wanted.format,
        options=options,
        zone=known_zone(wanted.zone or wanted.options.get("timezone")),
        created_at=at,
        updated_at=at,
    )


def _kept(dataset: Dataset, sent: Mapping[str, Any], checked: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, canonical, but words as they are. What was left out stays left out, to be the default of the
    day on which it is ordered."""
    kept: dict[str, Any] = {}
    for parameter in dataset.parameters:
        given = sent.get(parameter.name)
        if is_moving(parameter, given):
            kept[parameter.name] = str(given).strip()
        elif given not in (None, "", []):
            kept[parameter.name] = checked[parameter.name]
    return kept


def _name_problem(name: object) -> str | None:
    return name_problem(name) or (None if str(name).strip() else say("Give it a name."))


def _checked_name(name: object) -> str:
    if problem := _name_problem(name):
        raise Invalid([FieldError("name", problem)])
    return tidy_name(str(name))


async def _change(
    resources: Resources, viewer: Viewer, saved_id: str, decide: Decide, *, is_deleted: bool = False
) -> SavedOrder:
    """Writes what `decide` makes of it, unless its owner has another one of that name."""
    owner = (await get(resources, viewer, saved_id, is_deleted=is_deleted)).owner
    async with resources.store.transaction():
        await people.lock_user(resources.store, owner)
        before = await get(resources, viewer, saved_id, is_deleted=is_deleted)
        after = decide(before, await resources.store.now())
        if is_deleted and await rows.count(resources.store, owner) >= limits.SAVED_ORDERS_MOST:
            raise Invalid([FieldError("saved_orders", FULL)])
        namesake = None if after.deleted_at else await rows.named(resources.store, owner, after.name)
        if namesake is not None and namesake.id != after.id:
            raise Invalid([FieldError("name", NAME_TAKEN)])
        await rows.write(resources.store, after)
    return after


async def purge(resources: Resources, now: datetime) -> int:
    """Those that can no longer be restored."""
    before = now - timedelta(seconds=limits.SAVED_ORDER_RESTORABLE)
    return await rows.purge(resources.store, deleted_before=before)
