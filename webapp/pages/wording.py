"""How an export is told to people: statuses, headlines, parameters, options and the timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from webapp.datasets.declaration import Dataset, Parameter, ParameterType
from webapp.domain.attempts import Attempt, Outcome
from webapp.domain.errors import FILE_LOST, ErrorCode, ExportError
from webapp.domain.events import Event
from webapp.domain.exports import Export, FormatWarning, Phase, Status
from webapp.domain.formats import FORMATS
from webapp.domain.sentences import say
from webapp.language import gettext as _
from webapp.language import ngettext
from webapp.web.words import number, ordinal, told_error

SHORT_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Badge:
    """`tone` is the colour's name and `icon` the drawing's: a status is never told by its colour alone."""

    label: str
    icon: str
    tone: str


BADGES: Mapping[Status, Badge] = {
    Status.PENDING: Badge(say("Order taken"), "clock", "quiet"),
    Status.QUEUED: Badge(say("Queued"), "clock", "quiet"),
    Status.PROCESSING: Badge(say("Running"), "running", "accent"),
    Status.SUCCESS: Badge(say("Ready"), "check", "good"),
    Status.FAILED: Badge(say("Failed"), "alert", "bad"),
    Status.EXPIRED: Badge(say("Expired"), "archive", "quiet"),
    Status.CANCELLED: Badge(say("Cancelled"), "stop", "quiet"),
}
TIMED_OUT = Badge(say("Timed out"), "alert", "bad")
LOST = Badge(say("File lost"), "alert", "bad")

FILTER_LABELS: Mapping[Status, str] = {
    Status.QUEUED: say("Queued"),
    Status.PROCESSING: say("Running"),
    Status.SUCCESS: say("Ready"),
    Status.FAILED: say("Failed"),
    Status.EXPIRED: say("Expired"),
    Status.CANCELLED: say("Cancelled"),
}
"""PENDING lasts milliseconds: nobody looks for it."""

PHASES: Mapping[Phase, str] = {
    Phase.COUNTING: say("Counting the rows."),
    Phase.READING: say("Reading the data and writing the file."),
    Phase.WRITING: say("Finishing the file."),
    Phase.UPLOADING: say("Putting the file in its place."),
}

HAPPENINGS: Mapping[str, Badge] = {
    "export.created": Badge(say("Order taken"), "dot", "quiet"),
    "export.queued": Badge(say("Queued"), "clock", "quiet"),
    "export.started": Badge(say("Started"), "running", "accent"),
    "export.succeeded": Badge(say("Ready"), "check", "good"),
    "export.failed": Badge(say("Failed"), "alert", "bad"),
    "export.timed_out": Badge(say("Timed out"), "alert", "bad"),
    "export.expired": Badge(say("File removed"), "archive", "quiet"),
    "export.cancelled": Badge(say("Cancelled"), "stop", "quiet"),
}

OPTION_LABELS: Mapping[str, str] = {
    "bom": say("Byte order mark"),
    "csv_text": say("Text that looks like a formula"),
    "delimiter": say("Between the columns"),
    "compression": say("Compression"),
    "timezone": say("Time zone"),
    "columns": say("Columns"),
}
OPTION_VALUES: Mapping[tuple[str, Any], str] = {
    ("bom", True): say("Yes, for Excel"),
    ("bom", False): say("No"),
    ("csv_text", "safe"): say("Made harmless"),
    ("csv_text", "raw"): say("As it is"),
    ("delimiter", ","): say("Comma"),
    ("delimiter", ";"): say("Semicolon"),
    ("delimiter", "\t"): say("Tab"),
    ("compression", "none"): say("None"),
    ("compression", "gzip"): say("Gzip"),
    ("compression", "zstd"): say("Zstandard"),
}


OUTCOMES: Mapping[Outcome | None, Badge] = {
    None: BADGES[Status.PROCESSING],
    Outcome.SUCCEEDED: BADGES[Status.SUCCESS],
    Outcome.FAILED: BADGES[Status.FAILED],
    Outcome.TIMED_OUT: TIMED_OUT,
    Outcome.CANCELLED: BADGES[Status.CANCELLED],
    Outcome.HANDED_BACK: Badge(say("Handed back"), "again", "quiet"),
}


WARNINGS: Mapping[str, Callable[[int], str]] = {
    "INVALID_TEXT": lambda n: ngettext(
        "{n} cell whose text was not valid Unicode; the bad characters were replaced by U+FFFD.",
        "{n} cells whose text was not valid Unicode; the bad characters were replaced by U+FFFD.",
        n,
    ),
    "NUL_REMOVED": lambda n: ngettext(
        "{n} cell with NUL characters, which CSV readers stop at; the NULs were removed.",
        "{n} cells with NUL characters, which CSV readers stop at; the NULs were removed.",
        n,
    ),
    "NOT_FINITE": lambda n: ngettext(
        "{n} cell that held NaN or an infinity, which JSON cannot hold; null was written.",
        "{n} cells that held NaN or an infinity, which JSON cannot hold; null was written.",
        n,
    ),
    "NOT_FINITE_AS_TEXT": lambda n: ngettext(
        "{n} cell that held NaN or an infinity, which XLSX cannot hold; it was written as text.",
        "{n} cells that held NaN or an infinity, which XLSX cannot hold; they were written as text.",
        n,
    ),
    "DIGITS_AS_TEXT": lambda n: ngettext(
        "{n} number of more than 15 digits, which XLSX would round; it was written as text.",
        "{n} numbers of more than 15 digits, which XLSX would round; they were written as text.",
        n,
    ),
    "CONTROL_REPLACED": lambda n: ngettext(
        "{n} cell with characters that XLSX cannot hold; these were replaced by U+FFFD.",
        "{n} cells with characters that XLSX cannot hold; these were replaced by U+FFFD.",
        n,
    ),
    "COLUMN_AS_TEXT": lambda n: ngettext(
        "{n} column with cells that do not fit the column's type; in Parquet all of the column is text.",
        "{n} columns with cells that do not fit the column's type; in Parquet all of the column is text.",
        n,
    ),
    "CELL_CUT": lambda n: ngettext(
        "{n} cell longer than the 32,767 characters that XLSX holds; it was cut.",
        "{n} cells longer than the 32,767 characters that XLSX holds; they were cut.",
        n,
    ),
}
"""By the code of the writer's warning."""


