"""Who a trusted proxy says it is, in a header of its own, as oauth2-proxy and its like do."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

PROXY_USER = "exportdesk.proxy_user"


class ProxyUser:
    """Takes the header out of every request, and believes it only from these networks.

    It stands before all that changes the client's address by X-Forwarded-For: what counts is who has connected. A
    header that is there twice is nobody's.
    """

    def __init__(self, app: ASGIApp, *, header: str, networks: Sequence[str]) -> None:
        self.app = app
        self._header = header.lower().encode()
        self._networks = [ip_network(network) for network in networks]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            given = [value for name, value in scope["headers"] if _same(name, self._header)]
            others = [pair for pair in scope["headers"] if not _same(pair[0], self._header)]
            is_believed = len(given) == 1 and self._is_trusted(scope)
            scope = {
                **scope,
                "headers": others,
                PROXY_USER: given[0].decode("utf-8", "replace").strip() if is_believed else None,
            }
        await self.app(scope, receive, send)

    def _is_trusted(self, scope: Scope) -> bool:
        """Of a Unix socket nobody knows who has connected."""
        try:
            peer = ip_address(scope["client"][0])
        except (TypeError, ValueError):
            return False
        return any(peer in network for network in self._networks)


def _same(name: bytes, header: bytes) -> bool:
    """Some servers between take `_` for `-`."""
    return name.lower().replace(b"_", b"-") == header.replace(b"_", b"-")
