"""A MariaDB or MySQL server for tests: the one that is named, else a throw-away one of our own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from needed import missing
from patience import PATIENCE


@pytest.fixture(scope="session")
def mariadb() -> Iterator[str]:
    """The URL of a server where databases may be made and dropped, with an empty database `test`."""
    if url := os.environ.get("EXPORTDESK_TEST_MYSQL_URL"):
        yield url
        return
    server, install = shutil.which("mariadbd", path=_path()), shutil.which("mariadb-install-db", path=_path())
    if not server or not install:
        missing("MariaDB")
        return
    folder = Path(tempfile.mkdtemp(prefix="mariadb-", dir="/tmp"))
    try:
        yield from _running(server, install, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _running(server: str, install: str, folder: Path) -> Iterator[str]:
    user = ["--user=mysql"] if os.getuid() == 0 else []
    if user:
        shutil.chown(folder, "mysql")
    data = ["--no-defaults", f"--datadir={folder}/data", *user]
    made = [install, *data, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = _free_port()
    listening = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket", f"--pid-file={folder}/pid"]
    small = ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([server, *data, *listening, *small], stdout=log, stderr=log)
    try:
        _await(folder / "socket", process)
        _make_database(folder / "socket")
        yield f"mysql://tester:p%40ss%23word@127.0.0.1:{port}/test"
    finally:
        process.terminate()
        process.wait(30)


def _await(path: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(path))
            return
        assert process.poll() is None, "mariadbd did not start"
        assert time.monotonic() < until, "mariadbd did not answer"
        time.sleep(0.1)


def _make_database(path: Path) -> None:
    connection = pymysql.connect(unix_socket=str(path), user="root")
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE test CHARACTER SET utf8mb4")
        cursor.execute("CREATE USER tester@'127.0.0.1' IDENTIFIED BY 'p@ss#word'")
        cursor.execute("GRANT ALL ON *.* TO tester@'127.0.0.1' WITH GRANT OPTION")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin"
