"""The way of an export through the logs, from the click to the child process; and what never stands there."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import msgspec
import pytest
from owing import register

from webapp import logs
from webapp.actions import attempts, people
from webapp.datasets.declaration import Catalog, Source
from webapp.domain.access import Viewer
from webapp.resources import Resources
from webapp.store.database import Store
from worker import jobs
from worker.children import Child, Children
from worker.slots import Slots

ORDER = {"dataset": "things", "params": {}, "format": "csv"}


@contextmanager
def logged(log_format: str) -> Iterator[io.StringIO]:
    """What web and worker write meanwhile."""
    written = io.StringIO()
    handler, root = logs.handler_of(log_format, written), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield written
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


async def order(client: httpx.AsyncClient, **changes: Any) -> httpx.Response:
    response = await client.post("/api/v1/exports", json={**ORDER, **changes})
    assert response.status_code == 202, response.text
    return response


async def work(resources: Resources, children: Children) -> None:
    await jobs.run_export({"resources": resources, "children": children, "slots": Slots(1)}, "exp_any")


async def test_the_way_of_an_order(client: httpx.AsyncClient, resources: Resources, children: Children) -> None:
    await register(resources, "https://one.example/", event_types=("export.succeeded",))
    await register(resources, "https://two.example/")
    with logged("json") as written:
        response = await order(client)
        await work(resources, children)
    export_id, request_id = response.json()["id"], response.headers["x-request-id"]
    way = [line for line in lines(written) if line.get("export_id") == export_id]
    told = [line["message"].removeprefix(f"{export_id}: ") for line in way]
    [pid] = [word for word in told[3].split() if word.isdigit() and len(word) > 1]
    assert told == [
        "order taken, things as csv, callbacks written: 1",
        "queued for attempt 1, callbacks written: 1",
        "attempt 1 started, callbacks written: 1",
        f"child {pid} started on attempt 1",
        "attempt 1 succeeded, callbacks written: 2",
    ]
    assert [line["attempt"] for line in way] == [0, 0, 1, 1, 1]
    assert [line.get("request_id") for line in way] == [request_id, request_id, None, None, None]
    assert {line["message"].startswith(export_id) for line in way} == {True}
    [request] = [line for line in lines(written) if line["logger"] == "exportdesk.access"]
    assert request["request_id"] == request_id


async def test_a_failure_has_its_code(client: httpx.AsyncClient, resources: Resources, children: Children) -> None:
    with logged("json") as written:
        export_id = (await order(client, dataset="broken")).json()["id"]
        await work(resources, children)
    last = lines(written)[-1]
    assert (last["message"], last["attempt"]) == (f"{export_id}: failed (QUERY_ERROR)", 1)


async def test_text_tells_the_request_too(client: httpx.AsyncClient) -> None:
    with logged("text") as written:
        response = await order(client)
    taken = next(line for line in written.getvalue().splitlines() if "order taken" in line)
    assert response.json()["id"] in taken
    request_id = response.headers["x-request-id"]
    assert taken.endswith(f" [{request_id}]")
    [request] = [line for line in written.getvalue().splitlines() if "exportdesk.access" in line]
    assert request.count(request_id) == 1


async def test_what_a_child_says_carries_its_export(
    client: httpx.AsyncClient, resources: Resources, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child is told to export in a format that is not there, and prints a traceback."""
    assign = Child.assign

    async def wrongly(child: Child, assignment: Any) -> None:
        await assign(child, msgspec.structs.replace(assignment, format="stone"))

    monkeypatch.setattr(Child, "assign", wrongly)
    with logged("json") as written:
        for name in ("csv", "jsonl"):
            export_id = (await order(client, format=name)).json()["id"]
            await work(resources, children)
            said = [line for line in lines(written) if line["logger"] == "worker.child"]
            assert {(line["export_id"], line["attempt"]) for line in said} == {(export_id, 1)}
            assert f"{export_id}: Traceback (most recent call last):" in [line["message"] for line in said]
            written.seek(0)
            written.truncate()


async def test_a_spare_child_belongs_to_nobody(children: Children, resources: Resources) -> None:
    """It is begun while another export is at work."""
    spoken = logging.getLogger("worker.child")
    with logged("json") as written, logs.about(export_id="exp_other", attempt=3):
        children.warm()
        async with children.child() as child:
            child.process.stdin.write(b"no assignment\n")  # type: ignore[union-attr]
            await child.process.wait()
    said = [line for line in lines(written) if line["logger"] == spoken.name]
    assert said
    assert [line for line in said if "export_id" in line] == []


def test_what_is_given_wins_and_what_is_over_is_gone() -> None:
    log = logging.getLogger("tests.logs")
    with logged("json") as written:
        with logs.about(request_id="req_1", export_id="exp_1"), logs.about(export_id="exp_2"):
            log.info("inner", extra={"attempt": 2, "request_id": "req_2"})
        log.info("outer")
    inner, outer = lines(written)
    assert (inner["request_id"], inner["export_id"], inner["attempt"]) == ("req_2", "exp_2", 2)
    assert {"request_id", "export_id"}.isdisjoint(outer)


PASSWORD = "correct-horse-battery"


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_no_secret_is_logged(
    log_format: str,
    resources: Resources,
    children: Children,
    anonymous: httpx.AsyncClient,
    user: Viewer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run with all that is secret in it: passwords of people, source and database, a token, a link, an endpoint."""
    _, token = await people.create_token(resources, await people.user_named(resources, user.name), "t", actor="tests")
    link = (await people.make_sign_in_link(resources, await people.user_named(resources, user.name))).rpartition("/")[2]
    endpoint = await register(resources, "https://one.example/", headers=(("X-Key", PASSWORD),))
    away = f"postgresql://reader:{PASSWORD}@127.0.0.1:1/air"
    sources = {**resources.catalog.sources, "away": Source("away", away)}
    things = replace(resources.catalog.datasets["things"], source="away")
    elsewhere = resources.with_catalog(Catalog({**resources.catalog.datasets, "things": things}, sources))
    anonymous.headers["authorization"] = f"Bearer {token}"
    with logged(log_format) as written:
        assert (await anonymous.get(f"/sign-in/once/{link}")).status_code == 200
        signed_in = await anonymous.post(
            "/sign-in", data={"name": user.name, "password": f"{user.name} has a password"}
        )
        assert signed_in.status_code == 303
        await order(anonymous)
        await work(elsewhere, children)
        await order(anonymous, dataset="slow", params={"rows": 5})
        await work(resources, children)
        monkeypatch.setattr(Store, "now", failing_with(away, token, endpoint.secrets[0].value))
        with pytest.raises(RuntimeError):
            await attempts.claim(resources)
        logging.getLogger("tests.logs").exception("told", exc_info=RuntimeError(away), extra={"where": away})
        assert (await anonymous.get("/api/v1/exports")).status_code == 500
    text = written.getvalue()
    secrets = [PASSWORD, token, link, f"{user.name} has a password", endpoint.secrets[0].value]
    secrets += resources.settings.secret_keys
    assert [secret for secret in secrets if secret in text] == []
    assert "SOURCE_UNREACHABLE" in text
    assert "attempt 1 succeeded" in text
    assert "RuntimeError" in text


def failing_with(*words: str) -> Callable[..., Any]:
    async def fail(*_: Any) -> None:
        raise RuntimeError(" ".join(words))

    return fail
