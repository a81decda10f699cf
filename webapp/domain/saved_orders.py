"""An order that is kept under a name, to be ordered again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webapp.domain.events import rfc3339


@dataclass(frozen=True, slots=True)
class SavedOrder:
    """`params` are canonical, or words that move with the day (`start of month`); what is left out is the dataset's
    default. `labels` are what chosen values were called when it was saved. In `zone` days begin and end.

    `export_id` is what was last ordered by it, at `ordered_at`.
    """

    id: str
    owner: str
    name: str
    dataset: str
    params: Mapping[str, Any]
    labels: Mapping[str, Mapping[str, str]]
    format: str
    options: Mapping[str, Any]
    zone: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    ordered_at: datetime | None = None
    export_id: str | None = None


def saved_order_json(saved: SavedOrder) -> dict[str, Any]:
    return {
        "id": saved.id,
        "name": saved.name,
        "dataset": saved.dataset,
        "params": dict(saved.params),
        "format": saved.format,
        "options": dict(saved.options),
        "zone": saved.zone,
        "created_at": rfc3339(saved.created_at),
        "updated_at": rfc3339(saved.updated_at),
        "ordered_at": rfc3339(saved.ordered_at),
        "export_id": saved.export_id,
        "owner": saved.owner,
    }
