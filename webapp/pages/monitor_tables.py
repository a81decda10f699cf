"""The tables of the monitor page, each of which is drawn as a chart and given as CSV too. Pure."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from webapp.actions.monitor import Counts, Figures, Part, quantile
from webapp.domain.callbacks import DeliveryState, ErrorClass
from webapp.domain.events import rfc3339
from webapp.domain.exports import Status
from webapp.domain.sentences import say
from webapp.domain.tallies import BOUNDS, Metric
from webapp.language import gettext as _
from webapp.language import ngettext
from webapp.pages.callback_wording import ERROR_LABELS, EVENT_LABELS, STATES, short_url
from webapp.pages.monitor_query import BUCKETS, CHANNELS, ONE_TIME, MonitorQuery
from webapp.pages.wording import BADGES
from webapp.store.counted import Kind
from webapp.store.monitor import SLOTS, STREAMS
from webapp.web.words import duration, number

ENDPOINTS_SHOWN = 5
ENDS = ("export.succeeded", "export.failed", "export.timed_out", "export.cancelled")
END_TONES = {"export.succeeded": "good", "export.failed": "bad", "export.timed_out": "warn"}
OUTCOMES: Mapping[str, str] = {
    DeliveryState.SUCCEEDED.value: STATES[DeliveryState.SUCCEEDED].label,
    "retried": say("To be tried again"),
    DeliveryState.DEAD.value: STATES[DeliveryState.DEAD].label,
}
OUTCOME_TONES = {DeliveryState.SUCCEEDED.value: "good", "retried": "warn", DeliveryState.DEAD.value: "bad"}
SERIES = ("accent", "warn", "good", "bad", "ink-quiet", "ink")
"""Tones of the datasets that are drawn: as many as can be told apart."""
ABOUT_RIGHT = say("Read from buckets, so a time is about right.")
STREAM_KINDS = {"sse": "SSE", "websocket": "WebSocket", "long_poll": say("Long poll")}
ABOUT_TREND = say("95% of attempts within. A mark is where a new version of Exportdesk first ran.")
ABOUT_LOOKS = say("Drawn are averages of one look a minute, whatever the dataset.")
FROM = say("From")
SWEPT: Mapping[str, str] = {
    "scheduled runs": say("Scheduled orders placed"),
    "schedules settled": say("Scheduled runs that ended, noted"),
    "queued": say("Orders queued that nobody had queued"),
    "woken": say("Exports told to workers again"),
    "given up": say("Attempts of lost workers given up"),
    "timed out": say("Attempts ended at their time limit"),
    "expired": say("Files removed after their retention"),
    "orphans deleted": say("Files of no export deleted"),
    "files lost": say("Exports expired whose file was lost"),
    "purged": say("Old events, sessions and links removed"),
    "endpoints deleted": say("Unused callback endpoints deleted"),
    "secrets dropped": say("Replaced secrets dropped"),
}
"""What the sweep's steps come to, by the names that the metric has for them."""


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
    """`value` as CSV and the chart have it; `moment` instead of `text` for a time. `links` are texts with where they
    lead, instead of it too."""

    value: float | str | None
    text: str = ""
    moment: datetime | None = None
    href: str | None = None
    tone: str = ""
    links: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """`empty` is said instead, when nothing was counted. `unit` is `seconds` where the values are. `marks` are the
    numbers of rows in which something new began, with its name. An `is_extra` table without numbers is left out."""

    name: str
    title: str
    note: str
    empty: str
    chart: Chart
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    is_empty: bool
    unit: str = ""
    marks: Mapping[int, str] = field(default_factory=dict[int, str])
    is_extra: bool = False


def tables(figures: Figures, query: MonitorQuery) -> dict[str, Table]:
    """By name."""
    channels = [query.channel] if query.channel else CHANNELS
    made = (
        _statuses(figures, query),
        _ends(figures, query),
        _times(figures, query, Kind.RUNS, say("Execution time"), say("From start to end, however it ended.")),
        _times(figures, query, Kind.STARTS, say("Queue time"), say("From being queued to being started.")),
        _trend(figures, query),
        _latency(figures, query),
        *(_heat(figures, query, channel) for channel in channels),
        _deliveries(figures, query),
        _failures(figures, query),
        _streams(figures),
        _slots(figures),
        _swept(figures),
    )
    return {table.name: table for table in made}


