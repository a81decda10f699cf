"""Where the next page of a list begins: behind the item with this time and id."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from webapp.domain.ids import is_id

CURSOR = re.compile(r"([0-9]{1,14})-([a-z]+_[0-9a-z]+)")


def encode(moment: datetime, item_id: str) -> str:
    return f"{round(moment.timestamp() * 1000)}-{item_id}"


def decode(text: str | None, prefix: str) -> tuple[datetime, str] | None:
    """None for what is no cursor of a list of such ids."""
    match = CURSOR.fullmatch(text or "")
    if match is None or not is_id(match[2], prefix):
        return None
    seconds, milliseconds = divmod(int(match[1]), 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000), match[2]
