"""The address where the web process listens, tried before anything is started."""

from __future__ import annotations

import errno
import os
import socket

from webapp.commands.failures import Failure

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def open_listener(host: str, port: int) -> socket.socket:
    """A bound socket. Raises Failure with the sentence for a port that is taken or an address that is not ours."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except socket.gaierror:
        raise Failure(f"The host {host} cannot be found. Set EXPORTDESK_HOST to an address of this machine.") from None
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise Failure(_sentence(host, port, error)) from None
    return listener


def require_free_port(host: str, port: int) -> None:
    open_listener(host, port).close()


def local_address(host: str, port: int) -> tuple[str, int]:
    """Where this machine reaches a listener on `host`."""
    return ANY_ADDRESS.get(host, host), port


def _sentence(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is taken by another program. Stop it, or set EXPORTDESK_PORT to another one."
        case errno.EACCES:
            return f"Port {port} may not be opened by this user. Set EXPORTDESK_PORT to one above 1023."
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine. Set EXPORTDESK_HOST to one that is."
        case _:
            reason = os.strerror(error.errno or 0)
            return f"Cannot listen on {host} port {port} ({reason}). Check EXPORTDESK_HOST and EXPORTDESK_PORT."
