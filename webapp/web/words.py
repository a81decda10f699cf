"""How numbers, sizes and times are said to people, in the language in force."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from babel.dates import format_date, format_datetime, format_timedelta
from markupsafe import Markup

from webapp.domain.errors import ExportError, recalled
from webapp.language import ENGLISH, Language, current, ngettext
from webapp.language import gettext as _

MINUTE, HOUR, DAY = 60, 3600, 86_400
RELATIVE_UP_TO = 7 * DAY
"""Further away than this, in seconds, a date says more than "12 days ago"."""
ENGLISH_DAY = "d MMM y"
ENGLISH_SECOND = f"{ENGLISH_DAY}, HH:mm:ss"
KEPT = 10_000
"""Texts of moments: those of a page come again with each of its answers."""


def number(value: float | None) -> str:
    """`250,000`; an en dash for what is not known."""
    return "–" if value is None else current().number(value)


def size(count: int) -> str:
    """Decimal units, as file managers show them: `21.3 MB`."""
    if count < 1000:
        return ngettext("{n} byte", "{n} bytes", count)
    value, unit = float(count), "bytes"
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007
        value /= 1000
        if value < 999.5:
            break
    return f"{value:.1f} {unit}" if value < 99.95 else f"{number(value)} {unit}"


def duration(seconds: float) -> str:
    """The two largest units that count: `3 min 20 s`."""
    whole = max(0, round(seconds))
    days, hours, minutes = whole // DAY, whole % DAY // HOUR, whole % HOUR // MINUTE
    if days:
        parts = _("{n} d", n=days), _("{n} h", n=hours) if hours else ""
    elif hours:
        parts = _("{n} h", n=hours), _("{n} min", n=minutes) if minutes else ""
    else:
        rest = whole % MINUTE
        parts = _("{n} min", n=minutes) if minutes else "", _("{n} s", n=rest) if rest or not minutes else ""
    return " ".join(filter(None, parts))


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 export`, `3 exports`."""
    return f"{number(count)} {noun if count == 1 else plural or noun + 's'}"


def ordinal(position: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`; where there is no such word, the number."""
    if current() is not ENGLISH:
        return number(position)
    ending = "th" if position % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"{number(position)}{ending}"


def relative(moment: datetime, now: datetime) -> str:
    """`2 minutes ago`, `in 5 days`, or the date when that is more than a week away. The past is rounded down."""
    seconds = (moment - now).total_seconds()
    away = abs(seconds)
    if away > RELATIVE_UP_TO:
        return day(moment)
    unit = next((unit for unit in (DAY, HOUR, MINUTE) if away >= unit), 1)
    count = round(away / unit) if seconds > 0 else int(away // unit)
    if unit == 1 and seconds <= 0 and count < 10:
        return _("just now")
    return _away(count * unit if seconds > 0 else -count * unit, current())


@lru_cache(KEPT)
def _away(seconds: int, language: Language) -> str:
    return format_timedelta(timedelta(seconds=seconds), threshold=1, add_direction=True, locale=language.locale)


def day(moment: datetime) -> str:
    return format_date(moment.astimezone(UTC), ENGLISH_DAY if current() is ENGLISH else "medium", current().locale)


def exact(moment: datetime) -> str:
    """`29 Nov 2026, 19:38:05 UTC`"""
    return _exact(moment, current())


@lru_cache(KEPT)
def _exact(moment: datetime, language: Language) -> str:
    pattern = ENGLISH_SECOND if language is ENGLISH else "medium"
    return f"{format_datetime(moment, pattern, locale=language.locale)} UTC"


def seconds(count: float) -> str:
    """`83 ms`, `1.4 s`"""
    return _("{n} ms", n=format(count * 1000, ".0f")) if count < 1 else _("{n} s", n=format(count, ".1f"))


def told_error(error: ExportError) -> str:
    """What is stored in English."""
    return _(recalled(error))


def time_element(moment: datetime, now: datetime | None = None, *, counts_down: bool = False) -> Markup:
    """A `<time>` that says how long ago, or exactly when without `now`. app.js makes it local and keeps it fresh.

    One that counts down says exactly when, until app.js is there to count.
    """
    shown, kind = (relative(moment, now), "relative") if now else (exact(moment), "exact")
    kind = "relative" if counts_down else kind
    stamp = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    element = '<time datetime="{}" title="{}" data-time="{}">{}</time>'
    return Markup(element).format(stamp, exact(moment), kind, shown)  # noqa: S704
