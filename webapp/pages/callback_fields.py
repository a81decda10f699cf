"""The endpoint's form: what was sent as `webapp.actions.endpoints` takes it, and as the form shows it again. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webapp.domain.callbacks import CALLBACK_TYPES, IN_FLIGHT, RATE, SCHEDULES, TIME_LIMIT, EndpointSettings
from webapp.domain.errors import FieldError
from webapp.domain.sentences import say, sentence_of
from webapp.pages.callback_wording import EVENT_LABELS
from webapp.web.forms import Form

UNITS: Mapping[str, float] = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
WAIT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(s|min|m|h|d)?", re.IGNORECASE)
SPARE_HEADERS = 2
FIELD_LABELS: Mapping[str, str] = {
    "url": "URL",
    "description": say("Description"),
    "event_types": say("Events"),
    "datasets": say("Datasets"),
    "schedule": say("Tried again after"),
    "time_limit": say("Time limit, seconds"),
    "rate": say("Requests a second"),
    "max_in_flight": say("Requests at once"),
    "headers": say("Custom headers"),
    "encryption": say("Encryption"),
}
"""Of what the form shows, from its top to its end."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a field; `field` and `label` are empty for what the form does not show."""

    field: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """`is_kept`: the endpoint has a value for it already, which is shown to nobody; empty means: as before."""

    name: str = ""
    value: str = ""
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class EndpointForm:
    """Every control with the text it shows. `event_scope` and `dataset_scope` are `all` or `some`."""

    url: str = ""
    description: str = ""
    event_scope: str = "all"
    event_types: tuple[str, ...] = ()
    dataset_scope: str = "all"
    datasets: tuple[str, ...] = ()
    schedule: str = "standard"
    waits: str = "5s, 1min, 10min, 1h"
    time_limit: str = f"{TIME_LIMIT:g}"
    rate: str = str(RATE)
    max_in_flight: str = str(IN_FLIGHT)
    headers: tuple[HeaderRow, ...] = ()
    encryption: str = "none"
    errors: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def header_rows(self) -> tuple[HeaderRow, ...]:
        return (*self.headers, *[HeaderRow()] * SPARE_HEADERS)

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """In the order of the form, what it does not show last."""
        shown = [Mistake(name, label, self.errors[name]) for name, label in FIELD_LABELS.items() if name in self.errors]
        return (*shown, *(Mistake("", "", text) for name, text in self.errors.items() if name not in FIELD_LABELS))


def form_of_settings(settings: EndpointSettings) -> EndpointForm:
    is_own = settings.schedule not in SCHEDULES
    return EndpointForm(
        url=settings.url,
        description=settings.description,
        event_scope="some" if settings.event_types else "all",
        event_types=settings.event_types,
        dataset_scope="some" if settings.datasets else "all",
        datasets=settings.datasets,
        schedule="own" if is_own else settings.schedule,
        waits=", ".join(written_wait(wait) for wait in settings.waits),
        time_limit=f"{settings.time_limit:g}",
        rate=str(settings.rate),
        max_in_flight=str(settings.max_in_flight),
        headers=tuple(HeaderRow(name, "", is_kept=True) for name, _ in settings.headers),
        encryption="keep" if settings.encryption_key else "none",
    )


def sent_form(form: Form, before: EndpointSettings | None, errors: Mapping[str, str] | None = None) -> EndpointForm:
    """As it was filled in. A value that was typed is shown again; one that is stored is not."""
    stored = {name.lower() for name, _ in before.headers} if before else set[str]()
    return EndpointForm(
        url=form.text("url"),
        description=form.text("description"),
        event_scope=form.text("event_scope", "all"),
        event_types=tuple(form.all("event_types")),
        dataset_scope=form.text("dataset_scope", "all"),
        datasets=tuple(form.all("datasets")),
        schedule=form.text("schedule", "standard"),
        waits=form.text("waits"),
        time_limit=form.text("time_limit"),
        rate=form.text("rate"),
        max_in_flight=form.text("max_in_flight"),
        headers=tuple(HeaderRow(name, value, name.lower() in stored) for name, value in _header_pairs(form)),
        encryption=form.text("encryption", "none"),
        errors=errors or {},
    )


def given(form: Form, before: EndpointSettings | None) -> tuple[dict[str, Any], list[FieldError]]:
    """The fields as the API takes them, and what only a form can get wrong."""
    errors: list[FieldError] = []
    fields: dict[str, Any] = {
        "url": form.text("url").strip(),
        "description": form.text("description").strip(),
        "event_types": _chosen(form, "event_scope", "event_types", "event", errors),
        "datasets": _chosen(form, "dataset_scope", "datasets", "dataset", errors),
        "schedule": _schedule(form, errors),
        "time_limit": form.text("time_limit").strip(),
        "rate": form.text("rate").strip(),
        "max_in_flight": form.text("max_in_flight").strip(),
        "headers": _headers(form, before),
        "encryption": form.text("encryption", "none"),
    }
    return fields, errors


def _chosen(form: Form, scope: str, name: str, noun: str, errors: list[FieldError]) -> list[str]:
    if form.text(scope, "all") != "some":
        return []
    values = list(form.all(name))
    if not values:
        errors.append(FieldError(name, say("Tick at least one, or choose all.")))
    return values


def _schedule(form: Form, errors: list[FieldError]) -> str | list[float]:
    chosen = form.text("schedule", "standard")
    if chosen != "own":
        return chosen
    try:
        return parse_waits(form.text("waits"))
    except ValueError as error:
        errors.append(FieldError("schedule", sentence_of(error)))
        return "standard"


def parse_waits(text: str) -> list[float]:
    """`5s, 1min, 2h` in seconds; a number alone is seconds. Raises ValueError with a sentence."""
    parts = [part for part in re.split(r"[,;\n]+|\s+(?=[0-9])", text.strip()) if part.strip()]
    return [_wait(part.strip()) for part in parts]


def _wait(text: str) -> float:
    match = WAIT.fullmatch(text)
    if match is None:
        raise ValueError(
            say("“{text}” is no time to wait. Write 30s, 5min, 2h or 1d, with commas between them.", text=text[:20])
        )
    return float(match[1]) * UNITS[(match[2] or "s").lower()]


def written_wait(seconds: float) -> str:
    """As `parse_waits` reads it: `90s`, `5min`, `2h`."""
    unit = next((unit for unit in ("d", "h", "min") if seconds and seconds % UNITS[unit] == 0), "s")
    return f"{seconds / UNITS[unit]:.10g}{unit}"


def _headers(form: Form, before: EndpointSettings | None) -> list[tuple[str, str]]:
    """A header that is stored and was left empty keeps its value."""
    stored = {name.lower(): value for name, value in before.headers} if before else {}
    return [(name, value or stored.get(name.lower(), "")) for name, value in _header_pairs(form)]


def _header_pairs(form: Form) -> list[tuple[str, str]]:
    """Rows without a name and a value are empty rows; a row that was marked for removal is left out."""
    names, values = form.all("header_name"), form.all("header_value")
    removed = {name.lower() for name in form.all("header_removed")}
    pairs = [(name.strip(), value.strip()) for name, value in zip(names, values, strict=False)]
    return [pair for pair in pairs if any(pair) and pair[0].lower() not in removed]


def event_choices() -> Sequence[tuple[str, str]]:
    return [(name, EVENT_LABELS[name]) for name in CALLBACK_TYPES]
