"""Status polls with a token: quick, and never wrong for longer than a hint takes, or a second when hints are lost.

Two applications over one store, each with its own resources, as two web processes have.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from api.problem_documents import problem_of
from factories import ASGITransport, changed
from patience import PATIENCE

from webapp import status_cache
from webapp.actions import attempts, exports, people, statuses
from webapp.actions.changes import change
from webapp.app import build_app, serving
from webapp.domain.access import Role, Viewer
from webapp.domain.exports import Export, Phase, Status, cancel
from webapp.resources import Resources, open_resources
from webapp.settings import Settings
from webapp.status_cache import LIFETIME
from webapp.store.exports import Progress

URL = "/api/v1/exports"
ExportMaker = Callable[..., Awaitable[Export]]


@dataclass
class Desk:
    resources: Resources
    http: httpx.AsyncClient

    async def poll(self, export: Export, token: str, known: str = "") -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} | ({"if-none-match": known} if known else {})
        return await self.http.get(f"{URL}/{export.id}", headers=headers)

    async def version(self, export: Export, token: str, known: str = "") -> int:
        response = await self.poll(export, token, known)
        assert response.status_code == 200, response.text
        return int(response.json()["version"])


@asynccontextmanager
async def open_desk(resources: Resources) -> AsyncIterator[Desk]:
    app = build_app()
    async with serving(app, resources):
        async with asyncio.timeout(PATIENCE):
            while not app.state.hub.is_connected:
                await asyncio.sleep(0.01)
        resources.statuses.usable_from = 0
        async with httpx.AsyncClient(transport=ASGITransport(app), base_url="http://testserver") as http:
            yield Desk(resources, http)


@pytest.fixture
async def desks(resources: Resources, settings: Settings) -> AsyncIterator[tuple[Desk, Desk]]:
    """The first works on the store as the tests do; the second hears of it by hints alone."""
    async with AsyncExitStack() as stack:
        second = await stack.enter_async_context(open_resources(settings))
        yield (
            await stack.enter_async_context(open_desk(resources)),
            await stack.enter_async_context(open_desk(second)),
        )


@pytest.fixture
def desk(desks: tuple[Desk, Desk]) -> Desk:
    return desks[0]


async def token_of(resources: Resources, viewer: Viewer) -> str:
    user = await people.user_named(resources, viewer.name)
    return (await people.create_token(resources, user, "t", actor="tests"))[1]


@pytest.fixture
async def token(resources: Resources, user: Viewer) -> str:
    return await token_of(resources, user)


def deafen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hints are lost, while the subscription seems to be in force."""
    monkeypatch.setattr(status_cache.StatusCache, "hear", heard_by_others(desk, status_cache.StatusCache.hear))


def heard_by_others(desk: Desk, hear: Any) -> Any:
    def maybe(cache: status_cache.StatusCache, export_id: str, version: int) -> None:
        if cache is not desk.resources.statuses:
            hear(cache, export_id, version)

    return maybe


async def soon(answers: Callable[[], Awaitable[bool]], seconds: float = 0.5) -> None:
    started = time.monotonic()
    while not await answers():
        assert time.monotonic() - started < seconds, "it never became so"
        await asyncio.sleep(0.01)


