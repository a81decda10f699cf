"""Which addresses callbacks may reach: every network of the table at both ends and just outside, and wrapped ones."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.domain.addresses import AllowedTargets, is_forbidden, parse_address, unwrapped

FORBIDDEN_4 = {
    "0.0.0.0/8": "1.0.0.0",
    "10.0.0.0/8": "9.255.255.255 11.0.0.0",
    "100.64.0.0/10": "100.63.255.255 100.128.0.0",
    "127.0.0.0/8": "126.255.255.255 128.0.0.0",
    "169.254.0.0/16": "169.253.255.255 169.255.0.0",
    "172.16.0.0/12": "172.15.255.255 172.32.0.0",
    "192.0.0.0/24": "191.255.255.255 192.0.1.0",
    "192.0.2.0/24": "192.0.1.255 192.0.3.0",
    "192.88.99.0/24": "192.88.98.255 192.88.100.0",
    "192.168.0.0/16": "192.167.255.255 192.169.0.0",
    "198.18.0.0/15": "198.17.255.255 198.20.0.0",
    "198.51.100.0/24": "198.51.99.255 198.51.101.0",
    "203.0.113.0/24": "203.0.112.255 203.0.114.0",
    "224.0.0.0/3": "223.255.255.255",
}
"""A network, and the addresses just outside that may be reached."""

FORBIDDEN_6 = {
    "::/3": "2001:200::",
    "2001::/23": "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2001:200::",
    "2001:db8::/32": "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff 2001:db9::",
    "2002::/16": "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2003::",
    "2620:4f:8000::/48": "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff 2620:4f:8001::",
    "3fff::/20": "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff 3fff:1000::",
    "4000::/2": "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "8000::/1": "",
}

V4 = st.ip_addresses(v=4)
V6 = st.ip_addresses(v=6)


@pytest.mark.parametrize(("network", "outside"), FORBIDDEN_4.items())
def test_an_ipv4_network_is_forbidden_from_end_to_end(network: str, outside: str) -> None:
    ends = IPv4Network(network)
    assert is_forbidden(ends[0])
    assert is_forbidden(ends[-1])
    assert [text for text in outside.split() if is_forbidden(IPv4Address(text))] == []


@pytest.mark.parametrize(("network", "outside"), FORBIDDEN_6.items())
def test_an_ipv6_network_is_forbidden_from_end_to_end(network: str, outside: str) -> None:
    ends = IPv6Network(network)
    assert is_forbidden(ends[0])
    assert is_forbidden(ends[-1])
    assert [text for text in outside.split() if is_forbidden(IPv6Address(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "fec0::1",
        "fc00::1",
        "fe80::1",
        "ff02::1",
        "5f00::1",
        "3fff::1",
        "100::1",
        "2002:7f00:1::1",
        "2001::1",
        "::1",
        "::",
    ],
)
def test_what_the_standard_library_lets_through_is_forbidden(text: str) -> None:
    assert is_forbidden(ip_address(text))


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]
)
def test_public_addresses_may_be_reached(text: str) -> None:
    assert not is_forbidden(ip_address(text))


@given(V4)
def test_a_wrapped_address_is_judged_as_the_one_inside(inside: IPv4Address) -> None:
    mapped, translated = IPv6Address(f"::ffff:{inside}"), IPv6Address(f"64:ff9b::{inside}")
    assert unwrapped(mapped) == unwrapped(translated) == unwrapped(inside) == inside
    assert is_forbidden(mapped) == is_forbidden(translated) == is_forbidden(inside)


@given(V4)
def test_what_is_private_to_the_standard_library_is_forbidden_to_us(address: IPv4Address) -> None:
    assert is_forbidden(address) or (address.is_global and not address.is_multicast)


@given(V6)
def test_the_same_of_ipv6(address: IPv6Address) -> None:
    assert is_forbidden(address) or address.is_global


@given(st.one_of(V4, V6).filter(lambda address: address != address.__class__(0)))
def test_an_allowed_network_holds_its_own_address_and_not_the_next(address: IPv4Address | IPv6Address) -> None:
    one = AllowedTargets.parse([f"{address}/{address.max_prefixlen}"])
    assert one.allows("any.example", 80, address)
    assert not one.allows("any.example", 80, address - 1)


@pytest.mark.parametrize(
    ("parts", "host", "port", "address", "is_allowed"),
    [
        (["10.0.0.0/8"], "a.example", 80, "10.255.255.255", True),
        (["10.0.0.0/8"], "a.example", 80, "11.0.0.0", False),
        (["10.0.0.0/8"], "a.example", 80, "::ffff:10.0.0.1", True),
        (["10.0.0.0/8"], "a.example", 80, None, False),
        (["::1/128"], "localhost", 80, "::1", True),
        (["0.0.0.1/32"], "localhost", 80, "::2", False),
        (["fd00::/8"], "a.example", 80, "fd12::1", True),
        (["Receiver.Internal:8080"], "receiver.internal.", 8080, "10.0.0.1", True),
        (["receiver.internal:8080"], "receiver.internal", 8081, "10.0.0.1", False),
        (["receiver.internal:8080"], "other.internal", 8080, "10.0.0.1", False),
        (["[0:0::1]:8080"], "::1", 8080, None, True),
        (["10.0.0.7:8080"], "10.0.0.7", 8080, "10.0.0.7", True),
        (["10.0.0.7:8080"], "a.example", 8080, "10.0.0.7", False),
        ([], "a.example", 80, "8.8.8.8", False),
    ],
)
def test_exceptions_are_networks_or_one_host_at_one_port(
    parts: list[str], host: str, port: int, address: str | None, is_allowed: bool
) -> None:
    dialled = ip_address(address) if address else None
    assert AllowedTargets.parse(parts).allows(host, port, dialled) is is_allowed


@pytest.mark.parametrize(
    "part",
    ["", "10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "a.example", "a.example:", "a.example:0", "a:65536", ":80"],
)
def test_an_exception_that_means_nothing_is_refused_with_a_sentence(part: str) -> None:
    with pytest.raises(ValueError, match=r"10\.1\.0\.0/16"):
        AllowedTargets.parse([part])


def test_a_zone_is_no_part_of_an_address() -> None:
    assert parse_address("fe80::1%eth0") == IPv6Address("fe80::1")
    assert parse_address("a.example") is None
