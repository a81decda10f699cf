"""What can go wrong with an export: stable codes, sentences for people, and which errors may pass by themselves."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import StrEnum


class ErrorCode(StrEnum):
    TIMEOUT = "TIMEOUT"
    RETENTION = "RETENTION"
    SOURCE_UNREACHABLE = "SOURCE_UNREACHABLE"
    QUERY_ERROR = "QUERY_ERROR"
    BAD_PARAMETER = "BAD_PARAMETER"
    TOO_MANY_ROWS = "TOO_MANY_ROWS"
    TOO_LARGE = "TOO_LARGE"
    DISK_FULL = "DISK_FULL"
    STORAGE_ERROR = "STORAGE_ERROR"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    WORKER_LOST = "WORKER_LOST"
    FORMAT_LIMIT = "FORMAT_LIMIT"
    INTERNAL = "INTERNAL"


NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
RETRIABLE = frozenset({ErrorCode.SOURCE_UNREACHABLE, ErrorCode.STORAGE_ERROR, ErrorCode.WORKER_LOST})

SENTENCES: dict[ErrorCode, str] = {
    ErrorCode.TIMEOUT: "The export ran longer than its time limit of {limit}. Narrow the parameters and try again.",
    ErrorCode.RETENTION: "The file was kept for its retention time and then removed. Order the export again.",
    ErrorCode.SOURCE_UNREACHABLE: "The data source could not be reached. Try again in a few minutes.",
    ErrorCode.QUERY_ERROR: "The data source refused the query: {detail}. Tell the person who runs this export desk.",
    ErrorCode.BAD_PARAMETER: "A parameter is no longer valid for this dataset: {detail}. Order the export again.",
    ErrorCode.TOO_MANY_ROWS: "The result has more than {limit} rows, the limit of this dataset. Narrow the parameters.",
    ErrorCode.TOO_LARGE: "The file grew beyond {limit}, the largest allowed. Narrow the parameters.",
    ErrorCode.DISK_FULL: "There is no room left to store the file. Tell the person who runs this export desk.",
    ErrorCode.STORAGE_ERROR: "The file could not be stored. Try again in a few minutes.",
    ErrorCode.OUT_OF_MEMORY: "The export needed more memory than it may use ({limit}). Narrow the parameters.",
    ErrorCode.WORKER_LOST: "The worker that ran this export stopped unexpectedly. Try again.",
    ErrorCode.FORMAT_LIMIT: "The data does not fit the chosen format: {detail}. Choose another format.",
    ErrorCode.INTERNAL: "Something went wrong on our side. Try again; if it happens twice, quote this export's id.",
}


@dataclass(frozen=True, slots=True)
class ExportError:
    """A code with a stable meaning, and a sentence a person can act on: no secret, no stack trace."""

    code: ErrorCode
    message: str
    retriable: bool


def export_error(code: ErrorCode, **details: str) -> ExportError:
    """The code's sentence with its blanks filled in, cut to what a page can show."""
    return ExportError(code, SENTENCES[code].format(**details)[:1000], code in RETRIABLE)


FILE_LOST = ExportError(
    ErrorCode.STORAGE_ERROR, "The file is no longer in the storage. Order the export again.", retriable=False
)
"""Of a finished export whose file is gone before its time, and not by us."""


class AttemptFailed(Exception):
    """An attempt cannot go on; `code` says why and `details` fill the code's sentence."""

    def __init__(self, code: ErrorCode, **details: str) -> None:
        super().__init__(code, details)
        self.code = code
        self.details = details


def storage_failure(error: OSError) -> AttemptFailed:
    """What an error of the file system is to an attempt."""
    return AttemptFailed(ErrorCode.DISK_FULL if error.errno in NO_SPACE else ErrorCode.STORAGE_ERROR)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field of what a person or client sent."""

    field: str
    message: str


class Invalid(Exception):
    """What was sent cannot be used; nothing was written."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors))
        self.errors = errors
