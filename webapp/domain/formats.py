"""The formats an export can have and the options of an order: what may be chosen, and what it means. Pure."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, cast

from webapp.domain import limits
from webapp.domain.errors import FieldError, Invalid
from webapp.domain.sentences import say


@dataclass(frozen=True, slots=True)
class Format:
    """`name` is what clients send, `title` what people read; `extension` starts with a dot."""

    name: str
    title: str
    extension: str
    content_type: str


FORMATS: Mapping[str, Format] = {
    "csv": Format("csv", "CSV", ".csv", "text/csv; charset=utf-8"),
    "xlsx": Format(
        "xlsx",
        "Excel (XLSX)",
        ".xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    "jsonl": Format("jsonl", "JSON Lines", ".jsonl", "application/x-ndjson"),
    "parquet": Format("parquet", "Parquet", ".parquet", "application/vnd.apache.parquet"),
}

NO_COLUMN = say("choose at least one column")
CSV_TEXTS = ("safe", "raw")
DELIMITERS = (",", ";", "\t")
COMPRESSIONS = ("none", "gzip", "zstd")
COMPRESSION_EXTENSIONS: Mapping[str, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
COMPRESSION_TYPES: Mapping[str, str] = {"gzip": "application/gzip", "zstd": "application/zstd"}

APPLIES: Mapping[str, frozenset[str]] = {
    "csv": frozenset({"bom", "csv_text", "delimiter", "compression", "columns"}),
    "xlsx": frozenset({"timezone", "columns"}),
    "jsonl": frozenset({"compression", "columns"}),
    "parquet": frozenset({"columns"}),
}
"""Which options mean something for which format."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a file is to be written. `csv_text` safe defuses text that spreadsheets would run as a formula; `columns` are
    the names of those it has, in its order, or none when it has all of the query's."""

    bom: bool = False
    csv_text: str = "raw"
    delimiter: str = ","
    compression: str = "none"
    timezone: str = "UTC"
    columns: tuple[str, ...] = ()


API_DEFAULTS = Options()
PERSON_DEFAULTS = Options(bom=True, csv_text="safe")


def parse_options(raw: Mapping[str, Any], format: str, *, defaults: Options) -> Options:
    """The options of an order, checked; raises `Invalid` naming each wrong one as `options.<name>`.

    An option that is known but does not apply to the format is checked and then has no effect.
    """
    if format not in FORMATS:
        raise Invalid([FieldError("format", say("must be one of: {choices}", choices=", ".join(FORMATS)))])
    errors: list[FieldError] = []
    for name, value in raw.items():
        check = CHECKS.get(name)
        problem = check(value) if check else say("is not an option; there are: {choices}", choices=", ".join(CHECKS))
        if problem:
            errors.append(FieldError(f"options.{name}", problem))
    if errors:
        raise Invalid(errors)
    applying = {name: value for name, value in raw.items() if name in APPLIES[format]}
    if "columns" in applying:
        applying["columns"] = tuple(applying["columns"])
    return replace(defaults, **applying)


def options_json(options: Options, format: str) -> dict[str, Any]:
    """The options that apply to the format, in a fixed order, as JSON can hold them; `columns` only when chosen."""
    told = {name: getattr(options, name) for name in CHECKS if name in APPLIES[format] and name != "columns"}
    return told | ({"columns": list(options.columns)} if options.columns else {})


def file_extension(format: str, options: Options) -> str:
    """With its dot, and the compression's own behind it: `.csv.gz`."""
    return FORMATS[format].extension + COMPRESSION_EXTENSIONS[_compression(format, options)]


def file_name(title: str, day: date, format: str, options: Options) -> str:
    """What a person's downloads folder shows: `Orders 2026-01-31.csv`. No character that a file system refuses."""
    safe = "".join(" " if c in '/\\:*?"<>|' or not c.isprintable() else c for c in title)
    stem = " ".join(safe.split()).strip(". ")[:100] or "export"
    return f"{stem} {day:%Y-%m-%d}{file_extension(format, options)}"


def content_type(format: str, options: Options) -> str:
    """What the finished file is: a compressed one is an archive, not text."""
    return COMPRESSION_TYPES.get(_compression(format, options), FORMATS[format].content_type)


def _compression(format: str, options: Options) -> str:
    return options.compression if "compression" in APPLIES[format] else "none"


def _check_bool(value: object) -> str | None:
    return None if isinstance(value, bool) else say("must be true or false")


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str | None]:
    shown = ", ".join(_shown(choice) for choice in choices)

    def check(value: object) -> str | None:
        return None if isinstance(value, str) and value in choices else say("must be one of: {choices}", choices=shown)

    return check


def _shown(choice: str) -> str:
    return "tab" if choice == "\t" else choice if choice.isalpha() else f'"{choice}"'


def _check_timezone(value: object) -> str | None:
    problem = say("must be a time zone's name, such as Europe/Berlin")
    if not isinstance(value, str) or not value:
        return problem
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return problem
    return None


def _check_columns(value: object) -> str | None:
    problem = say("must be a list of column names, in the order of the file")
    if not isinstance(value, Sequence) or isinstance(value, str):
        return problem
    names = cast(Sequence[object], value)
    if not names:
        return NO_COLUMN
    if len(names) > limits.COLUMNS_MOST:
        return say("must have at most {most} columns", most=limits.COLUMNS_MOST)
    if not all(isinstance(name, str) and len(name) <= limits.COLUMN_NAME_LENGTH and "\0" not in name for name in names):
        return problem
    if len(set(names)) < len(names):
        return say("names a column twice: {name}", name=next(name for name in names if names.count(name) > 1))
    return None


CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "bom": _check_bool,
    "csv_text": _one_of(CSV_TEXTS),
    "delimiter": _one_of(DELIMITERS),
    "compression": _one_of(COMPRESSIONS),
    "timezone": _check_timezone,
    "columns": _check_columns,
}
