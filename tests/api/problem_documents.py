"""What every refusal of the API must be, and counting that it left nothing behind."""

from __future__ import annotations

import re
from typing import Any

import httpx
from sqlalchemy import func, select

from webapp.resources import Resources
from webapp.store.tables import events, exports, idempotency_keys

SECRETS = re.compile(
    r"Traceback|File \"|\.py\b|sqlite3?[.:]|apsw|SELECT|redis://|unix://|/tmp/|no has a password|exd_[\w-]{8}|argon2"
)


def problem_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document (RFC 9457), after a check of everything that all of them share."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), (
        response.text[:300]
    )
    document: dict[str, Any] = response.json()
    assert (document["status"], document["code"], document["type"]) == (status, code, "about:blank")
    assert document["title"]
    assert document["detail"].endswith((".", "?"))
    assert not SECRETS.search(response.text), response.text[:500]
    assert len(response.content) < 20_000
    return document


def fields_of(response: httpx.Response) -> list[str]:
    """Which fields a 422 names; each has a sentence."""
    errors = problem_of(response, 422, "INVALID")["errors"]
    assert all(set(error) == {"field", "message"} and error["message"] for error in errors)
    return [error["field"] for error in errors]


async def rows_written(resources: Resources) -> tuple[int, int, int]:
    """How many exports, events and idempotency keys there are."""
    async with resources.store.connection():
        found = [
            int(await resources.store.fetch_val(select(func.count()).select_from(table)))
            for table in (exports, events, idempotency_keys)
        ]
    return found[0], found[1], found[2]
