"""Errors of MySQL and MariaDB as ours, by their numbers."""

# PyMySQL has no type hints.
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import pymysql

from webapp.datasets.readers.errors import one_line, query_error
from webapp.domain.errors import OWN_LIMIT, AttemptFailed, ErrorCode

TIMED_OUT = frozenset({1969, 3024})
BAD_VALUES = frozenset({1292, 1366, 1367, 1411, 1525, 1690, 3140, 3141, 4038})
"""Wrong date, number or JSON; out of range."""

UNREACHABLE = frozenset(
    {
        *(1040, 1042, 1043, 1044, 1045, 1049, 1129, 1130, 1203, 1226),  # refused at the door
        *(1053, 1077, 1079, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 2000, 2002, 2003, 2005, 2006, 2013, 2014),
        *(1205, 1213),  # a lock that did not come
        *(1021, 1037, 1038, 1041, 1114, 1135),  # no room, no memory, no thread
    }
)


def failure(error: Exception, *, limit: str | None, values: bool) -> AttemptFailed:
    """`limit` is the time limit that was set; `values` when the query's parameters may be what it refuses."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    message = str(error.args[1]) if len(error.args) > 1 else ""
    if isinstance(error, OSError | pymysql.err.InterfaceError) or code in UNREACHABLE:
        return AttemptFailed(ErrorCode.SOURCE_UNREACHABLE)
    if code in TIMED_OUT:
        return AttemptFailed(ErrorCode.TIMEOUT, limit=limit or str(OWN_LIMIT))
    if values and code in BAD_VALUES:
        return AttemptFailed(ErrorCode.BAD_PARAMETER, detail=one_line(message))
    return query_error(message or "it cannot be run")
