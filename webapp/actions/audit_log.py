"""The audit log: who did what to people, tokens, grants, endpoints; a page of it, or all as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

import msgspec

from webapp.domain.events import rfc3339
from webapp.resources import Resources
from webapp.store import audit
from webapp.store.audit import AuditFilter, Entry

CSV_BATCH = 500
KINDS = (
    "user",
    "token",
    "group",
    "grant",
    "source",
    "dataset",
    "endpoint",
    "deliveries",
    "callback_hosts",
    "inspector",
    "export",
    "worker",
    "queue",
)
"""First parts of actions, as far as they are offered for filtering."""


async def page(
    resources: Resources, chosen: AuditFilter, *, limit: int, after: tuple[datetime, str] | None
) -> tuple[Sequence[Entry], bool]:
    """Newest first, and whether there are more after them."""
    async with resources.store.connection():
        found = await audit.page(resources.store, chosen, limit=limit + 1, after=after)
    return found[:limit], len(found) > limit


async def csv_lines(resources: Resources, chosen: AuditFilter) -> AsyncGenerator[str]:
    """All that match, newest first, read a batch at a time."""
    yield _line(["timestamp", "actor", "action", "subject", "details"])
    after: tuple[datetime, str] | None = None
    while True:
        async with resources.store.connection():
            found = await audit.page(resources.store, chosen, limit=CSV_BATCH, after=after)
        for entry in found:
            yield _line(_cells(entry))
        if len(found) < CSV_BATCH:
            return
        after = found[-1].timestamp, found[-1].id


def _cells(entry: Entry) -> list[str]:
    details = msgspec.json.encode(entry.details).decode()
    return [rfc3339(entry.timestamp) or "", entry.actor, entry.action, entry.subject, details]


def _line(cells: list[str]) -> str:
    """A name that a spreadsheet would take for a formula gets an apostrophe before it."""
    out = io.StringIO()
    csv.writer(out).writerow([f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell for cell in cells])
    return out.getvalue()