@dataclass(frozen=True, slots=True)
class ToldAttempt:
    """One line of the attempts. `code` stands in the page for what the badge says in words."""

    attempt: Attempt
    badge: Badge
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the timeline."""

    badge: Badge
    detail: str
    at: datetime


def timed_out(export: Export) -> bool:
    return export.status is Status.EXPIRED and export.error is not None and export.error.code is ErrorCode.TIMEOUT


def file_lost(export: Export) -> bool:
    return export.status is Status.EXPIRED and export.error == FILE_LOST


def badge(export: Export) -> Badge:
    if timed_out(export):
        return TIMED_OUT
    return LOST if file_lost(export) else BADGES[export.status]


def headline(export: Export, position: int | None) -> str:
    """One sentence: what is going on, or what came of it."""
    match export.status:
        case Status.PENDING:
            return _("Your order is safe; it joins the queue in a moment.")
        case Status.QUEUED if export.retry_at is not None:
            return _("Waiting for the next attempt.")
        case Status.QUEUED:
            return place(position)
        case Status.PROCESSING:
            return _(PHASES[export.phase]) if export.phase else _("Opening the data source.")
        case Status.SUCCESS:
            return _("Your file is ready.")
        case Status.FAILED | Status.EXPIRED:
            return told_error(export.error) if export.error else _("The export did not finish.")
        case Status.CANCELLED:
            return _("This export was cancelled. Nothing was kept.")


def place(position: int | None) -> str:
    if position is None:
        return _("In the queue.")
    return _("Next in the queue.") if position <= 1 else _("{ordinal} in the queue.", ordinal=ordinal(position))


def format_title(name: str) -> str:
    """A format that is gone keeps its name."""
    known = FORMATS.get(name)
    return known.title if known else name.upper()


def told_params(export: Export, dataset: Dataset | None) -> list[tuple[str, str]]:
    """Label and value of each parameter; with their plain names when the dataset is gone."""
    return [_told_param(export, dataset, name) for name in export.params]


def short_params(export: Export, dataset: Dataset | None) -> str:
    """The parameters that were given, in one line."""
    given = [name for name, value in export.params.items() if value is not None and value != []]
    told = [_told_param(export, dataset, name) for name in given]
    return " · ".join(f"{label}: {_cut(_(value))}" for label, value in told)


def _told_param(export: Export, dataset: Dataset | None, name: str) -> tuple[str, str]:
    parameter = next((p for p in dataset.parameters if p.name == name), None) if dataset else None
    value = told_value(export.params[name], parameter, export.labels.get(name, {}))
    return parameter.label if parameter else name, value


def told_value(value: Any, parameter: Parameter | None, labels: Mapping[str, str]) -> str:
    """`labels` are what its choices were called when they were ordered."""
    if value is None or value == []:
        return say("Any")
    if isinstance(value, bool):
        return say("Yes") if value else say("No")
    if isinstance(value, list):
        return ", ".join(told_value(item, parameter, labels) for item in cast(list[Any], value))
    if value in labels:
        return labels[value]
    if parameter and parameter.type is ParameterType.DATETIME and isinstance(value, str):
        return value.replace("T", " ").replace("Z", " UTC")
    return str(value)


def told_options(export: Export) -> list[tuple[str, str]]:
    return [(OPTION_LABELS.get(name, name), _told_option(name, value)) for name, value in export.options.items()]


def _told_option(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast(list[Any], value)))
    return OPTION_VALUES.get((name, value), str(value))


def told_warning(warning: FormatWarning) -> str:
    """`3 cells longer than …; they were cut.`"""
    counted = WARNINGS.get(warning.code)
    return counted(warning.count) if counted else f"{warning.message} ({number(warning.count)})"


def timeline(happened: Sequence[Event]) -> list[Step]:
    """The export's events, oldest first."""
    return [Step(HAPPENINGS[event.type], _detail(event), event.timestamp) for event in happened]


