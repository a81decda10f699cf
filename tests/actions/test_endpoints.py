"""Endpoints: what may be one, and what becomes of it. On both databases; name servers are the far end."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from callback_rows import attempt, audited, owe, put, put_endpoint, stored
from factories import stored_export
from fresh_stores import Clock, person
from sqlalchemy import select

from webapp import bus, queue
from webapp.actions import callback_hosts, endpoint_secrets, endpoint_settings, endpoints, inspectors
from webapp.actions.endpoint_secrets import drop_expired_secrets
from webapp.actions.endpoint_settings import DUPLICATE, new_encryption_key
from webapp.actions.reach import FRAGMENT, UNRESOLVED
from webapp.commands import key
from webapp.domain.access import NotFound, Role, Viewer
from webapp.domain.callbacks import (
    LONGEST_OVERLAP,
    MOST_RETRIES,
    QUICK,
    STANDARD,
    UNREACHABLE,
    DeliveryState,
    EndpointSettings,
    EndpointState,
)
from webapp.domain.errors import Invalid
from webapp.domain.exports import Status
from webapp.domain.signing import key_of
from webapp.domain.targets import FORBIDDEN_HOST
from webapp.resources import Resources
from webapp.sealing import Sealer
from webapp.store import tables

PUBLIC = "93.184.216.34"
URL = f"https://{PUBLIC}/hook"
Names = Mapping[str, Sequence[str]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What the name server knows: names and their addresses. Fill it."""
    known: dict[str, list[str]] = {}

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, port)) for one in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
async def boss(each_resources: Resources) -> Viewer:
    return await person(each_resources, "boss", Role.ADMIN)


async def mistakes(resources: Resources, given: Mapping[str, Any]) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        await endpoint_settings.check(resources, {"url": URL, **given})
    assert all(error.message.endswith(".") for error in caught.value.errors)
    return {error.field: error.message for error in caught.value.errors}


async def settings_of(resources: Resources, **given: Any) -> EndpointSettings:
    return (await endpoint_settings.check(resources, {"url": URL, **given})).settings


# The URL


HOSTILE = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://0/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:7f00:1::1]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST:8000/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://192.168.1.1/",
    "http://[fc00::1]/",
    "http://[fe80::1]/",
    "http://224.0.0.1/",
    "http://user:pass@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127。0。0。1/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "//example.com/hook",
    "http://",
    "http:///hook",
    "http://example.com:99999/",
    "http://exa mple.com/",
    "http://example.com:22/",
    "http://example.com:6379/",
    "http://example.com/\r\nX-Evil: 1",
    "https://example.com/\0",
    "",
    " https://example.com/",
    "https://example.com/" + "a" * 2100,
]
PLAIN = [
    "https://example.com/hooks/exports",
    "https://example.com:8443/hooks?tenant=7&x=%20",
    "https://hooks.example.co.uk/a/b/c#fragment-is-dropped",
    "https://bücher.example/hook",
    "https://EXAMPLE.com/CaseStays",
    "http://93.184.216.34/hook",
    "https://[2606:2800:220:1:248:1893:25c8:1946]/hook",
]


@pytest.mark.parametrize("url", HOSTILE)
async def test_a_hostile_url_is_refused_with_the_reason(resources: Resources, names: Names, url: str):
    assert list(await mistakes(resources, {"url": url})) == ["url"]


@pytest.mark.parametrize("url", PLAIN)
async def test_a_plain_url_is_kept_as_written(resources: Resources, names: Names, url: str):
    assert (await endpoint_settings.check(resources, {"url": url})).settings.url == url


@pytest.mark.parametrize("url", [None, 7, ["https://example.com/"], {}])
async def test_a_url_is_text(resources: Resources, url: Any):
    assert list(await mistakes(resources, {"url": url})) == ["url"]


async def test_a_url_is_needed(resources: Resources):
    with pytest.raises(Invalid) as caught:
        await endpoint_settings.check(resources, {"description": "no URL"})
    assert [error.field for error in caught.value.errors] == ["url"]


async def test_a_name_that_leads_nowhere_now_is_taken_with_a_note(resources: Resources, names: Names):
    checked = await endpoint_settings.check(resources, {"url": "https://soon.example/hook#top"})
    assert checked.notes == (FRAGMENT, UNRESOLVED)


