"""The file options of an order form: which there are, in words, and what was sent for them. Pure."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from webapp.domain.formats import APPLIES, PERSON_DEFAULTS
from webapp.pages.order_columns import sent_columns
from webapp.web.forms import Form

NAMES = ("bom", "csv_text", "delimiter", "compression", "timezone")
DELIMITER_CODES: Mapping[str, str] = {"comma": ",", "semicolon": ";", "tab": "\t"}
"""A tab in a form's field is easily lost on the way."""


@dataclass(frozen=True, slots=True)
class OptionChoices:
    """What the form shows as chosen; `is_own_zone` while nobody chose another one."""

    bom: bool
    csv_text: str
    delimiter: str
    compression: str
    timezone: str
    is_own_zone: bool
    zones: tuple[str, ...]


def option_choices(texts: Mapping[str, str], zone: str) -> OptionChoices:
    """What was sent or ordered before, else what suits a person in this time zone."""
    defaults = PERSON_DEFAULTS
    delimiter = texts.get("delimiter", defaults.delimiter)
    codes = {sign: code for code, sign in DELIMITER_CODES.items()}
    return OptionChoices(
        bom=texts["bom"] == "true" if "bom" in texts else defaults.bom,
        csv_text=texts.get("csv_text", defaults.csv_text),
        delimiter=codes.get(delimiter, delimiter),
        compression=texts.get("compression", defaults.compression),
        timezone=texts.get("timezone", zone),
        is_own_zone="timezone" not in texts,
        zones=time_zones(),
    )


def option_texts(form: Form) -> dict[str, str]:
    """The options as they were sent. A box without a tick sends nothing, so the form says that it was there."""
    texts = {name: values[-1] for name, values in form.group("o.").items() if name in NAMES}
    if "o.shown" in form:
        texts.setdefault("bom", "false")
    return texts


def sent_options(form: Form, format: str) -> dict[str, Any]:
    """Those that apply to the format, as an order takes them; unknown ones go along, to be named."""
    apart = {"shown", "columns"}
    sent: dict[str, Any] = {name: values[-1] for name, values in form.group("o.").items() if name not in apart}
    if (chosen := sent_columns(form).chosen) is not None:
        sent["columns"] = list(chosen)
    if "bom" in sent or "o.shown" in form:
        sent["bom"] = {"true": True, "false": False}.get(sent.get("bom", "false"), sent.get("bom"))
    if "delimiter" in sent:
        sent["delimiter"] = DELIMITER_CODES.get(sent["delimiter"], sent["delimiter"])
    applying = APPLIES.get(format, frozenset())
    return {name: value for name, value in sent.items() if name in applying or name not in NAMES}


@cache
def time_zones() -> tuple[str, ...]:
    """UTC, then every place by its name."""
    names = zoneinfo.available_timezones()
    return ("UTC", *sorted(name for name in names if "/" in name and not name.startswith(("Etc/", "posix/", "right/"))))
