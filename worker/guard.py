"""The guard: connections for callbacks are opened to public addresses only, and to what an admin's setting names.

Checked twice: all addresses that a name leads to, before one is chosen, and the very address that is dialled.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from webapp.actions import inspectors
from webapp.domain.addresses import AllowedTargets, is_forbidden, parse_address
from webapp.domain.callbacks import BODY_KEPT
from webapp.domain.targets import DEFAULT_PORTS, Target, parse_target
from webapp.resources import Resources

LOOKUPS_AT_ONCE = 64
"""Threads that wait for name servers; names that hang keep one each for some seconds."""

NAMES_KEPT = 5
"""Seconds that the checked addresses of a name are used for further connections."""

TARGETS_KEPT = 2000
CONNECTIONS_KEPT = 1.5
"""Seconds that an unused connection stays open: shorter than receivers keep theirs, or requests would be lost."""

Lookup = Callable[[str, int], Sequence[str]]
IsInspector = Callable[[str], Awaitable[bool]]


class Forbidden(OSError):
    """The address, or one of several, is one that callbacks may not reach."""


@dataclass(frozen=True, slots=True)
class Destination:
    """`url` is built from the target, so that nothing parses it another way."""

    target: Target
    url: URL

    @classmethod
    def of(cls, target: Target) -> Self:
        return cls(target, URL(target.url, encoded=True))


@dataclass(slots=True)
class Reach:
    """Where the request of the present task was to go, and whether the guard turned it away at the dial."""

    target: Target
    was_refused: bool = False


reach: ContextVar[Reach] = ContextVar("reach")


def look_up(host: str, port: int) -> Sequence[str]:
    """All addresses of the name, by the machine's resolver. Raises `socket.gaierror`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


@dataclass(slots=True)
class Guard:
    """Gives out sessions that reach what `allowed` allows. Use as an async context."""

    allowed: AllowedTargets
    is_inspector: IsInspector
    lookup: Lookup = look_up
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(LOOKUPS_AT_ONCE, "dns"))
    _parsed: OrderedDict[str, Destination] = field(default_factory=OrderedDict[str, Destination])
    _sessions: list[aiohttp.ClientSession] = field(default_factory=list[aiohttp.ClientSession])

    @classmethod
    def of(cls, resources: Resources) -> Self:
        async def is_inspector(url: str) -> bool:
            if not url.startswith(f"{resources.settings.base_url}/inspect/"):
                return False
            return await inspectors.find_by_url(resources, url) is not None

        return cls(AllowedTargets.parse(resources.settings.callback_allow_private), is_inspector)

    async def __aenter__(self) -> Self:
        guarded = aiohttp.TCPConnector(
            limit=0,
            resolver=_Names(self.addresses),
            socket_factory=self._socket,
            ttl_dns_cache=NAMES_KEPT,
            keepalive_timeout=CONNECTIONS_KEPT,
        )
        unguarded = aiohttp.TCPConnector(limit=0, resolver=_Names(self._look_up), force_close=True)
        self._sessions = [_session(guarded), _session(unguarded)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in self._sessions:
            await session.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def admit(self, url: str) -> tuple[Destination, aiohttp.ClientSession]:
        """Where the URL leads, and the session to go there with. Raises BadTarget.

        An inspector's connections are its own: one that stayed open could carry a request to another path of its host.
        """
        guarded, unguarded = self._sessions
        if await self.is_inspector(url):
            return Destination.of(parse_target(url, _exactly(url))), unguarded
        return self._destination(url), guarded

    def _destination(self, url: str) -> Destination:
        """Parsed once: it takes as long as all the rest that we do for a request."""
        if url not in self._parsed:
            self._parsed[url] = Destination.of(parse_target(url, self.allowed))
            if len(self._parsed) > TARGETS_KEPT:
                self._parsed.popitem(last=False)
        return self._parsed[url]

    def may_reach(self, host: str, port: int, address: str) -> bool:
        parsed = parse_address(address)
        if parsed is None:
            return False
        return not is_forbidden(parsed) or self.allowed.allows(host, port, parsed)

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Raises Forbidden when one of them is forbidden, and `socket.gaierror`."""
        found = await self._look_up(host, port)
        if not all(self.may_reach(host, port, address) for address in found):
            raise Forbidden
        return found

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.lookup, host, port)

    def _socket(self, info: Any) -> socket.socket:
        """Called for each address that is about to be dialled, also for those that no name was looked up for."""
        family, kind, protocol, _, address = info
        asked = reach.get()
        if asked.was_refused or not self.may_reach(asked.target.host, asked.target.port, str(address[0])):
            asked.was_refused = True
            raise Forbidden
        return socket.socket(family, kind, protocol)


def _exactly(url: str) -> AllowedTargets:
    """What lets a URL of ours through, wherever we run."""
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    return AllowedTargets(hosts=frozenset({(parts.hostname or "", port)}))


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        read_bufsize=BODY_KEPT,
    )


class _Names(AbstractResolver):
    """Looks names up for aiohttp."""

    def __init__(self, look_up: Callable[[str, int], Awaitable[Sequence[str]]]) -> None:
        self.look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self.look_up(host, port)
        ]

    async def close(self) -> None:
        return None