@pytest.mark.parametrize("addresses", [["10.0.0.7"], [PUBLIC, "10.0.0.7"], ["::1"], [PUBLIC, "fe80::1"], ["0.0.0.0"]])
async def test_a_name_that_leads_inside_is_refused(
    resources: Resources, names: dict[str, list[str]], addresses: list[str]
):
    names["inside.example"] = addresses
    assert await mistakes(resources, {"url": "https://inside.example/"}) == {"url": UNREACHABLE}


async def test_a_name_that_leads_outside_is_taken(resources: Resources, names: dict[str, list[str]]):
    names["outside.example"] = [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946"]
    assert (await endpoint_settings.check(resources, {"url": "https://outside.example/"})).notes == ()


async def test_a_name_server_that_does_not_answer_holds_nobody_up(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
):
    import threading

    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(20) and [])
    try:
        started = asyncio.get_running_loop().time()
        checked = await endpoint_settings.check(resources, {"url": "https://slow.example/"})
        assert checked.notes == (UNRESOLVED,)
        assert asyncio.get_running_loop().time() - started < 4
    finally:
        over.set()


@pytest.mark.parametrize(
    ("allowed", "url", "addresses"),
    [
        ("10.1.0.0/16", "http://10.1.2.3/hook", []),
        ("10.1.0.0/16", "http://inside.example/hook", ["10.1.2.3"]),
        ("inside.example:9000", "http://inside.example:9000/hook", ["10.9.9.9"]),
        ("localhost:9000", "http://localhost:9000/hook", ["127.0.0.1"]),
    ],
)
async def test_what_the_setting_names_may_be_reached(
    resources: Resources, names: dict[str, list[str]], allowed: str, url: str, addresses: list[str]
):
    names["inside.example"] = names["localhost"] = addresses
    assert (await mistakes(resources, {"url": url}))["url"] in {UNREACHABLE, FORBIDDEN_HOST}
    opened = replace(resources, settings=replace(resources.settings, callback_allow_private=(allowed,)))
    assert (await endpoint_settings.check(opened, {"url": url})).notes == ()
    assert (await mistakes(opened, {"url": "http://10.2.0.1/"})) == {"url": FORBIDDEN_HOST}


async def test_an_inspector_is_a_target_by_its_exact_url(each_resources: Resources, boss: Viewer):
    here = replace(each_resources, settings=replace(each_resources.settings, base_url="http://127.0.0.1:8000"))
    inspector = await inspectors.create(here, boss)
    assert (await endpoint_settings.check(here, {"url": inspector.url})).settings.url == inspector.url
    for other in (inspector.url + "/", inspector.url + "?x=1", inspector.url[:-1], "http://127.0.0.1:8000/"):
        assert await mistakes(here, {"url": other}) == {"url": FORBIDDEN_HOST}
    await inspectors.delete(here, boss, inspector.token)
    assert await mistakes(here, {"url": inspector.url}) == {"url": FORBIDDEN_HOST}


async def test_a_url_twice_is_allowed_with_a_note(each_resources: Resources, boss: Viewer):
    first = await endpoints.create(each_resources, boss, {"url": URL})
    assert first.notes == ()
    assert (await endpoints.edit(each_resources, boss, first.endpoint.id, {"url": URL})).notes == ()
    second = await endpoints.create(each_resources, boss, {"url": URL})
    assert second.notes == (DUPLICATE,)
    assert (await endpoints.edit(each_resources, boss, first.endpoint.id, {"url": URL})).notes == (DUPLICATE,)
    await endpoints.delete(each_resources, boss, second.endpoint.id)
    assert (await endpoints.edit(each_resources, boss, first.endpoint.id, {"url": URL})).notes == ()


# The other fields


