"""Inspectors: made, found, thrown away; and what becomes of a request that arrives."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from callback_rows import audited
from fresh_stores import Clock, person
from sqlalchemy import update

from webapp import bus
from webapp.actions import inspectors
from webapp.actions.inspectors import Receipt
from webapp.actions.sweep import sweep
from webapp.domain import receiving
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.callbacks import Endpoint, EndpointSettings, Secret
from webapp.domain.errors import Invalid
from webapp.domain.ids import new_id
from webapp.domain.receiving import Arrival, Inspector, Received, Verdict
from webapp.domain.signing import new_secret, signature_headers
from webapp.resources import Resources
from webapp.store import endpoints, tables

SECRET = new_secret()
CALLER = "203.0.113.7"


@pytest.fixture
async def boss(each_resources: Resources) -> Viewer:
    return await person(each_resources, "boss", Role.ADMIN)


@pytest.fixture
async def inspector(each_resources: Resources, boss: Viewer) -> Inspector:
    return await inspectors.create(each_resources, boss)


@pytest.fixture
async def clock(each_resources: Resources, inspector: Inspector) -> Clock:
    return await Clock.of(each_resources.store)


async def register(resources: Resources, url: str, *secrets: Secret, **changes: Any) -> Endpoint:
    now = await resources.store.now()
    made = Endpoint(new_id("end"), EndpointSettings(url), secrets or (Secret(SECRET, now),), "usr_1", now, now)
    endpoint = replace(made, **changes)
    async with resources.store.transaction():
        await endpoints.add(resources.store, endpoint, resources.sealer)
    return endpoint


async def signed(
    resources: Resources, *, id: str = "evt_1", secret: str = SECRET, age: float = 0, body: bytes = b"{}"
) -> Arrival:
    at = await resources.store.now() - timedelta(seconds=age)
    headers = [(name.lower(), value) for name, value in signature_headers([secret], id, at, body)]
    return Arrival(CALLER, (("host", "testserver"), *headers), body)


async def kept(resources: Resources, inspector: Inspector) -> list[Received]:
    """Oldest first."""
    found = await inspectors.arrived(resources, inspector, limit=500, chosen="")
    return list(reversed(found.newest))


async def test_an_inspector_has_an_address_that_nobody_guesses(
    each_resources: Resources, inspector: Inspector, boss: Viewer
) -> None:
    others = [await inspectors.create(each_resources, boss) for _ in range(3)]
    assert inspector.url == f"http://testserver/inspect/{inspector.token}"
    assert {len(one.token) for one in others} == {32}
    assert len({one.token for one in (*others, inspector)}) == 4
    assert await inspectors.find(each_resources, inspector.token) == inspector
    assert set(await inspectors.list_all(each_resources)) == {inspector, *others}


async def test_it_is_found_by_exactly_its_url(each_resources: Resources, inspector: Inspector) -> None:
    assert await inspectors.find_by_url(each_resources, inspector.url) == inspector
    for url in (
        inspector.url + "/",
        inspector.url + "?x=1",
        inspector.url.upper(),
        inspector.url.replace("testserver", "localhost"),
        inspector.url.replace("http:", "https:"),
        inspector.url[:-1],
        f"http://testserver/inspect/{'A' * 32}",
        "http://testserver/inspect/",
        "http://127.0.0.1/",
        "",
    ):
        assert await inspectors.find_by_url(each_resources, url) is None


@pytest.mark.parametrize("token", ["", "x", "A" * 32, "A" * 31 + "/", "A" * 31 + "\0", "ä" * 32, "A" * 5000])
async def test_a_token_that_is_none(each_resources: Resources, inspector: Inspector, boss: Viewer, token: str) -> None:
    with pytest.raises(NotFound):
        await inspectors.find(each_resources, token)
    with pytest.raises(NotFound):
        await inspectors.receive(each_resources, token, Arrival(CALLER, (), b""))
    with pytest.raises(NotFound):
        await inspectors.delete(each_resources, boss, token)


async def test_what_is_done_to_it_is_in_the_audit_log_without_its_token(
    each_resources: Resources, boss: Viewer, inspector: Inspector
) -> None:
    for _ in range(2):
        await inspectors.edit(each_resources, boss, inspector.token, allowed=["10.0.0.0/8"], answer_status=500)
    await inspectors.clear(each_resources, boss, inspector.token)
    await inspectors.delete(each_resources, boss, inspector.token)
    log = await audited(each_resources, "inspector.")
    assert [(action, details) for action, _, details in log] == [
        ("inspector.created", {}),
        ("inspector.changed", {"allowed": ["10.0.0.0/8"], "answer_status": 500}),
        ("inspector.cleared", {}),
        ("inspector.deleted", {}),
    ]
    assert inspector.token not in json.dumps(log)


async def test_there_are_at_most_fifty(
    each_resources: Resources, boss: Viewer, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "MOST_INSPECTORS", 2)
    await inspectors.create(each_resources, boss)
    with pytest.raises(Invalid, match="Throw one away"):
        await inspectors.create(each_resources, boss)
    await inspectors.delete(each_resources, boss, inspector.token)
    await inspectors.create(each_resources, boss)


async def test_what_is_thrown_away_is_gone_with_all_it_kept(
    each_resources: Resources, boss: Viewer, inspector: Inspector
) -> None:
    await inspectors.receive(each_resources, inspector.token, await signed(each_resources))
    await inspectors.delete(each_resources, boss, inspector.token)
    assert await inspectors.count_requests(each_resources) == {}
    with pytest.raises(NotFound):
        await inspectors.receive(each_resources, inspector.token, await signed(each_resources))


@pytest.mark.parametrize(
    ("allowed", "status", "field"),
    [
        (["nonsense"], 200, "allowed"),
        (["10.0.0.1/8"], 200, "allowed"),
        ([], 302, "answer_status"),
        ([], 0, "answer_status"),
    ],
)
async def test_settings_that_mean_nothing_change_nothing(
    each_resources: Resources, boss: Viewer, inspector: Inspector, allowed: list[str], status: int, field: str
) -> None:
    with pytest.raises(Invalid) as mistakes:
        await inspectors.edit(each_resources, boss, inspector.token, allowed=allowed, answer_status=status)
    assert [error.field for error in mistakes.value.errors] == [field]
    assert await inspectors.find(each_resources, inspector.token) == inspector


async def test_what_arrives_is_judged_by_the_secrets_of_the_endpoints_at_its_url(
    each_resources: Resources, inspector: Inspector
) -> None:
    now = await each_resources.store.now()
    newest, old, over = new_secret(), new_secret(), new_secret()
    await register(
        each_resources,
        inspector.url,
        Secret(newest, now),
        Secret(old, now, now + timedelta(hours=1)),
        Secret(over, now, now - timedelta(seconds=1)),
    )
    await register(each_resources, inspector.url)
    await register(each_resources, inspector.url + "?other")
    for secret in (newest, old, SECRET, over, new_secret()):
        await inspectors.receive(each_resources, inspector.token, await signed(each_resources, secret=secret))
    assert [received.verdict for received in await kept(each_resources, inspector)] == [
        Verdict.VERIFIED,
        Verdict.VERIFIED,
        Verdict.VERIFIED,
        Verdict.WRONG_SIGNATURE,
        Verdict.WRONG_SIGNATURE,
    ]


async def test_an_endpoint_that_was_deleted_or_is_elsewhere_verifies_nothing(
    each_resources: Resources, inspector: Inspector
) -> None:
    deleted = await register(each_resources, inspector.url)
    await register(each_resources, inspector.url + "/")
    gone = update(tables.endpoints).where(tables.endpoints.c.id == deleted.id).values(deleted_at=deleted.created_at)
    await each_resources.store.execute(gone)
    receipt = await inspectors.receive(each_resources, inspector.token, await signed(each_resources))
    assert receipt == Receipt(200, Verdict.NO_ENDPOINT)


@pytest.mark.parametrize(
    ("age", "verdict"), [(301, Verdict.TOO_OLD), (300, Verdict.VERIFIED), (-301, Verdict.TOO_EARLY)]
)
async def test_age_is_kept_beside_the_verdict(
    each_resources: Resources, inspector: Inspector, clock: Clock, age: float, verdict: Verdict
) -> None:
    clock.at = clock.at.replace(microsecond=0)
    await register(each_resources, inspector.url)
    await inspectors.receive(each_resources, inspector.token, await signed(each_resources, age=age))
    (received,) = await kept(each_resources, inspector)
    assert (received.verdict, received.age, received.received_at) == (verdict, age, clock.at)


async def test_the_same_webhook_id_is_a_duplicate_unless_the_first_was_forged(
    each_resources: Resources, inspector: Inspector, boss: Viewer
) -> None:
    await register(each_resources, inspector.url)
    another = await inspectors.create(each_resources, boss)
    for token, arrival in [
        (another.token, await signed(each_resources)),
        (inspector.token, await signed(each_resources, secret=new_secret())),
        (inspector.token, await signed(each_resources)),
        (inspector.token, await signed(each_resources, id="evt_2")),
        (inspector.token, await signed(each_resources, age=900)),
        (inspector.token, Arrival(CALLER, (), b"")),
        (inspector.token, Arrival(CALLER, (), b"")),
    ]:
        await inspectors.receive(each_resources, token, arrival)
    assert [(one.verdict, one.is_duplicate) for one in await kept(each_resources, inspector)] == [
        (Verdict.WRONG_SIGNATURE, False),
        (Verdict.VERIFIED, False),
        (Verdict.VERIFIED, False),
        (Verdict.TOO_OLD, True),
        (Verdict.NO_SIGNATURE, False),
        (Verdict.NO_SIGNATURE, False),
    ]


async def test_of_the_same_id_sent_at_once_one_is_the_first(each_resources: Resources, inspector: Inspector) -> None:
    await register(each_resources, inspector.url)
    arrival = await signed(each_resources)
    await asyncio.gather(*(inspectors.receive(each_resources, inspector.token, arrival) for _ in range(12)))
    assert sum(not one.is_duplicate for one in await kept(each_resources, inspector)) == 1


async def test_no_more_are_taken_at_once_than_one_after_the_other(
    each_resources: Resources, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "RATE", 5)
    arrival = Arrival(CALLER, (), b"")
    receipts = await asyncio.gather(*(inspectors.receive(each_resources, inspector.token, arrival) for _ in range(12)))
    assert sorted(receipt.status for receipt in receipts) == [200] * 5 + [429] * 7


async def test_a_caller_who_is_not_allowed_is_refused_and_recorded(
    each_resources: Resources, inspector: Inspector, boss: Viewer
) -> None:
    await register(each_resources, inspector.url)
    await inspectors.edit(each_resources, boss, inspector.token, allowed=["203.0.113.0/24"], answer_status=500)
    arrival = await signed(each_resources)
    stranger = replace(arrival, address="198.51.100.1")
    assert await inspectors.receive(each_resources, inspector.token, stranger) == Receipt(403, Verdict.REFUSED)
    assert await inspectors.receive(each_resources, inspector.token, arrival) == Receipt(500, Verdict.VERIFIED)
    found = await kept(each_resources, inspector)
    assert [(one.address, one.verdict, one.is_duplicate) for one in found] == [
        ("198.51.100.1", Verdict.REFUSED, False),
        (CALLER, Verdict.VERIFIED, False),
    ]


@pytest.mark.parametrize(
    ("status", "retry_after"), [(200, None), (400, None), (410, None), (429, 10), (500, None), (503, 10)]
)
async def test_the_answer_is_the_chosen_one(
    each_resources: Resources, inspector: Inspector, boss: Viewer, status: int, retry_after: int | None
) -> None:
    await inspectors.edit(each_resources, boss, inspector.token, allowed=[], answer_status=status)
    receipt = await inspectors.receive(each_resources, inspector.token, await signed(each_resources))
    assert receipt == Receipt(status, Verdict.NO_ENDPOINT, retry_after)


async def test_too_many_are_turned_away_until_there_is_room(
    each_resources: Resources, inspector: Inspector, boss: Viewer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "RATE", 3)
    monkeypatch.setattr(receiving, "REFUSED_RATE", 2)
    await inspectors.edit(each_resources, boss, inspector.token, allowed=[CALLER], answer_status=200)
    mine = Arrival(CALLER, (), b"")
    stranger = replace(mine, address="198.51.100.1")

    async def send(arrival: Arrival) -> tuple[int, int | None]:
        receipt = await inspectors.receive(each_resources, inspector.token, arrival)
        return receipt.status, receipt.retry_after

    assert [await send(stranger) for _ in range(3)] == [(403, None), (403, None), (429, 60)]
    assert await send(mine) == (200, None)
    clock.move(20)
    assert [await send(mine) for _ in range(3)] == [(200, None), (200, None), (429, 40)]
    assert len(await kept(each_resources, inspector)) == 5
    clock.move(39.5)
    assert await send(mine) == (429, 1)
    clock.move(0.5)
    assert [await send(mine) for _ in range(2)] == [(200, None), (429, 20)]
    assert await send(stranger) == (403, None)


async def test_the_newest_are_kept_and_the_oldest_make_room(
    each_resources: Resources, inspector: Inspector, boss: Viewer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "REQUESTS_KEPT", 3)
    another = await inspectors.create(each_resources, boss)
    await inspectors.receive(each_resources, another.token, Arrival(CALLER, (), b"other"))
    for number in range(6):
        clock.move(1)
        await inspectors.receive(each_resources, inspector.token, Arrival(CALLER, (), b"%d" % number))
    assert [one.body for one in await kept(each_resources, inspector)] == ["3", "4", "5"]
    assert [one.body for one in await kept(each_resources, another)] == ["other"]


async def test_bodies_and_headers_are_kept_as_any_database_can(each_resources: Resources, inspector: Inspector) -> None:
    headers = (("webhook-id", "a\0" + "x" * 300), ("cookie", "secret"), ("user-agent", "ÿ\0"))
    await inspectors.receive(each_resources, inspector.token, Arrival("", headers, b"\0\xff" + b"x" * 70_000))
    (received,) = await kept(each_resources, inspector)
    assert received.webhook_id == "a\ufffd" + "x" * 198
    assert received.headers[1:] == (("user-agent", "ÿ\ufffd"),)
    assert (received.body, received.is_cut) == ("\ufffd\ufffd" + "x" * 65_534, True)
    assert (received.address, received.age) == ("", None)


async def test_the_newest_endpoint_at_its_url_is_named(each_resources: Resources, inspector: Inspector) -> None:
    async def named() -> str | None:
        return (await inspectors.arrived(each_resources, inspector, limit=1, chosen="")).endpoint_id

    await register(each_resources, inspector.url + "/")
    assert await named() is None
    await register(each_resources, inspector.url)
    later = await register(
        each_resources, inspector.url, created_at=await each_resources.store.now() + timedelta(seconds=1)
    )
    assert await named() == later.id


async def test_custom_headers_of_its_endpoints_are_not_kept_in_the_open(
    each_resources: Resources, inspector: Inspector, boss: Viewer
) -> None:
    settings = EndpointSettings(inspector.url, headers=(("X-Api-Key", "s3cret"), ("Authorization", "Bearer s3cret")))
    await register(each_resources, inspector.url, settings=settings)
    arrival = await signed(each_resources)
    sent = replace(arrival, headers=(*arrival.headers, ("x-api-key", "s3cret"), ("authorization", "Bearer s3cret")))
    await inspectors.receive(each_resources, inspector.token, sent)
    await inspectors.edit(each_resources, boss, inspector.token, allowed=["10.0.0.0/8"], answer_status=200)
    await inspectors.receive(each_resources, inspector.token, sent)
    found = await kept(each_resources, inspector)
    assert [one.verdict for one in found] == [Verdict.VERIFIED, Verdict.REFUSED]
    assert {one.headers[-2:] for one in found} == {(("x-api-key", "…"), ("authorization", "…"))}
    assert {one.headers[0] for one in found} == {("host", "testserver")}


async def test_clearing_forgets_what_arrived_here(
    each_resources: Resources, inspector: Inspector, boss: Viewer
) -> None:
    another = await inspectors.create(each_resources, boss)
    for one in (inspector, another):
        await inspectors.receive(each_resources, one.token, Arrival(CALLER, (), b""))
    await inspectors.clear(each_resources, boss, inspector.token)
    assert await inspectors.count_requests(each_resources) == {another.token: 1}


async def test_one_request_is_looked_at_and_only_at_its_own_inspector(
    each_resources: Resources, inspector: Inspector, boss: Viewer, clock: Clock
) -> None:
    another = await inspectors.create(each_resources, boss)
    for body in (b"first", b"second"):
        clock.move(1)
        await inspectors.receive(each_resources, inspector.token, Arrival(CALLER, (), body))
    first, second = await kept(each_resources, inspector)
    for looked_at, chosen, shown in [
        (inspector, first.id, first),
        (inspector, "", second),
        (inspector, "irq_\0", second),
        (inspector, new_id("irq"), second),
        (another, first.id, None),
    ]:
        found = await inspectors.arrived(each_resources, looked_at, limit=1, chosen=chosen)
        assert found.chosen == shown
    found = await inspectors.arrived(each_resources, inspector, limit=1, chosen="")
    assert (list(found.newest), found.count) == ([second], 2)


async def test_what_is_older_than_events_are_kept_is_swept_away(
    each_resources: Resources, inspector: Inspector, clock: Clock
) -> None:
    await inspectors.receive(each_resources, inspector.token, Arrival(CALLER, (), b"old"))
    clock.move(each_resources.settings.event_retention.total_seconds())
    await inspectors.receive(each_resources, inspector.token, Arrival(CALLER, (), b"new"))
    assert (await sweep(each_resources))["purged"] == 0
    clock.move(1)
    assert (await sweep(each_resources))["purged"] == 1
    assert [one.body for one in await kept(each_resources, inspector)] == ["new"]
    assert await inspectors.find(each_resources, inspector.token) == inspector


async def test_whoever_watches_is_told(each_resources: Resources, inspector: Inspector, boss: Viewer) -> None:
    async with bus.listen(each_resources.redis, bus.CHANNEL) as channel:
        assert bus.is_confirmation(await channel.get_message(timeout=5))
        await inspectors.receive(each_resources, inspector.token, Arrival(CALLER, (), b""))
        await inspectors.clear(each_resources, boss, inspector.token)
        await inspectors.delete(each_resources, boss, inspector.token)
        hints = [bus.decode(await channel.get_message(timeout=5)) for _ in range(3)]
    assert hints == [bus.Hint(inspector.token, bus.INSPECTORS, 0)] * 3