class Reads:
    """Counts how often the store is asked for an export by a poll, and for a person by a token."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.exports = self.people = 0
        read, by_token = exports.read, people.people.user_by_token

        async def counted_read(*args: Any) -> Any:
            self.exports += 1
            return await read(*args)

        async def counted_by_token(*args: Any, **named: Any) -> Any:
            self.people += 1
            return await by_token(*args, **named)

        monkeypatch.setattr("webapp.actions.polls.exports.read", counted_read)
        monkeypatch.setattr("webapp.actions.people.people.user_by_token", counted_by_token)


# What is not read, and what is answered


@pytest.mark.parametrize("status", list(Status))
async def test_polls_within_a_second_read_the_store_once(
    desk: Desk, token: str, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    export = await make_export(status)
    reads = Reads(monkeypatch)
    first = await desk.poll(export, token)
    for known in ("", first.headers["etag"], "*", '"0"'):
        again = await desk.poll(export, token, known)
        assert again.headers["etag"] == first.headers["etag"]
        assert again.status_code == (304 if known in (first.headers["etag"], "*") else 200)
        assert again.content == (b"" if again.status_code == 304 else first.content)
    assert (reads.exports, reads.people) == (1, 1)


@pytest.mark.parametrize("status", list(Status))
async def test_kept_or_read_the_answer_is_the_same(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, status: Status
) -> None:
    """From the store, from the copy, and from Redis as its commit left it there."""
    export = await make_export(status)
    export = await changed(desks[0].resources, export)
    read, copy = await desks[0].poll(export, token), await desks[0].poll(export, token)
    await statuses.changed(desks[0].resources, export)
    of_redis = await desks[1].poll(export, token)
    names = {"etag", "cache-control", "content-type", "retry-after", "content-length"}
    told = [({n: v for n, v in r.headers.items() if n in names}, r.json()) for r in (read, copy, of_redis)]
    assert told[0] == told[1] == told[2]


async def test_what_was_committed_is_answered_from_redis(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.QUEUED)
    running = await attempts.claim(desks[0].resources)
    assert running is not None
    reads = Reads(monkeypatch)
    assert await desks[1].version(export, token) == running.version
    await attempts.report_progress(desks[0].resources, running, Progress(Phase.WRITING, 5, 10, 100))
    await attempts.hint_progress(desks[0].resources, running)

    async def is_told() -> bool:
        return (await desks[1].poll(export, token)).json()["rows_done"] == 5

    await soon(is_told)
    assert reads.exports == 0


# Freshness


async def test_a_change_is_told_at_once_and_elsewhere_with_its_hint(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer
) -> None:
    export = await make_export(Status.QUEUED)
    for desk in desks:
        assert await desk.version(export, token) == export.version
    after = await exports.cancel(desks[0].resources, user, export.id)
    assert await desks[0].version(export, token) == after.version

    async def is_told() -> bool:
        return await desks[1].version(export, token) == after.version

    await soon(is_told)


async def test_a_change_whose_hint_is_lost_is_told_within_a_second(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.QUEUED)
    deafen(desks[1], monkeypatch)
    assert await desks[1].version(export, token) == export.version
    after = await exports.cancel(desks[0].resources, user, export.id)
    assert await desks[1].version(export, token) == export.version, "this shows that the hint is lost"

    async def is_told() -> bool:
        return await desks[1].version(export, token) == after.version

    await soon(is_told, LIFETIME + 0.1)


async def test_progress_and_places_are_told_at_once(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer
) -> None:
    running, waiting = await make_export(Status.PROCESSING), await make_export(Status.QUEUED)
    last = await make_export(Status.QUEUED)
    for desk in desks:
        assert (await desk.poll(running, token)).json()["rows_done"] == 0
        assert (await desk.poll(last, token)).json()["queue_position"] == 2
    await attempts.report_progress(desks[0].resources, running, Progress(Phase.WRITING, 7, 10, 70))
    await exports.cancel(desks[0].resources, user, waiting.id)
    told = (await desks[0].poll(running, token)).json()
    assert (told["rows_done"], told["rows_total"], told["bytes"], told["progress"]) == (7, 10, 70, 70)
    assert (await desks[0].poll(last, token)).json()["queue_position"] == 1

    async def is_told() -> bool:
        moved = (await desks[1].poll(last, token)).json()["queue_position"] == 1
        return moved and (await desks[1].poll(running, token)).json()["rows_done"] == 7

    await soon(is_told, LIFETIME + 0.1)


async def test_what_was_read_before_the_commit_does_not_stay(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint comes while the poll has read the old row and not yet answered."""
    export = await make_export(Status.QUEUED)
    read = exports.read

    async def read_and_be_overtaken(*args: Any) -> Any:
        found = await read(*args)
        monkeypatch.undo()
        await exports.cancel(desks[0].resources, user, export.id)
        await asyncio.sleep(0.1)
        return found

    monkeypatch.setattr("webapp.actions.polls.exports.read", read_and_be_overtaken)
    assert await desks[1].version(export, token) == export.version
    assert await desks[1].version(export, token) == export.version + 1


async def test_many_polls_at_once_during_changes_end_right(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker
) -> None:
    """No client that says what it knows ever sees less, on whichever desk it asks."""
    export = await make_export(Status.PROCESSING)
    ends_at = time.monotonic() + 1.5

    async def follow(number: int) -> None:
        known, seen = "", (0, 0)
        while time.monotonic() < ends_at:
            response = await desks[number % 2].poll(export, token, known)
            number += 1
            if response.status_code == 200:
                now = (response.json()["version"], response.json()["rows_done"])
                assert now >= seen, (now, seen)
                known, seen = response.headers["etag"], now
            await asyncio.sleep(0)

    async def work() -> Export:
        for rows in range(1, 40):
            await attempts.report_progress(desks[0].resources, export, Progress(Phase.WRITING, rows, 99, rows))
            await asyncio.sleep(0.03)
        return await change(desks[0].resources, export.id, lambda e, at: [cancel(e, at=at)])

    last, *_ = await asyncio.gather(work(), *(follow(number) for number in range(6)))
    for desk in desks:
        assert await desk.version(export, token) == last.version


