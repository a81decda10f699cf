"""What can go wrong with an export: stable codes, sentences for people, and which errors may pass by themselves."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from webapp.domain.sentences import Text, say, say_many


class ErrorCode(StrEnum):
    TIMEOUT = "TIMEOUT"
    RETENTION = "RETENTION"
    SOURCE_UNREACHABLE = "SOURCE_UNREACHABLE"
    QUERY_ERROR = "QUERY_ERROR"
    BAD_PARAMETER = "BAD_PARAMETER"
    COLUMN_GONE = "COLUMN_GONE"
    TOO_MANY_ROWS = "TOO_MANY_ROWS"
    TOO_LARGE = "TOO_LARGE"
    DISK_FULL = "DISK_FULL"
    STORAGE_ERROR = "STORAGE_ERROR"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    WORKER_LOST = "WORKER_LOST"
    FORMAT_LIMIT = "FORMAT_LIMIT"
    NOT_GRANTED = "NOT_GRANTED"
    INTERNAL = "INTERNAL"


NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
RETRIABLE = frozenset({ErrorCode.SOURCE_UNREACHABLE, ErrorCode.STORAGE_ERROR, ErrorCode.WORKER_LOST})

SENTENCES: Mapping[ErrorCode, Text] = {
    ErrorCode.TIMEOUT: say(
        "The export ran longer than its time limit of {limit}. Narrow the parameters and try again."
    ),
    ErrorCode.RETENTION: say("The file was kept for its retention time and then removed. Order the export again."),
    ErrorCode.SOURCE_UNREACHABLE: say("The data source could not be reached. Try again in a few minutes."),
    ErrorCode.QUERY_ERROR: say(
        "The data source refused the query: {detail}. Tell the person who runs this export desk."
    ),
    ErrorCode.BAD_PARAMETER: say("A parameter is no longer valid for this dataset: {detail}. Order the export again."),
    ErrorCode.COLUMN_GONE: say(
        "The dataset no longer has columns that were chosen: {detail}. Order the export again with those it has."
    ),
    ErrorCode.TOO_MANY_ROWS: say(
        "The result has more than {limit} rows, the limit of this dataset. Narrow the parameters."
    ),
    ErrorCode.TOO_LARGE: say("The file grew beyond {limit}, the largest allowed. Narrow the parameters."),
    ErrorCode.DISK_FULL: say("There is no room left to store the file. Tell the person who runs this export desk."),
    ErrorCode.STORAGE_ERROR: say("The file could not be stored. Try again in a few minutes."),
    ErrorCode.OUT_OF_MEMORY: say("The export needed more memory than it may use ({limit}). Narrow the parameters."),
    ErrorCode.WORKER_LOST: say("The worker that ran this export stopped unexpectedly. Try again."),
    ErrorCode.FORMAT_LIMIT: say("The data does not fit the chosen format: {detail}. Choose another format."),
    ErrorCode.NOT_GRANTED: say(
        "The dataset is no longer open to the person who ordered it. Ask an admin to grant it, then order again."
    ),
    ErrorCode.INTERNAL: say(
        "Something went wrong on our side. Try again; if it happens twice, quote this export's id."
    ),
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
    ErrorCode.STORAGE_ERROR, str(say("The file is no longer in the storage. Order the export again.")), retriable=False
)
"""Of a finished export whose file is gone before its time, and not by us."""

NO_FORMAT = say("the format {name} is not available")
NO_COMPRESSION = say("compression {name} is not available")
TOO_MANY_COLUMNS = say("XLSX holds {limit} columns at most")
UNLIKE_FILES = say("its CSV files do not have the same columns")
NO_UNICODE = say("its text is not valid Unicode")
NOT_COMPARABLE = say("{name} holds a value SQLite cannot compare with")
OWN_LIMIT = say("the database's own limit")
NO_UNICODE_NAME = say("its text or a column's name is not valid Unicode")
MEMORY_LIMIT = say("its memory limit")
REASONS = (
    NO_FORMAT, NO_COMPRESSION, TOO_MANY_COLUMNS, UNLIKE_FILES, NO_UNICODE, NO_UNICODE_NAME, NOT_COMPARABLE,
    OWN_LIMIT, MEMORY_LIMIT,
)  # fmt: skip
"""Those values for the blanks of a sentence that are words of ours; all others are data, or words of a database."""
LENGTH = re.compile(r"([0-9]+) (second|minute|hour)s?")
BLANK = re.compile(r"\\\{(\w+)\\\}")


def recalled(error: ExportError) -> str:
    """The stored sentence of an error as what it was made of; as it is, when no sentence of now makes it."""
    for pattern in (SENTENCES[error.code], say(FILE_LOST.message)):
        if (values := _blanks(pattern, error.message)) is not None:
            return say(pattern, **{name: _recalled_value(value) for name, value in values.items()})
    return error.message


def in_words(limit: timedelta) -> Text:
    """`30 minutes`, `90 seconds`."""
    seconds = round(limit.total_seconds())
    if seconds >= 3600 and seconds % 3600 == 0:
        return _length(seconds // 3600, "hour")
    return _length(seconds // 60, "minute") if seconds >= 60 and seconds % 60 == 0 else _length(seconds, "second")


def _length(n: int, unit: str) -> Text:
    match unit:
        case "hour":
            return say_many("{n} hour", "{n} hours", n)
        case "minute":
            return say_many("{n} minute", "{n} minutes", n)
        case _:
            return say_many("{n} second", "{n} seconds", n)


def _recalled_value(value: str) -> str:
    if found := LENGTH.fullmatch(value.replace(",", "")):
        return _length(int(found[1]), found[2])
    for pattern in REASONS:
        if (values := _blanks(pattern, value)) is not None:
            return say(pattern, **values)
    return value


def _blanks(pattern: str, text: str) -> Mapping[str, str] | None:
    found = re.fullmatch(BLANK.sub(r"(?P<\1>.*)", re.escape(pattern)), text, re.DOTALL)
    return found.groupdict() if found else None


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
