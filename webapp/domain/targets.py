"""The URL of an endpoint, read by one parser for the check and for the call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import quote, urlsplit

from webapp.domain.addresses import Address, AllowedTargets, is_forbidden
from webapp.domain.sentences import say

LONGEST_URL = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}
FIRST_FREE_PORT = 1024
OTHER_PROTOCOLS = frozenset(
    {1433, 1521, 2049, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5900, 5984, 6000, 6379, 6443, 6666, 6667, 6668, 6669}
    | {8086, 9042, 9092, 9200, 9300, 10_250, 11_211, 27_017}
)
"""Ports of databases, queues and control planes: nobody receives callbacks there."""

LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
BRACKETED = re.compile(r"\[[0-9a-f.]*:[0-9a-f:.]*\](:[0-9]*)?", re.IGNORECASE)
"""An IPv6 address and nothing beside it. `urlsplit` passes over what stands before or behind the brackets."""

AMBIGUOUS = frozenset("ßẞς\u200c\u200d")
"""The two standards for international names read these as different hosts."""
FORBIDDEN_HOST = say(
    "This address is private, local or reserved; callbacks reach such a one only where "
    "EXPORTDESK_CALLBACK_ALLOW_PRIVATE names it."
)


class BadTarget(ValueError):
    """A sentence that says why the URL cannot be an endpoint."""


@dataclass(frozen=True, slots=True)
class Target:
    """`host` is lower-case ASCII, an IPv6 address without brackets; `path` is percent-encoded with its query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """Set where the host is an address and not a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """For the Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_target(url: str, allowed: AllowedTargets | None = None) -> Target:
    """Raises BadTarget. What a name leads to is checked when it is dialled; here only what the text itself says."""
    if not url:
        raise BadTarget(say("Give the URL that callbacks are sent to."))
    if len(url) > LONGEST_URL:
        raise BadTarget(say("A URL may have at most {most} characters.", most=LONGEST_URL))
    if "\\" in url or any(character <= " " or character == "\x7f" for character in url):
        raise BadTarget(say("A URL has no spaces, line breaks or backslashes."))
    try:
        parts = urlsplit(url)
        port = parts.port
        url.encode()
    except ValueError as error:
        raise BadTarget(say("This is not a URL; its host or port cannot be read.")) from error
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        raise BadTarget(say("A URL starts with https:// (or http://)."))
    _check_authority(parts.netloc)
    target = Target(scheme, _host(parts.hostname or ""), port or DEFAULT_PORTS[scheme], _path(parts.path, parts.query))
    if port == 0:
        raise BadTarget(say("Port 0 cannot be reached."))
    _check_reach(target, allowed or AllowedTargets())
    return target


def _check_authority(authority: str) -> None:
    """What `urlsplit` would take apart in a way that not every reader does."""
    if "@" in authority:
        raise BadTarget(say("A URL must not hold a user name or password. Use a custom header instead."))
    if AMBIGUOUS.intersection(authority):
        raise BadTarget(say("Write this host in its ASCII form (xn--…): programs disagree on what its letters mean."))
    if ("[" in authority or "]" in authority) and not BRACKETED.fullmatch(authority):
        raise BadTarget(say("The host is not an IPv6 address."))


def _check_reach(target: Target, allowed: AllowedTargets) -> None:
    if allowed.allows(target.host, target.port, target.address):
        return
    name = target.host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        raise BadTarget(FORBIDDEN_HOST)
    if target.address is not None and is_forbidden(target.address):
        raise BadTarget(FORBIDDEN_HOST)
    is_usual = target.port in DEFAULT_PORTS.values()
    if not is_usual and (target.port < FIRST_FREE_PORT or target.port in OTHER_PROTOCOLS):
        raise BadTarget(
            say(
                "Callbacks are not sent to port {port}. Use 80, 443 or one from {first} up.",
                port=str(target.port),
                first=str(FIRST_FREE_PORT),
            )
        )


def _host(host: str) -> str:
    if not host:
        raise BadTarget(say("The URL names no host."))
    if ":" in host:
        try:
            return str(IPv6Address(host))
        except ValueError as error:
            raise BadTarget(say("The host is not an IPv6 address.")) from error
    try:
        name = host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise BadTarget(say("The host is not a name that can be looked up.")) from error
    labels = name.removesuffix(".").split(".")
    if len(name) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise BadTarget(say("The host is not a name that can be looked up."))
    return _plain_address(name) if NUMBER.fullmatch(labels[-1]) else name


def _plain_address(text: str) -> str:
    """Four decimal numbers; other ways to write an address mean different hosts to different readers."""
    try:
        return str(ip_address(text))
    except ValueError as error:
        raise BadTarget(say("Write an address as four decimal numbers, such as 93.184.216.34.")) from error


def _path(path: str, query: str) -> str:
    """What is percent-encoded already stays as it is."""
    encoded = quote(path or "/", safe="/%:@!$&'()*+,;=-._~")
    return encoded + ("?" + quote(query, safe="/?%:@!$&'()*+,;=-._~") if query else "")
