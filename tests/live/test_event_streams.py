"""Events as JSON and as streams: the same ids, nothing skipped, nothing told twice, and an end that is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from factories import changed, new_export
from live.sse_reading import Message, Stream, hint, opened
from selectolax.lexbor import LexborHTMLParser
from sqlalchemy import delete, insert, select, update

from webapp.actions import attempts, exports, people
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode, export_error
from webapp.domain.events import Event
from webapp.domain.exports import Export, Phase, Status
from webapp.domain.ids import new_id
from webapp.live.replay import LATE, OVERLAP, Replay
from webapp.resources import Resources
from webapp.store import events as rows
from webapp.store.exports import Progress
from webapp.store.tables import events as table

ExportMaker = Callable[..., Awaitable[Export]]
EVENTS = "/api/v1/events"
STREAM = {"Accept": "text/event-stream"}


def of(export: Export) -> str:
    return f"/api/v1/exports/{export.id}/events"


async def page(client: httpx.AsyncClient, url: str) -> list[dict[str, Any]]:
    response = await client.get(url)
    assert response.status_code == 200, response.text
    return response.json()["items"]  # type: ignore[no-any-return]


async def insert_event(resources: Resources, export: Export, seq: int, *, version: int, age: float = 0) -> str:
    """An event with a number of its own: as one that drew it early and is committed now, `age` seconds later."""
    event_id = new_id("evt")
    async with resources.store.transaction():
        at = await resources.store.now() - timedelta(seconds=age)
        values = {"id": event_id, "type": "export.started", "export_id": export.id, "owner": export.owner}
        await resources.store.execute(
            insert(table).values(seq=seq, version=version, timestamp=at, data={"id": export.id}, **values)
        )
    return event_id


async def latest(resources: Resources) -> int:
    async with resources.store.connection():
        return await rows.latest_seq(resources.store)


# As JSON


async def test_events_have_the_fields_of_the_contract(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.SUCCESS)
    items = await page(client, of(export))
    assert [item["type"] for item in items] == ["export.created", "export.queued", "export.started", "export.succeeded"]
    assert [item["version"] for item in items] == [1, 2, 3, 4]
    assert all(set(item) == {"id", "seq", "type", "export_id", "version", "timestamp", "data"} for item in items)
    assert items == sorted(items, key=lambda item: item["seq"])
    assert items[-1]["data"]["status"] == "SUCCESS"
    assert items[-1]["timestamp"].endswith("Z")
    assert await page(client, EVENTS) == items


async def test_pages_of_events_follow_each_other(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    for _ in range(3):
        await make_export(Status.SUCCESS)
    seen: list[int] = []
    url = f"{EVENTS}?limit=5"
    for _ in range(4):
        response = (await client.get(url)).json()
        seen += [item["seq"] for item in response["items"]]
        if response["next_cursor"] is None:
            break
        url = f"{EVENTS}?limit=5&cursor={response['next_cursor']}"
    assert len(seen) == 12
    assert seen == sorted(set(seen))


async def test_after_may_be_an_id_or_a_number(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    items = await page(client, of(await make_export(Status.SUCCESS)))
    for after in (items[1]["id"], items[1]["seq"]):
        assert await page(client, f"{EVENTS}?after={after}") == items[2:]
    assert await page(client, f"{EVENTS}?after={items[-1]['id']}") == []
    assert await page(client, f"{EVENTS}?after={10**17}") == []
    assert await page(client, f"{EVENTS}?after={new_id('evt')}") == items, "rather again than skipped"


async def test_a_place_that_is_none_is_named(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    one = of(await make_export())
    for after in ("x", "-1", "1.5", "evt_x", "9" * 19, "%00", "٣", "exp_" + "0" * 26, "1 OR 1=1"):
        for url, headers in ((EVENTS, {}), (one, {}), (EVENTS, STREAM), (one, STREAM)):
            response = await client.get(f"{url}?after={after}", headers=headers)
            assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "after"), after


async def test_events_of_others_are_not_to_be_had(
    other_client: httpx.AsyncClient, admin_client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    assert await page(other_client, EVENTS) == []
    assert await page(other_client, f"{EVENTS}?all=1") == []
    assert (await other_client.get(of(export))).status_code == 404
    assert (await other_client.get(of(export), headers={"Accept": "text/event-stream"})).status_code == 404
    assert await page(admin_client, EVENTS) == []
    assert len(await page(admin_client, f"{EVENTS}?all=1")) == 4
    assert len(await page(admin_client, of(export))) == 4


# As a stream


async def test_a_stream_tells_the_same_events(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export(Status.FAILED)
    items = await page(client, of(export))
    async with opened(client, of(export)) as stream:
        told = await stream.rest()
    assert [message.event for message in told] == [item["type"] for item in items] + ["end"]
    assert [message.id for message in told[:-1]] == [item["id"] for item in items]
    assert [json.loads(message.data) for message in told[:-1]] == items


async def test_a_stream_follows_an_export_to_its_end(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    async with opened(client, of(export)) as stream:
        assert [(await stream.next()).event for _ in range(2)] == ["export.created", "export.queued"]
        running = await attempts.claim(resources)
        assert running is not None
        assert (await stream.next(1)).event == "export.started"
        await attempts.fail(resources, running, export_error(ErrorCode.QUERY_ERROR, detail="x"))
        told = await stream.rest()
    assert [message.event for message in told] == ["export.failed", "end"]


async def test_the_last_event_comes_before_the_end(
    client: httpx.AsyncClient,
    make_export: ExportMaker,
    resources: Resources,
    user: Viewer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The export ends just after its events were read."""
    export = await make_export(Status.QUEUED)
    news, ended = Replay.news, list[bool]()

    async def news_and_then_the_end(self: Replay) -> Any:
        async for batch in news(self):
            yield batch
        if not ended:
            ended.append(True)
            await exports.cancel(resources, user, export.id)

    monkeypatch.setattr(Replay, "news", news_and_then_the_end)
    async with opened(client, of(export)) as stream:
        told = [message.event for message in await stream.rest()]
    assert told == ["export.created", "export.queued", "export.cancelled", "end"]


