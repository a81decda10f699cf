"""`COPY … TO STDOUT` as chunks of CSV lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Wait

LINES_PER_CHUNK = 1000
Chunk = tuple[bytes, int]


def copied_lines(connection: psycopg.Connection[Any], query: str) -> Iterator[Chunk]:
    """Lines that end in CRLF, and how many rows they are. The server has taken the query when this returns.

    psycopg's own cursor goes through its waiting machinery once a row; this does when there is nothing to read.
    """
    pgconn = connection.pgconn
    pgconn.send_query(query.encode())
    result = connection.wait(generators.execute(pgconn))[-1]
    if result.status != ExecStatus.COPY_OUT:
        raise _error(result)
    return _chunks(connection, pgconn)


def _chunks(connection: psycopg.Connection[Any], pgconn: PGconn) -> Iterator[Chunk]:
    ended = False
    while not ended:
        blocks, ended = connection.wait(_blocks(pgconn))
        if blocks:
            yield _lines(blocks), len(blocks)


def _blocks(pgconn: PGconn) -> PQGen[tuple[list[memoryview], bool]]:
    """What is there to read, one block a row, and whether that was the end."""
    blocks: list[memoryview] = []
    looked = False
    while len(blocks) < LINES_PER_CHUNK:
        size, block = pgconn.get_copy_data(1)
        if size > 0:
            blocks.append(block)
        elif size < 0:
            results = yield from generators.fetch_many(pgconn)
            if results[-1].status != ExecStatus.COMMAND_OK:
                raise _error(results[-1])
            return blocks, True
        elif blocks:
            break  # waiting for more costs more than small chunks do: the blocks fall out of the cache
        else:
            if looked:
                yield Wait.R
            pgconn.consume_input()  # mostly something has come meanwhile, and asking first would be one call more
            looked = True
    return blocks, False


def _lines(blocks: list[memoryview]) -> bytes:
    """The server ends its lines with LF; a line break inside a field stays what it is."""
    return b"\r\n".join([*[block[:-1] for block in blocks], b""])


def _error(result: PGresult) -> psycopg.Error:
    return psycopg.errors.error_from_result(result)