def stages(export: Export, *, before: datetime | None) -> list[Step]:
    """What the export itself knows of the time before the first event that is still kept; None when none is."""
    ended = "export.failed" if export.status is Status.FAILED else "export.succeeded"
    times = {
        "export.created": export.created_at,
        "export.queued": export.queued_at,
        "export.started": export.started_at,
        ended: export.completed_at,
        "export.cancelled": export.cancelled_at,
        "export.timed_out" if timed_out(export) else "export.expired": export.expired_at,
    }
    known = [Step(HAPPENINGS[name], "", at) for name, at in times.items() if at and (before is None or at < before)]
    return sorted(known, key=lambda step: step.at)


def told_attempts(tries: Sequence[Attempt]) -> list[ToldAttempt]:
    """Nothing of a first attempt that has not failed: the timeline says all of it."""
    if len(tries) < 2 and all(attempt.error is None for attempt in tries):
        return []
    return [_told_attempt(attempt) for attempt in tries]


def _told_attempt(attempt: Attempt) -> ToldAttempt:
    detail = _("Its worker was stopped; the next one went on at once.")
    if attempt.outcome is not Outcome.HANDED_BACK:
        detail = told_error(attempt.error) if attempt.error else ""
    return ToldAttempt(attempt, OUTCOMES[attempt.outcome], attempt.outcome or "running", detail)


def _detail(event: Event) -> str:
    attempt, error = event.data.get("attempt", 0), event.data.get("error")
    if event.type == "export.started":
        return _("Attempt {n}", n=attempt) if attempt > 1 else ""
    is_lost = event.type == "export.expired" and error and error["code"] == FILE_LOST.code
    if error and (is_lost or event.type in {"export.failed", "export.timed_out"}):
        return told_error(ExportError(ErrorCode(error["code"]), error["message"], retriable=False))
    if event.type == "export.queued" and event.data.get("retry_at"):
        return _("For attempt {n}", n=attempt + 1)
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= SHORT_LENGTH else text[: SHORT_LENGTH - 1] + "…"
