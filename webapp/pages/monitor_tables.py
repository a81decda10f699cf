"""The tables of the monitor page, each of which is drawn as a chart and given as CSV too. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from webapp.actions.monitor import Counts, Figures, Part, quantile
from webapp.domain.callbacks import DeliveryState, ErrorClass
from webapp.domain.events import rfc3339
from webapp.domain.exports import Status
from webapp.domain.tallies import BOUNDS, Metric
from webapp.pages.callback_wording import ERROR_LABELS, EVENT_LABELS, STATES
from webapp.pages.wording import BADGES
from webapp.web.words import duration, number

ENDS = ("export.succeeded", "export.failed", "export.timed_out", "export.cancelled")
OUTCOMES: Mapping[str, str] = {
    DeliveryState.SUCCEEDED.value: STATES[DeliveryState.SUCCEEDED].label,
    "retried": "To be tried again",
    DeliveryState.DEAD.value: STATES[DeliveryState.DEAD].label,
}
CHANNELS: Mapping[str, str] = {"sse": "SSE", "websocket": "WebSocket", "polling": "Polling", "callback": "Callback"}
FROM = "From"


class Chart(StrEnum):
    """How monitor.js draws a table."""

    PIE = "pie"
    BARS = "bars"
    LINES = "lines"
    HEAT = "heat"
    RANKS = "ranks"


@dataclass(frozen=True, slots=True)
class Column:
    """`key` heads it in CSV. One that is drawn is a series of the chart, in this tone."""

    key: str
    title: str
    is_drawn: bool = False
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """`value` as CSV and the chart have it; `moment` instead of `text` for a time."""

    value: float | str | None
    text: str = ""
    moment: datetime | None = None
    href: str | None = None
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """`empty` is said instead, when nothing was counted. `unit` is `seconds` where the values are."""

    name: str
    title: str
    note: str
    empty: str
    chart: Chart
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    is_empty: bool
    unit: str = field(default="")


def tables(figures: Figures) -> dict[str, Table]:
    """By name."""
    made = (
        _statuses(figures),
        _ends(figures),
        _times(
            figures, "execution-time", "Execution time", "From start to end, however it ended.", Metric.EXECUTION_TIME
        ),
        _times(figures, "queue-time", "Queue time", "From being queued to being started.", Metric.QUEUE_TIME),
        _latency(figures),
        _deliveries(figures),
        _reasons(figures),
    )
    return {table.name: table for table in made}


def written(table: Table) -> str:
    """As CSV: times in UTC, durations in seconds, nothing where there is nothing to tell."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(column.key for column in table.columns)
    writer.writerows([("" if cell.value is None else cell.value) for cell in row] for row in table.rows)
    return out.getvalue()


def _statuses(figures: Figures) -> Table:
    rows = [
        (
            Cell(status.value, BADGES[status].label, tone=BADGES[status].tone),
            _count(figures.exports.get(status.value, 0), f"/exports?all=1&status={status.value.lower()}"),
        )
        for status in Status
    ]
    return Table(
        name="statuses",
        title="Exports by status",
        note="All exports there are now, whatever the range.",
        empty="There are no exports yet.",
        chart=Chart.PIE,
        columns=(Column("status", "Status"), Column("exports", "Exports", is_drawn=True)),
        rows=rows,
        is_empty=not any(figures.exports.values()),
    )


def _ends(figures: Figures) -> Table:
    tones = {"export.succeeded": "good", "export.failed": "bad", "export.timed_out": "warn"}
    columns = [
        Column(end.removeprefix("export."), EVENT_LABELS[end], is_drawn=True, tone=tones.get(end, "quiet"))
        for end in ENDS
    ]
    return Table(
        name="ends",
        title="How attempts ended",
        note="A failure that is tried again by itself is counted each time.",
        empty=f"No attempt ended in the last {figures.range.title}.",
        chart=Chart.BARS,
        columns=(Column("from", FROM), *columns),
        rows=[(_from(part), *(_count(part.ended[end]) for end in ENDS)) for part in figures.parts],
        is_empty=not figures.ended.total(),
    )


