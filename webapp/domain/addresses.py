"""Which network addresses a callback may reach: public ones, and what an admin's setting names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from webapp.domain.sentences import say

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FORBIDDEN_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
"""The IANA special-purpose registry, and multicast."""

GLOBAL_6 = IPv6Network("2000::/3")
"""All that is given out today: whatever lies outside is local, reserved, multicast, or wraps an IPv4 address."""

FORBIDDEN_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)

WRAPPED_IN = (IPv6Network("::/96"), IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Prefixes whose last 32 bits are an IPv4 address that may really be reached."""

NAT64 = IPv6Network("64:ff9b::/96")


def is_forbidden(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return any(address in network for network in FORBIDDEN_4)
    if address in NAT64 or address.ipv4_mapped is not None:
        return is_forbidden(unwrapped(address))
    return address not in GLOBAL_6 or any(address in network for network in FORBIDDEN_6)


def unwrapped(address: Address) -> Address:
    """The IPv4 address inside, where there is one."""
    if isinstance(address, IPv6Address) and any(address in network for network in WRAPPED_IN):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def parse_address(text: str) -> Address | None:
    """None for what is no address; a zone (`%eth0`) is dropped."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class AllowedTargets:
    """Exceptions an admin made: networks, and single hosts with their port."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def parse(cls, parts: Iterable[str]) -> Self:
        """Each part is a CIDR (`10.1.0.0/16`) or `host:port`. Raises ValueError with a sentence."""
        networks: list[Network] = []
        hosts: set[tuple[str, int]] = set()
        for part in parts:
            if "/" in part:
                networks.append(_network(part))
            else:
                hosts.add(_host_and_port(part))
        return cls(tuple(networks), frozenset(hosts))

    def allows(self, host: str, port: int, address: Address | None = None) -> bool:
        """By the name and port that were asked for, or by the address that is dialled."""
        if (host.lower().rstrip("."), port) in self.hosts:
            return True
        if address is None:
            return False
        return any(one in network for network in self.networks for one in (address, unwrapped(address)))


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(say("{text} is not a network such as 10.1.0.0/16", text=text)) from error


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(say("{text} is neither a network such as 10.1.0.0/16 nor host:port", text=text))
    name = host.strip("[]").lower().rstrip(".")
    return str(parse_address(name) or name), int(port)