async def test_every_mistake_is_told_at_once(resources: Resources):
    given = {
        "url": "http://127.0.0.1/",
        "description": "x" * 201,
        "event_types": ["export.exploded"],
        "datasets": ["nothing"],
        "schedule": "sometimes",
        "time_limit": 31,
        "max_in_flight": 0,
        "rate": 501,
        "headers": {"Host": "example.com"},
        "encryption": "rot13",
    }
    found = await mistakes(resources, given)
    assert set(found) == set(given)
    assert found["description"] == "May have at most 200 characters; these are 201."
    assert found["event_types"] == "There is no event type 'export.exploded'."
    assert found["datasets"] == "There is no dataset 'nothing'."
    assert found["time_limit"] == "Must be a number of seconds from 1 to 30."
    assert found["max_in_flight"] == "Must be a whole number from 1 to 50."
    assert found["headers"] == "The header 'Host' is reserved: Exportdesk or the connection sets it."


async def test_what_is_not_given_is_as_usual(resources: Resources):
    assert await settings_of(resources) == EndpointSettings(URL)


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("description", "  Billing ", "Billing"),
        ("event_types", ["export.failed", "export.created", "export.failed"], ("export.failed", "export.created")),
        ("event_types", [], ()),
        ("datasets", ["secret", "things"], ("secret", "things")),
        ("time_limit", 2.5, 2.5),
        ("time_limit", "30", 30.0),
        ("max_in_flight", "50", 50),
        ("rate", 1, 1),
        ("headers", [["X-One", " 1 "]], (("X-One", "1"),)),
        ("headers", {"Authorization": "Bearer grün", "Cookie": ""}, (("Authorization", "Bearer grün"), ("Cookie", ""))),
    ],
)
async def test_a_field_is_kept(resources: Resources, field: str, given: Any, kept: Any):
    assert getattr(await settings_of(resources, **{field: given}), field) == kept


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("description", "two\nlines"),
        ("description", "\0"),
        ("description", 7),
        ("event_types", "export.failed"),
        ("event_types", [None]),
        ("event_types", [[]]),
        ("datasets", {"things": True}),
        ("time_limit", 0.9),
        ("time_limit", True),
        ("time_limit", "soon"),
        ("time_limit", float("nan")),
        ("time_limit", 10**400),
        ("max_in_flight", 2.5),
        ("max_in_flight", None),
        ("rate", "-1"),
        ("rate", "१"),
        ("encryption", "AAAA"),
        ("encryption", "ä" * 43),
        ("encryption", 7),
    ],
)
async def test_a_field_is_refused(resources: Resources, field: str, given: Any):
    assert list(await mistakes(resources, {field: given})) == [field]


@pytest.mark.parametrize(
    ("given", "schedule", "waits"),
    [
        ("standard", "standard", STANDARD),
        ("quick", "quick", QUICK),
        ([1, 60.5, "604800"], "own", (1.0, 60.5, 604800.0)),
        ([5] * MOST_RETRIES, "own", (5.0,) * MOST_RETRIES),
    ],
)
async def test_a_schedule_is_one_of_ours_or_a_list(
    resources: Resources, given: Any, schedule: str, waits: tuple[float, ...]
):
    settings = await settings_of(resources, schedule=given)
    assert (settings.schedule, settings.waits) == (schedule, waits)


@pytest.mark.parametrize("given", ["own", [], [0], [604801], [5] * 21, [5, None], [True], 5, None, {"5": 5}])
async def test_a_schedule_is_refused(resources: Resources, given: Any):
    assert await mistakes(resources, {"schedule": given}) == {
        "schedule": "Choose standard, quick, or give a list of 1 to 20 waits, each from 1 second to 7 days."
    }


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-id": "x"},
        {"webhook_id": "x"},
        {"X_Signature": "x"},
        {"Webhook-Anything": "x"},
        {"X-SIGNATURE": "x"},
        {"host": "x"},
        {"Content-Type": "x"},
        {"content-encoding": "x"},
        {"Transfer-Encoding": "x"},
        {"connection": "x"},
        {"Keep-Alive": "x"},
        {"TE": "x"},
        {"Trailer": "x"},
        {"Upgrade": "x"},
        {"Expect": "x"},
        {"Proxy-Authorization": "x"},
        {"Accept": "x"},
        {"Accept-Encoding": "x"},
        {"User-Agent": "x"},
        {"": "x"},
        {"X One": "x"},
        {"X:One": "x"},
        {"X-Öne": "x"},
        {"X\r\nY": "x"},
        {"X" * 101: "x"},
        {"X-One": "a\r\nX-Signature: b"},
        {"X-One": "a\nb"},
        {"X-One": "\0"},
        {"X-One": "a\x85b"},
        {"X-One": "東京"},
        {"X-One": "x" * 1025},
        {"X-One": 1},
        {"X-One": None},
        {f"X-{n}": "x" for n in range(21)},
        [["X-One", "1"], ["x-one", "2"]],
        [["X-One"]],
        ["X-One: 1"],
        "X-One: 1",
        7,
    ],
)
async def test_a_custom_header_is_refused(resources: Resources, headers: Any):
    assert list(await mistakes(resources, {"headers": headers})) == ["headers"]