def _times(figures: Figures, name: str, title: str, note: str, metric: Metric) -> Table:
    counts = [_of(part, metric) for part in figures.parts]
    return Table(
        name=name,
        title=title,
        note=f"{note} Read from buckets, so a time is about right.",
        empty=f"Nothing was measured in the last {figures.range.title}.",
        chart=Chart.LINES,
        columns=(
            Column("from", FROM),
            Column("attempts", "Attempts"),
            Column("p50_seconds", "Half within", is_drawn=True, tone="accent"),
            Column("p95_seconds", "95% within", is_drawn=True, tone="warn"),
        ),
        rows=[
            (_from(part), _count(found.total()), *(_seconds(quantile(metric, found, share)) for share in (0.5, 0.95)))
            for part, found in zip(figures.parts, counts, strict=True)
        ],
        is_empty=not any(found.total() for found in counts),
        unit="seconds",
    )


def _of(part: Part, metric: Metric) -> Counts:
    return part.execution_time if metric is Metric.EXECUTION_TIME else part.queue_time


def _latency(figures: Figures) -> Table:
    bounds = BOUNDS[Metric.NOTIFICATION_LATENCY]
    columns = [Column(f"up_to_{bound:g}_seconds", f"≤ {told_seconds(bound)}", is_drawn=True) for bound in bounds]
    return Table(
        name="notification-latency",
        title="Notification latency",
        note="From the commit of a change to its confirmation by the client or receiver.",
        empty=f"Nobody confirmed a notification in the last {figures.range.title}.",
        chart=Chart.HEAT,
        columns=(
            Column("channel", "Channel"),
            *columns,
            Column("longer", f"> {told_seconds(bounds[-1])}", is_drawn=True),
        ),
        rows=[
            (Cell(channel, told_channel(channel)), *(_count(counts[bucket]) for bucket in range(len(bounds) + 1)))
            for channel, counts in figures.latency.items()
        ],
        is_empty=not figures.latency,
    )


def _deliveries(figures: Figures) -> Table:
    tones = {DeliveryState.SUCCEEDED.value: "good", "retried": "warn", DeliveryState.DEAD.value: "bad"}
    columns = [Column(key, title, is_drawn=True, tone=tones[key]) for key, title in OUTCOMES.items()]
    return Table(
        name="deliveries",
        title="Callback requests",
        note="Every request to an endpoint, by what came of it.",
        empty=f"No callback was sent in the last {figures.range.title}.",
        chart=Chart.BARS,
        columns=(Column("from", FROM), *columns),
        rows=[(_from(part), *(_count(part.deliveries[key]) for key in OUTCOMES)) for part in figures.parts],
        is_empty=not figures.deliveries.total(),
    )


def _reasons(figures: Figures) -> Table:
    found = sorted(figures.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return Table(
        name="failures",
        title="Why callback requests failed",
        note="A reason leads to the deliveries whose last try failed so.",
        empty=f"No callback request failed in the last {figures.range.title}.",
        chart=Chart.RANKS,
        columns=(Column("reason", "Reason"), Column("requests", "Requests", is_drawn=True, tone="bad")),
        rows=[
            (
                Cell(reason, ERROR_LABELS[ErrorClass(reason)], href=f"/callbacks/deliveries?error={reason}"),
                _count(count),
            )
            for reason, count in found
        ],
        is_empty=not found,
    )


def told_channel(channel: str) -> str:
    return CHANNELS.get(channel, channel)


def told_seconds(seconds: float) -> str:
    """`120 ms`, `1.3 s`, `2 min 5 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 10 else duration(seconds)


def _from(part: Part) -> Cell:
    return Cell(rfc3339(part.began_at), moment=part.began_at)


def _count(count: int, href: str | None = None) -> Cell:
    return Cell(count, number(count), href=href if count else None)


def _seconds(seconds: float | None) -> Cell:
    return Cell(None if seconds is None else round(seconds, 3), "–" if seconds is None else told_seconds(seconds))
