"""Inspectors: receivers of our own, made and thrown away with one click, and what arrived at them."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from webapp import bus
from webapp.actions.changes import hint
from webapp.domain import receiving
from webapp.domain.access import NotFound, Viewer
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.ids import is_id, new_id
from webapp.domain.receiving import Arrival, Inspector, Received, Verdict
from webapp.domain.sentences import say, sentence_of
from webapp.resources import Resources
from webapp.store import inspectors, people

__all__ = [
    "Arrived",
    "Inspector",
    "Receipt",
    "arrived",
    "clear",
    "count_requests",
    "create",
    "delete",
    "edit",
    "find",
    "find_by_url",
    "list_all",
    "purge",
    "receive",
    "shown_token",
]

TOKEN_BYTES = 24
TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")
ID_PREFIX = "irq"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the caller is answered. `verdict` None: too many requests, so this one was not looked at."""

    status: int
    verdict: Verdict | None
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """`count` is of all that is kept, `newest` are as many of them as were asked for. `endpoint_id` is of an endpoint
    with this inspector's URL."""

    at: datetime
    newest: Sequence[Received]
    count: int
    chosen: Received | None
    endpoint_id: str | None


async def create(resources: Resources, actor: Viewer) -> Inspector:
    """Raises Invalid when there are as many as there may be."""
    store, token = resources.store, secrets.token_urlsafe(TOKEN_BYTES)
    async with store.transaction():
        if await inspectors.count(store) >= receiving.MOST_INSPECTORS:
            sentence = say(
                "There are {count} inspectors already. Throw one away first.", count=receiving.MOST_INSPECTORS
            )
            raise Invalid([FieldError("inspector", sentence)])
        now = await store.now()
        inspector = Inspector(token, f"{resources.settings.base_url}/inspect/{token}", now, actor.id)
        await inspectors.add(store, inspector)
        await people.audit(store, actor=actor.name, action="inspector.created", subject=shown_token(token), at=now)
    return inspector


def shown_token(token: str) -> str:
    """For a log: whoever knows the whole token can send to the inspector."""
    return token[:6] + "…"


async def find(resources: Resources, token: str) -> Inspector:
    """Raises NotFound."""
    async with resources.store.connection():
        return await _found(resources, token)


async def _found(resources: Resources, token: str, *, lock: bool = False) -> Inspector:
    inspector = None
    if TOKEN.fullmatch(token):
        inspector = await inspectors.get(resources.store, token, resources.settings.base_url, lock=lock)
    if inspector is None:
        raise NotFound
    return inspector


async def find_by_url(resources: Resources, url: str) -> Inspector | None:
    """The inspector whose URL is exactly this text."""
    start = f"{resources.settings.base_url}/inspect/"
    if not url.startswith(start):
        return None
    try:
        return await find(resources, url.removeprefix(start))
    except NotFound:
        return None


async def list_all(resources: Resources) -> Sequence[Inspector]:
    """Newest first."""
    async with resources.store.connection():
        return await inspectors.list_all(resources.store, resources.settings.base_url)


async def edit(
    resources: Resources, actor: Viewer, token: str, *, allowed: Sequence[str], answer_status: int
) -> Inspector:
    """Who may call it, and what it answers. Raises Invalid and NotFound."""
    errors: list[FieldError] = []
    networks: tuple[str, ...] = ()
    try:
        networks = receiving.parse_networks(allowed)
    except ValueError as error:
        errors.append(FieldError("allowed", sentence_of(error)))
    if answer_status not in receiving.ANSWER_STATUSES:
        errors.append(
            FieldError(
                "answer_status", say("Choose one of {choices}.", choices=", ".join(map(str, receiving.ANSWER_STATUSES)))
            )
        )
    if errors:
        raise Invalid(errors)
    async with resources.store.transaction():
        before = await _found(resources, token, lock=True)
        details = {"allowed": list(networks), "answer_status": answer_status}
        if (before.allowed, before.answer_status) != (networks, answer_status):
            await inspectors.edit(resources.store, token, allowed=networks, answer_status=answer_status)
            await _audit(resources, actor, "inspector.changed", token, details)
        after = await _found(resources, token)
    await _tell(resources, token)
    return after


async def clear(resources: Resources, actor: Viewer, token: str) -> None:
    """Forgets what arrived. Raises NotFound."""
    async with resources.store.transaction():
        await _found(resources, token, lock=True)
        await inspectors.clear(resources.store, token)
        await _audit(resources, actor, "inspector.cleared", token)
    await _tell(resources, token)