async def test_a_mistake_does_not_repeat_a_headers_value(resources: Resources):
    for headers in ({"X-One": "hidden\n"}, {"Host": "hidden"}, {"X-One": "hidden東"}, {"X-One": ["hidden"]}):
        assert "hidden" not in (await mistakes(resources, {"headers": headers}))["headers"]


async def test_a_headers_value_that_is_not_shown_stays(resources: Resources):
    before = await settings_of(resources, headers={"Authorization": "Bearer a", "X-Old": "1"})
    after = await endpoint_settings.check(resources, {"headers": {"authorization": "…", "X-New": "2"}}, before=before)
    assert after.settings.headers == (("authorization", "Bearer a"), ("X-New", "2"))
    assert "headers" in await mistakes(resources, {"headers": {"X-New": "…"}})


async def test_a_key_for_encryption(resources: Resources):
    own = base64.urlsafe_b64encode(bytes(range(32))).decode()
    for given in (own, own.rstrip("="), f" {own} "):
        assert (await settings_of(resources, encryption=given)).encryption_key == own
    made = await settings_of(resources, encryption="new")
    assert made.encryption_key is not None
    assert len(base64.urlsafe_b64decode(made.encryption_key)) == 32
    kept = await endpoint_settings.check(resources, {"encryption": "keep"}, before=made)
    untold = await endpoint_settings.check(resources, {"description": "x"}, before=made)
    gone = await endpoint_settings.check(resources, {"encryption": "none"}, before=made)
    keys = [checked.settings.encryption_key for checked in (kept, untold, gone)]
    assert keys == [made.encryption_key, made.encryption_key, None]
    assert new_encryption_key() != new_encryption_key()


async def test_a_dataset_that_was_taken_away_may_stay(resources: Resources):
    before = EndpointSettings(URL, datasets=("gone",))
    assert (await endpoint_settings.check(resources, {"datasets": ["gone"]}, before=before)).settings.datasets == (
        "gone",
    )


# What becomes of it


async def test_a_new_endpoint_has_a_secret_and_nothing_secret_lies_open(each_resources: Resources, boss: Viewer):
    given = {"url": URL + "?token=hidden", "headers": {"Authorization": "Bearer hidden"}, "encryption": "new"}
    endpoint = (await endpoints.create(each_resources, boss, given)).endpoint
    assert (endpoint.state, endpoint.created_by, len(endpoint.secrets)) == (EndpointState.ACTIVE, boss.id, 1)
    assert len(key_of(endpoint.secrets[0].value)) == 24
    assert await endpoints.get(each_resources, endpoint.id) == endpoint
    async with each_resources.store.connection():
        row = await each_resources.store.fetch_one(select(tables.endpoints))
        assert row is not None
        lies_open = str([row[column.name] for column in tables.endpoints.columns if column.name != "url"])
    log = await audited(each_resources)
    assert sorted(log) == [
        ("endpoint.created", endpoint.id, {"host": PUBLIC}),
        ("endpoint.secret_shown", endpoint.id, {"shown": ["secret", "encryption_key"]}),
    ]
    for secret in ("hidden", endpoint.secrets[0].value[6:], endpoint.settings.encryption_key or "?"):
        assert secret not in lies_open
        assert secret not in str(log)


