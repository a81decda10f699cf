"""Real database servers as sources: a database of a test's own, queries without an end, and what the server runs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import psycopg
import pymysql
import pytest

SERVERS = [pytest.param("postgres", marks=pytest.mark.postgres), "mariadb"]
"""Each is the name of the fixture that has the server's URL."""


class Server(Protocol):
    """One database of its own. `ENDLESS` gives no row ever, `ROWS_FOR_EVER` no last one."""

    ENDLESS: str
    ROWS_FOR_EVER: str
    url: str

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement; each is committed by itself."""
        ...

    def connections(self) -> list[int]:
        """The numbers of those that a reader has open to this database, whatever they do."""
        ...

    def kill(self) -> None:
        """Ends them all."""
        ...


class Postgres:
    ENDLESS = "SELECT count(i) FROM (SELECT generate_series(1, 1000000000000) AS i) s"
    ROWS_FOR_EVER = "SELECT generate_series(1, 1000000000000) AS i, repeat('x', 100) AS x"
    OURS = "FROM pg_stat_activity WHERE application_name = 'exportdesk' AND datname = current_database()"
    CREATE = "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
    DROP = "DROP DATABASE {} WITH (FORCE)"

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def connections(self) -> list[int]:
        return [number for (number,) in self.run(f"SELECT pid {self.OURS}")]

    def kill(self) -> None:
        self.run(f"SELECT pg_terminate_backend(pid) {self.OURS}")


class MariaDb:
    ENDLESS = "SELECT count(*) FROM seq_1_to_1000000000000 a WHERE sqrt(a.seq) < 0"
    ROWS_FOR_EVER = "SELECT seq, REPEAT('x', 100) AS x FROM seq_1_to_1000000000000"
    CREATE = "CREATE DATABASE {} CHARACTER SET utf8mb4"
    DROP = "DROP DATABASE {}"

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        parts = urlsplit(self.url)
        connection = pymysql.connect(
            host=parts.hostname,
            port=parts.port or 3306,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=parts.path.strip("/"),
            charset="utf8mb4",
            autocommit=True,
        )
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def connections(self) -> list[int]:
        sql = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        return [number for (number,) in self.run(sql)]

    def kill(self) -> None:
        for number in self.connections():
            self.run(f"KILL {number}")


@contextmanager
def own_database(kind: str, url: str) -> Iterator[Server]:
    """On the server at this URL; it is dropped at the end."""
    make = {"postgres": Postgres, "mariadb": MariaDb}[kind]
    name = f"source_{uuid.uuid4().hex[:12]}"
    make(url).run(make.CREATE.format(name))
    yield make(urlsplit(url)._replace(path=f"/{name}").geturl())
    make(url).run(make.DROP.format(name))


def gone(server: Server, seconds: float, *, but: int = 0) -> bool:
    """Whether the readers' connections are gone within so many seconds, but for a number of them."""
    until = time.monotonic() + seconds
    while len(server.connections()) > but:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
