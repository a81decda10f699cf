"""Alerts as the monitor page tells them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from webapp.actions.alerts import Standing
from webapp.domain.alerts import Alert, Unit
from webapp.pages.monitor_tables import told_seconds
from webapp.web.words import number


@dataclass(frozen=True, slots=True)
class AlertRow:
    """`threshold` is empty for one that was switched off."""

    key: str
    is_firing: bool
    title: str
    summary: str
    value: str
    threshold: str
    firing_since: datetime | None
    resolved_at: datetime | None


def alert_rows(found: Sequence[Standing], thresholds: Mapping[Alert, float]) -> list[AlertRow]:
    return [
        AlertRow(
            key=one.alert.value,
            is_firing=one.watch.is_firing,
            title=one.rule.title,
            summary=one.rule.summary,
            value=told_value(one.rule.unit, one.watch.value),
            threshold=told_value(one.rule.unit, thresholds[one.alert]) if one.alert in thresholds else "",
            firing_since=one.watch.firing_since,
            resolved_at=one.watch.resolved_at,
        )
        for one in found
    ]


def told_value(unit: Unit, value: float | None) -> str:
    """`6 min 52 s`, `93.4%`, `12`."""
    if value is None:
        return ""
    match unit:
        case Unit.SECONDS:
            return told_seconds(value)
        case Unit.PERCENT:
            return f"{value:.3g}%"
        case Unit.COUNT:
            return number(round(value))
