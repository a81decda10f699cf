"""The running desk against its own OpenAPI document, by schemathesis: every call, every check, nothing left out.

A short form by default; EXPORTDESK_CONTRACT_CASES=60 (so many cases for each call, and those of the phase "coverage")
is the long one.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from api.contract import strict
from cli.command_line import free_port
from needed import missing
from processes import web_process, worker_process

from webapp import queue
from webapp.actions import callback_hosts, people
from webapp.api.examples import ENDPOINT
from webapp.domain.access import Viewer
from webapp.domain.targets import parse_target
from webapp.queue import QueueName
from webapp.resources import Resources
from webapp.settings import Settings

SEED = "1"
CASES = os.environ.get("EXPORTDESK_CONTRACT_CASES")
PHASES = "examples,coverage,fuzzing,stateful" if CASES else "examples,fuzzing,stateful"
SHORT, SECONDS = "4", 3000 if CASES else 120
ORDERS = """
[datasets.orders]
title = "Orders"
description = "What the examples of the document order."
source = "shop"
sql = "SELECT * FROM things WHERE :country IS NULL OR name LIKE :country"

[datasets.orders.parameters.country]
type = "string"
label = "Country"
required = false
"""
CONFIG = """
hooks = "hooks.py"

[checks]
negative_data_rejection.expected-statuses = ["4xx"]

[[operations]]
include-operation-id = [
    "orderExport", "previewDataset", "annotateExport", "createEndpoint", "editEndpoint", "setHosts", "tryEndpoint",
    "rotateSecret", "acknowledge", "redeliverMatching", "saveOrder", "editSavedOrder", "orderAgain",
    "restoreSavedOrder", "createToken", "drainWorker", "putSchedule",
    "inviteUser", "createGroup", "renameGroup", "grantDataset", "share",
]
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"]

[[operations]]
include-operation-id = "downloadFile"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "416", "429"]

[[operations]]
include-operation-id = "openSocket"
checks.positive_data_acceptance.expected-statuses = ["426"]
"""
"""What no schema says: datasets and their parameters, zones, hosts and people that there are, members that go together.
And that an ordinary request is no handshake, how long a file is, and that a body is too long before it is anything
else."""
HOOKS = """
import schemathesis

KEPT = {kept}


@schemathesis.hook
def before_call(context, case, kwargs):
    for name, value in case.path_parameters.items():
        if value in KEPT and case.method != "GET":
            case.path_parameters[name] = value[:4] + "0" * 26
"""
"""An admin may disable, demote or delete themselves, revoke their token, and drain the workers: what came after would
all be 401, or 503."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    assert settings.config is not None
    with settings.config.open("a", encoding="utf-8") as config:
        config.write(ORDERS)
    port = free_port()
    return replace(settings, port=port, base_url=f"http://127.0.0.1:{port}")


@pytest.fixture
async def desk(settings: Settings, resources: Resources, admin: Viewer) -> AsyncIterator[Settings]:
    """With workers, and with the host of the examples among those that a `callback_url` may name."""
    host = parse_target(ENDPOINT.settings.url).host
    await callback_hosts.change(resources, admin, [host])
    async with web_process(settings):
        with worker_process(settings, "exports"), worker_process(settings, "callbacks"):
            async with asyncio.timeout(60):
                while not await queue.worker_is_alive(resources.redis, QueueName.CALLBACKS):
                    await asyncio.sleep(0.1)
            yield settings


async def test_it_keeps_what_its_document_says(
    desk: Settings, resources: Resources, admin: Viewer, tmp_path: Path
) -> None:
    if importlib.util.find_spec("schemathesis") is None:
        missing("schemathesis")
    owner = await people.user_named(resources, admin.name)
    token_id, token = await people.create_token(resources, owner, "t", actor="tests")
    api = f"{desk.base_url}/api/v1"
    async with httpx.AsyncClient() as client:
        document = (await client.get(f"{api}/openapi.json")).json()
    (tmp_path / "openapi.json").write_text(json.dumps(strict(document)), encoding="utf-8")
    (tmp_path / "schemathesis.toml").write_text(CONFIG, encoding="utf-8")
    hooks = HOOKS.format(kept={owner.id, token_id, *await worker_ids(api, token)})
    (tmp_path / "hooks.py").write_text(hooks, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", api),
        *("-H", f"Authorization: Bearer {token}", "--checks", "all", "--phases", PHASES, "--seed", SEED),
        *("--max-examples", CASES or SHORT, "--continue-on-failure", "--no-color", "--generation-database", "none"),
    ]
    code, said = await told(command, tmp_path)
    assert code == 0, said
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as client:
        assert (await client.get(f"{api}/account")).json()["role"] == "admin", "the run has shut itself out"
    found = re.search(r"^\s+(\d+) generated", said, re.MULTILINE)
    assert found is not None, said
    print(found[0].strip())
    assert int(found[1]) > (2000 if CASES else 100), said


async def worker_ids(api: str, token: str) -> set[str]:
    """Of both, once both are there."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as client, asyncio.timeout(60):
        while len(items := (await client.get(f"{api}/workers")).json()["items"]) < 2:
            await asyncio.sleep(0.1)
    return {item["id"] for item in items}


async def told(command: list[str], folder: Path) -> tuple[int, str]:
    """How a command ended, and everything that it said."""
    output = folder / "schemathesis.txt"
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdout=file, stderr=file, start_new_session=True
        )
    try:
        await asyncio.wait_for(process.wait(), SECONDS)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode or 0, output.read_text(encoding="utf-8", errors="replace")
