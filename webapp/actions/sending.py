"""The store's side of sending: claim what is owed, keep it leased, record what came of it.

An attempt is on record before its request starts, so a worker that dies in the middle leaves a trace: its lease runs
out, the attempt ends as interrupted, and the delivery is claimed again under the same `webhook-id`.
"""

from __future__ import annotations

import logging
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from webapp import bus, letters
from webapp.actions import messages
from webapp.actions.changes import hint
from webapp.actions.messages import Outgoing
from webapp.domain.callbacks import (
    BODY_KEPT,
    LEASE_SECONDS,
    Answer,
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    ErrorClass,
    Message,
    after_answer,
    after_attempt,
)
from webapp.domain.ids import new_id
from webapp.domain.tallies import Metric, Observation
from webapp.language import LANGUAGES
from webapp.resources import Resources
from webapp.sealing import Unsealable
from webapp.store import emails, endpoints, leases, people, tallies
from webapp.store import shares as share_rows
from webapp.store.leases import Room
from webapp.store.plain import PlainSQL
from webapp.store.shares import Note
from webapp.store.types import from_milliseconds, to_milliseconds

log = logging.getLogger(__name__)

ACTOR = "exportdesk"
CHANNEL, MAIL_CHANNEL = "callback", "email"
RETRIED = "retried"
"""The outcome of a request after which its delivery is still owed; else it is the state of the delivery."""
MILLISECOND = timedelta(milliseconds=1)
ENDPOINTS_AT_ONCE = 100
LOOK_AGAIN = 0.05
"""Seconds until an endpoint that has been sent as many a second as it wants is looked at again."""

MOST_KNOWN = 1000
BROKEN_FOR = timedelta(minutes=1)
"""How long an endpoint is left alone whose secrets cannot be opened, or used."""

_dice = random.SystemRandom()


class Work(NamedTuple):
    """A delivery that is leased to us under `token`, and the request that is on record for it."""

    delivery: Delivery
    endpoint: Endpoint
    message: Message
    attempt: DeliveryAttempt
    outgoing: Outgoing
    token: str


class Ended(NamedTuple):
    work: Work
    answer: Answer


async def seconds_until_owed(resources: Resources) -> float | None:
    """0 when there is something to claim; None when there is nothing but what waits for others to end."""
    async with resources.store.connection():
        at = await resources.store.now()
        waits = [_wait(room, at) for room in await leases.rooms(resources.store, at)]
    return min((wait for wait in waits if wait is not None), default=None)


def _wait(room: Room, at: datetime) -> float | None:
    if room.due_at > at:
        return (room.due_at - at).total_seconds()
    if room.room > 0:
        return 0.0
    return LOOK_AGAIN if room.is_at_rate else None


Reader = tuple[str, str | None]
"""Address and language of a person who is mailed."""

Known = dict[str, Endpoint | None]
"""Endpoints whose secrets have been opened already, by id: they hold as long as their version does. None: they could
not be opened."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one look brought: work, or endpoints that have to be opened before; `broken` are those that cannot be."""

    work: Sequence[Work] = ()
    unknown: Sequence[str] = ()
    broken: Sequence[str] = ()


async def claim(
    resources: Resources, token: str, *, limit: int, known: Known | None = None, ended: Sequence[Ended] = ()
) -> list[Work]:
    """Leases what is owed, as much as each endpoint takes and fairly between them, and begins an attempt of each.

    What is in `known` is not opened again, and what is opened is put there. What has `ended` is recorded before, in the
    same transaction unless an endpoint has to be opened between.
    """
    store, opened = resources.store, {} if known is None else known
    while True:
        look = partial(
            _claim,
            token=token,
            limit=limit,
            known=opened,
            ended=ended,
            at=await store.now(),
            resources=resources,
        )
        found = await store.at_once(look)
        if not found.unknown:
            break
        ended = ()
        await _open(resources, found.unknown, opened)
    for endpoint_id in found.broken:
        opened.pop(endpoint_id, None)
    return list(found.work)


async def _claim(
    rows: PlainSQL,
    *,
    token: str,
    limit: int,
    known: Known,
    ended: Sequence[Ended],
    at: datetime,
    resources: Resources,
) -> Claim:
    if ended:
        await _record(rows, ended, at)
    locked = await leases.lock_owed(rows, at)
    rooms = [room for room in await leases.rooms(rows, at, among=locked) if room.due_at <= at]
    chosen = shares(rooms, limit)
    if unknown := [room.endpoint_id for room in rooms if room.endpoint_id in chosen and not _is_known(room, known)]:
        return Claim(unknown=unknown)
    if not chosen:
        return Claim()
    owed = await leases.owed(rows, chosen, at)
    taken = await leases.take(rows, list(owed), token, at=at, until=_lease_end(at))
    if lost := [row["id"] for row in taken if owed[row["id"]]]:
        await leases.interrupt(rows, lost, at=at)
    found = await _composed(rows, taken, known, token, at=at, resources=resources)
    await leases.begin(rows, [_begun(one) for one in found.work])
    return found


