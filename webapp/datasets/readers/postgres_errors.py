"""Errors of PostgreSQL as ours."""

from __future__ import annotations

import psycopg

from webapp.datasets.readers.errors import one_line, out_of_memory, query_error
from webapp.domain.errors import OWN_LIMIT, AttemptFailed, ErrorCode

UNREACHABLE_CLASSES = frozenset({"08", "28", "40", "53", "57", "58"})
"""Classes of SQLSTATE that may pass: lost connection, ended by the administrator, conflict on a replica, no room."""

UNREACHABLE = frozenset({"25P03", "55P03"})  # idle too long; a lock that did not come

VALUE_CLASS = "22"
NOT_A_VALUE = frozenset({"22012"})  # division by zero


def failure(error: psycopg.Error, *, limit: str | None, values: bool) -> AttemptFailed:
    """`limit` is the time limit that was set; `values` when the query's parameters may be what it refuses."""
    state = error.sqlstate
    message = error.diag.message_primary or ""
    if state is None:
        return _failure_of_client(error, values=values)
    if isinstance(error, psycopg.errors.QueryCanceled):
        by_time = "timeout" in message or limit is not None
        return AttemptFailed(ErrorCode.TIMEOUT, limit=limit or str(OWN_LIMIT)) if by_time else query_error(message)
    if state[:2] in UNREACHABLE_CLASSES or state in UNREACHABLE:
        return AttemptFailed(ErrorCode.SOURCE_UNREACHABLE)
    if values and state[:2] == VALUE_CLASS and state not in NOT_A_VALUE:
        return AttemptFailed(ErrorCode.BAD_PARAMETER, detail=one_line(message))
    return query_error(message)


def _failure_of_client(error: psycopg.Error, *, values: bool) -> AttemptFailed:
    """The server did not say it: the connection, the driver, or a value that cannot be sent."""
    if "out of memory" in str(error) or "cannot allocate memory" in str(error):
        return out_of_memory()
    if isinstance(error, psycopg.DataError) and values:
        return AttemptFailed(ErrorCode.BAD_PARAMETER, detail=one_line(str(error)))
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return AttemptFailed(ErrorCode.SOURCE_UNREACHABLE)
    return query_error(str(error))
