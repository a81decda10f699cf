"""Status polls: answered from this process, from Redis, or from the store, see `webapp.status_cache`."""

from __future__ import annotations

from collections.abc import Set

from webapp import queue, status_cache
from webapp.actions import exports, turns
from webapp.actions.statuses import answer_of
from webapp.domain.access import NotFound, Viewer
from webapp.resources import Resources
from webapp.status_cache import Answer, Slot


async def current(resources: Resources, viewer: Viewer, export_id: str, known: Set[str]) -> Answer:
    """Raises NotFound. `known` are the tags that the client names: it never gets less than those tell.

    Kept answers are for who knows just that or an older version. Who knows a newer one, or other progress of the same,
    is answered from the store.
    """
    cache = resources.statuses
    if not cache.is_usable:
        return await _from_store(resources, viewer, export_id)
    kept = cache.answer(export_id)
    if kept is None or not suffices(kept, known):
        slot = cache.answers.open(export_id)
        async with slot.turn_to_read():
            kept = slot.value or await _from_redis(resources, export_id, slot)
            if kept is None or not suffices(kept, known):
                kept = await _from_store(resources, viewer, export_id)
                slot.fill(kept)
    if not await exports.may_read(resources, viewer, export_id, kept):
        raise NotFound
    return kept


def suffices(answer: Answer, known: Set[str]) -> bool:
    return answer.etag in known or all(_is_older(tag, answer.version) for tag in known)


def _is_older(tag: str, version: int) -> bool:
    number = tag.strip('"').partition("-")[0]
    return tag in {"", "*"} or (number.isascii() and number.isdigit() and len(number) < 16 and int(number) < version)


async def _from_redis(resources: Resources, export_id: str, slot: Slot[Answer]) -> Answer | None:
    try:
        found = await status_cache.read(resources.redis, export_id)
    except queue.QUEUE_ERRORS:
        return None
    if found is None or found[0].version < slot.floor:
        return None
    slot.fill(*found)
    return found[0]


async def _from_store(resources: Resources, viewer: Viewer, export_id: str) -> Answer:
    async with resources.store.connection():
        export = await exports.read(resources, viewer, export_id)
        now = await resources.store.now()
        [place] = await turns.places(resources, [export], now=now)
    return answer_of(export, base_url=resources.settings.base_url, now=now, place=place)