def shares(rooms: Sequence[Room], limit: int) -> dict[str, int]:
    """How many for each endpoint: one after the other in turns, first those that have least in flight."""
    waiting: list[Room] = [room for room in rooms if room.room > 0]
    waiting.sort(key=lambda room: (room.live, room.due_at))
    del waiting[ENDPOINTS_AT_ONCE:]
    given: dict[str, int] = dict.fromkeys([room.endpoint_id for room in waiting], 0)
    while limit > 0 and waiting:
        for room in waiting[:limit]:
            given[room.endpoint_id] += 1
        limit -= len(waiting)
        waiting = [room for room in waiting if given[room.endpoint_id] < room.room]
    return {endpoint_id: share for endpoint_id, share in given.items() if share}


def _lease_end(at: datetime) -> datetime:
    return at + timedelta(seconds=LEASE_SECONDS)


async def _open(resources: Resources, endpoint_ids: Sequence[str], known: Known) -> None:
    if len(known) > MOST_KNOWN:
        known.clear()
    for row in await leases.endpoint_rows(resources.store, endpoint_ids):
        known[row["id"]] = _opened(resources, row)


def _is_known(room: Room, known: Known) -> bool:
    if room.endpoint_id not in known:
        return False
    endpoint = known[room.endpoint_id]
    return endpoint is None or endpoint.version == room.version


async def _composed(
    rows: PlainSQL,
    taken: Sequence[Mapping[str, Any]],
    known: Known,
    token: str,
    *,
    at: datetime,
    resources: Resources,
) -> Claim:
    """What is to be sent, signed. An endpoint for which that cannot be done keeps nobody else waiting."""
    events = await leases.events_of(rows, list({row["event_id"] for row in taken}))
    mailed = [
        (row["export_id"], one.settings.reader)
        for row in taken
        if (one := known[row["endpoint_id"]]) and one.settings.reader
    ]
    readers: Mapping[str, Reader] = await emails.readers(rows, [*{reader for _, reader in mailed}]) if mailed else {}
    given = [(export, reader) for export, reader in mailed if export]
    notes: Mapping[tuple[str, str], Note] = await share_rows.told(rows, given) if given else {}
    work: list[Work] = []
    broken: set[str] = set()
    for row in taken:
        endpoint = known[row["endpoint_id"]]
        reader = readers.get(endpoint.settings.reader or "") if endpoint else None
        note = notes.get((row["export_id"], endpoint.settings.reader or "")) if endpoint else None
        composed = endpoint and _work(row, endpoint, events[row["event_id"]], token, at, resources, reader, note)
        if composed:
            work.append(composed)
        else:
            broken.add(row["endpoint_id"])
    if broken:
        left = [{"id": row["id"], "attempt": ""} for row in taken if row["endpoint_id"] in broken]
        await leases.undo(rows, left, token)
        for endpoint_id in broken:
            await leases.postpone(rows, endpoint_id, at=at, until=at + BROKEN_FOR)
    return Claim([one for one in work if one.endpoint.id not in broken], broken=list(broken))


def _opened(resources: Resources, row: Mapping[str, Any]) -> Endpoint | None:
    try:
        return endpoints.from_row(row, resources.sealer)
    except Unsealable:
        log.error(
            "the secrets of endpoint %s were sealed under a key that is not here; see `exportdesk key`", row["id"]
        )
        return None


def _work(
    row: Mapping[str, Any],
    endpoint: Endpoint,
    event: tuple[int, str],
    token: str,
    at: datetime,
    resources: Resources,
    reader: Reader | None,
    note: Note | None,
) -> Work | None:
    delivery = _delivery(row, at)
    timestamp, data = event
    message = Message(row["event_id"], row["event_type"], from_milliseconds(timestamp), msgspec.Raw(data.encode()))
    secrets = [secret.value for secret in endpoint.valid_secrets(at)]
    try:
        if endpoint.settings.reader:
            sent = _mail(endpoint, message, resources, reader, note, at=at)
        else:
            sent = messages.outgoing(endpoint.settings, secrets, message, at=at)
    except Exception:
        log.exception("endpoint %s: nothing can be signed or encrypted for it", endpoint.id)
        return None
    attempt = DeliveryAttempt(
        id=new_id("att"),
        delivery_id=delivery.id,
        endpoint_id=endpoint.id,
        number=delivery.attempts,
        started_at=at,
        url=sent.url,
        request_headers=messages.shown_headers(endpoint.settings, sent),
        request_body=sent.body[:BODY_KEPT].decode("utf-8", "ignore"),
    )
    return Work(delivery, endpoint, message, attempt, sent, token)


