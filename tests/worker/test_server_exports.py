"""Attempts over real database servers that end early: no query is left running, and no file."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from patience import PATIENCE
from servers import SERVERS, Server, gone, own_database
from test_running_attempts import Asking, claimed, run, stored, temporary_files

from webapp.actions import exports
from webapp.datasets import sources
from webapp.domain.access import Viewer
from webapp.domain.errors import ErrorCode
from webapp.domain.exports import Export, Status
from webapp.resources import Resources
from worker.children import Child, Children

COUNTED = 2.5
"""Seconds after which the reader no longer counts the rows but reads them."""


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with own_database(request.param, request.getfixturevalue(request.param)) as made:
        yield made


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    return server.url


async def is_gone(server: Server, *, but: int = 0) -> bool:
    return await asyncio.to_thread(gone, server, PATIENCE, but=but)


async def going(
    resources: Resources, children: Children, viewer: Viewer, server: Server, format: str = "csv"
) -> tuple[Export, asyncio.Task[Export]]:
    """An attempt whose query runs in the server, past the count."""
    claim = await claimed(resources, viewer, "things", format=format)
    attempt = asyncio.create_task(run(resources, children, claim))
    until = time.monotonic() + PATIENCE
    while not await asyncio.to_thread(server.connections):
        assert time.monotonic() < until
        await asyncio.sleep(0.05)
    await asyncio.sleep(COUNTED)
    return claim, attempt


def error_of(export: Export) -> ErrorCode | None:
    return export.error.code if export.error else None


@pytest.mark.parametrize(("sql", "format"), [("ENDLESS", "csv"), ("ROWS_FOR_EVER", "csv"), ("ROWS_FOR_EVER", "jsonl")])
async def test_cancelling_ends_the_query(
    asking: Asking, children: Children, user: Viewer, server: Server, sql: str, format: str
) -> None:
    wanted = asking(getattr(server, sql))
    claim, attempt = await going(wanted, children, user, server, format)
    await exports.cancel(wanted, user, claim.id)
    assert await is_gone(server)
    export = await attempt
    assert export.status is Status.CANCELLED
    assert temporary_files(wanted) == []


@pytest.mark.parametrize(("sql", "format"), [("ENDLESS", "xlsx"), ("ROWS_FOR_EVER", "csv")])
async def test_the_execution_limit_ends_the_query(
    asking: Asking, children: Children, user: Viewer, server: Server, sql: str, format: str
) -> None:
    wanted = asking(getattr(server, sql), execution_limit=timedelta(seconds=4))
    started = time.monotonic()
    _, attempt = await going(wanted, children, user, server, format)
    await asyncio.sleep(max(0, started + 3.5 - time.monotonic()))
    if time.monotonic() - started < 4:  # on a busy machine it took as long to begin
        assert server.connections() != []
    await asyncio.sleep(max(0, started + 4 - time.monotonic()))
    assert await is_gone(server)
    export = await attempt
    assert (export.status, error_of(export)) == (Status.EXPIRED, ErrorCode.TIMEOUT)
    assert temporary_files(wanted) == []


async def test_a_killed_child_leaves_no_query_and_others_go_on(
    asking: Asking, children: Children, user: Viewer, server: Server, assigned: list[Child]
) -> None:
    wanted = asking(server.ENDLESS)
    _, attempt = await going(wanted, children, user, server, "jsonl")
    claim, other = await going(wanted, children, user, server)
    assert len(server.connections()) == 2
    assigned[0].process.send_signal(signal.SIGKILL)
    assert await is_gone(server, but=1)
    export = await attempt
    assert (export.status, error_of(export)) == (Status.QUEUED, ErrorCode.WORKER_LOST)
    await exports.cancel(wanted, user, claim.id)
    assert (await other).status is Status.CANCELLED
    assert temporary_files(wanted) == []


async def test_a_child_that_dies_with_its_supervisor_leaves_no_query_beyond_the_execution_limit(
    asking: Asking,
    children: Children,
    user: Viewer,
    server: Server,
    assigned: list[Child],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "end_query", lambda url: None)
    wanted = asking(server.ENDLESS, execution_limit=timedelta(seconds=10))
    _, attempt = await going(wanted, children, user, server)
    assigned[0].process.send_signal(signal.SIGKILL)
    await attempt
    assert await is_gone(server)


async def test_a_source_that_dies_in_the_middle_leaves_no_file_and_the_next_export_runs(
    asking: Asking, children: Children, user: Viewer, server: Server
) -> None:
    wanted = asking(server.ROWS_FOR_EVER)
    claim, attempt = await going(wanted, children, user, server)
    until = time.monotonic() + PATIENCE
    while (await stored(wanted, claim)).rows_done == 0:
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    server.kill()
    export = await attempt
    assert (export.status, error_of(export)) == (Status.QUEUED, ErrorCode.SOURCE_UNREACHABLE)
    assert temporary_files(wanted) == []
    again = asking("SELECT 1 AS one")
    after = await run(again, children, await claimed(again, user, "things", format="jsonl"))
    assert after.status is Status.SUCCESS
