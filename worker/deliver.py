"""One signed request to one endpoint, in spite of everything that the far end may do."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import aiohttp

from webapp.actions.messages import Outgoing
from webapp.domain.callbacks import (
    BODY_KEPT,
    CONNECT_SECONDS,
    LONGEST_RETRY_AFTER,
    Answer,
    ErrorClass,
    error_of_status,
)
from webapp.domain.targets import BadTarget
from worker.deadlines import Deadlines
from worker.guard import Forbidden, Guard, Reach, reach

HEADERS_KEPT = 50
HEADER_KEPT = 1000
"""Characters of a header's value."""

CONNECTING = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
"""The limit of the whole is a deadline."""

MAY_ASK_FOR_TIME = frozenset({429, 503})

_deadlines = Deadlines()


@dataclass(slots=True)
class _Reading:
    """What has arrived so far: it is shown also when the rest never comes."""

    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytearray = field(default_factory=bytearray)
    is_cut: bool = False
    retry_after: float | None = None


async def send(outgoing: Outgoing, *, time_limit: float, guard: Guard) -> Answer:
    """POSTs it once. Never raises for what the far end does; `time_limit` in seconds covers all of it."""
    reading, started = _Reading(), time.perf_counter()
    try:
        with _deadlines.within(time_limit):
            await _exchange(outgoing, reading, guard)
        assert reading.status is not None
        error = error_of_status(reading.status)
    except (TimeoutError, BadTarget, aiohttp.ClientError, OSError, ValueError) as failure:
        error = error_class(failure)
    return Answer(
        error=error,
        status=reading.status,
        headers=reading.headers,
        body=_text(reading.body),
        is_cut=reading.is_cut,
        retry_after=reading.retry_after,
        seconds=time.perf_counter() - started,
    )


async def _exchange(outgoing: Outgoing, reading: _Reading, guard: Guard) -> None:
    destination, session = await guard.admit(outgoing.url)
    asked = Reach(destination.target)
    reach.set(asked)
    try:
        async with session.post(
            destination.url,
            data=outgoing.body,
            headers=outgoing.headers,
            allow_redirects=False,
            timeout=CONNECTING,
        ) as response:
            reading.status = response.status
            reading.headers = _kept(response.headers)
            reading.retry_after = _retry_after(response.status, response.headers)
            await _read(response, reading)
    except aiohttp.ClientError as failure:
        if asked.was_refused:
            raise Forbidden from failure
        raise


async def _read(response: aiohttp.ClientResponse, reading: _Reading) -> None:
    """As many raw bytes as are kept. A connection on which more would come is closed."""
    async for chunk in response.content.iter_any():
        reading.body += chunk
        if len(reading.body) > BODY_KEPT:
            del reading.body[BODY_KEPT:]
            reading.is_cut = True
            response.close()
            return


def error_class(failure: Exception) -> ErrorClass:
    """The first that fits: aiohttp's classes inherit from one another."""
    if isinstance(failure, (BadTarget, Forbidden)):
        return ErrorClass.ADDRESS_FORBIDDEN
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        return ErrorClass.ADDRESS_FORBIDDEN if isinstance(failure.os_error, Forbidden) else ErrorClass.DNS
    if isinstance(failure, asyncio.TimeoutError):
        return ErrorClass.TIMEOUT
    if isinstance(failure, (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch, ssl.SSLError)):
        return ErrorClass.TLS
    if isinstance(failure, aiohttp.ClientConnectorError):
        return _error_of_connecting(failure.os_error)
    if isinstance(failure, (aiohttp.ClientResponseError, aiohttp.InvalidURL)):
        return ErrorClass.BAD_ANSWER
    if isinstance(failure, (aiohttp.ClientError, OSError)):
        return ErrorClass.DISCONNECTED
    return ErrorClass.BAD_ANSWER


def _error_of_connecting(failure: OSError) -> ErrorClass:
    if failure.errno == errno.ETIMEDOUT:
        return ErrorClass.TIMEOUT
    if failure.errno in {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED}:
        return ErrorClass.DISCONNECTED
    return ErrorClass.REFUSED


def _kept(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((_clean(name), _clean(value)[:HEADER_KEPT]) for name, value in [*headers.items()][:HEADERS_KEPT])


def _text(body: bytearray) -> str:
    return _clean(body.decode("utf-8", "replace"))


def _clean(text: str) -> str:
    """Without what a database cannot hold: NUL, and the lone surrogates by which undecodable bytes are marked."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _retry_after(status: int, headers: Mapping[str, str]) -> float | None:
    """In seconds, from now on; None where the receiver asks for nothing that can be read."""
    given = headers.get("Retry-After", "").strip()
    if status not in MAY_ASK_FOR_TIME or not given:
        return None
    if given.isascii() and given.isdigit():
        return float(min(int(given[:10]), int(LONGEST_RETRY_AFTER)))
    until = _moment(given)
    if until is None:
        return None
    now = _moment(headers.get("Date", "")) or time.time()
    return min(max(until - now, 0.0), LONGEST_RETRY_AFTER)


def _moment(date: str) -> float | None:
    """Of an HTTP date. Both of an answer are by the clock of who gave it, which need not be ours."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