def _mail(
    endpoint: Endpoint,
    message: Message,
    resources: Resources,
    reader: Reader | None,
    note: Note | None,
    *,
    at: datetime,
) -> Outgoing:
    """To its owner how the export ended, to anybody else that it was shared with them: by whom, and the `note`.

    Without a body when there is nobody to write to, or no server to give it to, or it is shared no more.
    """
    url, export, settings = endpoint.settings.url, msgspec.json.decode(message.data), resources.settings
    is_owner = export["owner"] == endpoint.settings.reader
    if reader is None or settings.mail is None or not (is_owner or note):
        return Outgoing(url, (), b"")
    address, tag = reader
    language, base_url = LANGUAGES[tag or settings.language], settings.base_url
    dataset = resources.catalog.datasets.get(export["dataset"])
    what = export["name"] or (dataset.title if dataset else export["dataset"])
    if note and not is_owner:
        letter = letters.shared(language, export, what, by=note.by, note=note.text, base_url=base_url)
    else:
        letter = letters.ended(language, export, what, base_url=base_url)
    mail_id = message.id if is_owner else f"{message.id}.{endpoint.id}"
    mail = letters.message(letter, settings.mail, address, id=mail_id, at=at, base_url=base_url)
    return Outgoing(url, tuple((name, str(value)) for name, value in mail.items()), mail.as_bytes())


def _delivery(row: Mapping[str, Any], at: datetime) -> Delivery:
    return Delivery(
        id=row["id"],
        event_id=row["event_id"],
        event_type=row["event_type"],
        export_id=row["export_id"],
        endpoint_id=row["endpoint_id"],
        state=DeliveryState.PENDING,
        created_at=from_milliseconds(row["created_at"]),
        attempts=row["attempts"],
        failures=row["failures"],
        next_attempt_at=from_milliseconds(row["next_attempt_at"]),
        lease_until=_lease_end(at),
        last_attempt_at=at,
    )


def _begun(work: Work) -> dict[str, Any]:
    attempt = work.attempt
    return {
        "id": attempt.id,
        "delivery_id": attempt.delivery_id,
        "endpoint_id": attempt.endpoint_id,
        "number": attempt.number,
        "started_at": to_milliseconds(attempt.started_at),
        "url": attempt.url,
        "request_headers": msgspec.json.encode(attempt.request_headers).decode(),
        "request_body": attempt.request_body,
    }


async def renew(resources: Resources, token: str, work: Sequence[Work]) -> None:
    """Keeps leased what is still being sent or not yet recorded."""
    async with resources.store.transaction():
        at = await resources.store.now()
        await leases.renew(resources.store, [one.delivery.id for one in work], token, until=_lease_end(at))


async def record(resources: Resources, ended: Sequence[Ended]) -> int:
    """Attempts, deliveries and the health of their endpoints, all at once. How many leases were still ours.

    What was claimed by somebody else meanwhile, or cancelled, is left as it is.
    """
    at = await resources.store.now()
    return await resources.store.at_once(lambda rows: _record(rows, ended, at))


async def _record(rows: PlainSQL, ended: Sequence[Ended], at: datetime) -> int:
    settled = await leases.settle(rows, [_settled(one, at) for one in ended])
    await leases.end(rows, [_finished(one, settled.get(one.work.delivery.id), at) for one in ended])
    ours = [one for one in ended if one.work.delivery.id in settled]
    await _write_health(rows, ours, at=at)
    await tallies.add(rows, _observed(ours, settled, at))
    return len(ours)


def _observed(ended: Sequence[Ended], states: Mapping[str, str], at: datetime) -> list[Observation]:
    """`states` of their deliveries, by id."""
    times: list[Observation] = []
    counts = Counter[tuple[Metric, tuple[str, ...]]]()
    for one in ended:
        answer, state = one.answer, states[one.work.delivery.id]
        channel = MAIL_CHANNEL if one.work.endpoint.settings.reader else CHANNEL
        times.append(Observation(Metric.DELIVERY_ATTEMPT, time=timedelta(seconds=answer.seconds)))
        counts[Metric.DELIVERIES, (_outcome(state), answer.error.value if answer.error else "")] += 1
        latency = _latency(one, state, at)
        if latency is not None:
            times.append(Observation(Metric.NOTIFICATION_LATENCY, (channel,), latency))
        if state != DeliveryState.PENDING:
            counts[Metric.NOTIFICATIONS, (channel, "confirmed" if answer.error is None else "lost")] += 1
    return times + [Observation(metric, labels, count=count) for (metric, labels), count in counts.items()]


