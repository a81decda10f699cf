"""The delivery log's address: what is filtered, and after which delivery the page begins. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import ImmutableMultiDict

from webapp.domain.callbacks import CALLBACK_TYPES, Delivery, DeliveryState, ErrorClass
from webapp.domain.ids import is_id
from webapp.store.deliveries import DeliveryFilter
from webapp.web import cursors

MINUTES = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """`since` is UTC, to the minute. `endpoint_id` is part of the path, the rest of the query string."""

    endpoint_id: str | None = None
    states: tuple[DeliveryState, ...] = ()
    event_type: str | None = None
    error: ErrorClass | None = None
    export_id: str | None = None
    since: datetime | None = None
    cursor: str | None = None

    @property
    def is_filtered(self) -> bool:
        return any((self.states, self.event_type, self.error, self.export_id, self.since))

    @property
    def path(self) -> str:
        return f"/callbacks/{self.endpoint_id}/deliveries" if self.endpoint_id else "/callbacks/deliveries"

    def query_string(self, **changes: Any) -> str:
        """For the same list, or with changes the list next to it. A change of filter begins at the first page."""
        changed = replace(self, **({"cursor": None} | changes) if changes else {})
        values = {
            "status": [state.value for state in changed.states],
            "type": changed.event_type,
            "error": changed.error.value if changed.error else None,
            "export": changed.export_id,
            "since": written_minute(changed.since) if changed.since else None,
            "cursor": changed.cursor,
        }
        return urlencode({name: value for name, value in values.items() if value}, doseq=True)

    def url(self, **changes: Any) -> str:
        query = self.query_string(**changes)
        return f"{self.path}?{query}" if query else self.path

    def toggled(self, state: DeliveryState) -> str:
        """The list with this state added to the filter, or taken out of it."""
        others = tuple(chosen for chosen in self.states if chosen is not state)
        return self.url(states=others if state in self.states else (*others, state))

    @property
    def is_dead(self) -> bool:
        """The tab of dead letters."""
        return self.states == (DeliveryState.DEAD,)

    def filter(self) -> DeliveryFilter:
        return DeliveryFilter(
            endpoint_id=self.endpoint_id,
            states=self.states,
            export_id=self.export_id,
            event_types=(self.event_type,) if self.event_type else (),
            since=self.since,
            error=self.error,
        )


def parse_delivery_query(params: ImmutableMultiDict[str, str], endpoint_id: str | None) -> DeliveryQuery:
    """Values that mean nothing are left out: an old bookmark still shows a list."""
    wanted = {text.lower() for value in params.getlist("status") for text in value.split(",")}
    export_id, cursor = params.get("export", ""), params.get("cursor", "")
    return DeliveryQuery(
        endpoint_id=endpoint_id,
        states=tuple(state for state in DeliveryState if state.value in wanted),
        event_type=params["type"] if params.get("type") in CALLBACK_TYPES else None,
        error=ErrorClass(params["error"]) if params.get("error") in set(ErrorClass) else None,
        export_id=export_id if is_id(export_id, "exp") else None,
        since=parse_minute(params.get("since", "")),
        cursor=cursor if cursors.decode(cursor, "dlv") else None,
    )


def cursor_after(delivery: Delivery) -> str:
    return cursors.encode(delivery.created_at, delivery.id)


def written_minute(moment: datetime) -> str:
    """As `<input type="datetime-local">` takes it, in UTC."""
    return moment.astimezone(UTC).strftime(MINUTES)


def parse_minute(text: str) -> datetime | None:
    """UTC. A day alone is its beginning."""
    for shape in (MINUTES, f"{MINUTES}:%S", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, shape).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