async def test_a_stream_of_all_begins_now(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    export = await make_export(Status.QUEUED)
    async with opened(client, EVENTS) as stream:
        assert await stream.quiet(0.3)
        await exports.cancel(resources, user, export.id)
        message = await stream.next(1)
        assert (message.event, json.loads(message.data)["export_id"]) == ("export.cancelled", export.id)
        assert await stream.quiet(1.5), "an end of one export does not end it, nor does its heartbeat repeat anything"


async def test_nothing_is_told_twice(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    async with opened(client, EVENTS) as stream:
        await asyncio.sleep(0.2)
        made = [await make_export(Status.QUEUED) for _ in range(10)]
        for export in made:
            for _ in range(5):
                await hint(resources, export)
        for export in made:
            await exports.cancel(resources, user, export.id)
        told = [await stream.next() for _ in range(30)]
        assert await stream.quiet(1.2)
    assert len({message.id for message in told}) == 30
    seqs = [json.loads(message.data)["seq"] for message in told]
    assert seqs == sorted(seqs)


@pytest.mark.parametrize("way", ["header", "query", "number", "both"])
async def test_a_stream_resumes_where_it_was(client: httpx.AsyncClient, make_export: ExportMaker, way: str) -> None:
    export = await make_export(Status.SUCCESS)
    items = await page(client, of(export))
    known, url, headers = items[1]["id"], of(export), dict[str, str]()
    if way in {"header", "both"}:
        headers["last_event_id"] = known
    if way == "both":
        url += f"?after={items[0]['id']}"
    if way == "query":
        url += f"?after={known}"
    if way == "number":
        url += f"?after={items[1]['seq']}"
    async with opened(client, url, **headers) as stream:
        told = await stream.rest()
    assert [message.id for message in told[:-1]] == [item["id"] for item in items[2:]]


async def test_a_cut_stream_misses_nothing_in_between(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    async with opened(client, EVENTS) as stream:
        await asyncio.sleep(0.1)
        first = await make_export(Status.QUEUED)
        await hint(resources, first)
        known = (await stream.until("export.queued"))[-1].id
    second = await make_export(Status.QUEUED)
    await exports.cancel(resources, user, first.id)
    async with opened(client, EVENTS, last_event_id=known) as stream:
        told = [await stream.next() for _ in range(3)]
        assert await stream.quiet(0.3)
    assert [(json.loads(message.data)["export_id"], message.event) for message in told] == [
        (second.id, "export.created"),
        (second.id, "export.queued"),
        (first.id, "export.cancelled"),
    ]


async def test_a_commit_that_comes_late_is_told(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    """Also with a time before the newest one told, as it is when the transaction took long."""
    export = await make_export(Status.QUEUED)
    start = await latest(resources)
    async with opened(client, EVENTS) as stream:
        await asyncio.sleep(0.3)
        newer = await insert_event(resources, export, start + 5, version=50)
        await hint(resources, export)
        assert (await stream.next()).id == newer
        for seq, age in ((start + 3, 0), (start + 2, 0.5), (start + 1, 3.0)):
            late = await insert_event(resources, export, seq, version=seq + 60, age=age)
            await hint(resources, export)
            assert (await stream.next()).id == late
        assert await stream.quiet(1.2)


async def test_a_commit_that_comes_late_for_the_start_is_told(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    """The newest event when the stream begins is not the last to come with a number up to its own."""
    export = await make_export(Status.QUEUED)
    start = await latest(resources)
    await insert_event(resources, export, start + 5, version=50)
    async with opened(client, EVENTS) as stream:
        assert await stream.quiet(0.3)
        late = await insert_event(resources, export, start + 3, version=51, age=1)
        await hint(resources, export)
        assert (await stream.next()).id == late


class Unordered:
    """The store as if it were PostgreSQL, where numbers are not committed in their order."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return False if name == "is_sqlite" else getattr(self._store, name)


async def resumed(resources: Resources, known: int, *, unordered: bool = True) -> list[Event]:
    store: Any = Unordered(resources.store) if unordered else resources.store
    replay = Replay(store, owner=None, export=None)
    async with resources.store.connection():
        await replay.begin_at(known, is_resumed=True)
    return [event async for batch in replay.news() for event in batch]


async def test_a_late_commit_during_the_cut_is_told_on_resuming(make_export: ExportMaker, resources: Resources) -> None:
    """It has a lower number and an earlier time than what the client knows; rather too much than too little."""
    export = await make_export(Status.QUEUED)
    async with resources.store.transaction():
        long_ago = await resources.store.now() - 3 * LATE
        await resources.store.execute(update(table).values(timestamp=long_ago))
    start = await latest(resources)
    known = await insert_event(resources, export, start + 5, version=50)
    late = await insert_event(resources, export, start + 3, version=51, age=LATE.total_seconds() / 2)
    told = [event.id for event in await resumed(resources, start + 5)]
    assert told == [late], "and neither what is certainly known nor the cursor itself"
    assert known not in told
    assert await resumed(resources, start + 5, unordered=False) == [], "SQLite commits in order"


async def test_replays_of_many_come_whole_and_in_batches(
    make_export: ExportMaker, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.live.replay.BATCH", 7)
    for _ in range(10):
        await make_export(Status.SUCCESS)
    seqs = [event.seq for event in await resumed(resources, 5, unordered=False)]
    assert seqs == list(range(6, 41))
    assert OVERLAP > 7


async def test_an_id_that_is_no_longer_kept_is_said_to_be(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.SUCCESS)
    items = await page(client, of(export))
    async with resources.store.transaction():
        await resources.store.execute(delete(table).where(table.c.seq <= items[1]["seq"]))
    async with opened(client, of(export), last_event_id=items[0]["id"]) as stream:
        told = await stream.rest()
    assert [message.event for message in told] == ["reset", "export.started", "export.succeeded", "end"]
    async with opened(client, f"{EVENTS}?after={items[0]['id']}") as stream:
        assert (await stream.next()).event == "reset"


async def test_a_stream_from_a_place_that_is_none(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    """Refused before it begins: an event source that is told 422 stops, one whose stream breaks comes back for ever."""
    export = await make_export(Status.SUCCESS)
    for known in ("x", "-1", "evt_", "%00", "9" * 30):
        for url in (of(export), EVENTS):
            response = await client.get(url, headers={**STREAM, "Last-Event-ID": known})
            assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "after"), known


async def test_a_heartbeat_can_be_seen(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    """Named, so that a page's watchdog sees it; here every second."""
    one = of(await make_export(Status.QUEUED))
    async with (
        opened(client, EVENTS) as all_of_them,
        opened(client, one) as of_one,
        opened(client, "/exports/stream") as shown,
    ):
        await asyncio.sleep(2.5)
        assert [stream.heartbeats for stream in (all_of_them, of_one, shown)] == [2, 2, 2]


async def test_events_of_others_never_appear(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer, other: Viewer
) -> None:
    mine = await make_export(Status.QUEUED)
    async with (
        opened(client, EVENTS) as all_of_mine,
        opened(client, of(mine)) as one,
        opened(client, f"{EVENTS}?all=1") as asked,
    ):
        await asyncio.sleep(0.2)
        theirs = await make_export(Status.QUEUED, owner=other)
        second = await make_export(Status.QUEUED)
        await hint(resources, theirs)
        await exports.cancel(resources, other, theirs.id)
        await exports.cancel(resources, user, second.id)
        await exports.cancel(resources, user, mine.id)
        assert {json.loads(m.data)["export_id"] for m in (await one.rest())[:-1]} == {mine.id}
        for stream in (all_of_mine, asked):
            told = [await stream.next() for _ in range(4)]
            assert {json.loads(message.data)["export_id"] for message in told} == {mine.id, second.id}
            assert await stream.quiet(0.3)


async def test_an_admin_may_follow_everybody(
    admin_client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    async with opened(admin_client, f"{EVENTS}?all=1") as everybody, opened(admin_client, EVENTS) as own:
        await asyncio.sleep(0.2)
        export = await make_export(Status.QUEUED)
        await hint(resources, export)
        assert (await everybody.next()).event == "export.created"
        assert await own.quiet(0.3)


async def test_a_deleted_export_ends_its_stream(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    export = await make_export(Status.QUEUED)
    async with opened(client, of(export)) as stream:
        await stream.until("export.queued")
        await exports.cancel(resources, user, export.id)
        await exports.delete(resources, user, export.id)
        assert [message.event for message in await stream.rest()] == ["export.cancelled", "end"]


@pytest.mark.parametrize("kind", ["events", "export", "list page", "export page"])
async def test_signing_out_ends_every_stream(client: httpx.AsyncClient, make_export: ExportMaker, kind: str) -> None:
    export = await make_export(Status.QUEUED)
    url = {
        "events": EVENTS,
        "export": of(export),
        "list page": "/exports/stream",
        "export page": f"/exports/{export.id}/stream",
    }[kind]
    async with opened(client, url) as stream:
        await asyncio.sleep(0.3)
        assert (await client.post("/sign-out")).status_code == 303
        told = await stream.rest(2)
    assert told[-1].event == "signed-out"


async def test_an_admin_who_signs_out_sees_no_more_of_others(
    admin_client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    async with (
        opened(admin_client, of(export)) as events,
        opened(admin_client, f"/exports/{export.id}/stream") as shown,
        opened(admin_client, "/exports/stream?all=1") as listed,
    ):
        await asyncio.sleep(0.3)
        await admin_client.post("/sign-out")
        for stream in (events, shown, listed):
            assert (await stream.rest(1))[-1].event == "signed-out"


async def test_another_sessions_sign_out_ends_nothing(
    client: httpx.AsyncClient, make_client: Any, user: Viewer
) -> None:
    second = await make_client(user)
    async with opened(client, EVENTS) as stream:
        await asyncio.sleep(0.2)
        await second.post("/sign-out")
        assert await stream.quiet(0.6)


async def test_a_revoked_token_ends_its_stream(
    anonymous: httpx.AsyncClient, resources: Resources, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.live.identity.IDENTITY_SECONDS", 0.5)
    found = await people.user_named(resources, user.name)
    token_id, token = await people.create_token(resources, found, "t", actor="tests")
    async with opened(anonymous, EVENTS, authorization=f"Bearer {token}") as stream:
        await asyncio.sleep(0.2)
        await people.revoke_token(resources, token_id, actor="tests")
        assert [message.event for message in await stream.rest(4)] == ["signed-out"]


async def test_streams_work_without_the_broker(client: httpx.AsyncClient, make_export: ExportMaker, app: Any) -> None:
    async with opened(client, EVENTS) as stream:
        await asyncio.sleep(0.2)
        app.state.hub._connected = False
        app.state.hub._tell_everybody()
        await make_export(Status.QUEUED)
        assert (await stream.next(2)).event == "export.created"


async def test_streams_leave_nothing_behind(client: httpx.AsyncClient, make_export: ExportMaker, app: Any) -> None:
    export = await make_export(Status.QUEUED)
    for url in (EVENTS, of(export), "/exports/stream", f"/exports/{export.id}/stream"):
        async with opened(client, url):
            await asyncio.sleep(0.2)
            assert app.state.hub.open_readers == 1, url
        await asyncio.sleep(0.05)
        assert app.state.hub.open_readers == 0, url


async def test_head_does_not_start_a_stream(client: httpx.AsyncClient, app: Any) -> None:
    response = await client.head(EVENTS, headers={"Accept": "text/event-stream"})
    assert response.status_code == 200
    assert app.state.hub.open_readers == 0


# Of a page


def shown(message: Message) -> LexborHTMLParser:
    assert message.event == "message", "only unnamed messages are swapped"
    return LexborHTMLParser(message.data)


def badge(message: Message) -> str:
    return shown(message).css(".badge")[0].text().strip()


async def test_a_page_gets_a_snapshot_then_changes_then_the_end(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    async with opened(client, f"/exports/{export.id}/stream?after=0") as stream:
        first = await stream.next(1)
        assert len(shown(first).css("#live-content")) == 1
        assert badge(first) != "Running"
        running = await attempts.claim(resources)
        assert running is not None
        assert badge(await stream.next(1)) == "Running"
        await attempts.report_progress(resources, running, Progress(Phase.READING, 40, 100, 1000))
        await attempts.hint_progress(resources, running)
        assert shown(await stream.next(1)).css("progress")[0].attributes["value"] == "40"
        await attempts.fail(resources, running, export_error(ErrorCode.QUERY_ERROR, detail="x"))
        last, end = await stream.rest()
    assert badge(last) == "Failed"
    assert not shown(last).css("[data-active]")
    assert (end.event, end.data) == ("end", "end")


async def test_an_export_that_ended_before_the_stream_is_shown_and_ends_it(
    client: httpx.AsyncClient, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    async with opened(client, f"/exports/{export.id}/stream") as stream:
        told = await stream.rest(2)
    assert [message.event for message in told] == ["message", "end"]
    assert len(shown(told[0]).css(f"a[href*='{export.id}/file']")) >= 1


async def test_what_did_not_change_is_not_sent_again(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    export = await make_export(Status.QUEUED)
    async with opened(client, f"/exports/{export.id}/stream") as stream:
        await stream.next()
        for _ in range(20):
            await hint(resources, export)
        assert await stream.quiet(1.5)


async def test_a_page_is_told_that_its_export_is_gone(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer
) -> None:
    export = await make_export(Status.QUEUED)
    async with opened(client, f"/exports/{export.id}/stream") as stream:
        await stream.next()
        await changed(resources, export, status=Status.CANCELLED, version=export.version + 1)
        await exports.delete(resources, user, export.id)
        assert [message.event for message in await stream.rest()] == ["gone"]
    assert (await client.get(f"/exports/{export.id}/stream")).status_code == 404


async def test_a_list_ends_when_its_last_export_does(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, user: Viewer, other: Viewer
) -> None:
    await make_export(Status.QUEUED, owner=other)
    first, second = await make_export(Status.QUEUED), await make_export(Status.QUEUED)
    async with opened(client, "/exports/stream") as stream:
        assert len(shown(await stream.next()).css("[data-active]")) == 1
        await exports.cancel(resources, user, first.id)
        await stream.next(1)
        await exports.cancel(resources, user, second.id)
        told = await stream.rest(2)
    assert told[-1].event == "end"
    assert not shown(told[-2]).css("[data-active]")


async def test_a_list_keeps_to_its_filter(
    client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources
) -> None:
    await make_export(Status.QUEUED)
    slow = await make_export(Status.QUEUED, dataset="slow")
    async with opened(client, "/exports/stream?dataset=slow") as stream:
        text = (await stream.next()).data
        assert slow.id in text
        third = await make_export(Status.QUEUED)
        await hint(resources, third)
        told = await _arrived(stream, 0.5)
    assert all(third.id not in message.data for message in told)


async def _arrived(stream: Stream, seconds: float) -> list[Message]:
    found: list[Message] = []
    try:
        while True:
            found.append(await stream.next(seconds))
    except TimeoutError:
        return found


async def test_nobody_sees_a_list_of_others(
    other_client: httpx.AsyncClient, make_export: ExportMaker, resources: Resources, other: Viewer
) -> None:
    export, own = await make_export(Status.QUEUED), await make_export(Status.QUEUED, owner=other)
    async with opened(other_client, "/exports/stream?all=1") as stream:
        await hint(resources, export)
        told = await _arrived(stream, 0.5)
    assert told
    assert all(export.id not in message.data for message in told)
    assert own.id in told[0].data


async def test_markup_in_values_stays_text(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    nasty = "</div><script>alert(1)</script>\r\ndata: x\n\nevent: end\u2028\x85"
    export = await make_export(Status.QUEUED, params={"search": nasty, "most": None})
    async with opened(client, f"/exports/{export.id}/stream") as stream:
        first = await stream.next()
        assert not shown(first).css("script")
        assert await stream.quiet(0.3)
    async with opened(client, of(export)) as stream:
        message = (await stream.until("export.queued"))[-1]
    assert json.loads(message.data)["data"]["params"]["search"] == nasty


async def test_every_event_was_recorded_once(resources: Resources, user: Viewer) -> None:
    """What the streams rely on: one event per version, whoever writes it."""
    export = new_export(user.id, await resources.store.now())
    await insert_event(resources, export, 1, version=1)
    with pytest.raises(Exception, match="UNIQUE"):
        await insert_event(resources, export, 2, version=1)
    async with resources.store.connection():
        assert len(await resources.store.fetch_all(select(table))) == 1
