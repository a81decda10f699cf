"""Browsers at both ends of the day."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import httpx

FIRST, LAST = "Pacific/Kiritimati", "Pacific/Niue"
"""Where a day begins first, and last: they never have the same one, so not both are UTC's."""


def in_zone(client: httpx.AsyncClient, zone: str) -> dict[str, str]:
    """Headers of somebody whose browser is there."""
    cookies = [f"{name}={value}" for name, value in client.cookies.items()]
    return {"Cookie": "; ".join([*cookies, f"exportdesk_zone={zone}"])}


def day_in(zone: str, moment: datetime) -> date:
    return moment.astimezone(ZoneInfo(zone)).date()