def _outcome(state: str) -> str:
    return RETRIED if state == DeliveryState.PENDING else state


def _latency(ended: Ended, state: str, at: datetime) -> timedelta | None:
    """How long the news took, when its delivery came through and nobody had sent it again by hand."""
    delivery = ended.work.delivery
    is_measure = state == DeliveryState.SUCCEEDED and delivery.attempts == delivery.failures + 1
    return max(timedelta(), at - ended.work.message.timestamp) if is_measure else None


async def tell(resources: Resources, endpoint_ids: Iterable[str]) -> None:
    """Hints to open pages about these endpoints, after the commit."""
    await hint(resources, *(bus.Hint(endpoint_id, bus.CALLBACKS, 0) for endpoint_id in endpoint_ids))


def _finished(ended: Ended, state: str | None, at: datetime) -> dict[str, Any]:
    """`state` of the delivery; None when it was not ours any more, so that its request counts for nothing."""
    answer = ended.answer
    latency = _latency(ended, state, at) if state else None
    return {
        "id": ended.work.attempt.id,
        "finished_at": to_milliseconds(at),
        "status": answer.status,
        "error": answer.error and answer.error.value,
        "response_headers": msgspec.json.encode(answer.headers).decode(),
        "response_body": answer.body,
        "is_cut": int(answer.is_cut),
        "duration_ms": round(answer.seconds * 1000),
        "outcome": state and _outcome(state),
        "latency_ms": None if latency is None else round(latency / MILLISECOND),
    }


def _settled(ended: Ended, at: datetime) -> dict[str, Any]:
    work = ended.work
    after = after_attempt(work.delivery, ended.answer, work.endpoint.settings.waits, at=at, dice=_dice)
    return _row(after, work.token)


def _row(after: Delivery, token: str) -> dict[str, Any]:
    return {
        "id": after.id,
        "token": token,
        "attempts": after.attempts,
        "state": after.state.value,
        "failures": after.failures,
        "next_attempt_at": after.next_attempt_at and to_milliseconds(after.next_attempt_at),
        "completed_at": after.completed_at and to_milliseconds(after.completed_at),
        "last_status": after.last_status,
        "last_error": after.last_error and after.last_error.value,
    }


async def _write_health(rows: PlainSQL, ended: Sequence[Ended], *, at: datetime) -> None:
    """Under a lock, so that no failure is counted by two and written by one."""
    answers: dict[str, list[Ended]] = defaultdict(list)
    for one in ended:
        answers[one.work.endpoint.id].append(one)
    if not answers:
        return
    changes: list[dict[str, Any]] = []
    for endpoint_id, health in (await leases.locked_health(rows, list(answers))).items():
        of_it = answers[endpoint_id]
        before = after = replace(of_it[0].work.endpoint, **health)
        for one, before_it in zip(of_it, [None, *of_it], strict=False):
            if one.answer.error or before_it is None or before_it.answer.error:  # a row of successes is as good as one
                after = after_answer(after, one.answer, at=at)
        changes.append({"id": after.id} | {name: getattr(after, name) for name in leases.HEALTH})
        if before.disabled_at is None and after.disabled_at is not None:
            await _audit(rows, after, at=at)
    await leases.write_health(rows, changes)


async def _audit(rows: PlainSQL, endpoint: Endpoint, *, at: datetime) -> None:
    details = {"reason": endpoint.disabled_reason, "failures_in_row": endpoint.failures_in_row}
    log.warning("endpoint %s was disabled: %s", endpoint.id, endpoint.disabled_reason)
    await people.audit(rows, actor=ACTOR, action="endpoint.disabled", subject=endpoint.id, at=at, details=details)


async def give_up(resources: Resources, work: Sequence[Work]) -> None:
    """Requests that we break off because we are told to stop: interrupted, no failure, and owed again at once."""
    if not work:
        return
    store = resources.store
    async with store.transaction():
        at = await store.now()
        interrupted = Answer(ErrorClass.INTERRUPTED)
        await leases.end(store, [_finished(Ended(one, interrupted), None, at) for one in work])
        await leases.settle(store, [_row(_owed_again(one, at), one.token) for one in work])


def _owed_again(work: Work, at: datetime) -> Delivery:
    return work.delivery._replace(next_attempt_at=at, last_error=ErrorClass.INTERRUPTED)


async def put_back(resources: Resources, work: Sequence[Work]) -> None:
    """Claims whose requests were never begun: as if there had been none."""
    if not work:
        return
    async with resources.store.transaction():
        taken = [{"id": one.delivery.id, "attempt": one.attempt.id} for one in work]
        await leases.undo(resources.store, taken, work[0].token)
