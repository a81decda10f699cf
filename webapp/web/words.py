"""How numbers, sizes and times are said to people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup

MINUTE, HOUR, DAY = 60, 3600, 86_400
SPANS = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second"))
RELATIVE_UP_TO = 7 * DAY
"""Further away than this, in seconds, a date says more than "12 days ago"."""


def number(value: float | None) -> str:
    """`250,000`; an en dash for what is not known."""
    return "–" if value is None else f"{value:,.0f}"


def size(count: int) -> str:
    """Decimal units, as file managers show them: `21.3 MB`."""
    if count < 1000:
        return counted(count, "byte")
    value, unit = float(count), "bytes"
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007
        value /= 1000
        if value < 999.5:
            break
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:,.0f} {unit}"


def duration(seconds: float) -> str:
    """The two largest units that count: `3 min 20 s`."""
    whole = max(0, round(seconds))
    for large, small, large_unit, small_unit in (
        (DAY, HOUR, "d", "h"),
        (HOUR, MINUTE, "h", "min"),
        (MINUTE, 1, "min", "s"),
    ):
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {large_unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 export`, `3 exports`."""
    return f"{number(count)} {noun if count == 1 else plural or noun + 's'}"


def ordinal(position: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if position % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"{number(position)}{ending}"


def relative(moment: datetime, now: datetime) -> str:
    """`2 minutes ago`, `in 5 days`, or the date when that is more than a week away. The past is rounded down."""
    seconds = (moment - now).total_seconds()
    away = abs(seconds)
    if away > RELATIVE_UP_TO:
        return day(moment)
    unit, noun = next(((unit, noun) for unit, noun in SPANS if away >= unit), (1, "second"))
    count = round(away / unit) if seconds > 0 else int(away // unit)
    if noun == "second" and seconds <= 0 and count < 10:
        return "just now"
    words = counted(count, noun)
    return f"in {words}" if seconds > 0 else f"{words} ago"


def day(moment: datetime) -> str:
    utc = moment.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y}"


def exact(moment: datetime) -> str:
    """`29 Nov 2026, 19:38:05 UTC`"""
    return f"{day(moment)}, {moment.astimezone(UTC):%H:%M:%S} UTC"


def time_element(moment: datetime, now: datetime | None = None, *, counts_down: bool = False) -> Markup:
    """A `<time>` that says how long ago, or exactly when without `now`. app.js makes it local and keeps it fresh.

    One that counts down says exactly when, until app.js is there to count.
    """
    shown, kind = (relative(moment, now), "relative") if now else (exact(moment), "exact")
    kind = "relative" if counts_down else kind
    stamp = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    element = '<time datetime="{}" title="{}" data-time="{}">{}</time>'
    return Markup(element).format(stamp, exact(moment), kind, shown)  # noqa: S704