async def test_what_does_not_exist_is_not_found(each_resources: Resources, boss: Viewer):
    for endpoint_id in ("end_00000000000000000000000000", "exp_x", "", "end_\0"):
        for act in (endpoints.pause, endpoints.resume, endpoints.delete, endpoint_secrets.rotate):
            with pytest.raises(NotFound):
                await act(each_resources, boss, endpoint_id)
        with pytest.raises(NotFound):
            await endpoints.get(each_resources, endpoint_id)
        with pytest.raises(NotFound):
            await endpoints.edit(each_resources, boss, endpoint_id, {})


async def test_an_edit_changes_only_what_is_given(each_resources: Resources, boss: Viewer):
    before = (await endpoints.create(each_resources, boss, {"url": URL, "headers": {"X-One": "1"}})).endpoint
    after = (await endpoints.edit(each_resources, boss, before.id, {"rate": 3, "schedule": "quick"})).endpoint
    assert after.settings == replace(before.settings, rate=3, schedule="quick", waits=QUICK)
    assert (after.secrets, after.version) == (before.secrets, 2)
    assert await endpoints.get(each_resources, before.id) == after
    assert await audited(each_resources, "endpoint.changed") == [
        ("endpoint.changed", before.id, {"fields": ["schedule", "rate"]})
    ]
    again = await endpoints.edit(each_resources, boss, before.id, {"rate": 3})
    assert again.endpoint == after
    assert len(await audited(each_resources, "endpoint.changed")) == 1


async def test_a_new_key_is_in_the_log_as_shown(each_resources: Resources, boss: Viewer):
    before = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    after = (await endpoints.edit(each_resources, boss, before.id, {"encryption": "new"})).endpoint
    log = await audited(each_resources)
    assert ("endpoint.changed", before.id, {"fields": ["encryption"]}) in log
    assert ("endpoint.secret_shown", before.id, {"shown": ["encryption_key"]}) in log
    assert (after.settings.encryption_key or "?") not in str(log)


async def test_edits_at_once_lose_nothing(each_resources: Resources, boss: Viewer):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    given = [{"rate": 3}, {"max_in_flight": 9}, {"description": "both"}, {"time_limit": 4}]
    await asyncio.gather(*(endpoints.edit(each_resources, boss, endpoint.id, one) for one in given))
    settings = (await endpoints.get(each_resources, endpoint.id)).settings
    assert settings == replace(endpoint.settings, rate=3, max_in_flight=9, description="both", time_limit=4.0)


async def test_an_edit_leaves_what_deliveries_wrote_meanwhile(
    each_resources: Resources, boss: Viewer, monkeypatch: pytest.MonkeyPatch
):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    now, check = await each_resources.store.now(), endpoint_settings.check

    async def check_while_it_fails(*args: Any, **more: Any) -> endpoint_settings.Checked:
        await put_endpoint(each_resources, endpoint.id, failures_in_row=7, failing_since=now)
        return await check(*args, **more)

    monkeypatch.setattr(endpoints, "check", check_while_it_fails)
    after = (await endpoints.edit(each_resources, boss, endpoint.id, {"rate": 3})).endpoint
    assert (after.settings.rate, after.failures_in_row, after.failing_since) == (3, 7, now)


async def test_pausing_and_resuming(each_resources: Resources, boss: Viewer):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    for _ in range(2):
        assert (await endpoints.pause(each_resources, boss, endpoint.id)).state is EndpointState.PAUSED
    for _ in range(2):
        assert (await endpoints.resume(each_resources, boss, endpoint.id)).state is EndpointState.ACTIVE
    log = await audited(each_resources, "endpoint.")
    assert [action for action, *_ in log if "shown" not in action and "created" not in action] == [
        "endpoint.paused",
        "endpoint.resumed",
    ]


async def test_resuming_takes_a_disabled_one_back_with_a_clean_sheet(each_resources: Resources, boss: Viewer):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    now = await each_resources.store.now()
    await put_endpoint(
        each_resources, endpoint.id, disabled_at=now, disabled_reason="FAILING", failures_in_row=100,
        failing_since=now, last_failure_at=now,
    )  # fmt: skip
    assert (await endpoints.get(each_resources, endpoint.id)).state is EndpointState.DISABLED
    after = await endpoints.resume(each_resources, boss, endpoint.id)
    assert after.state is EndpointState.ACTIVE
    assert (after.failures_in_row, after.failing_since, after.disabled_reason) == (0, None, None)
    assert after.last_failure_at == now


