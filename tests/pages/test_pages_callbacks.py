"""The callback pages: endpoints and how they fare, secrets shown once, the test console, and the delivery log."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from callback_rows import attempt, audited, owe, put, put_endpoint, stored
from callback_workers import callbacks_working
from owing import register
from pages.dom import facts, node, nodes, parsed, plain, text, texts
from receivers import answer, receiver

from webapp.actions import callback_hosts, endpoint_secrets, endpoints, inspectors, messages, people
from webapp.domain.access import Role, Viewer
from webapp.domain.callbacks import DeliveryState, Endpoint, EndpointSettings, ErrorClass, Secret
from webapp.domain.exports import Export, Status
from webapp.domain.limits import PAGE_SIZE
from webapp.domain.signing import new_secret
from webapp.pages.callback_fields import parse_waits
from webapp.pages.callback_snippets import DECRYPT, PYTHON, SHELL
from webapp.pages.callback_wording import shown_body, shown_text
from webapp.resources import Resources
from webapp.sealing import Sealer
from webapp.settings import Settings

ExportMaker = Callable[..., Awaitable[Export]]
URL = "https://93.184.216.34/hook"
HOSTILE = "<script>alert(1)</script>\x00\u202egnp.exe"

FORM: dict[str, Any] = {
    "url": URL,
    "description": "The warehouse",
    "event_scope": "all",
    "dataset_scope": "all",
    "schedule": "standard",
    "time_limit": "10",
    "rate": "20",
    "max_in_flight": "5",
    "encryption": "none",
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, callback_allow_private=("127.0.0.0/8",))


@pytest.fixture
async def endpoint(resources: Resources) -> Endpoint:
    return await register(resources, URL, description="The warehouse")


@pytest.fixture
async def working(resources: Resources) -> AsyncIterator[None]:
    async with callbacks_working(resources):
        yield


async def made(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    """The page that shows the secret."""
    response = await client.post("/callbacks", data={**FORM, **fields})
    assert response.status_code == 303, response.text
    return await client.get(response.headers["location"])


async def only(resources: Resources) -> Endpoint:
    [found] = await endpoints.list_registered(resources)
    return found


PATHS = (
    "/callbacks",
    "/callbacks/new",
    "/callbacks/sample",
    "/callbacks/deliveries",
    "/callbacks/{id}",
    "/callbacks/{id}/edit",
    "/callbacks/{id}/secret",
    "/callbacks/{id}/deliveries",
    "/callbacks/{id}/recovery",
)


@pytest.mark.parametrize("path", PATHS)
async def test_only_admins_get_in(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, endpoint: Endpoint, path: str
) -> None:
    address = path.format(id=endpoint.id)
    assert (await client.get(address)).status_code == 403
    assert (await anonymous.get(address)).headers["location"].startswith("/sign-in")


@pytest.mark.parametrize("path", ["/callbacks/live", "/callbacks/stream", "/callbacks/deliveries/live"])
async def test_parts_and_streams_are_refused_for_real(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, path: str
) -> None:
    assert (await client.get(path)).status_code == 403
    assert (await anonymous.get(path)).status_code == 401


@pytest.mark.parametrize("path", ["/callbacks", "/callbacks/hosts", "/callbacks/redeliveries", "/callbacks/new/trial"])
async def test_only_admins_change_anything(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.post(path, data=FORM)).status_code == 403


@pytest.mark.parametrize("deed", ["pause", "resumption", "rotation", "deletion", "recovery", "edit", "trial"])
async def test_only_admins_change_an_endpoint(
    client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, deed: str
) -> None:
    assert (await client.post(f"/callbacks/{endpoint.id}/{deed}", data=FORM)).status_code == 403
    assert await only(resources) == endpoint


async def test_the_way_in_is_shown_to_admins_alone(client: httpx.AsyncClient, admin_client: httpx.AsyncClient) -> None:
    assert "Callbacks" not in texts(await client.get("/exports"), ".top-nav a")
    assert "Callbacks" in texts(await admin_client.get("/exports"), ".top-nav a")


@pytest.mark.parametrize("path", ["end_nonsense", "end_00000000000000000000000000", "deliveries/dlv_x"])
async def test_what_is_not_there_is_404(admin_client: httpx.AsyncClient, path: str) -> None:
    assert (await admin_client.get(f"/callbacks/{path}")).status_code == 404


async def test_an_empty_list_says_what_callbacks_are(admin_client: httpx.AsyncClient) -> None:
    response = await admin_client.get("/callbacks")
    assert node(response, ".empty a.button").attributes["href"] == "/callbacks/new"
    assert node(response, ".empty form").attributes["action"] == "/callbacks/new/inspector"
    assert nodes(response, "table") == []


async def test_a_row_tells_health_at_a_glance(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    now = await resources.store.now()
    good, dead, waiting = await owe(resources, endpoint.id, await make_export(Status.PROCESSING))
    await put(resources, good, state="succeeded", next_attempt_at=None)
    await put(resources, dead, state="dead", next_attempt_at=None)
    await put(resources, waiting, next_attempt_at=now + timedelta(minutes=5), failures=1)
    for number in range(3):
        await attempt(resources, good, now - timedelta(minutes=1), number=number + 1)
    await attempt(resources, dead, now - timedelta(hours=3), error="TIMEOUT")
    await put_endpoint(resources, endpoint.id, last_success_at=now - timedelta(minutes=2))
    response = await admin_client.get("/callbacks")
    row = f"#row-{endpoint.id}"
    assert text(response, f"{row} .row-title") == "The warehouse"
    assert text(response, f"{row} .badge") == "Active"
    assert text(response, f"{row} .health b") == "75%"
    chart = node(response, f"{row} svg.sparkline")
    assert chart.attributes["role"] == "img"
    assert chart.attributes["aria-label"] == (
        "Attempts by hour, last 24 hours: 3 succeeded, 1 failed; at most 3 in an hour"
    )
    assert (len(chart.css("rect.succeeded")), len(chart.css("rect.failed"))) == (1, 1)
    cells = {cell.attributes["data-label"]: plain(cell) for cell in nodes(response, f"{row} td[data-label]")}
    assert cells == {
        "Last success": "2 minutes ago",
        "Waiting": "1",
        "Dead letters": "1",
        "Next try": "in 5 minutes",
    }


async def test_each_state_has_its_badge_and_trouble_a_banner(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    now = await resources.store.now()
    failing = {"failures_in_row": 40, "failing_since": now - timedelta(hours=15)}
    await register(resources, URL, description="paused", paused_at=now)
    await register(resources, URL, description="about to be", **failing)
    await register(resources, URL, description="just failing", failures_in_row=1, failing_since=now)
    await register(resources, URL, description="gone", disabled_at=now, disabled_reason="GONE", **failing)
    response = await admin_client.get("/callbacks")
    states = dict(zip(texts(response, ".row-title"), texts(response, "td .badge"), strict=True))
    assert states == {"paused": "Paused", "about to be": "Failing", "just failing": "Failing", "gone": "Disabled"}
    told = texts(response, ".message")
    assert told == [
        "gone was disabled just now. The receiver answered 410 Gone: it wants no more callbacks.",
        "about to be will be disabled in 9 hours if it goes on failing: 40 requests in a row failed.",
    ]


async def test_a_poll_gives_the_same_part_and_goes_over_to_a_stream(
    admin_client: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    page = await admin_client.get(f"/callbacks/{endpoint.id}")
    assert (node(page, "#live").attributes["hx-get"] or "").startswith(f"/callbacks/{endpoint.id}/live?poll=1")
    third = await admin_client.get(f"/callbacks/{endpoint.id}/live?poll=3", headers={"HX-Request": "true"})
    assert (node(third, "#live").attributes["hx-sse:connect"] or "").startswith(
        f"/callbacks/{endpoint.id}/stream?after="
    )
    assert text(third, ".health-card .badge") == "Active"
    assert nodes(page, "meta[http-equiv=refresh]") == []


async def test_the_secret_is_shown_once(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    response = await made(admin_client)
    created = await only(resources)
    assert text(response, "#secret") == created.secrets[0].value
    assert "It is not shown again." in response.text
    assert nodes(response, "#key") == []
    assert {"Python", "Node", "Go", "Shell"} == set(texts(response, ".snippets > label"))
    again = await admin_client.get(f"/callbacks/{created.id}/secret")
    assert (nodes(again, "#secret"), text(again, "h1")) == ([], "The secret is not shown again")
    assert created.secrets[0].value not in (await admin_client.get(f"/callbacks/{created.id}")).text
    assert [action for action, _, _ in await audited(resources, "endpoint.secret")] == ["endpoint.secret_shown"]


async def test_the_permit_to_see_a_secret_is_for_one_person_and_one_secret(
    admin_client: httpx.AsyncClient, make_client: Callable[[Viewer], Awaitable[httpx.AsyncClient]], resources: Resources
) -> None:
    response = await admin_client.post("/callbacks", data=FORM)
    permit = admin_client.cookies["exportdesk_reveal"]
    created = await only(resources)
    assert created.secrets[0].value not in permit
    user = await people.add_user(resources, "second", Role.ADMIN, actor="tests", password="second has a password")
    second = await make_client(Viewer(user.id, user.name, user.role))
    second.cookies.set("exportdesk_reveal", permit)
    assert nodes(await second.get(response.headers["location"]), "#secret") == []
    await endpoint_secrets.rotate(resources, Viewer("usr_x", "x", Role.ADMIN), created.id)
    assert nodes(await admin_client.get(response.headers["location"]), "#secret") == []


async def test_an_encryption_key_is_shown_with_the_secret(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    response = await made(admin_client, encryption="new")
    created = await only(resources)
    assert text(response, "#key") == created.settings.encryption_key
    assert "Decrypting" in texts(response, ".snippets > label")
    assert (await admin_client.post(f"/callbacks/{created.id}/edit", data={**FORM, "encryption": "keep"})).headers[
        "location"
    ] == f"/callbacks/{created.id}"
    assert (await only(resources)).settings.encryption_key == created.settings.encryption_key


async def test_what_was_chosen_is_saved_and_shown_again(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    await made(
        admin_client,
        event_scope="some",
        event_types=["export.succeeded", "export.failed"],
        dataset_scope="some",
        datasets=["things"],
        schedule="own",
        waits="1.5s, 5min, 2h",
        time_limit="2.5",
        header_name=["Authorization", ""],
        header_value=["Bearer hidden-word", ""],
    )
    saved = await only(resources)
    assert saved.settings == EndpointSettings(
        URL,
        "The warehouse",
        ("export.succeeded", "export.failed"),
        ("things",),
        "own",
        (1.5, 300.0, 7200.0),
        2.5,
        headers=(("Authorization", "Bearer hidden-word"),),
    )
    shown = await admin_client.get(f"/callbacks/{saved.id}")
    told = facts(shown, "aside dl.facts")
    assert told["Events"] == "Ready, Failed"
    assert told["Retries after"] == "Own: 1.5 s, 5 min, 2 h"
    assert told["Time limit"] == "2.5 s"
    assert told["Custom headers"] == "Authorization"
    form = await admin_client.get(f"/callbacks/{saved.id}/edit")
    assert node(form, "#waits").attributes["value"] == "1.5s, 5min, 2h"
    checked = [field.attributes["value"] for field in nodes(form, "#endpoint input[type=checkbox][checked]")]
    assert checked == ["export.succeeded", "export.failed", "things"]
    assert "hidden-word" not in shown.text + form.text


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("url", {"url": "http://127.0.0.1.nip.io:22/"}),
        ("url", {"url": "http://user:word@93.184.216.34/"}),
        ("event_types", {"event_scope": "some"}),
        ("datasets", {"dataset_scope": "some"}),
        ("schedule", {"schedule": "own", "waits": "soon"}),
        ("schedule", {"schedule": "own", "waits": ""}),
        ("time_limit", {"time_limit": "-1"}),
        ("rate", {"rate": "many"}),
        ("max_in_flight", {"max_in_flight": ""}),
        ("headers", {"header_name": ["Webhook-Id"], "header_value": ["x"]}),
        ("encryption", {"encryption": "rot13"}),
    ],
)
async def test_a_mistake_is_told_at_its_field_and_what_was_typed_is_kept(
    admin_client: httpx.AsyncClient, resources: Resources, field: str, changes: dict[str, Any]
) -> None:
    sent = {**FORM, "description": "kept <b>", **changes}
    response = await admin_client.post("/callbacks", data=sent)
    assert response.status_code == 422
    assert text(response, f"#error-{field}")
    assert nodes(response, f"[aria-invalid=true][aria-describedby~=error-{field}]")
    assert nodes(response, f"#summary a[href='#field-{field}']")
    assert nodes(response, f"#field-{field}")
    assert node(response, "#description").attributes["value"] == "kept <b>"
    for name in set(changes) & {"url", "waits", "time_limit", "rate", "max_in_flight"}:
        assert node(response, f"#{name}").attributes["value"] == changes[name]
    assert await endpoints.list_registered(resources) == []


async def test_all_mistakes_are_told_at_once(admin_client: httpx.AsyncClient) -> None:
    response = await admin_client.post(
        "/callbacks",
        data={**FORM, "url": "ftp://x", "rate": "0", "event_scope": "some", "schedule": "own", "waits": "x"},
    )
    links = nodes(response, "#summary a")
    assert [link.attributes["href"] for link in links] == [
        "#field-url",
        "#field-event_types",
        "#field-schedule",
        "#field-rate",
    ]
    assert texts(response, "#summary a b") == ["URL", "Events", "Tried again after", "Requests a second"]
    assert plain(links[-1]) == "Requests a second Must be a whole number from 1 to 500."


async def test_a_header_keeps_its_value_is_replaced_or_removed(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    headers = (("A", "one"), ("B", "two"), ("C", "three"))
    before = await register(resources, URL, headers=headers)
    names = {"header_name": ["A", "B", "C", "D"], "header_value": ["", "new", "", "four"], "header_removed": ["C"]}
    await admin_client.post(f"/callbacks/{before.id}/edit", data={**FORM, **names})
    assert (await only(resources)).settings.headers == (("A", "one"), ("B", "new"), ("D", "four"))


def test_what_came_from_outside_is_harmless_to_look_at() -> None:
    assert shown_text("a\0b\x1b[31m\u202e\u2066c\r\n\td") == "a\\u0000b\\u001b[31m\\u202e\\u2066c\r\n\td"
    assert shown_body('{"a":"\u202e"}') == '{\n  "a": "\\u202e"\n}'
    assert shown_body("[" * 10_000) == "[" * 10_000


def test_waits_are_read_as_people_write_them() -> None:
    assert parse_waits("5, 1m; 2 min\n1.5h 1d") == [5, 60, 120, 5400, 86_400]
    assert parse_waits("") == []
    with pytest.raises(ValueError, match="no time to wait"):
        parse_waits("5 apples")


async def test_the_form_makes_an_inspector_and_keeps_what_was_typed(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    response = await admin_client.post(
        "/callbacks/new/inspector", data={**FORM, "url": "", "rate": "7", "inspector": ""}
    )
    [inspector] = await inspectors.list_all(resources)
    assert node(response, "#url").attributes["value"] == inspector.url
    assert node(response, "#rate").attributes["value"] == "7"
    again = await admin_client.post("/callbacks/new/inspector", data={**FORM, "inspector": inspector.token})
    assert node(again, "#url").attributes["value"] == inspector.url
    fresh = await admin_client.post("/callbacks/new/inspector")
    assert node(fresh, "#rate").attributes["value"] == "20"
    assert len(await inspectors.list_all(resources)) == 2
    saved = await made(admin_client, url=inspector.url)
    assert text(saved, "h1") == "The endpoint is made"
    assert text(saved, f'a[href="/inspect/{inspector.token}"]') == "Its inspector"


async def test_a_secret_that_has_ended_is_not_said_to_be_in_force(
    admin_client: httpx.AsyncClient, resources: Resources
) -> None:
    at = await resources.store.now()
    ends = (None, at + timedelta(hours=2), at - timedelta(minutes=1))
    secrets = tuple(Secret(new_secret(), at, end) for end in ends)
    endpoint = await register(resources, URL, secrets=secrets)
    page = plain(parsed(await admin_client.get(f"/callbacks/{endpoint.id}")).body)
    assert "2 are in force. An older one ends in 2 hours." in page
    assert "minute ago" not in page


async def test_pausing_resuming_rotating_and_deleting(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources
) -> None:
    here = f"/callbacks/{endpoint.id}"
    await admin_client.post(f"{here}/pause")
    paused = await admin_client.get(here)
    assert text(paused, ".health-card .badge") == "Paused"
    assert texts(paused, ".flash") == ["Endpoint paused. What happens meanwhile is kept, and sent once it is resumed."]
    await put_endpoint(resources, endpoint.id, disabled_at=endpoint.created_at, disabled_reason="FAILING")
    assert text(await admin_client.get(here), ".health-card .badge") == "Disabled"
    await admin_client.post(f"{here}/resumption")
    assert text(await admin_client.get(here), ".health-card .badge") == "Active"

    rotated = await admin_client.post(f"{here}/rotation", data={"overlap": "24"})
    shown = await admin_client.get(rotated.headers["location"])
    newest, oldest = (await only(resources)).secrets
    assert (text(shown, "#secret"), oldest.value) == (newest.value, endpoint.secrets[0].value)
    assert (await admin_client.post(f"{here}/rotation", data={"overlap": "9999"})).status_code == 422
    for _ in range(4):
        last = await admin_client.post(f"{here}/rotation", data={"overlap": "24"})
    assert last.headers["location"] == here
    assert texts(await admin_client.get(here), ".flash")[0].startswith("As many secrets are in force")

    question = await admin_client.post(f"{here}/deletion")
    assert text(question, "h1") == "Delete this endpoint?"
    assert await only(resources)
    await admin_client.post(f"{here}/deletion", data={"confirmed": "1"})
    assert (await admin_client.get(here)).status_code == 404


async def test_hosts_are_kept_one_a_line(admin_client: httpx.AsyncClient, resources: Resources) -> None:
    await admin_client.post("/callbacks/hosts", data={"hosts": "hooks.example.com\r\n\r\n Other.example.net \r\n"})
    assert await callback_hosts.listed(resources) == ("hooks.example.com", "other.example.net")
    wrong = await admin_client.post("/callbacks/hosts", data={"hosts": "good.example\nhttp://bad/<x>"})
    assert wrong.status_code == 422
    assert text(wrong, "#hosts-error")
    assert node(wrong, "#hosts-text").text() == "good.example\nhttp://bad/<x>"


async def test_the_console_sends_and_shows_everything_at_once(
    admin_client: httpx.AsyncClient, resources: Resources, working: None
) -> None:
    body = HOSTILE.encode() + b"<b>"
    async with receiver(answer(201, body, X_Seen="<i>yes</i>")) as far:
        saved = await register(resources, far.url, headers=(("Authorization", "Bearer hidden-word"),))
        sent = {"trial_type": "export.failed", "trial_data": '{"id": "exp_1", "note": "edited"}'}
        response = await admin_client.post(f"/callbacks/{saved.id}/trial", data=sent, headers={"HX-Request": "true"})
        [received] = await far.until(1)
    assert received.json["type"] == "export.failed"
    assert received.json["data"] == {"id": "exp_1", "note": "edited"}
    assert node(response, "[data-verdict]").attributes["data-verdict"] == "good"
    told = text(response, "[data-verdict]")
    assert told.startswith("Delivered: the receiver answered 201. It took ")
    request, reply = ({plain(row.css("dt")[0]): plain(row.css("dd")[0]) for row in block.css("dl.headers > div")}
                      for block in nodes(response, ".exchange section"))  # fmt: skip
    assert request["Authorization"] == "(kept sealed)"
    assert request["webhook-id"] == received.id
    assert reply["X-Seen"] == "<i>yes</i>"
    assert nodes(response, "script, i") == []
    answered = nodes(response, "pre.code")[1].text()
    assert answered == "<script>alert(1)</script>\\u202egnp.exe<b>"
    assert "hidden-word" not in response.text


async def test_a_refusal_is_a_verdict_too_and_the_whole_page_works_without_scripts(
    admin_client: httpx.AsyncClient, resources: Resources, working: None
) -> None:
    async with receiver(answer(500, b"oops")) as far:
        saved = await register(resources, far.url)
        response = await admin_client.post(f"/callbacks/{saved.id}/trial", data={"trial_type": "export.created"})
    assert node(response, "[data-verdict]").attributes["data-verdict"] == "bad"
    assert "failed while it handled the request" in text(response, "[data-verdict]")
    assert text(response, "h1") == f"{far.url.removeprefix('http://')}"
    assert node(response, "#trial-type option[selected]").attributes["value"] == "export.created"


async def test_an_unsaved_url_can_be_tried(
    admin_client: httpx.AsyncClient, resources: Resources, working: None
) -> None:
    async with receiver() as far:
        response = await admin_client.post("/callbacks/new/trial", data={**FORM, "url": far.url})
        [received] = await far.until(1)
    assert received.headers["webhook-signature"].startswith("v1,")
    assert text(response, "[data-verdict]").startswith("Delivered: the receiver answered 204.")
    assert node(response, "#url").attributes["value"] == far.url
    assert await endpoints.list_registered(resources) == []
    refused = await admin_client.post("/callbacks/new/trial", data={**FORM, "url": "http://10.0.0.1/"})
    assert refused.status_code == 422
    assert text(refused, "#error-url")


async def test_the_console_says_what_is_wrong_with_the_sample_and_in_which_line(
    admin_client: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    async def told(sample: str) -> str:
        response = await admin_client.post(
            f"/callbacks/{endpoint.id}/trial", data={"trial_data": sample}, headers={"HX-Request": "true"}
        )
        assert response.status_code == 422
        return text(response, "#trial")

    assert "Line 2, column 8" in await told('{"a": 1,\n  "b": x}')
    assert "must be an object" in await told("[1]")
    assert "NaN is not JSON" in await told('{"a": NaN}')
    assert "nested too deeply" in await told("[" * 30_000)
    assert "half of a surrogate pair" in await told('{"a": "\\ud800"}')
    assert "at most 40 digits" in await told('{"a": ' + "9" * 5000 + "}")
    assert "too large a number" in await told('{"a": 1e999}')
    assert "at most 65,536 characters" in await told(" " * 70_000)
    whole = await admin_client.post(f"/callbacks/{endpoint.id}/trial", data={"trial_data": "[1]"})
    assert whole.status_code == 422
    assert "must be an object" in text(whole, "#trial")


async def test_without_a_worker_the_console_says_so(admin_client: httpx.AsyncClient, endpoint: Endpoint) -> None:
    response = await admin_client.post(f"/callbacks/{endpoint.id}/trial", data={"trial_type": "export.created"})
    assert response.status_code == 200
    assert "exportdesk worker callbacks" in text(response, "#trial")


async def test_the_sample_changes_with_the_event(admin_client: httpx.AsyncClient, endpoint: Endpoint) -> None:
    part = await admin_client.get("/callbacks/sample?trial_type=export.cancelled", headers={"HX-Request": "true"})
    assert json.loads(node(part, "textarea").text())["status"] == "CANCELLED"
    whole = await admin_client.post(
        f"/callbacks/{endpoint.id}/trial", data={"trial_type": "export.failed", "trial_data": "{}", "fresh": "1"}
    )
    assert json.loads(node(whole, "#trial-data").text())["status"] == "FAILED"
    strange = await admin_client.get("/callbacks/sample?trial_type=no.such")
    assert json.loads(node(strange, "textarea").text())["status"] == "SUCCESS"


async def signed(resources: Resources, secret: str, **choices: Any) -> tuple[dict[str, str], bytes]:
    message = await messages.sample(resources, "export.succeeded")
    at = await resources.store.now()
    sent = messages.outgoing(EndpointSettings(URL, **choices), [new_secret(), secret], message, at=at)
    return dict(sent.headers), sent.body


async def test_the_python_snippet_verifies(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_secret()
    headers, body = await signed(resources, secret)
    monkeypatch.setenv("CALLBACK_SECRET", secret)
    module: dict[str, Any] = {}
    exec(PYTHON, module)
    assert module["receive"](headers, body) == json.loads(body)
    assert module["receive"](headers, body + b" ") is None
    assert module["receive"](headers | {"webhook-timestamp": "1614265330"}, body) is None


async def test_the_shell_snippet_verifies(resources: Resources, tmp_path: Path) -> None:
    secret = new_secret()
    headers, body = await signed(resources, secret)
    script = tmp_path / "verify.sh"
    script.write_text(SHELL, encoding="utf-8")

    def run(timestamp: str, content: bytes) -> tuple[int, str]:
        arguments = [headers["webhook-id"], timestamp, headers["webhook-signature"]]
        done = subprocess.run(
            ["sh", str(script), *arguments],
            input=content,
            capture_output=True,
            env=os.environ | {"CALLBACK_SECRET": secret},
        )
        return done.returncode, done.stdout.decode().strip()

    assert run(headers["webhook-timestamp"], body) == (0, "verified")
    assert run(headers["webhook-timestamp"], body + b"\n") == (1, "not ours")
    assert run("1614265330", body) == (1, "too old or too new")
    assert run("x", body)[0] == 1


async def test_the_decrypting_snippet_opens_the_data(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    _, body = await signed(resources, new_secret(), encryption_key=key)
    monkeypatch.setenv("CALLBACK_KEY", key)
    module: dict[str, Any] = {}
    exec(DECRYPT, module)
    assert module["decrypted"](json.loads(body))["data"]["status"] == "SUCCESS"


def shown(response: httpx.Response) -> list[str]:
    return [(row.attributes["id"] or "").removeprefix("row-") for row in nodes(response, "table.log tbody tr")]


async def test_the_log_is_filtered_by_its_address(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    export = await make_export(Status.PROCESSING)
    created, queued, started = await owe(resources, endpoint.id, export)
    await put(resources, created, state="succeeded", last_status=204)
    await put(resources, queued, state="dead", last_error="TIMEOUT", attempts=9)
    here = f"/callbacks/{endpoint.id}/deliveries"
    assert set(shown(await admin_client.get(here))) == {created.id, queued.id, started.id}
    dead = await admin_client.get(f"{here}?status=dead")
    assert shown(dead) == [queued.id]
    assert text(dead, f"#row-{queued.id} .badge") == "Dead letter"
    assert text(dead, f"#row-{queued.id} .cell-cause") == "Timed out"
    assert text(dead, ".tabs [aria-current]") == "Dead letters 1"
    assert shown(await admin_client.get(f"{here}?error=TIMEOUT&type=export.queued")) == [queued.id]
    assert shown(await admin_client.get(f"{here}?type=export.created")) == [created.id]
    assert shown(await admin_client.get(f"{here}?since=2999-01-01T00:00")) == []
    assert len(shown(await admin_client.get(f"{here}?status=x&error=x&type=x&since=x&cursor=9-x&export=x"))) == 3
    assert len(shown(await admin_client.get(f"/callbacks/deliveries?export={export.id}"))) == 3


@pytest.mark.parametrize("state", ["paused_at", "disabled_at"])
async def test_what_waits_for_its_endpoint_to_be_resumed_says_so(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker, state: str
) -> None:
    now = await resources.store.now()
    export = await make_export(Status.QUEUED)
    failed, fresh = await owe(resources, endpoint.id, export)
    await put(resources, failed, attempts=1, failures=1, next_attempt_at=now + timedelta(minutes=5))
    log = f"/callbacks/{endpoint.id}/deliveries"

    async def next_tries() -> list[str]:
        page = await admin_client.get(log)
        return [text(page, f"#row-{one.id} td[data-label='Next try']") for one in (failed, fresh)]

    assert await next_tries() == ["in 5 minutes", "Now"]
    assert "again" in text(await admin_client.get(f"/exports/{export.id}"), "#deliveries")
    await put_endpoint(resources, endpoint.id, **{state: now})
    assert await next_tries() == ["Once resumed", "Once resumed"]
    assert "again" not in text(await admin_client.get(f"/exports/{export.id}"), "#deliveries")
    assert "Next try" not in (await admin_client.get(f"/callbacks/deliveries/{failed.id}")).text


async def test_every_tab_counts_the_dead_letters(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    await owe(resources, endpoint.id, await make_export(Status.QUEUED), state="dead", next_attempt_at=None)
    for part in ("", "/deliveries", "/deliveries?status=dead", "/recovery"):
        assert text(await admin_client.get(f"/callbacks/{endpoint.id}{part}"), ".tabs .count") == "2"


async def test_paging_shows_each_delivery_once(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    made = [one for _ in range(12) for one in await owe(resources, endpoint.id, await make_export(Status.PROCESSING))]
    first = await admin_client.get(f"/callbacks/{endpoint.id}/deliveries?status=pending")
    older = node(first, "a[rel=next]").attributes["href"] or ""
    second = await admin_client.get(older)
    assert len(shown(first)) == PAGE_SIZE
    assert sorted(shown(first) + shown(second)) == sorted(one.id for one in made)
    assert "hx-get" not in node(second, "#live").attributes


async def test_a_delivery_shows_every_attempt_harmlessly(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    now = await resources.store.now()
    [one, *_] = await owe(resources, endpoint.id, await make_export(Status.QUEUED))
    await put(resources, one, state="dead", last_error="HTTP_4XX", last_status=401, attempts=3, next_attempt_at=None)
    hostile = HOSTILE.replace("\x00", "")
    await attempt(
        resources, one, now, number=1, error="TIMEOUT", status=None, response_headers=None, response_body=None
    )
    await attempt(
        resources, one, now, number=2, error="HTTP_4XX", status=401, is_cut=1,
        response_headers=[["Set-Cookie", "<img src=x>"]], response_body=hostile, request_body='{"type":"x"}',
    )  # fmt: skip
    await attempt(resources, one, now, number=3, finished_at=None, status=None)
    response = await admin_client.get(f"/callbacks/deliveries/{one.id}")
    assert texts(response, ".attempt h3") == ["Attempt 3", "Attempt 2", "Attempt 1"]
    assert texts(response, ".attempt .badge") == ["Not finished", "Failed", "Failed"]
    second = node(response, "#attempt-2")
    assert "0.02 s" in plain(second)
    assert "The receiver refused the request." in plain(second)
    assert len(second.css("time")) == 3
    assert [block.text() for block in second.css("pre")] == [
        '{\n  "type": "x"\n}',
        "<script>alert(1)</script>\\u202egnp.exe",
    ]
    assert "Cut: more came than is kept." in plain(second)
    assert [plain(found) for found in second.css("dd[dir]")] == ["(kept sealed)", one.event_id, "<img src=x>"]
    assert parsed(response).css(".attempt script, .attempt img") == []
    assert "It was given up." in text(response, ".headline")


async def test_redelivering_one(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    [one, *_] = await owe(resources, endpoint.id, await make_export())
    await put(resources, one, state="dead", next_attempt_at=None, failures=9)
    done = await admin_client.post(f"/callbacks/deliveries/{one.id}/redelivery")
    page = await admin_client.get(done.headers["location"])
    assert texts(page, ".flash") == ["1 delivery put in line to be sent again."]
    assert (await stored(resources, one.id)).state is DeliveryState.PENDING
    await put(resources, one, state="cancelled")
    again = await admin_client.post(f"/callbacks/deliveries/{one.id}/redelivery")
    assert again.status_code == 303
    assert (await stored(resources, one.id)).state is DeliveryState.CANCELLED


async def test_redelivering_the_selected_and_all_that_match(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    one, two, three = await owe(resources, endpoint.id, await make_export(Status.PROCESSING))
    for delivery in (one, two, three):
        await put(resources, delivery, state="dead", next_attempt_at=None)
    fields = {"endpoint": endpoint.id, "back": "status=dead"}
    done = await admin_client.post("/callbacks/redeliveries", data={**fields, "scope": "selected", "ids": [one.id]})
    assert done.headers["location"] == f"/callbacks/{endpoint.id}/deliveries?status=dead"
    assert (await stored(resources, one.id)).state is DeliveryState.PENDING
    nothing = await admin_client.post("/callbacks/redeliveries", data={**fields, "scope": "selected"})
    assert texts(await admin_client.get(nothing.headers["location"]), ".flash") == [
        "Nothing was selected. Tick the deliveries that are meant."
    ]
    question = await admin_client.post("/callbacks/redeliveries", data={**fields, "scope": "matching"})
    assert (question.status_code, text(question, "h1")) == (200, "Redeliver 2 deliveries?")
    assert (await stored(resources, two.id)).state is DeliveryState.DEAD
    confirmed = {str(f.attributes["name"]): f.attributes["value"] or "" for f in nodes(question, "main form input")}
    done = await admin_client.post("/callbacks/redeliveries", data=confirmed)
    assert texts(await admin_client.get(done.headers["location"]), ".flash") == [
        "2 deliveries put in line to be sent again."
    ]
    assert {(await stored(resources, d.id)).state for d in (two, three)} == {DeliveryState.PENDING}


async def test_recovery_counts_before_it_starts(
    admin_client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources, make_export: ExportMaker
) -> None:
    now = await resources.store.now()
    old = await owe(resources, endpoint.id, await make_export(), state="dead", created_at=now - timedelta(days=3))
    new = await owe(resources, endpoint.id, await make_export(Status.QUEUED), state="dead")
    await put_endpoint(
        resources, endpoint.id, disabled_at=now, disabled_reason="FAILING", failing_since=now - timedelta(hours=30)
    )
    here = f"/callbacks/{endpoint.id}"
    panel = await admin_client.get(here)
    assert text(panel, "#recovery .recovery-count") == "2 deliveries are to be recovered."
    since = (now - timedelta(days=4)).strftime("%Y-%m-%dT%H:%M")
    wider = await admin_client.get(f"{here}/recovery?since={since}", headers={"HX-Request": "true"})
    assert text(wider, "button.primary") == "Recover 3 deliveries"
    assert text(await admin_client.get(f"{here}/recovery?since={since}"), "button.primary") == "Recover 3 deliveries"
    narrow = node(panel, "#recovery form[method=post] input[name=since]").attributes["value"]
    await admin_client.post(f"{here}/recovery", data={"since": narrow})
    after = await admin_client.get(here)
    assert text(after, ".health-card .badge") == "Active"
    assert texts(after, ".flash") == ["2 deliveries put in line to be sent again, each as on its first try."]
    assert (await stored(resources, new[0].id)).state is DeliveryState.PENDING
    assert (await stored(resources, old[0].id)).state is DeliveryState.DEAD
    assert (await admin_client.post(f"{here}/recovery", data={"since": "x"})).headers["location"] == f"{here}/recovery"


async def test_an_endpoint_sealed_under_another_key_leaves_log_and_export_as_they_are(
    admin_client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker
) -> None:
    export = await make_export(Status.SUCCESS)
    elsewhere = replace(resources, sealer=Sealer("another key of sixteen characters"))
    locked = await register(elsewhere, URL, description="Under a lost key")
    await owe(resources, locked.id, export)
    for path in ("/callbacks/deliveries", f"/exports/{export.id}"):
        response = await admin_client.get(path)
        assert response.status_code == 200
        assert "Under a lost key" in response.text
    told = await admin_client.get(f"/callbacks/{locked.id}")
    assert told.status_code == 503
    assert "exportdesk doctor" in told.text


async def test_an_exports_page_shows_admins_all_and_its_owner_only_what_they_asked_for(
    admin_client: httpx.AsyncClient, client: httpx.AsyncClient, endpoint: Endpoint, resources: Resources,
    make_export: ExportMaker,
) -> None:  # fmt: skip
    export = await make_export()
    own = await register(resources, "https://93.184.216.34/own", export_id=export.id)
    [first] = await owe(resources, endpoint.id, export)
    [second] = await owe(resources, own.id, export)
    for delivery in (first, second):
        await put(resources, delivery, last_error="DNS", attempts=1, failures=1)
    page = f"/exports/{export.id}"
    everything = await admin_client.get(page)
    assert len(nodes(everything, "#deliveries li a")) == 2
    assert "Name not found" in text(everything, "#deliveries")
    theirs = await client.get(page)
    assert len(nodes(theirs, "#deliveries li")) == 1
    assert nodes(theirs, "#deliveries a") == []
    assert "Not reached" in text(theirs, "#deliveries")
    assert "Name not found" not in theirs.text
    part = await client.get(f"{page}/deliveries?poll=2", headers={"HX-Request": "true"})
    assert node(part, "#deliveries").attributes["hx-get"] == f"{page}/deliveries?poll=3"
    assert (await client.get(f"{page}/deliveries?poll=60")).text.count("hx-get") == 0


@pytest.mark.parametrize("error", ["DNS", "ADDRESS_FORBIDDEN", "REFUSED", "TLS", "TIMEOUT"])
async def test_an_owner_cannot_tell_why_a_host_was_not_reached(
    client: httpx.AsyncClient, resources: Resources, make_export: ExportMaker, error: str
) -> None:
    export = await make_export()
    own = await register(resources, URL, export_id=export.id)
    [one] = await owe(resources, own.id, export)
    await put(resources, one, last_error=ErrorClass(error), attempts=1, failures=1)
    part = await client.get(f"/exports/{export.id}/deliveries", headers={"HX-Request": "true"})
    assert (
        re.sub(r"(just now|in .*|again .*)", "", text(part, "#deliveries li")).strip()
        == "Retrying Order taken · Not reached"
    )


async def test_an_export_without_deliveries_has_no_section(client: httpx.AsyncClient, make_export: ExportMaker) -> None:
    export = await make_export()
    assert nodes(await client.get(f"/exports/{export.id}"), "#deliveries section") == []
