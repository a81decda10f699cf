"""Logging of web and workers: one line of text or JSON per record, UTC to the millisecond, without secrets.

Records say what they are about: `request_id` within a web request; `export_id` and `attempt` where an export is.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TextIO

HANDSHAKES = "uvicorn.handshakes"
QUIET = ("arq", "asyncio", "aiosqlite", "databases", "alembic", HANDSHAKES)
SECRETS = (
    ("exd_", re.compile(r"exd_[\w-]{8,}"), "exd_…"),
    ("whsec_", re.compile(r"whsec_[\w+/=-]{8,}"), "whsec_…"),
    ("/once/", re.compile(r"(/sign-in/once/)[\w-]+"), r"\1…"),
    ("://", re.compile(r"(\w://[^\s:/@]*):[^\s/@]+@"), r"\1:…@"),
)
"""What stands in all that the pattern finds, the pattern, and what is shown."""
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_about: ContextVar[Mapping[str, object]] = ContextVar("about", default=MappingProxyType({}))


@contextmanager
def about(**fields: object) -> Generator[None]:
    """What is logged in this block, and by tasks that are begun in it, carries these fields too."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def add_fields(record: logging.LogRecord) -> bool:
    """A filter that keeps everything. What a record was given as `extra` wins."""
    for name, value in _about.get().items():
        vars(record).setdefault(name, value)
    return True


def without_secrets(text: str) -> str:
    """API tokens, one-time links and passwords in URLs blotted out, whoever logged them."""
    for mark, pattern, replacement in SECRETS:
        if mark in text:
            text = pattern.sub(replacement, text)
    return text


def rfc3339(seconds: float) -> str:
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{milliseconds:03}Z"


@lru_cache(2)
def _second(seconds: int) -> str:
    """Most lines are of the same second as the one before."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class TextFormatter(logging.Formatter):
    """`2026-11-29T10:11:12.123Z INFO     logger: message [req_…]`, a traceback below. Messages name their export."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{rfc3339(record.created)} {record.levelname:8} {record.name}: {record.getMessage()}"
        if (request_id := vars(record).get("request_id")) and request_id not in line:
            line += f" [{request_id}]"
        if record.exc_info:
            line += f"\n{self.formatException(record.exc_info)}"
        return without_secrets(line)


class JsonFormatter(logging.Formatter):
    """One object a line; what was given as `extra` becomes fields of its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": rfc3339(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        fields |= {name: _shown(value) for name, value in vars(record).items() if name not in STANDARD}
        if record.exc_info:
            fields["traceback"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


def _shown(value: object) -> object:
    return value if value is None or isinstance(value, int | float) else without_secrets(str(value))


def handler_of(log_format: str, stream: TextIO) -> logging.Handler:
    """Writes `text` or `json`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(add_fields)
    return handler


def configure(log_format: str) -> None:
    """Everything from INFO up to stderr; chatty libraries from WARNING up."""
    logging.basicConfig(level=logging.INFO, handlers=[handler_of(log_format, sys.stderr)], force=True)
    logging.captureWarnings(True)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # type: ignore[attr-defined]  # as the logging cookbook says: we show no source lines
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