async def test_at_most_two_hundred(each_resources: Resources, boss: Viewer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(endpoints, "MOST_ENDPOINTS", 3)
    export = await stored_export(each_resources, boss, Status.QUEUED)
    async with each_resources.store.transaction():
        await endpoints.attach(each_resources, boss, export, URL)
    answers = await asyncio.gather(
        *(endpoints.create(each_resources, boss, {"url": URL}) for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(answer, Invalid) for answer in answers) == 2
    [gone, *_] = await endpoints.list_registered(each_resources)
    await endpoints.delete(each_resources, boss, gone.id)
    await endpoints.create(each_resources, boss, {"url": URL})


async def test_deleting_wipes_secrets_and_cancels_what_is_owed(each_resources: Resources, boss: Viewer):
    given = {"url": URL, "headers": {"X-One": "hidden"}, "encryption": "new"}
    endpoint = (await endpoints.create(each_resources, boss, given)).endpoint
    export = await stored_export(each_resources, boss, Status.SUCCESS)
    first, second, *_ = await owe(each_resources, endpoint.id, export)
    now = await each_resources.store.now()
    await put(each_resources, first, state="succeeded", next_attempt_at=None)
    await put(each_resources, second, lease_token="worker", lease_until=now + timedelta(seconds=45))
    await endpoints.delete(each_resources, boss, endpoint.id)
    assert (await stored(each_resources, first.id)).state is DeliveryState.SUCCEEDED
    cancelled = await stored(each_resources, second.id)
    assert (cancelled.state, cancelled.lease_until, cancelled.next_attempt_at) == (DeliveryState.CANCELLED, None, None)
    assert cancelled.completed_at is not None
    async with each_resources.store.connection():
        row = await each_resources.store.fetch_one(select(tables.endpoints))
    assert row is not None
    opened = [each_resources.sealer.open(row[name]) for name in ("sealed_headers", "sealed_secrets")]
    assert (opened, row["sealed_encryption_key"]) == (["[]", "[]"], None)
    with pytest.raises(NotFound):
        await endpoints.get(each_resources, endpoint.id)
    with pytest.raises(NotFound):
        await endpoints.delete(each_resources, boss, endpoint.id)
    assert await audited(each_resources, "endpoint.deleted") == [("endpoint.deleted", endpoint.id, {})]


async def test_a_change_wakes_who_delivers_and_open_pages(each_resources: Resources, boss: Viewer):
    channel = queue.WAKE_CHANNEL.format(queue=queue.QueueName.CALLBACKS)
    async with bus.listen(each_resources.redis, channel, bus.CHANNEL) as messages:
        endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
        heard: list[Any] = []
        while len(heard) < 4:
            message = await messages.get_message(timeout=2)
            assert message is not None
            heard.append(message)
    hints = [bus.decode(message) for message in heard if message["channel"].decode() == bus.CHANNEL]
    assert bus.Hint(endpoint.id, bus.CALLBACKS, 0) in hints
    assert channel in [message["channel"].decode() for message in heard if not bus.is_confirmation(message)]


# Secrets


@pytest.fixture
async def clock(each_resources: Resources) -> Clock:
    return await Clock.of(each_resources.store)


async def test_a_rotation_keeps_the_old_secret_for_the_overlap(each_resources: Resources, boss: Viewer, clock: Clock):
    before = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    after = await endpoint_secrets.rotate(each_resources, boss, before.id, overlap=timedelta(hours=24))
    new, old = after.secrets
    assert (new.expires_at, old.value) == (None, before.secrets[0].value)
    assert old.expires_at == clock.at + timedelta(hours=24)
    assert after.valid_secrets(clock.at + timedelta(hours=23)) == (new, old)
    assert after.valid_secrets(clock.at + timedelta(hours=24)) == (new,)
    log = await audited(each_resources)
    assert ("endpoint.secret_rotated", before.id, {"overlap_seconds": 86400}) in log
    assert log.count(("endpoint.secret_shown", before.id, {"shown": ["secret"]})) == 2
    assert new.value not in str(log)


async def test_a_rotation_without_overlap_ends_all_others_now(each_resources: Resources, boss: Viewer, clock: Clock):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=LONGEST_OVERLAP)
    after = await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=timedelta(0))
    assert len(after.secrets) == 1