# Who knows better


async def test_a_stale_entry_is_not_told_to_who_knows_a_newer_version(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer
) -> None:
    export = await make_export(Status.PROCESSING)
    old = statuses.answer_of(export, base_url="http://testserver", now=export.created_at)
    after = await exports.cancel(desks[0].resources, user, export.id)
    key = status_cache._keys(export.id)[0]
    await desks[1].resources.redis.set(key, status_cache._encode(old), px=5000)
    desks[1].resources.statuses.answers.clear()
    assert await desks[1].version(export, token) == export.version, "it is there"
    known = await desks[1].poll(export, token, f'"{after.version}"')
    assert (known.status_code, known.headers["etag"]) == (304, f'"{after.version}"')
    assert await desks[1].version(export, token, f'"{after.version}-other"') == after.version
    assert await desks[1].version(export, token) == after.version, "what it read for that client stays"


async def test_a_stale_entry_is_not_told_after_a_newer_hint(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer
) -> None:
    """A write to Redis was lost, the hint was not."""
    export = await make_export(Status.PROCESSING)
    old = statuses.answer_of(export, base_url="http://testserver", now=export.created_at)
    after = await exports.cancel(desks[0].resources, user, export.id)
    await asyncio.sleep(0.1)
    await desks[1].resources.redis.set(status_cache._keys(export.id)[0], status_cache._encode(old), px=5000)
    for desk in desks:
        assert await desk.version(export, token) == after.version


# Redis


async def test_an_emptied_redis_changes_nothing(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer
) -> None:
    export = await make_export(Status.QUEUED)
    for desk in desks:
        assert await desk.version(export, token) == export.version
    await desks[0].resources.redis.flushall()
    after = await exports.cancel(desks[0].resources, user, export.id)
    await desks[0].resources.redis.flushall()
    await asyncio.sleep(0.1)
    for desk in desks:
        assert await desk.version(export, token) == after.version


