"""Two transactions on PostgreSQL that draw their numbers in one order and commit in the other: nobody misses either."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import httpx
import pytest
from factories import ASGITransport, stored_export
from fresh_stores import EMPTY, opened_store, person
from selectolax.lexbor import LexborHTMLParser

from webapp.actions import people
from webapp.app import build_app, serving
from webapp.domain.exports import Status
from webapp.domain.ids import new_id
from webapp.live.replay import replay_from
from webapp.resources import Resources, open_resources
from webapp.settings import Settings

INSERT = """
INSERT INTO events (id, type, export_id, owner, version, timestamp, data)
VALUES ($1, 'export.started', $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, '{}')
"""


@pytest.fixture
async def desk(settings: Settings, migrated_postgres: str) -> AsyncIterator[Resources]:
    async with opened_store(migrated_postgres) as store, store.connection() as connection:
        await connection.raw_connection.execute(EMPTY)
    async with open_resources(replace(settings, database_url=migrated_postgres)) as opened:
        yield opened


@pytest.fixture
async def outsiders(migrated_postgres: str) -> AsyncIterator[list[asyncpg.Connection[Any]]]:
    """Two connections of other processes."""
    opened = [await asyncpg.connect(migrated_postgres) for _ in range(2)]
    yield opened
    for connection in opened:
        await connection.close()


async def test_the_late_one_is_told_by_pages_and_by_streams(desk: Resources, outsiders: Any) -> None:
    who = await person(desk, "reader")
    export = await stored_export(desk, who, Status.QUEUED)
    early, late = new_id("evt"), new_id("evt")
    _, token = await people.create_token(desk, who, "pages", actor="tests")  # type: ignore[arg-type]
    application = build_app()
    async with serving(application, desk):
        client = httpx.AsyncClient(
            transport=ASGITransport(application),
            base_url="http://testserver",
            headers={"Authorization": f"Bearer {token}"},
        )
        replay = await replay_from(desk.store, None, owner=who.id)

        slow, quick = outsiders[0].transaction(), outsiders[1].transaction()
        await slow.start()
        await outsiders[0].execute(INSERT, late, export.id, who.id, 50)
        await quick.start()
        await outsiders[1].execute(INSERT, early, export.id, who.id, 51)
        await quick.commit()

        seen = json.loads((await client.get("/api/v1/events")).text)["items"]
        assert [event["id"] for event in seen][-1] == early
        assert [event.id async for batch in replay.news() for event in batch] == [early]

        shown = LexborHTMLParser((await client.get("/exports")).text).css_first("#live")
        assert shown is not None
        await slow.commit()
        await outsiders[0].execute("UPDATE exports SET version = 51")
        await outsiders[0].execute("UPDATE events SET timestamp = timestamp - 60000")  # they ask a minute later
        after = json.loads((await client.get("/api/v1/events", params={"after": early})).text)["items"]
        assert late in {event["id"] for event in after}
        assert early not in {event["id"] for event in after}
        answer = LexborHTMLParser((await client.get(str(shown.attributes["data-fallback"]))).text)
        assert late in str(answer.css_first("#live-content").attributes["data-events"])  # type: ignore[union-attr]
        assert [event.id async for batch in replay.news() for event in batch] == [late]
        resumed = await replay_from(desk.store, early, owner=who.id)
        assert late in [event.id async for batch in resumed.news() for event in batch]
        await client.aclose()


async def test_pages_of_what_is_long_past_have_nothing_twice(desk: Resources, outsiders: Any) -> None:
    who = await person(desk, "reader")
    export = await stored_export(desk, who, Status.SUCCESS)
    await outsiders[0].execute("UPDATE events SET timestamp = timestamp - 60000")
    _, token = await people.create_token(desk, who, "pages", actor="tests")  # type: ignore[arg-type]
    application, url, seen = build_app(), f"/api/v1/exports/{export.id}/events", []
    async with serving(application, desk):
        client = httpx.AsyncClient(
            transport=ASGITransport(application),
            base_url="http://testserver",
            headers={"Authorization": f"Bearer {token}"},
        )
        params: dict[str, Any] = {"limit": 1}
        while params.get("cursor", "") is not None:
            page = (await client.get(url, params=params)).json()
            seen += [event["version"] for event in page["items"]]
            params["cursor"] = page["next_cursor"]
        await client.aclose()
    assert seen == [1, 2, 3, 4]