async def test_a_shorter_overlap_shortens_the_ones_before(each_resources: Resources, boss: Viewer, clock: Clock):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=LONGEST_OVERLAP)
    after = await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=timedelta(hours=1))
    assert [secret.expires_at for secret in after.secrets] == [None, *[clock.at + timedelta(hours=1)] * 2]


async def test_at_most_five_secrets_are_valid(each_resources: Resources, boss: Viewer, clock: Clock):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    for _ in range(4):
        await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=timedelta(hours=1))
    with pytest.raises(Invalid, match="overlap: 5 secrets"):
        await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=timedelta(hours=1))
    clock.move(3600)
    after = await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=timedelta(hours=1))
    assert len(after.secrets) == 2


@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(days=7, seconds=1)])
async def test_an_overlap_has_limits(each_resources: Resources, boss: Viewer, overlap: timedelta):
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    with pytest.raises(Invalid, match="overlap"):
        await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=overlap)


async def test_secrets_that_ended_are_dropped(each_resources: Resources, boss: Viewer, clock: Clock):
    elsewhere = replace(each_resources, sealer=Sealer("another key of sixteen characters"))
    locked = (await endpoints.create(elsewhere, boss, {"url": URL})).endpoint
    await endpoint_secrets.rotate(elsewhere, boss, locked.id, overlap=timedelta(hours=1))
    endpoint = (await endpoints.create(each_resources, boss, {"url": URL})).endpoint
    rotated = await endpoint_secrets.rotate(each_resources, boss, endpoint.id, overlap=timedelta(hours=1))
    assert await drop_expired_secrets(each_resources) == 0
    clock.move(3600)
    assert await drop_expired_secrets(each_resources) == 1
    assert await drop_expired_secrets(each_resources) == 0
    assert (await endpoints.get(each_resources, endpoint.id)).secrets == rotated.secrets[:1]


# Health


async def test_health_counts_attempts_and_deliveries(each_resources: Resources, boss: Viewer, clock: Clock):
    fares, quiet = [
        (await endpoints.create(each_resources, boss, {"url": URL, "description": name})).endpoint.id
        for name in ("fares", "quiet")
    ]
    clock.move(1)
    export = await stored_export(each_resources, boss, Status.SUCCESS, created_at=clock.at)
    first, second, third, _ = await owe(each_resources, fares, export, next_attempt_at=clock.at)
    await put(each_resources, first, state="dead", next_attempt_at=None)
    await put(each_resources, second, state="succeeded", next_attempt_at=None)
    await put(each_resources, third, next_attempt_at=clock.at - timedelta(seconds=9))
    hour = timedelta(hours=1)
    ago = [(24 * hour + timedelta(milliseconds=1), None), (24 * hour, "DNS"), (hour / 2, None), (hour / 3, "TLS")]
    for number, (age, error) in enumerate([*ago, (timedelta(milliseconds=1), None)], 1):
        await attempt(each_resources, first, clock.at - age, error=error, number=number)
    await attempt(each_resources, second, clock.at - hour, number=1, finished_at=None)
    found = await endpoints.health(each_resources)
    assert [health.endpoint.id for health in found] == [quiet, fares]
    assert found[0].hours == ((0, 0),) * 24
    assert (found[0].succeeded, found[0].failed, found[0].pending, found[0].dead) == (0, 0, 0, 0)
    told = found[1]
    assert told.hours == ((0, 1), *((0, 0),) * 22, (2, 1))
    assert (told.succeeded, told.failed, told.pending, told.dead) == (2, 2, 2, 1)
    assert told.next_attempt_at == clock.at - timedelta(seconds=9)
    [chosen] = await endpoints.health(each_resources, [fares, "end_gone"])
    assert chosen == told


