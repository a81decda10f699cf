"""Errors that more than one kind of source has, in our words."""

from __future__ import annotations

from webapp.domain.errors import MEMORY_LIMIT, AttemptFailed, ErrorCode

DETAIL_LENGTH = 200


def query_error(message: str) -> AttemptFailed:
    return AttemptFailed(ErrorCode.QUERY_ERROR, detail=one_line(message))


def out_of_memory() -> AttemptFailed:
    return AttemptFailed(ErrorCode.OUT_OF_MEMORY, limit=str(MEMORY_LIMIT))


def one_line(message: str) -> str:
    """What a source said, short enough for a sentence of ours."""
    return " ".join(message.split())[:DETAIL_LENGTH].rstrip(". ")