def written(table: Table) -> str:
    """As CSV: times in UTC, durations in seconds, nothing where there is nothing to tell."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(column.key for column in table.columns)
    writer.writerows([("" if cell.value is None else cell.value) for cell in row] for row in table.rows)
    return out.getvalue()


def _statuses(figures: Figures, query: MonitorQuery) -> Table:
    rows = [
        (
            Cell(status.value, BADGES[status].label, tone=BADGES[status].tone),
            _count(figures.exports.get(status.value, 0), query.exports(status)),
        )
        for status in Status
    ]
    return Table(
        name="statuses",
        title=say("Exports by status"),
        note=say("All exports there are now, whatever the range. Those that ended are counted once a minute."),
        empty=say("There are no exports yet."),
        chart=Chart.PIE,
        columns=(Column("status", say("Status")), Column("exports", say("Exports"), is_drawn=True)),
        rows=rows,
        is_empty=not any(figures.exports.values()),
    )


def _ends(figures: Figures, query: MonitorQuery) -> Table:
    columns = [
        Column(end.removeprefix("export."), EVENT_LABELS[end], is_drawn=True, tone=END_TONES.get(end, "quiet"))
        for end in ENDS
    ]
    return Table(
        name="ends",
        title=say("How attempts ended"),
        note=say("A failure that is tried again by itself is counted each time."),
        empty=say("No attempt ended in the last {title}.", title=figures.range.title),
        chart=Chart.BARS,
        columns=(Column("from", FROM), *columns),
        rows=[
            (_from(part), *(_count(part.ended[end], query.within(part, Kind.ENDS, type=end)) for end in ENDS))
            for part in figures.parts
        ],
        is_empty=not figures.ended.total(),
    )


TIMED = {Kind.RUNS: ("execution-time", Metric.EXECUTION_TIME), Kind.STARTS: ("queue-time", Metric.QUEUE_TIME)}


def _times(figures: Figures, query: MonitorQuery, kind: Kind, title: str, note: str) -> Table:
    name, metric = TIMED[kind]
    counts = [part.execution_time if kind is Kind.RUNS else part.queue_time for part in figures.parts]
    return Table(
        name=name,
        title=title,
        note=f"{_(note)} {_(ABOUT_RIGHT)}",
        empty=say("Nothing was measured in the last {title}.", title=figures.range.title),
        chart=Chart.LINES,
        columns=(
            Column("from", FROM),
            Column("attempts", say("Attempts")),
            Column("p50_seconds", say("Half within"), is_drawn=True, tone="accent"),
            Column("p95_seconds", say("95% within"), is_drawn=True, tone="warn"),
        ),
        rows=[
            (
                _from(part),
                _count(found.total(), query.within(part, kind)),
                *(_seconds(quantile(metric, found, share)) for share in (0.5, 0.95)),
            )
            for part, found in zip(figures.parts, counts, strict=True)
        ],
        is_empty=not any(found.total() for found in counts),
        unit="seconds",
    )


def _trend(figures: Figures, query: MonitorQuery) -> Table:
    metric, found = Metric.EXECUTION_TIME, figures.run_times
    names = [*found][: len(SERIES)]
    left = len(found) - len(names)
    more = _("Drawn are the {n} with the most attempts; choose another above.", n=len(names)) if left else ""
    return Table(
        name="execution-trend",
        title=say("Execution time of each dataset"),
        note=f"{_(ABOUT_TREND)} {more}".strip(),
        empty=say("Nothing was measured in the last {title}.", title=figures.range.title),
        chart=Chart.LINES,
        columns=(
            Column("from", FROM),
            Column("versions", say("New version")),
            *(Column(name, name, is_drawn=True, tone=tone) for name, tone in zip(names, SERIES, strict=False)),
        ),
        rows=[
            (
                _from(part),
                Cell(" ".join(part.versions), ", ".join(part.versions)),
                *(
                    _seconds(quantile(metric, part.run_times.get(name, {}), 0.95), query.within_of(part, name))
                    for name in names
                ),
            )
            for part in figures.parts
        ],
        is_empty=not names,
        unit="seconds",
        marks={row: ", ".join(part.versions) for row, part in enumerate(figures.parts) if part.versions},
    )


def _latency(figures: Figures, query: MonitorQuery) -> Table:
    first, last = figures.parts[0].began_at, figures.parts[-1].ended_at
    return Table(
        name="notification-latency",
        title=say("Notification latency"),
        note=say("From the commit of a change to its confirmation by the client or receiver."),
        empty=say("Nobody confirmed a notification in the last {title}.", title=figures.range.title),
        chart=Chart.HEAT,
        columns=(Column("channel", say("Channel")), *_buckets()),
        rows=[
            (
                Cell(channel, told_channel(channel)),
                *(
                    _count(
                        counts[bucket],
                        query.counted(Kind.CONFIRMATIONS, first, last, channel=channel, bucket=bucket),
                    )
                    for bucket in range(BUCKETS)
                ),
            )
            for channel, counts in figures.latency.items()
        ],
        is_empty=not figures.latency,
    )


def _heat(figures: Figures, query: MonitorQuery, channel: str) -> Table:
    counts = [part.latencies.get(channel, Counts()) for part in figures.parts]
    return Table(
        name=f"latency-{channel}",
        title=_("Notification latency: {channel}", channel=told_channel(channel)),
        note=say("How many confirmations came how fast, and when."),
        empty=say("Nobody confirmed a notification in the last {title}.", title=figures.range.title),
        chart=Chart.HEAT,
        columns=(Column("from", FROM), *_buckets()),
        rows=[
            (
                _from(part),
                *(
                    _count(
                        found[bucket], query.within(part, Kind.CONFIRMATIONS, channel=channel, bucket=bucket)
                    )
                    for bucket in range(BUCKETS)
                ),
            )
            for part, found in zip(figures.parts, counts, strict=True)
        ],
        is_empty=not any(found.total() for found in counts),
        is_extra=True,
    )  # fmt: skip


def _buckets() -> list[Column]:
    bounds = BOUNDS[Metric.NOTIFICATION_LATENCY]
    return [
        *(Column(f"up_to_{bound:g}_seconds", f"≤ {told_seconds(bound)}", is_drawn=True) for bound in bounds),
        Column("longer", f"> {told_seconds(bounds[-1])}", is_drawn=True),
    ]


def _deliveries(figures: Figures, query: MonitorQuery) -> Table:
    columns = [Column(key, title, is_drawn=True, tone=OUTCOME_TONES[key]) for key, title in OUTCOMES.items()]
    return Table(
        name="deliveries",
        title=say("Callback requests"),
        note=say("Every request to an endpoint, by what came of it."),
        empty=say("No callback was sent in the last {title}.", title=figures.range.title),
        chart=Chart.BARS,
        columns=(Column("from", FROM), *columns),
        rows=[
            (
                _from(part),
                *(_count(part.deliveries[key], query.within(part, Kind.REQUESTS, outcome=key)) for key in OUTCOMES),
            )
            for part in figures.parts
        ],
        is_empty=not figures.deliveries.total(),
    )


def _failures(figures: Figures, query: MonitorQuery) -> Table:
    first, last = figures.parts[0].began_at, figures.parts[-1].ended_at
    reasons: dict[str, Counter[str]] = {}
    for (reason, endpoint), count in figures.failures.items():
        reasons.setdefault(reason, Counter())[endpoint] += count

    def address(reason: str, **more: Any) -> str:
        return query.counted(Kind.REQUESTS, first, last, error=reason, **more)

    def behind(reason: str, counts: Counter[str]) -> Cell:
        most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        links: list[tuple[str, str | None]] = [
            (f"{_endpoint(figures, id)}: {number(count)}", address(reason, endpoint=id))
            for id, count in most[:ENDPOINTS_SHOWN]
        ]
        left = most[ENDPOINTS_SHOWN:]
        rest = [(f"{_more(len(left))}: {number(sum(count for _id, count in left))}", None)] * bool(left)
        return Cell(" ".join(f"{id or ONE_TIME}={count}" for id, count in most), links=[*links, *rest])

    found = sorted(reasons.items(), key=lambda pair: (-pair[1].total(), pair[0]))
    return Table(
        name="failures",
        title=say("Why callback requests failed"),
        note=say("Each reason with the endpoints behind it."),
        empty=say("No callback request failed in the last {title}.", title=figures.range.title),
        chart=Chart.RANKS,
        columns=(
            Column("reason", say("Reason")),
            Column("requests", say("Requests"), is_drawn=True, tone="bad"),
            Column("endpoints", say("Endpoints")),
        ),
        rows=[
            (
                Cell(reason, ERROR_LABELS[ErrorClass(reason)]),
                _count(counts.total(), address(reason)),
                behind(reason, counts),
            )
            for reason, counts in found
        ],
        is_empty=not found,
    )


def _streams(figures: Figures) -> Table:
    told = _("How many are open now is not known while Redis does not answer.")
    if figures.streams is not None:
        open_now = (f"{_(title)} {number(figures.streams.get(kind, 0))}" for kind, title in STREAM_KINDS.items())
        told = _("Open now: {counts}.", counts=", ".join(open_now))
    return Table(
        name="streams",
        title=say("Open streams"),
        note=f"{told} {_(ABOUT_LOOKS)}",
        empty=say("Nothing was measured in the last {title}.", title=figures.range.title),
        chart=Chart.LINES,
        columns=(
            Column("from", FROM),
            *(
                Column(kind, title, is_drawn=True, tone=tone)
                for (kind, title), tone in zip(STREAM_KINDS.items(), SERIES, strict=False)
            ),
        ),
        rows=[(_from(part), *(_average(part, STREAMS, kind) for kind in STREAM_KINDS)) for part in figures.parts],
        is_empty=not any(part.looks[STREAMS] for part in figures.parts),
    )


def _slots(figures: Figures) -> Table:
    return Table(
        name="slots",
        title=say("What workers do"),
        note=say("Slots for exports of the workers alive: averages of one look a minute, whatever the dataset."),
        empty=say("Nothing was measured in the last {title}.", title=figures.range.title),
        chart=Chart.BARS,
        columns=(
            Column("from", FROM),
            Column("taken", say("Taken"), is_drawn=True, tone="accent"),
            Column("free", say("Free"), is_drawn=True, tone="quiet"),
        ),
        rows=[(_from(part), *(_average(part, SLOTS, state) for state in ("taken", "free"))) for part in figures.parts],
        is_empty=not any(part.looks[SLOTS] for part in figures.parts),
    )


def _swept(figures: Figures) -> Table:
    found = figures.swept.most_common()
    return Table(
        name="sweep",
        title=say("What the sweep did"),
        note=say("What was stuck, lost or past its time, and was put right, whatever the dataset."),
        empty=say("The sweep had nothing to do in the last {title}.", title=figures.range.title),
        chart=Chart.RANKS,
        columns=(Column("action", say("Action")), Column("times", say("How often"), is_drawn=True, tone="accent")),
        rows=[(Cell(kind, SWEPT.get(kind, kind)), _count(count)) for kind, count in found],
        is_empty=not found,
    )


def _average(part: Part, of: str, name: str) -> Cell:
    found = part.average(of, name)
    return Cell(None, "–") if found is None else Cell(round(found, 2), number(round(found, 2)))


def _more(count: int) -> str:
    return ngettext("{n} more endpoint", "{n} more endpoints", count)


def _endpoint(figures: Figures, endpoint_id: str) -> str:
    return told_endpoint(figures.endpoints, endpoint_id) if endpoint_id else say("Callbacks of single exports")


def told_endpoint(names: Mapping[str, tuple[str, str]], endpoint_id: str) -> str:
    description, url = names.get(endpoint_id, ("", ""))
    return description or (short_url(url) if url else say("A deleted endpoint"))


def told_channel(channel: str) -> str:
    return _(CHANNELS.get(channel, channel))


def told_seconds(seconds: float) -> str:
    """`120 ms`, `1.3 s`, `2 min 5 s`."""
    if seconds < 1:
        return _("{n} ms", n=format(seconds * 1000, ".0f"))
    return _("{n} s", n=format(seconds, ".3g")) if seconds < 10 else duration(seconds)


def _from(part: Part) -> Cell:
    return Cell(rfc3339(part.began_at), moment=part.began_at)


def _count(count: int, href: str | None = None) -> Cell:
    return Cell(count, number(count), href=href if count else None)


def _seconds(seconds: float | None, href: str | None = None) -> Cell:
    if seconds is None:
        return Cell(None, "–")
    return Cell(round(seconds, 3), told_seconds(seconds), href=href)
