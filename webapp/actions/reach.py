"""Whether a callback URL may be called, as far as that can be said before it is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from webapp.actions import inspectors
from webapp.domain.addresses import Address, AllowedTargets, is_forbidden
from webapp.domain.callbacks import UNREACHABLE
from webapp.domain.sentences import say
from webapp.domain.targets import BadTarget, parse_target
from webapp.resources import Resources

LOOKUP_SECONDS = 2.0
UNRESOLVED = say("The host's name leads nowhere just now. Callbacks will be tried once it does.")
FRAGMENT = say("The part of the URL from # on is not sent.")

_lookups = ThreadPoolExecutor(4, "lookup")
"""Apart from all other threads: a name server that does not answer holds up nothing else."""


async def reach(resources: Resources, url: str) -> tuple[str, ...]:
    """Notes about where the URL leads; an inspector's is right as it is. Raises BadTarget.

    This keeps mistakes out, it protects nothing: what a name leads to is checked again whenever it is dialled.
    """
    if await inspectors.find_by_url(resources, url) is not None:
        return ()
    allowed = AllowedTargets.parse(resources.settings.callback_allow_private)
    target = parse_target(url, allowed)
    notes = (FRAGMENT,) if "#" in url else ()
    if target.address is not None:
        return notes
    found = await lookup(target.host, target.port)
    if not all(not is_forbidden(one) or allowed.allows(target.host, target.port, one) for one in found):
        raise BadTarget(UNREACHABLE)
    return notes if found else (*notes, UNRESOLVED)


async def lookup(host: str, port: int) -> Sequence[Address]:
    """The addresses of a name; none when it has none now, or when its name server takes too long."""
    work = asyncio.get_running_loop().run_in_executor(_lookups, _addresses, host, port)
    try:
        return await asyncio.wait_for(work, LOOKUP_SECONDS)
    except TimeoutError:
        return ()


def _addresses(host: str, port: int) -> Sequence[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [ip_address(str(sockaddr[0])) for *_, sockaddr in found]
    except (OSError, UnicodeError, ValueError):
        return ()