# Endpoints of one export


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        (["Hooks.Example.com", "hooks.example.com."], ("hooks.example.com",)),
        (["bücher.example", "93.184.216.34"], ("xn--bcher-kva.example", "93.184.216.34")),
        (["[2606:2800:220:1::1]", "::1", "localhost"], ("2606:2800:220:1::1", "::1", "localhost")),
        ([], ()),
    ],
)
async def test_hosts_are_listed_as_they_are_compared(
    each_resources: Resources, boss: Viewer, given: list[str], listed: tuple[str, ...]
):
    assert await callback_hosts.listed(each_resources) == ()
    await callback_hosts.change(each_resources, boss, given)
    assert await callback_hosts.listed(each_resources) == listed


async def test_changes_of_the_hosts_are_in_the_log(each_resources: Resources, boss: Viewer):
    await callback_hosts.change(each_resources, boss, ["a.example", "b.example"])
    await callback_hosts.change(each_resources, boss, ["a.example", "b.example"])
    await callback_hosts.change(each_resources, boss, ["b.example"])
    assert [details for *_, details in await audited(each_resources, "callback_hosts.changed")] == [
        {"added": ["a.example", "b.example"], "removed": []},
        {"added": [], "removed": ["a.example"]},
    ]


@pytest.mark.parametrize("host", ["", "a b", "https://a.example", "a.example:443", "a.example/x", "u@a.example", "*.a"])
async def test_what_is_no_host_is_not_listed(resources: Resources, admin: Viewer, host: str):
    with pytest.raises(Invalid, match="hosts"):
        await callback_hosts.change(resources, admin, ["a.example", host])
    assert await callback_hosts.listed(resources) == ()


@pytest.mark.parametrize(
    "url",
    ["https://other.example/", "https://sub.hooks.example/", "ftp://hooks.example/", "http://127.0.0.1/", "nonsense"],
)
async def test_an_order_may_name_listed_hosts_only(resources: Resources, admin: Viewer, names: Names, url: str):
    await callback_hosts.change(resources, admin, ["hooks.example", "127.0.0.1"])
    await callback_hosts.check_callback_url(resources, "https://HOOKS.example./x")
    with pytest.raises(Invalid, match="callback_url"):
        await callback_hosts.check_callback_url(resources, url)


async def test_a_listed_host_that_leads_inside_is_refused(
    resources: Resources, admin: Viewer, names: dict[str, list[str]]
):
    await callback_hosts.change(resources, admin, ["hooks.example"])
    names["hooks.example"] = ["10.0.0.1"]
    with pytest.raises(Invalid, match="callback_url: The host does not lead"):
        await callback_hosts.check_callback_url(resources, "https://hooks.example/x")


async def test_an_export_has_one_endpoint_for_a_url(each_resources: Resources, boss: Viewer):
    export = await stored_export(each_resources, boss, Status.QUEUED)

    async def attach(url: str) -> Any:
        async with each_resources.store.transaction():
            return await endpoints.attach(each_resources, boss, export, url)

    first = await attach(URL)
    assert (first.export_id, first.settings) == (export.id, EndpointSettings(URL))
    assert await attach(URL) is None
    others = [await attach(f"{URL}/{n}") for n in range(4)]
    with pytest.raises(Invalid, match="callback_url"):
        await attach(f"{URL}/5")
    found = await endpoints.list_of_export(each_resources, export.id)
    assert {endpoint.id for endpoint in found} == {first.id, *(other.id for other in others)}
    assert await endpoints.list_registered(each_resources) == []
    assert await endpoints.health(each_resources) == []


# Another key


async def test_everything_sealed_can_be_sealed_under_another_key(
    each_resources: Resources, boss: Viewer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(key, "BATCH", 2)
    given = {"url": URL, "headers": {"X-One": "1"}, "encryption": "new"}
    made = [(await endpoints.create(each_resources, boss, given)).endpoint for _ in range(3)]
    await endpoints.delete(each_resources, boss, made.pop().id)
    [old], new = each_resources.settings.secret_keys, "another key that is long enough"
    assert await key.count_unsealable(each_resources.store, Sealer(new)) == 3
    assert await key.reseal_all(each_resources.store, Sealer(new, old)) == 3
    assert await key.count_unsealable(each_resources.store, Sealer(new)) == 0
    later = replace(each_resources, sealer=Sealer(new))
    assert [await endpoints.get(later, endpoint.id) for endpoint in made] == made
