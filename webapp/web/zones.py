"""Whose day it is: the time zone of the person who asks."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time
from zoneinfo import ZoneInfo

from starlette.requests import Request

from webapp.datasets.relative import known_zone
from webapp.web.context import viewer

ZONE_COOKIE = "exportdesk_zone"
"""Written by app.js, so that a form's first showing has the dates of the person's own day."""


def own_zone(request: Request, sent: str = "") -> str:
    """The person's own choice, or as the browser knows it, which may have `sent` it; UTC without JavaScript."""
    return known_zone(viewer(request).timezone or sent or request.cookies.get(ZONE_COOKIE, ""))


def parse_day(text: str) -> date | None:
    """`2026-01-31`; None for anything else, and for the first and the last year, whose days not all zones have."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.isoformat() == text and MINYEAR < day.year < MAXYEAR else None


def start_of(day: date, zone: str) -> datetime:
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
