"""A finished file that is shared with a colleague: a link to its page, never the file itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webapp.domain.events import rfc3339
from webapp.domain.sentences import say

MOST_SHARES = 50
"""Of one export."""
SHARES_AN_HOUR = 200
"""By one person, of all exports: each is told to somebody, by mail too."""


@dataclass(frozen=True, slots=True)
class Share:
    """With the person of this name, by whoever did it: empty once they are gone. `is_open`: the person may open it now,
    that is, may sign in and may order the dataset."""

    export_id: str
    user_id: str
    user: str
    note: str
    shared_by: str
    created_at: datetime
    seen_at: datetime | None = None
    downloads: int = 0
    downloaded_at: datetime | None = None
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Received:
    """The same for whom it is shared with: `name` and `dataset` are those of the export. `is_seen`: they opened it."""

    export_id: str
    dataset: str
    name: str
    note: str
    shared_by: str
    created_at: datetime
    is_seen: bool


class NothingToShare(Exception):
    """There is no file: not yet, or not any more."""

    def __init__(self) -> None:
        super().__init__(say("Only a finished file can be shared, and only while it is there."))


def share_json(share: Share) -> dict[str, Any]:
    return {
        "user": share.user,
        "note": share.note,
        "shared_by": share.shared_by or None,
        "created_at": rfc3339(share.created_at),
        "seen_at": rfc3339(share.seen_at),
        "downloads": share.downloads,
        "downloaded_at": rfc3339(share.downloaded_at),
        "open": share.is_open,
    }
