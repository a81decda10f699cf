"""Writers, one file a format. A new format is one module with a writer and a line in WRITERS."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from webapp.domain.errors import NO_FORMAT, AttemptFailed, ErrorCode
from webapp.domain.formats import FORMATS
from worker.formats.writer import Writer

WRITERS: Mapping[str, tuple[str, str]] = {
    "csv": ("worker.formats.csv", "CsvWriter"),
    "xlsx": ("worker.formats.xlsx", "XlsxWriter"),
    "jsonl": ("worker.formats.jsonl", "JsonLinesWriter"),
    "parquet": ("worker.formats.parquet", "ParquetWriter"),
}
"""Module and class by format name; imported when asked for, so that a child pays only for its own format."""


def writer_for(format: str) -> Writer:
    """A fresh writer; what the format is called and its content type are in `webapp.domain.formats.FORMATS`."""
    if format not in FORMATS or format not in WRITERS:
        raise AttemptFailed(ErrorCode.FORMAT_LIMIT, detail=NO_FORMAT.format(name=format))
    module, name = WRITERS[format]
    return getattr(import_module(module), name)()