async def test_a_redis_that_is_gone_changes_nothing(
    desk: Desk, token: str, make_export: ExportMaker, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before the hub has noticed."""
    export = await make_export(Status.QUEUED)
    assert await desk.version(export, token) == export.version

    async def gone(*_args: object, **_named: object) -> None:
        raise ConnectionError("gone")

    monkeypatch.setattr(desk.resources.redis, "execute_command", gone)
    after = await exports.cancel(desk.resources, user, export.id)
    assert await desk.version(export, token) == after.version
    desk.resources.statuses.feed(False)
    assert await desk.version(export, token) == after.version
    await exports.delete(desk.resources, user, export.id)
    problem_of(await desk.poll(export, token), 404, "NOT_FOUND")


# Who may see it


async def test_somebody_elses_is_not_found_also_when_it_is_kept(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, other: Viewer, admin: Viewer
) -> None:
    export = await make_export(Status.PROCESSING)
    theirs, admins = await token_of(desks[0].resources, other), await token_of(desks[0].resources, admin)
    await statuses.changed(desks[0].resources, export)
    for desk in desks:
        for _ in range(2):
            problem_of(await desk.poll(export, theirs), 404, "NOT_FOUND")
            problem_of(await desk.poll(export, theirs, "*"), 404, "NOT_FOUND")
            assert await desk.version(export, token) == export.version
            assert await desk.version(export, admins) == export.version
    tag = (await desks[0].poll(export, token)).headers["etag"]
    problem_of(await desks[0].poll(export, theirs, tag), 404, "NOT_FOUND")


async def test_an_export_that_was_deleted_is_gone(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer
) -> None:
    export = await make_export(Status.PROCESSING)
    export = await change(
        desks[0].resources, export.id, lambda e, at: [cancel(e, at=at)]
    )  # in Redis and in both copies
    for desk in desks:
        assert await desk.version(export, token) == export.version
    await exports.delete(desks[0].resources, user, export.id)
    problem_of(await desks[0].poll(export, token), 404, "NOT_FOUND")

    async def is_gone() -> bool:
        return (await desks[1].poll(export, token, f'"{export.version}"')).status_code == 404

    await soon(is_gone)
    await statuses.changed(desks[1].resources, export)
    problem_of(await desks[0].poll(export, token), 404, "NOT_FOUND")


async def test_a_deletion_whose_hint_is_lost_is_known_within_a_second(
    desks: tuple[Desk, Desk], token: str, make_export: ExportMaker, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.CANCELLED)
    deafen(desks[1], monkeypatch)
    assert await desks[1].version(export, token) == export.version
    await exports.delete(desks[0].resources, user, export.id)

    async def is_gone() -> bool:
        return (await desks[1].poll(export, token)).status_code == 404

    await soon(is_gone, LIFETIME + 0.1)


# Tokens


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_a_revoked_token_is_nobodys(
    desks: tuple[Desk, Desk], user: Viewer, make_export: ExportMaker, is_deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.SUCCESS)
    account = await people.user_named(desks[0].resources, user.name)
    token_id, token = await people.create_token(desks[0].resources, account, "t", actor="tests")
    if is_deaf:
        deafen(desks[1], monkeypatch)
    for desk in desks:
        assert await desk.version(export, token) == export.version
    await people.revoke_token(desks[0].resources, token_id, actor="tests")
    problem_of(await desks[0].poll(export, token), 401, "SIGN_IN_NEEDED")

    async def is_out() -> bool:
        return (await desks[1].poll(export, token)).status_code == 401

    await soon(is_out, LIFETIME + 0.1 if is_deaf else 0.5)


async def test_a_wait_ends_when_its_token_is_revoked(
    desks: tuple[Desk, Desk], user: Viewer, make_export: ExportMaker
) -> None:
    export = await make_export(Status.QUEUED)
    account = await people.user_named(desks[0].resources, user.name)
    token_id, token = await people.create_token(desks[0].resources, account, "t", actor="tests")
    headers = {"authorization": f"Bearer {token}"}
    waiting = asyncio.create_task(desks[0].http.get(f"{URL}/{export.id}?wait=20", headers=headers))
    await asyncio.sleep(0.2)
    await people.revoke_token(desks[1].resources, token_id, actor="tests")
    async with asyncio.timeout(PATIENCE):
        problem_of(await waiting, 401, "SIGN_IN_NEEDED")


async def test_a_token_that_was_read_before_it_was_revoked_does_not_stay(
    desks: tuple[Desk, Desk], user: Viewer, make_export: ExportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.SUCCESS)
    account = await people.user_named(desks[0].resources, user.name)
    token_id, token = await people.create_token(desks[0].resources, account, "t", actor="tests")
    by_token = people.people.user_by_token

    async def look_and_be_overtaken(*args: Any, **named: Any) -> Any:
        found = await by_token(*args, **named)
        monkeypatch.undo()
        await people.revoke_token(desks[0].resources, token_id, actor="tests")
        await asyncio.sleep(0.1)
        return found

    monkeypatch.setattr("webapp.actions.people.people.user_by_token", look_and_be_overtaken)
    assert await desks[1].version(export, token) == export.version
    problem_of(await desks[1].poll(export, token), 401, "SIGN_IN_NEEDED")


@pytest.mark.usefixtures("admin")
async def test_a_changed_role_counts(desks: tuple[Desk, Desk], other: Viewer, make_export: ExportMaker) -> None:
    """Beside the fixture's admin, who stays one."""
    export = await make_export(Status.SUCCESS)
    token = await token_of(desks[0].resources, other)
    for role, status in ((Role.ADMIN, 200), (Role.USER, 404)):
        for desk in desks:
            await desk.poll(export, token)
        await people.set_role(desks[0].resources, other.name, role, actor="tests")
        assert (await desks[0].poll(export, token)).status_code == status

        async def is_told(wanted: int = status) -> bool:
            return (await desks[1].poll(export, token)).status_code == wanted

        await soon(is_told)


async def test_a_disabled_user_is_out_within_a_second(
    desk: Desk, token: str, user: Viewer, make_export: ExportMaker
) -> None:
    """There is no action for it yet: it is done in the database."""
    export = await make_export(Status.SUCCESS)
    assert await desk.version(export, token) == export.version
    async with desk.resources.store.connection() as connection:
        await connection.execute("UPDATE users SET disabled_at = 1 WHERE id = :id", {"id": user.id})

    async def is_out() -> bool:
        return (await desk.poll(export, token)).status_code == 401

    await soon(is_out, LIFETIME + 0.1)


async def test_wrong_tokens_are_looked_up_each_time(
    desk: Desk, make_export: ExportMaker, user: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await make_export(Status.SUCCESS)
    reads = Reads(monkeypatch)
    for _ in range(3):
        problem_of(await desk.poll(export, "exd_" + "x" * 43), 401, "SIGN_IN_NEEDED")
    assert (reads.people, reads.exports) == (3, 0)
    kept = repr(desk.resources.statuses.viewers._slots)
    assert "exd_" not in kept, "tokens are kept as hashes only"
