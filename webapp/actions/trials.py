"""Trying an endpoint out: one real, signed request, sent by a worker like every other, whose answer is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from webapp import queue
from webapp.actions import messages
from webapp.actions.messages import Outgoing
from webapp.domain.callbacks import Answer, EndpointSettings, Message
from webapp.queue import QueueName
from webapp.resources import Resources

ANSWERED_WITHIN = 5.0
"""Seconds that the queue and the worker may take beside the request itself."""


class NoWorker(Exception):
    """No callbacks worker is running that could send this. Start one: exportdesk worker callbacks."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


@dataclass(frozen=True, slots=True)
class Trial:
    sent: Outgoing
    answer: Answer
    at: datetime


class TrialRequest(msgspec.Struct, array_like=True):
    """What is handed to the worker, sealed: headers may hold passwords, and the broker is no place for them."""

    outgoing: Outgoing
    time_limit: float


_request = msgspec.json.Decoder(TrialRequest)
_answer = msgspec.json.Decoder(Answer)


async def try_out(resources: Resources, settings: EndpointSettings, secrets: Sequence[str], message: Message) -> Trial:
    """Works for an endpoint that was never saved, too. Leaves nothing in the delivery log. Raises NoWorker."""
    at = await resources.store.now()
    sent = messages.outgoing(settings, secrets, message, at=at)
    sealed = resources.sealer.seal(msgspec.json.encode(TrialRequest(sent, settings.time_limit)).decode())
    timeout = settings.time_limit + ANSWERED_WITHIN
    try:
        if not await queue.worker_is_alive(resources.redis, QueueName.CALLBACKS):
            raise NoWorker
        answer = await queue.ask(resources.redis, queue.TRY_OUT, sealed, queue=QueueName.CALLBACKS, timeout=timeout)
    except (queue.NoAnswer, *queue.QUEUE_ERRORS) as error:
        raise NoWorker from error
    return Trial(sent, _answer.decode(resources.sealer.open(answer)), at)


def open_request(resources: Resources, sealed: str) -> TrialRequest:
    """The worker's side. Raises Unsealable where the two do not share a key."""
    return _request.decode(resources.sealer.open(sealed))


def seal_answer(resources: Resources, answer: Answer) -> str:
    return resources.sealer.seal(msgspec.json.encode(answer).decode())
