"""Connections to MySQL and MariaDB, and the two things that PyMySQL has no function for."""

# PyMySQL has no type hints.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import struct
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.constants import COMMAND
from pymysql.converters import encoders, escape_string
from pymysql.cursors import DictCursor, SSCursor
from pymysql.protocol import FieldDescriptorPacket

from webapp.datasets.readers.mysql_types import CONVERTERS, Field

Connection = Any
Cursor = Any
"""PyMySQL's own."""

ARGUMENTS = frozenset({"ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_cert", "ssl_verify_identity"})
FLAGS = frozenset({"ssl_verify_cert", "ssl_verify_identity"})
PORT = 3306
SQL_MODE = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
"""The same whatever the server's own is: some modes change what a text or `||` means."""

WRITE_SECONDS = 3600
"""How long the server waits for us to take the next rows."""


def connect(url: str, *, patience: float, read_seconds: float | None = None) -> Connection:
    """`patience` in seconds until the server must have answered."""
    parts = urlsplit(url)
    given: dict[str, Any] = dict(parse_qsl(parts.query))
    given.update({name: given[name].lower() in ("1", "true") for name in FLAGS & given.keys()})
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or PORT,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.strip("/")),
        charset="utf8mb4",
        sql_mode=SQL_MODE,
        init_command=f"SET time_zone = '+00:00', net_write_timeout = {WRITE_SECONDS}",
        conv={**encoders, **CONVERTERS},
        cursorclass=SSCursor,
        autocommit=None,
        connect_timeout=patience,
        read_timeout=read_seconds,
        program_name="exportdesk",
        **given,
    )


def quoted(text: str) -> str:
    """A literal; `SQL_MODE` has backslashes escape."""
    return f"'{escape_string(text)}'"


def described(connection: Connection, sql: str) -> list[Field]:
    """The columns of a statement, which the server prepares and does not run; none when it gives no rows."""
    connection._execute_command(COMMAND.COM_STMT_PREPARE, sql)
    answer = connection._read_packet()
    number, columns, parameters = struct.unpack_from("<xIHH", answer.get_all_data())
    for _ in range(parameters + 1 if parameters else 0):
        connection._read_packet()
    fields: list[Field] = [connection._read_packet(FieldDescriptorPacket) for _ in range(columns)]
    if columns:
        connection._read_packet()  # the end of the list
    connection._execute_command(COMMAND.COM_STMT_CLOSE, struct.pack("<I", number))
    return fields


def running(connection: Connection, text: str) -> list[int]:
    """The numbers of the connections whose statement has this text in it; a user may always see their own."""
    with connection.cursor(DictCursor) as cursor:
        cursor.execute("SHOW FULL PROCESSLIST")
        return [row["Id"] for row in cursor.fetchall() if text in (row["Info"] or "")]


def is_running(cursor: Cursor | None) -> bool:
    """Whether the server still has rows for it."""
    return cursor is not None and cursor._result is not None and bool(cursor._result.unbuffered_active)


def drop(connection: Connection, cursor: Cursor | None) -> None:
    """Closes the connection; PyMySQL itself would first read all the rows that are left."""
    result = cursor._result if cursor is not None else None
    if result is not None:
        result.unbuffered_active = False
    connection._force_close()