async def delete(resources: Resources, actor: Viewer, token: str) -> None:
    """With all that arrived: its URL answers 404 from now on. Raises NotFound."""
    async with resources.store.transaction():
        if not (TOKEN.fullmatch(token) and await inspectors.remove(resources.store, token)):
            raise NotFound
        await _audit(resources, actor, "inspector.deleted", token)
    await _tell(resources, token)


async def _audit(
    resources: Resources, actor: Viewer, action: str, token: str, details: Mapping[str, object] | None = None
) -> None:
    now = await resources.store.now()
    await people.audit(
        resources.store, actor=actor.name, action=action, subject=shown_token(token), at=now, details=details
    )


async def _tell(resources: Resources, token: str) -> None:
    await hint(resources, bus.Hint(token, bus.INSPECTORS, 0))


async def receive(resources: Resources, token: str, arrival: Arrival) -> Receipt:
    """Checks a request as any receiver should, and keeps it. Raises NotFound."""
    store = resources.store
    await find(resources, token)  # so that nobody without a token makes the others wait for a transaction
    async with store.transaction():
        inspector = await _found(resources, token, lock=True)
        now = await store.now()
        is_refused = not receiving.is_allowed(arrival.address, inspector.allowed)
        wait = await _wait(resources, token, now, is_refused=is_refused)
        if wait is not None:
            return Receipt(429, None, wait)
        received = await _judged(resources, inspector, arrival, now, is_refused=is_refused)
        await inspectors.add_request(store, received)
        await inspectors.drop_oldest(store, token, keep=receiving.REQUESTS_KEPT)
    await _tell(resources, token)
    return _receipt(inspector, received)


async def _wait(resources: Resources, token: str, now: datetime, *, is_refused: bool) -> int | None:
    """Seconds until there is room for another one; None when there is now."""
    window = timedelta(seconds=receiving.RATE_SECONDS)
    seen = await inspectors.traffic(resources.store, token, since=now - window, refused=is_refused)
    if seen.first_at is None or seen.count < receiving.rate_of(is_refused=is_refused):
        return None
    return max(1, math.ceil((seen.first_at + window - now).total_seconds()))


async def _judged(
    resources: Resources, inspector: Inspector, arrival: Arrival, now: datetime, *, is_refused: bool
) -> Received:
    given, store = arrival.signature, resources.store
    registered = await inspectors.endpoints_at(store, inspector.url, resources.sealer)
    known = [secret.value for endpoint in registered for secret in endpoint.valid_secrets(now)]
    verdict = Verdict.REFUSED if is_refused else receiving.judge(given, known, arrival.body, at=now)
    custom = frozenset(name.lower() for endpoint in registered for name, _ in endpoint.settings.headers)
    webhook_id = receiving.without_nul(given.id[: receiving.ID_LENGTH]) or None
    before = receiving.counted_before(verdict)
    body, is_cut = receiving.kept_body(arrival.body)
    return Received(
        id=new_id(ID_PREFIX),
        token=inspector.token,
        received_at=now,
        address=arrival.address,
        headers=receiving.kept_headers(arrival.headers, secret=custom),
        body=body,
        is_cut=is_cut,
        webhook_id=webhook_id,
        verdict=verdict,
        age=receiving.age_of(given, now),
        is_duplicate=bool(webhook_id)
        and await inspectors.has_come_before(store, inspector.token, webhook_id or "", before),
    )


def _receipt(inspector: Inspector, received: Received) -> Receipt:
    if received.verdict is Verdict.REFUSED:
        return Receipt(403, received.verdict)
    status = inspector.answer_status
    return Receipt(status, received.verdict, receiving.ANSWER_RETRY_AFTER if status in {429, 503} else None)


async def arrived(resources: Resources, inspector: Inspector, *, limit: int, chosen: str) -> Arrived:
    """What an inspector keeps, newest first, and the request with the chosen id, or else the newest."""
    store, token = resources.store, inspector.token
    async with store.connection():
        at = await store.now()
        newest = await inspectors.requests_of(store, token, limit=limit)
        total = (await inspectors.count_requests(store)).get(token, 0)
        found = await inspectors.get_request(store, token, chosen) if is_id(chosen, ID_PREFIX) else None
        endpoint_id = await inspectors.endpoint_id_at(store, inspector.url)
    return Arrived(at, newest, total, found or (newest[0] if newest else None), endpoint_id)


async def count_requests(resources: Resources) -> Mapping[str, int]:
    """How many each inspector keeps, by token."""
    async with resources.store.connection():
        return await inspectors.count_requests(resources.store)


async def purge(resources: Resources, before: datetime) -> int:
    """Deletes requests that came earlier, inside the caller's transaction; gives back how many."""
    return await inspectors.purge(resources.store, before=before)
