"""How an export is told to people: statuses, headlines, parameters, options and the timeline. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from webapp.datasets.declaration import Dataset, Parameter, ParameterType
from webapp.domain.attempts import Attempt, Outcome
from webapp.domain.errors import FILE_LOST, ErrorCode
from webapp.domain.events import Event
from webapp.domain.exports import Export, FormatWarning, Phase, Status
from webapp.domain.formats import FORMATS
from webapp.web.words import counted, number, ordinal

SHORT_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Badge:
    """`tone` is the colour's name and `icon` the drawing's: a status is never told by its colour alone."""

    label: str
    icon: str
    tone: str


BADGES: Mapping[Status, Badge] = {
    Status.PENDING: Badge("Order taken", "clock", "quiet"),
    Status.QUEUED: Badge("Queued", "clock", "quiet"),
    Status.PROCESSING: Badge("Running", "running", "accent"),
    Status.SUCCESS: Badge("Ready", "check", "good"),
    Status.FAILED: Badge("Failed", "alert", "bad"),
    Status.EXPIRED: Badge("Expired", "archive", "quiet"),
    Status.CANCELLED: Badge("Cancelled", "stop", "quiet"),
}
TIMED_OUT = Badge("Timed out", "alert", "bad")
LOST = Badge("File lost", "alert", "bad")

FILTER_LABELS: Mapping[Status, str] = {
    Status.QUEUED: "Queued",
    Status.PROCESSING: "Running",
    Status.SUCCESS: "Ready",
    Status.FAILED: "Failed",
    Status.EXPIRED: "Expired",
    Status.CANCELLED: "Cancelled",
}
"""PENDING lasts milliseconds: nobody looks for it."""

PHASES: Mapping[Phase, str] = {
    Phase.COUNTING: "Counting the rows.",
    Phase.READING: "Reading the data and writing the file.",
    Phase.WRITING: "Finishing the file.",
    Phase.UPLOADING: "Putting the file in its place.",
}

HAPPENINGS: Mapping[str, Badge] = {
    "export.created": Badge("Order taken", "dot", "quiet"),
    "export.queued": Badge("Queued", "clock", "quiet"),
    "export.started": Badge("Started", "running", "accent"),
    "export.succeeded": Badge("Ready", "check", "good"),
    "export.failed": Badge("Failed", "alert", "bad"),
    "export.timed_out": Badge("Timed out", "alert", "bad"),
    "export.expired": Badge("File removed", "archive", "quiet"),
    "export.cancelled": Badge("Cancelled", "stop", "quiet"),
}

OPTION_LABELS: Mapping[str, str] = {
    "bom": "Byte order mark",
    "csv_text": "Text that looks like a formula",
    "delimiter": "Between the columns",
    "compression": "Compression",
    "timezone": "Time zone",
}
OPTION_VALUES: Mapping[tuple[str, Any], str] = {
    ("bom", True): "Yes, for Excel",
    ("bom", False): "No",
    ("csv_text", "safe"): "Made harmless",
    ("csv_text", "raw"): "As it is",
    ("delimiter", ","): "Comma",
    ("delimiter", ";"): "Semicolon",
    ("delimiter", "\t"): "Tab",
    ("compression", "none"): "None",
    ("compression", "gzip"): "Gzip",
    ("compression", "zstd"): "Zstandard",
}


OUTCOMES: Mapping[Outcome | None, Badge] = {
    None: BADGES[Status.PROCESSING],
    Outcome.SUCCEEDED: BADGES[Status.SUCCESS],
    Outcome.FAILED: BADGES[Status.FAILED],
    Outcome.TIMED_OUT: TIMED_OUT,
    Outcome.CANCELLED: BADGES[Status.CANCELLED],
    Outcome.HANDED_BACK: Badge("Handed back", "again", "quiet"),
}


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
            return "Your order is safe; it joins the queue in a moment."
        case Status.QUEUED if export.retry_at is not None:
            return "Waiting for the next attempt."
        case Status.QUEUED:
            return place(position)
        case Status.PROCESSING:
            return PHASES[export.phase] if export.phase else "Opening the data source."
        case Status.SUCCESS:
            return "Your file is ready."
        case Status.FAILED | Status.EXPIRED:
            return export.error.message if export.error else "The export did not finish."
        case Status.CANCELLED:
            return "This export was cancelled. Nothing was kept."


def place(position: int | None) -> str:
    if position is None:
        return "In the queue."
    return "Next in the queue." if position <= 1 else f"{ordinal(position)} in the queue."


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
    return " · ".join(f"{label}: {_cut(value)}" for label, value in told)


def _told_param(export: Export, dataset: Dataset | None, name: str) -> tuple[str, str]:
    parameter = next((p for p in dataset.parameters if p.name == name), None) if dataset else None
    value = told_value(export.params[name], parameter, export.labels.get(name, {}))
    return parameter.label if parameter else name, value


def told_value(value: Any, parameter: Parameter | None, labels: Mapping[str, str]) -> str:
    """`labels` are what its choices were called when they were ordered."""
    if value is None or value == []:
        return "Any"
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, list):
        return ", ".join(told_value(item, parameter, labels) for item in cast(list[Any], value))
    if value in labels:
        return labels[value]
    if parameter and parameter.type is ParameterType.DATETIME and isinstance(value, str):
        return value.replace("T", " ").replace("Z", " UTC")
    return str(value)


def told_options(export: Export) -> list[tuple[str, str]]:
    return [
        (OPTION_LABELS.get(name, name), OPTION_VALUES.get((name, value), str(value)))
        for name, value in export.options.items()
    ]


def told_warning(warning: FormatWarning) -> str:
    """`3 cells longer than … ; they were cut.`: the writer's sentence begins with what it counts."""
    what, _, rest = warning.message.partition(" ")
    if not what.endswith("s"):
        return f"{warning.message} ({number(warning.count)} times)"
    if warning.count == 1:
        rest = rest.replace("; they were ", "; it was ")
    return f"{counted(warning.count, what[:-1].lower())} {rest}"


def timeline(happened: Sequence[Event]) -> list[Step]:
    """The export's events, oldest first."""
    return [Step(HAPPENINGS[event.type], _detail(event), event.timestamp) for event in happened]


def told_attempts(tries: Sequence[Attempt]) -> list[ToldAttempt]:
    """Nothing of a first attempt that has not failed: the timeline says all of it."""
    if len(tries) < 2 and all(attempt.error is None for attempt in tries):
        return []
    return [_told_attempt(attempt) for attempt in tries]


def _told_attempt(attempt: Attempt) -> ToldAttempt:
    detail = "Its worker was stopped; the next one went on at once."
    if attempt.outcome is not Outcome.HANDED_BACK:
        detail = attempt.error.message if attempt.error else ""
    return ToldAttempt(attempt, OUTCOMES[attempt.outcome], attempt.outcome or "running", detail)


def _detail(event: Event) -> str:
    attempt, error = event.data.get("attempt", 0), event.data.get("error")
    if event.type == "export.started":
        return f"Attempt {attempt}" if attempt > 1 else ""
    is_lost = event.type == "export.expired" and error and error["code"] == FILE_LOST.code
    if error and (is_lost or event.type in {"export.failed", "export.timed_out"}):
        return error["message"]
    if event.type == "export.queued" and event.data.get("retry_at"):
        return f"For attempt {attempt + 1}"
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= SHORT_LENGTH else text[: SHORT_LENGTH - 1] + "…"
